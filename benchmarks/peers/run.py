"""lorank beside its peers: the same problems for all, one process a run, one core, the peers in an environment of their own.

    python benchmarks/peers/run.py setup                 make .venv-peers
    python benchmarks/peers/run.py run [--quick]         measure what is not yet in docs/benchmarks/peers.jsonl
    python benchmarks/peers/run.py report                table, plot and page from that file

Every peer's settings are chosen on a seed of their own (TUNING), its sweeps on the problem itself: a peer that cannot watch
its error is timed as if it knew when to stop. Interrupt it when you like: what is measured is kept.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from data import Data

from lorank.experiments import Experiment, Instance, Method, Outcome, Point
from lorank.experiments.progress import Progress
from lorank.experiments.runner import run_experiment

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
from common import read  # noqa: E402

ROOT = HERE.parent.parent
PEERS = ROOT / ".venv-peers"
DOCS = ROOT / "docs" / "benchmarks"
TUNING, SEEDS = 101, (11, 12, 13)


@dataclass(frozen=True)
class Problem:
    """A random matrix of rank ``rank``, ``oversampling`` observations for each degree of freedom."""

    name: str
    n: int
    rank: int
    oversampling: float
    factors: str
    tolerances: tuple[float, ...]
    seeds: tuple[int, ...] = SEEDS
    budget: float = 60.0  # seconds that a peer may try for

    def __str__(self) -> str:
        return f"{self.factors} factors, n = {self.n:,}, r = {self.rank}, {self.oversampling:g} dof"

    def write(self, folder: Path, seed: int) -> Path:
        """The problem with that seed as a file."""
        path = folder / f"{self.name}-{seed}.npz"
        if not path.exists():
            import lorank as lr

            rng = np.random.default_rng(seed)
            draw = rng.random if self.factors == "uniform" else rng.standard_normal
            left, right = draw((self.n, self.rank)), draw((self.n, self.rank))
            m = round(self.oversampling * (2 * self.n - self.rank) * self.rank)
            rows, cols = lr.datasets.sample_pattern(rng, (self.n, self.n), m)
            order = np.lexsort((cols, rows))
            rows, cols = rows[order].astype(np.int32), cols[order].astype(np.int32)
            values = np.concatenate(
                [np.einsum("ij,ij->i", left[rows[k : k + 100_000]], right[cols[k : k + 100_000]]) for k in range(0, m, 100_000)]
            )
            Data(rows, cols, values, left, right).save(path)
        return path


PROBLEMS = (
    Problem("uniform-10", 10_000, 10, 5, "uniform", (1e-4, 1e-8)),
    Problem("uniform-50", 5_000, 50, 6, "uniform", (1e-4,), SEEDS[:2], 120.0),
    Problem("gaussian-10", 10_000, 10, 3, "gaussian", (1e-4, 1e-8)),
)
QUICK = (Problem("quick", 1_000, 5, 5, "uniform", (1e-4, 1e-8), (11,), 10.0),)
METHODS = {  # name -> module, and what it is given beside its tuned setting
    "lorank": ("lorank_", {}),
    "cmfrec": ("cmfrec_", {}),
    "pymanopt": ("pymanopt_", {}),
    "pymanopt, thin transport": ("pymanopt_", {"thin": True}),
    "LIBMF": ("libmf_", {}),
    "Surprise SVD": ("surprise_", {}),
    "Spark ALS": ("spark_", {}),
}


def python_of(method: str) -> Path:
    """The interpreter that has it; Spark may have one of its own, which LORANK_SPARK names."""
    if method == "lorank":
        return Path(sys.executable)
    own = os.environ.get("LORANK_SPARK") if method == "Spark ALS" else None
    return Path(own) if own else PEERS / "bin" / "python"


def setup() -> None:
    """Install each peer that will install."""
    if not (PEERS / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    for line in (HERE / "requirements.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            command = [PEERS / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", line]
            if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
                print(f"{line} would not install: it is left out", file=sys.stderr)


def measure(method: str, problem: Path, setting: dict, tolerances: tuple[float, ...], budget: float, repeats: int) -> dict:
    """What one process found, or ``{"failed": why}``."""
    module, extra = METHODS[method]
    command = [
        str(python_of(method)),
        "worker.py",
        module,
        str(problem),
        "--setting",
        json.dumps(setting | extra),
        "--budget",
        str(budget),
        "--repeats",
        str(repeats),
        "--tolerances",
        *map(str, tolerances),
    ]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    pin = [] if sys.platform != "linux" else ["taskset", "-c", os.environ.get("LORANK_BENCH_CORE", "0")]
    try:
        done = subprocess.run(
            pin + command, cwd=HERE, env=os.environ | threads, capture_output=True, text=True, timeout=20 * budget + 600
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        return {"failed": str(error).splitlines()[0]}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def grid(method: str) -> list[dict]:
    """The settings a method is tuned on, read from its file without importing what it imports."""
    import ast

    tree = ast.parse((HERE / "methods" / f"{METHODS[method][0]}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "GRID":
            return eval(compile(ast.Expression(node.value), "GRID", "eval"))  # our own file
    return [{}]


class Peers(Experiment):
    """The same problems for all; a problem is a file, a run a process that measures three times."""

    name = "peers"
    stop_slower_candidates = False  # steps of different methods say nothing about each other

    def __init__(self, problems: tuple[Problem, ...], only: list[str], folder: Path) -> None:
        self.problems, self.folder = {problem.name: problem for problem in problems}, folder
        self.methods = [Method(name, tuple(Setting(name, **one) for one in grid(name))) for name in only or METHODS]

    def points(self, scale: str) -> list[Point]:
        return [
            Point({"problem": p.name}, self.methods, p.seeds, 1, p.budget, (TUNING,), p.budget / 2)
            for p in self.problems.values()
        ]

    def instance(self, point: Point, seed: int) -> Instance:
        return Instance(None, 0, extra=(self.problems[point.params["problem"]].write(self.folder, seed), seed))

    def setting(self, solver: Setting) -> str:
        return json.dumps(solver.values)

    def run(self, point: Point, instance: Instance, solver: Setting, *, max_seconds: float, **options: object) -> Outcome:
        problem, (path, seed) = self.problems[point.params["problem"]], instance.extra
        repeats = 1 if seed == TUNING else 3
        found = measure(solver.method, path, solver.values, problem.tolerances, max_seconds, repeats)
        last = [] if "failed" in found else list(found["runs"][-1].values())
        met = [entry for entry in last if entry]
        status = "failed" if not last else "done" if met else "time"  # out of time: the other seeds are spared
        steps, seconds = (max((entry[name] for entry in met), default=0) for name in ("steps", "seconds"))
        error = found.get("best", np.inf)
        return Outcome(
            self.setting(solver), steps, seconds, np.nan, status, len(met) == len(last) > 0, not met, error, extra=found
        )

    def better(self, new: Sequence[Outcome], best: Sequence[Outcome]) -> bool:
        return _order(new[0]) < _order(best[0])


def _order(outcome: Outcome) -> tuple[float, float, float]:
    """For choosing a setting: how many tolerances were missed, seconds to the strictest met, best error."""
    if outcome.status == "failed":
        return (np.inf, np.inf, np.inf)
    last = outcome.extra["runs"][-1].values()
    return (sum(entry is None for entry in last), outcome.seconds or np.inf, outcome.merit)


class Setting:
    """What a peer is run with."""

    def __init__(self, method: str, **values: object) -> None:
        self.method, self.values = method, values


def entries(log: Path) -> list[dict]:
    """What was measured, one entry a run or a tuning."""
    found = []
    for record in read(log):
        setting = json.loads(record["chosen" if record["kind"] == "tuning" else "setting"])
        tried = [one | {"setting": json.loads(one["candidate"])} for one in record.get("candidates", ())]
        found.append(record | {"setting": setting, "tried": tried})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["setup", "run", "report", "all"])
    parser.add_argument("--quick", action="store_true", help="one small problem, to see that everything works")
    parser.add_argument("--log", type=Path, help="where results are kept")
    parser.add_argument("--problems", nargs="*", default=[], choices=[p.name for p in PROBLEMS])
    parser.add_argument("--methods", nargs="*", default=[], choices=METHODS)
    args = parser.parse_args()
    problems = QUICK if args.quick else PROBLEMS
    log = args.log or DOCS / "peers.jsonl"
    if args.what in ("setup", "all"):
        setup()
    if args.what in ("run", "all"):
        print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}; one thread each")
        chosen = tuple(p for p in problems if not args.problems or p.name in args.problems)
        with tempfile.TemporaryDirectory() as folder:
            progress = Progress("peers", functools.partial(print, flush=True))
            run_experiment(Peers(chosen, args.methods, Path(folder)), log, progress=progress)
    if args.what in ("report", "all"):
        from report import write

        write(problems, entries(log), log.with_suffix(""))


if __name__ == "__main__":
    main()
