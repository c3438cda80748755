"""lorank beside its peers: the same problems for all, one process a run, one core, the peers in an environment of their own.

    python benchmarks/peers/run.py setup                 make .venv-peers
    python benchmarks/peers/run.py run [--quick]         measure what is not yet in docs/benchmarks/peers.jsonl
    python benchmarks/peers/run.py report                table, plot and page from that file

Every peer's settings are chosen on a seed of their own (TUNING), its sweeps on the problem itself: a peer that cannot watch
its error is timed as if it knew when to stop. Interrupt it when you like: what is measured is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from data import Data

HERE = Path(__file__).parent
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
    return Path(sys.executable) if method == "lorank" else PEERS / "bin" / "python"


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


def better(found: dict) -> tuple[float, float, float]:
    """For sorting settings: how many tolerances were missed, seconds to the strictest met, best error."""
    if "failed" in found:
        return (np.inf, np.inf, np.inf)
    run = found["runs"][-1]
    met = [entry["seconds"] for entry in run.values() if entry]
    return (len(run) - len(met), max(met, default=np.inf), found["best"])


def run(problems: tuple[Problem, ...], log: Path, only: list[str]) -> None:
    """Measure what the log has not, method after method on each problem, so that neighbours share the machine's mood."""
    done = {(e["problem"], e["method"], e["seed"]): e for e in entries(log)}
    with tempfile.TemporaryDirectory() as folder:
        for problem in problems:
            for seed in (TUNING, *problem.seeds):
                for method in only or METHODS:
                    if (problem.name, method, seed) in done:
                        continue
                    path = problem.write(Path(folder), seed)
                    if seed == TUNING:
                        found = tune(method, problem, path)
                    else:
                        chosen = done[problem.name, method, TUNING]
                        setting = chosen["setting"]
                        if setting is None or (chosen.get("hopeless") and seed != problem.seeds[0]):
                            continue
                        found = {"setting": setting} | measure(method, path, setting, problem.tolerances, problem.budget, 3)
                    entry = {"problem": problem.name, "method": method, "seed": seed, "date": str(date.today())} | found
                    done[problem.name, method, seed] = entry
                    with log.open("a") as file:
                        file.write(json.dumps(entry) + "\n")
                    print(f"{problem}, seed {seed}, {method}: {words(entry)}", flush=True)


def tune(method: str, problem: Problem, path: Path) -> dict:
    """The best setting of a method's grid on the tuning seed."""
    settings = grid(method)
    if len(settings) == 1:
        return {"setting": settings[0], "tried": []}
    tried = [(setting, measure(method, path, setting, problem.tolerances, problem.budget / 2, 1)) for setting in settings]
    setting, found = min(tried, key=lambda pair: better(pair[1]))
    if "failed" in found:
        return {"setting": None, "failed": found["failed"]}
    hopeless = not any(found["runs"][-1].values())  # such a method is given the whole budget once, on the first seed
    return {"setting": setting, "hopeless": hopeless, "tried": [{"setting": s} | f for s, f in tried]}


def entries(log: Path) -> Iterator[dict]:
    if log.exists():
        yield from map(json.loads, log.read_text().splitlines())


def words(entry: dict) -> str:
    if "failed" in entry:
        return f"left out ({entry['failed']})"
    if "runs" not in entry:
        return f"chose {entry['setting']}"
    parts = []
    for tol in entry["runs"][0]:
        reached = [r[tol] for r in entry["runs"] if r[tol]]
        if reached:
            parts.append(f"{tol}: {np.median([r['seconds'] for r in reached]):.3f} s, {reached[0]['steps']} steps")
        else:
            parts.append(f"{tol}: not reached ({entry['best']:.1e} after {entry['effort']:.0f} s)")
    return "; ".join(parts) + f"; {entry['peak'] / 1e6:.0f} MB"


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
        run(tuple(p for p in problems if not args.problems or p.name in args.problems), log, args.methods)
    if args.what in ("report", "all"):
        from report import write

        write(problems, list(entries(log)), log.with_suffix(""))


if __name__ == "__main__":
    main()
