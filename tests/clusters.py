"""Fits on a Dask cluster, and clusters that a test can kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import numpy as np

import lorank as lr

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # which ends a process at once on Windows


def fit(problem, **options):
    """Five iterations from a given point, each of a dozen round trips."""
    rng = np.random.default_rng(0)
    start = lr.FixedRank.from_factors(rng.standard_normal((200, 3)), rng.standard_normal((120, 3)))
    return lr.solve(problem, 3, "rcg", start=start, stop=lr.stopping.Iterations(5), max_iter=5, **options).numpy()


def engine_of(problem):
    return problem.observations.graph.engine


def assert_same(result, alone):
    np.testing.assert_array_equal(result.X.U, alone.X.U)
    np.testing.assert_array_equal(result.X.V, alone.X.V)
    np.testing.assert_array_equal(result.history.residual, alone.history.residual)


class OwnCluster:
    """Scheduler and workers as processes that a test can kill."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self.folder, self.running = f"tcp://127.0.0.1:{self.port}", folder, []

    def start(self, *args, setup=""):
        """Start a process; ``setup`` is Python code that it runs first."""
        (self.folder / "setup").mkdir(exist_ok=True)
        (self.folder / "setup" / "sitecustomize.py").write_text(setup)
        path = os.pathsep.join([str(self.folder / "setup"), *filter(None, sys.path)])
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder}
        self.running.append(subprocess.Popen([sys.executable, "-m", *args], env={**os.environ, "PYTHONPATH": path}, **quiet))
        return self.running[-1]

    def scheduler(self):
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        return self.start("distributed.cli.dask_scheduler", *options)

    def worker(self, setup=""):
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
        return self.start("distributed.cli.dask_worker", self.address, *options, setup=setup)

    def client(self):
        import distributed

        return distributed.Client(self.address, direct_to_workers=True, timeout=60, set_as_default=False)
