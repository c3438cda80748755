"""Dask clusters of worker processes: the bits of one process, recovery from losses, errors."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import lorank as lr
import lorank.factorization.als
import lorank.factorization.variational
from lorank.distributed import client as client_module
from lorank.distributed import cluster as cluster_module
from lorank.distributed import snapshots
from lorank.io.archive import FileError

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own, about ports and the like
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # which ends a process at once on Windows


@pytest.fixture(scope="module")
def cluster():
    found = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)
    yield found
    found.close()


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster, direct_to_workers=True) as found:
        yield found


@pytest.fixture(autouse=True)
def two_workers(cluster, client):
    """Wait for workers that replace those killed by earlier tests."""
    for seconds in (30, 120):
        try:
            client.wait_for_workers(2, timeout=seconds)
            return
        except TimeoutError:
            cluster.scale(len(cluster.workers) + 1)
    pytest.skip("Dask has not started a worker again: this machine is too busy")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    problem, truth = lr.datasets.random_completion(200, 120, 3, oversampling=4)
    lr.distributed.save_partitions(problem, place / "p", n_partitions=5)
    return place / "p", truth


def fit(problem, **options):
    """Five iterations from a given point, each of a dozen round trips."""
    rng = np.random.default_rng(0)
    start = lr.FixedRank.from_factors(rng.standard_normal((200, 3)), rng.standard_normal((120, 3)))
    return lr.solve(problem, 3, "rcg", start=start, stop=lr.stopping.Iterations(5), max_iter=5, **options).numpy()


@pytest.fixture(scope="module")
def alone(data):
    return fit(lr.distributed.from_partitions(data[0]))


def engine_of(problem):
    return problem.observations.graph.engine


def assert_same(result, alone):
    np.testing.assert_array_equal(result.X.U, alone.X.U)
    np.testing.assert_array_equal(result.X.V, alone.X.V)
    np.testing.assert_array_equal(result.history.residual, alone.history.residual)


def test_the_bits_of_one_process(client, data, alone):
    problem = lr.distributed.from_partitions(data[0], client=client)
    assert engine_of(problem).workers == 2
    assert_same(fit(problem), alone)
    assert engine_of(problem).bytes > 0


def test_the_default_solver_recovers_the_matrix(client, data):
    result = lr.solve(lr.distributed.from_partitions(data[0], client=client), 3, tol=1e-4).numpy()
    assert data[1].distance(result.X) < 1e-2 * data[1].norm()


def test_variational_als_on_a_split(client, data):
    """Normal equations of rows and columns, and subsets of the observations, on the workers."""
    found = []
    for problem in (lr.distributed.from_partitions(data[0], client=c) for c in (None, client)):
        kept, held = problem.split(np.random.default_rng(1), 0.1)
        solver = lr.factorization.variational.VariationalALS(biases=True)
        rng = np.random.default_rng(0)
        start = lr.FixedRank.from_factors(rng.standard_normal((200, 3)), rng.standard_normal((120, 3)))
        result = lr.solve(kept, 3, solver, start=start, stop=lr.stopping.Iterations(2), max_iter=2).numpy()
        found.append((result.X.U, result.X.V, held.m))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_implicit_model(client, tmp_path):
    """Half a sweep of implicit ALS is one program, with sums over columns among the workers."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 40)) < 0.3)
    lr.distributed.save_partitions(
        lr.Completion(users, items, rng.integers(1, 4, len(users)) * 1.0), tmp_path / "p", n_partitions=5
    )
    problems = [lr.distributed.from_partitions(tmp_path / "p", client=c) for c in (None, client)]
    alone, found = (lr.ImplicitFactorization(3, 0.02, zeros=0.1, max_iter=2).fit(p) for p in problems)
    np.testing.assert_array_equal(found.user_factors_, alone.user_factors_)
    np.testing.assert_array_equal(found.item_factors_, alone.item_factors_)
    assert engine_of(problems[1]).bytes > 0


def test_a_scheduler_by_its_address(cluster, client, data, alone):
    problem = lr.distributed.from_partitions(data[0], cluster=cluster.scheduler_address)
    assert_same(fit(problem), alone)
    engine_of(problem).client.close()


def test_workers_reached_through_the_scheduler(cluster, data, alone):
    """The default of a client: calls and answers go through the scheduler."""
    with distributed.Client(cluster, direct_to_workers=False, set_as_default=False) as client:
        assert_same(fit(lr.distributed.from_partitions(data[0], client=client)), alone)


def victim(problem):
    """Process id of a worker in use."""
    engine = engine_of(problem)
    address = engine._actors[0].address
    return engine.client.run(os.getpid, workers=[address])[address]


@pytest.mark.parametrize("when", [0, 3])
def test_a_worker_killed_between_programs(client, data, alone, when):
    """Before the first iteration and later."""
    problem = lr.distributed.from_partitions(data[0], client=client)

    def kill(problem, state, clock):
        if state.iteration == when:
            os.kill(victim(problem), KILL)

    assert_same(fit(problem, callbacks=[kill]), alone)
    assert engine_of(problem).recoveries >= 1


def test_a_worker_killed_within_a_program(client, data, alone, monkeypatch):
    """While the workers run and wait for messages of each other."""
    problem = lr.distributed.from_partitions(data[0], client=client)
    engine = engine_of(problem)
    run, count, pid = engine._call_all, [0], victim(problem)

    def killing(function, args):
        count[0] += 1
        if count[0] == 20:
            threading.Timer(0.001, os.kill, (pid, KILL)).start()
        return run(function, args)

    monkeypatch.setattr(engine, "_call_all", killing)
    assert_same(fit(problem), alone)
    assert engine.recoveries >= 1


def test_a_worker_killed_after_a_snapshot(client, data, tmp_path, monkeypatch):
    """Programs before the snapshot are not run again, and the bits are the same (test_snapshots.py: for all solvers)."""
    monkeypatch.setattr(snapshots, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "MIN_COST_RATIO", 0.0)
    rng = np.random.default_rng(0)
    start = lr.FixedRank.from_factors(rng.standard_normal((200, 3)), rng.standard_normal((120, 3)))
    found = []
    for used in (None, client):
        problem = lr.distributed.from_partitions(data[0], client=used, scratch=tmp_path)

        def kill(problem, state, clock, used=used):
            if state.iteration == 4 and used is not None:
                os.kill(victim(problem), KILL)

        stop = {"stop": lr.stopping.Iterations(5), "max_iter": 5, "callbacks": [kill]}
        found.append(lr.solve(problem, 3, "auto", start=start, **stop))
    engine = engine_of(problem)
    assert engine.recoveries >= 1
    assert engine.snapshots.count > 5
    assert engine.replayed <= 15 < problem.observations.graph.trips / 3
    assert_same(found[1].numpy(), found[0].numpy())
    assert len(engine.snapshots.log.programs) < 20  # it does not grow without bound
    home = engine.snapshots.path.parent
    assert len(list(home.iterdir())) == 1  # old ones are gone
    del engine, problem, found, kill, stop
    gc.collect()
    assert not home.exists()


def test_a_worker_killed_while_it_writes_a_snapshot(client, data, alone, tmp_path, monkeypatch):
    """An incomplete snapshot is never read, and is deleted."""
    monkeypatch.setattr(snapshots, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "MIN_COST_RATIO", 0.0)
    problem = lr.distributed.from_partitions(data[0], client=client, scratch=tmp_path)
    engine = engine_of(problem)
    run, saved = engine._call_all, [0]

    def killing(function, args):
        saved[0] += function == "save"
        if function == "save" and saved[0] == 4:
            os.kill(victim(problem), KILL)
        return run(function, args)

    discard_incomplete, left = engine.snapshots.discard_incomplete, []

    def looking():
        discard_incomplete()
        left.append((list(Path(engine.snapshots._home).iterdir()), engine.snapshots.path))

    monkeypatch.setattr(engine, "_call_all", killing)
    monkeypatch.setattr(engine.snapshots, "discard_incomplete", looking)
    assert_same(fit(problem), alone)
    assert engine.recoveries >= 1
    assert left[0] == ([left[0][1]], left[0][1])


@pytest.mark.parametrize("who", ["driver", "workers"])
def test_snapshots_that_cannot_be_written(client, data, alone, tmp_path, monkeypatch, who):
    """The run continues without snapshots."""
    monkeypatch.setattr(snapshots, "MIN_SECONDS", 0.0)
    with pytest.raises(FileError, match=r"scratch=.*nowhere"):
        lr.distributed.from_partitions(data[0], client=client, scratch=tmp_path / "nowhere")
    problem = lr.distributed.from_partitions(data[0], client=client, scratch=tmp_path)
    shutil.rmtree(engine_of(problem).snapshots._home)
    if who == "workers":
        monkeypatch.setattr(snapshots.Snapshots, "begin", lambda self: tmp_path / "gone")
    said = []  # not pytest.warns: what it puts in place of warnings is lost where Dask's threads do so meanwhile
    monkeypatch.setattr(warnings, "warn", lambda message, *more, **options: said.append(str(message)))
    assert_same(fit(problem), alone)
    assert engine_of(problem).snapshots._home is None
    assert any("no further snapshots" in one for one in said)


def test_a_worker_added(cluster, client, data, alone):
    """It is used after the next recovery."""
    problem = lr.distributed.from_partitions(data[0], client=client)

    def grow(problem, state, clock):
        if state.iteration == 2:
            cluster.scale(len(cluster.workers) + 1)
            client.wait_for_workers(len(client.nthreads()) + 1, timeout=300)
        if state.iteration == 3:
            os.kill(victim(problem), KILL)

    assert_same(fit(problem, callbacks=[grow]), alone)
    assert engine_of(problem).workers >= 2


DRIVER = """
import os, signal, sys
import distributed
import lorank as lr

if __name__ == "__main__":
    client = distributed.Client(sys.argv[1], direct_to_workers=True)
    problem = lr.distributed.from_partitions(sys.argv[2], client=client)

    def die(problem, state, clock):
        if state.iteration == 4:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    lr.solve(problem, 3, "rcg", checkpoint=sys.argv[3], checkpoint_every=0, callbacks=[die])
"""


def test_a_driver_killed_and_started_again(cluster, client, data, tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    args = [sys.executable, tmp_path / "driver.py", cluster.scheduler_address, data[0], tmp_path / "checkpoint"]
    ended = subprocess.run(list(map(str, args)), timeout=600, check=False, capture_output=True, text=True)
    assert abs(ended.returncode) == KILL, ended.stderr
    shutil.copy(tmp_path / "checkpoint", tmp_path / "copy")
    problem = lr.distributed.from_partitions(data[0], client=client)
    result = lr.solve(problem, 3, "rcg", tol=1e-4, checkpoint=tmp_path / "checkpoint").numpy()
    assert data[1].distance(result.X) < 1e-2 * data[1].norm()
    alone = lr.solve(lr.distributed.from_partitions(data[0]), 3, "rcg", tol=1e-4, checkpoint=tmp_path / "copy").numpy()
    np.testing.assert_array_equal(result.X.U, alone.X.U)  # the same bits in one process
    np.testing.assert_array_equal(result.X.V, alone.X.V)


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
        return distributed.Client(self.address, direct_to_workers=True, timeout=60, set_as_default=False)


@pytest.fixture
def own(tmp_path):
    found = OwnCluster(tmp_path)
    found.scheduler()
    yield found
    for one in found.running:
        one.kill()
        one.wait()


def test_a_scheduler_killed_and_started_again(own, data, alone):
    """The run begins again with the workers of the new scheduler, and ends with the same bits."""
    own.worker()
    with own.client() as client:
        client.wait_for_workers(1, timeout=60)
        problem = lr.distributed.from_partitions(data[0], client=client)

        def kill(problem, state, clock):
            if state.iteration == 2:
                own.running[0].kill()
                own.running[0].wait()
                own.scheduler()
                own.worker()

        assert_same(fit(problem, callbacks=[kill]), alone)
        assert engine_of(problem).recoveries >= 1
        engine_of(problem).client.close()


@pytest.mark.slow
def test_a_scheduler_that_is_back_without_workers(own, data, monkeypatch):
    """The error names the missing workers, not the scheduler, which answers."""
    monkeypatch.setattr(cluster_module, "WAIT_SECONDS", 20.0)
    own.worker()
    with own.client() as client:
        client.wait_for_workers(1, timeout=60)
        problem = lr.distributed.from_partitions(data[0], client=client)
        for process in own.running[:2]:
            process.kill()
            process.wait()
        own.scheduler()
        with pytest.raises(client_module.ClusterError, match="no workers"):
            fit(problem)
        engine_of(problem).client.close()


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        ("import lorank.common.version as module; module.__version__ = '0.0.1'", r"0\.0\.1"),
        ("import lorank.distributed.folder as module; module.MANIFEST = 'not-there'", r"no not-there"),
    ],
)
def test_a_worker_that_cannot_be_used_is_refused_by_its_address(own, data, setup, reason):
    own.worker(setup)
    with own.client() as client:
        client.wait_for_workers(1, timeout=60)
        address = next(iter(client.nthreads()))
        with pytest.raises(client_module.ClusterError, match=rf"{address}.*{reason}"):
            lr.distributed.from_partitions(data[0], client=client)


def killing_once(path, m):
    """The check of a worker, in which the first one dies."""
    flag = Path(path).parent / "killed"
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return lr.__version__, ""
    os.kill(os.getpid(), KILL)


def test_a_worker_killed_while_it_is_checked(client, data, alone, monkeypatch):
    monkeypatch.setattr(client_module, "_about", killing_once)
    problem = lr.distributed.from_partitions(data[0], client=client)
    assert (data[0].parent / "killed").exists()
    assert_same(fit(problem), alone)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_a_stopped_worker_is_left_out(client, data, alone, monkeypatch):
    monkeypatch.setattr(client_module, "CHECK_SECONDS", 3.0)
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGSTOP)
    said = []
    monkeypatch.setattr(warnings, "warn", lambda message, *more, **options: said.append(str(message)))
    try:
        problem = lr.distributed.from_partitions(data[0], client=client)
        assert any(address in one for one in said)
        assert engine_of(problem).workers >= 1
        assert_same(fit(problem), alone)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_what_a_cluster_cannot_do(client, data, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"distributed\.Client"):
        lr.distributed.from_partitions(data[0], client="tcp://127.0.0.1:1")
    monkeypatch.setattr(client_module, "__version__", "0.0.0")
    with pytest.raises(client_module.ClusterError, match=r"tcp://.*0\.0\.0"):
        lr.distributed.from_partitions(data[0], client=client)
    source = tmp_path / "ratings.csv"
    source.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(client_module.ClusterError, match=r"tcp://.*0\.0\.0"):  # before anything is converted
        lr.distributed.from_csv(source, "a", "b", "c", folder=tmp_path / "made", client=client)
    assert not (tmp_path / "made").exists()
    monkeypatch.undo()
    monkeypatch.setattr(client_module, "_about", no_lorank)
    with pytest.raises(client_module.ClusterError, match=r"tcp://.*cannot run lorank"):
        lr.distributed.from_partitions(data[0], client=client)


def no_lorank(folder, m):
    raise ModuleNotFoundError("No module named 'lorank'")


def missing_key(a):
    if len(a):  # the driver calls it with an empty array to learn the shape of the result
        raise KeyError("no such column")
    return a


def full_disk(a):
    if len(a):
        raise OSError(28, "No space left on device")
    return a


def failure(array):
    try:
        return np.asarray(array)
    except Exception as error:
        return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("broken", [missing_key, full_disk])
def test_an_error_in_a_program_is_raised_once_with_the_traceback_of_the_worker(client, data, alone, broken):
    """Nothing is run again, and the problem can be solved afterwards."""
    problem = lr.distributed.from_partitions(data[0], client=client)
    array = problem.y.map(broken)
    text = failure(array)
    assert {"missing_key": "KeyError: 'no such column'", "full_disk": "No space left on device"}[broken.__name__] in text
    assert "on the worker at tcp://" in text
    assert text.count(f"in {broken.__name__}") >= 1
    assert engine_of(problem).recoveries == 0
    assert_same(fit(problem), alone)  # although the array is still there
    assert engine_of(problem).recoveries == 0
    assert "on the worker at tcp://" in failure(array)


def test_a_call_that_fails_twice_with_all_workers_present_is_an_error(client, data, monkeypatch):
    """A connection that fails repeatedly although no worker has left."""
    problem = lr.distributed.from_partitions(data[0], client=client)
    execute, calls = cluster_module.execute, []

    async def closed(rpc, key, function, *args):
        if function == "call" and args[0] == "run":
            calls.append(function)
            raise distributed.comm.CommClosedError("in <TCP>: Stream is closed")
        return await execute(rpc, key, function, *args)

    monkeypatch.setattr(cluster_module, "execute", closed)
    with pytest.raises(client_module.ClusterError, match=r"twice with all workers present.*Stream is closed"):
        np.asarray(problem.y)
    assert len(calls) <= 2 * engine_of(problem).workers


def deadly(a):
    if len(a):
        os.kill(os.getpid(), KILL)
    return a


def test_a_program_that_kills_its_workers_is_an_error(client, data, monkeypatch):
    """One that needs too much memory, for example."""
    monkeypatch.setattr(cluster_module, "MAX_LOSSES_PER_PROGRAM", 1)
    problem = lr.distributed.from_partitions(data[0], client=client)
    with pytest.raises(client_module.ClusterError, match="2 times in one program"):
        np.asarray(problem.y.map(deadly))


def test_the_command(cluster, tmp_path):
    """Conversion of files and a fit on workers, compared with one process."""
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from lorank.cli import app as cli

    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.6)
    lines = [f"{i},{j},{i % 5 + j % 3 + 0.1 * rng.standard_normal()}" for i, j in zip(rows, cols, strict=True)]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")

    def run(*more):
        options = ("--rank", "1", "--regularization", "5.0", "--json")
        done = CliRunner().invoke(cli.build_app(), ["complete", *map(str, more), *options])
        assert done.exit_code == 0, done.output + done.stderr
        return json.loads(done.stdout)

    found = run(tmp_path / "ratings.csv", "--cluster", cluster.scheduler_address, "--partitions-dir", tmp_path / "p")
    alone = run(tmp_path / "p")
    assert found["workers"] >= 2
    assert found["partitions"] >= 4
    assert found["bytes_among_workers"] > 0
    assert found["heldout"] == alone["heldout"]


def test_a_partition_that_workers_cannot_read(client, tmp_path):
    problem, _ = lr.datasets.random_completion(40, 30, 2, oversampling=4)
    lr.distributed.save_partitions(problem, tmp_path / "p", n_partitions=2)
    (tmp_path / "p" / "00001" / "values.npy").unlink()
    with pytest.raises(FileError, match=r"00001.values\.npy"):
        lr.distributed.from_partitions(tmp_path / "p", client=client)
