"""Outliers: how many, with how few observations, beside peers, and what it costs where there are none.

    python benchmarks/robust.py map [--instances 10]      where loss="robust" is exact: observations x share of outliers
    python benchmarks/robust.py targets                   20 instances each at two points of the map, ranks 5 and 10
    python benchmarks/robust.py clean                     clean data: recovery and time beside the default
    python benchmarks/robust.py uneven                    rows and columns seen unevenly, of uneven sizes, with a mean
    python benchmarks/robust.py noise                     noise and outliers: errors beside one who knows the outliers
    python benchmarks/robust.py time                      seconds beside the clean solve (on a quiet core)
    python benchmarks/robust.py peers                     whole tables (robust PCA) beside packages that are installed
    python benchmarks/robust.py report                    the tables of docs/benchmarks/robust.md from what was measured

Matrices with normal factors, entries drawn uniformly; an outlier is an entry plus a normal number ten times the entries' size
(or, ``--kind sign``, plus or minus exactly that). Exact means a relative error of the whole matrix below 1e-6. The solver was
chosen on seeds below 200 and one below 5100; these begin at 7000 (``--first``).
Peers: tensorly (robust_pca) and pyrpca (principal component pursuit by an
inexact augmented Lagrangian, an ADMM), each where it is installed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lorank as lr
from common import RESULTS, markdown, versions

LOG, FIRST = RESULTS / "robust.jsonl", 7000
RATIOS, SHARES = (2.0, 2.5, 3.0, 4.0, 6.0, 10.0), (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
TARGETS = ((2.5, 0.1), (6.0, 0.3))


def contaminated(
    n: int, rank: int, ratio: float, share: float, seed: int, *, noise: float = 0.0, size: float = 10.0, kind: str = "normal"
) -> tuple[lr.Completion, lr.Completion, lr.FixedRank, np.ndarray]:
    """The clean problem, the same with outliers, the truth, and which observations are wrong."""
    clean, truth = lr.datasets.random_completion(
        n, n, rank, oversampling=ratio, factors="gaussian", seed=seed, noise=noise, backend=None
    )
    rng = np.random.default_rng(seed + 1_000_000)
    y = np.array(clean.y)
    wrong = rng.random(len(y)) < share
    error = rng.standard_normal(wrong.sum()) if kind == "normal" else rng.choice([-1.0, 1.0], wrong.sum())
    y[wrong] += size * np.sqrt(np.mean(y**2)) * error
    return clean, lr.Completion(clean.rows, clean.cols, y, clean.shape, loss="robust"), truth, wrong


def error(X: lr.FixedRank, truth: lr.FixedRank) -> float:
    return float(truth.distance(X) / truth.norm())


def log(what: str, **found: Any) -> None:
    print(what, *(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in found.items()), flush=True)
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a") as f:
        f.write(json.dumps({"what": what, **found}) + "\n")


def recovery(what: str, n: int, rank: int, ratio: float, share: float, instances: int, kind: str = "normal") -> None:
    errors, found = [], []
    for seed in range(FIRST, FIRST + instances):
        _, problem, truth, wrong = contaminated(n, rank, ratio, share, seed, kind=kind)
        result = lr.solve(problem, rank, tol=1e-9, max_iter=1500)
        errors.append(error(result.X, truth))
        found.append(float((result.outliers.mask != wrong).mean()))
    exact = int(sum(e < 1e-6 for e in errors))
    log(
        what, n=n, rank=rank, ratio=ratio, share=share, kind=kind, instances=instances, exact=exact,
        median=float(np.median(errors)), misplaced=float(np.median(found)),
    )  # fmt: skip


def make_map(args: argparse.Namespace) -> None:
    for share in SHARES:
        for ratio in RATIOS:
            recovery("map", args.n, 5, ratio, share, args.instances, args.kind)


def make_targets(args: argparse.Namespace) -> None:
    for n, rank in ((500, 5), (500, 10), (1000, 5), (1000, 10)):
        for ratio, share in TARGETS:
            recovery("target", n, rank, ratio, share, 20, args.kind)


POWERS = {"even": (0.0, 0.0), "mild": (0.5, 0.7), "steep": (0.6, 0.8)}  # as in benchmarks/uneven.py


def uneven(
    pattern: str, factors: str, sizes: bool, ratio: float, share: float, seed: int
) -> tuple[lr.Completion, lr.FixedRank, np.ndarray]:
    """A problem with outliers where rows and columns were seen unevenly (each at least ten times), the truth, what is wrong."""
    rng, rank, shape = np.random.default_rng(seed), 5, (600, 400)
    m = int(ratio * rank * (sum(shape) - rank))
    rows, cols = lr.datasets.uneven_pattern(rng, shape, m, powers=POWERS[pattern], least=2 * rank)
    left, right = (rng.random((n, rank)) if factors == "uniform" else rng.standard_normal((n, rank)) for n in shape)
    left = left * rng.lognormal(0, 1, (shape[0], 1)) if sizes else left
    truth = lr.FixedRank.from_factors(left, right)
    y = truth.entries(rows, cols)
    wrong = rng.random(len(y)) < share
    y[wrong] += 10 * np.sqrt(np.mean(y**2)) * rng.standard_normal(wrong.sum())
    return lr.Completion(rows, cols, y, shape, loss="robust"), truth, wrong


def make_uneven(args: argparse.Namespace) -> None:
    for factors in ("gaussian", "uniform"):
        for sizes in (False, True):
            for pattern in POWERS:
                for ratio, share in ((4.0, 0.1), (6.0, 0.2), (10.0, 0.3)):
                    errors, found = [], []
                    for seed in range(FIRST, FIRST + args.instances):
                        problem, truth, wrong = uneven(pattern, factors, sizes, ratio, share, seed)
                        result = lr.solve(problem, 5, tol=1e-9, max_iter=1500)
                        errors.append(error(result.X, truth))
                        found.append(float((result.outliers.mask != wrong).mean()))
                    log(
                        "uneven", pattern=pattern, factors=factors, sizes=sizes, ratio=ratio, share=share,
                        instances=args.instances, exact=int(sum(e < 1e-6 for e in errors)), median=float(np.median(errors)),
                        misplaced=float(np.median(found)),
                    )  # fmt: skip


def make_clean(args: argparse.Namespace) -> None:
    for ratio in (1.5, 1.7, 2.0, 2.5, 3.0, 5.0):
        exact, seconds = defaultdict(int), defaultdict(list)
        for seed in range(FIRST, FIRST + args.instances):
            problem, truth = lr.datasets.random_completion(args.n, args.n, 5, oversampling=ratio, factors="gaussian", seed=seed)
            for name, solver in (("auto", lr.plans.Auto()), ("robust", lr.robust.Robust())):
                begun = time.process_time()
                found = lr.solve(problem, 5, solver)
                seconds[name].append(time.process_time() - begun)
                exact[name] += error(found.X, truth) < 1e-4
        quotient = float(np.median(np.array(seconds["robust"]) / np.array(seconds["auto"])))
        log("clean", n=args.n, rank=5, ratio=ratio, instances=args.instances, **exact, quotient=quotient)


def make_noise(args: argparse.Namespace) -> None:
    for ratio, share, noise in ((4.0, 0.1, 0.05), (6.0, 0.1, 0.05), (6.0, 0.3, 0.05), (6.0, 0.1, 0.2), (10.0, 0.02, 0.2)):
        rows = []
        for seed in range(FIRST, FIRST + args.instances):
            _, problem, truth, wrong = contaminated(args.n, 5, ratio, share, seed, noise=noise)
            result = lr.solve(problem, 5)
            keep = ~wrong
            oracle = lr.solve(lr.Completion(problem.rows[keep], problem.cols[keep], problem.y[keep], problem.shape), 5)
            squares = lr.solve(lr.Completion(problem.rows, problem.cols, problem.y, problem.shape), 5)
            rows.append([error(found.X, truth) for found in (result, oracle, squares)])
        robust, oracle, squares = map(float, np.median(rows, axis=0))
        log("noise", n=args.n, rank=5, ratio=ratio, share=share, noise=noise, robust=robust, oracle=oracle, squares=squares)


TIMES = ((1000, 5, 2.5, 0.1), (1000, 5, 6.0, 0.3), (3000, 10, 2.5, 0.1), (3000, 10, 6.0, 0.3), (10_000, 10, 6.0, 0.1))


def make_time(args: argparse.Namespace) -> None:
    for n, rank, ratio, share in TIMES:
        seconds: dict[str, list[float]] = defaultdict(list)
        errors = []
        for seed in range(FIRST, FIRST + (2 if n > 5000 else args.instances)):
            clean, problem, truth, _ = contaminated(n, rank, ratio, share, seed)
            for name, one in (("clean", clean), ("robust", problem)):
                begun = time.process_time()
                found = lr.solve(one, rank, tol=1e-6)
                seconds[name].append(time.process_time() - begun)
            errors.append(error(found.X, truth))
        medians = {name: float(np.median(taken)) for name, taken in seconds.items()}
        quotient, median = medians["robust"] / medians["clean"], float(np.median(errors))
        log("time", n=n, rank=rank, ratio=ratio, share=share, **medians, quotient=quotient, median=median)


def table_peers() -> Iterator[tuple[str, Callable[[np.ndarray, int], np.ndarray]]]:
    """What decomposes a whole table into low rank and sparse, where it is installed."""

    def ours(table: np.ndarray, rank: int) -> np.ndarray:
        return lr.solve(lr.Completion.from_dense(table, loss="robust"), rank, tol=1e-8).X.to_dense()

    yield "lorank, rank given", ours
    try:
        from pyrpca import rpca_pcp_ialm

        yield "pyrpca (ADMM)", lambda table, rank: rpca_pcp_ialm(table, 1 / np.sqrt(max(table.shape)), verbose=False)[0]
    except ImportError:
        pass
    try:
        from tensorly.decomposition import robust_pca

        yield "tensorly", lambda table, rank: robust_pca(table, verbose=False)[0]

        def weighted(table: np.ndarray, rank: int) -> np.ndarray:
            weight = 1 / np.sqrt(max(table.shape))
            return np.asarray(robust_pca(table, reg_E=weight, n_iter_max=300, verbose=False)[0])

        yield "tensorly, 1/sqrt(n)", weighted
    except ImportError:
        pass


def make_peers(args: argparse.Namespace) -> None:
    rng = np.random.default_rng(FIRST)
    n, rank = args.n, 5
    low = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))
    for share in (0.1, 0.3):
        wrong = rng.random(low.shape) < share
        table = low + np.where(wrong, 10 * np.sqrt(rank) * rng.standard_normal(low.shape), 0.0)
        for name, method in table_peers():
            begun = time.process_time()
            try:
                found = float(np.linalg.norm(method(table, rank) - low) / np.linalg.norm(low))
            except Exception as failure:
                print(name, "failed:", failure)
                continue
            log("peer", n=n, rank=rank, share=share, method=name, error=found, seconds=time.process_time() - begun)


def report(args: argparse.Namespace) -> None:
    found = defaultdict(list)
    for line in LOG.read_text().splitlines():
        one = json.loads(line)
        found[one.pop("what")].append(one)
    cells = {(one["share"], one["ratio"]): one for one in found["map"]}
    print("\n".join(["", "map: exact instances", ""]))
    rows = []
    for share in SHARES:
        counts = {f"{ratio:g} per dof": cells[share, ratio]["exact"] for ratio in RATIOS if (share, ratio) in cells}
        rows.append({"outliers": f"{share:.0%}", **counts})
    print("\n".join(markdown(rows)))
    for what in ("target", "uneven", "clean", "noise", "time", "peer"):
        if found[what]:
            rows = [{k: f"{v:.2g}" if isinstance(v, float) else v for k, v in one.items()} for one in found[what]]
            print("\n".join(["", what, "", *markdown(rows)]))
    print("\n" + versions())


COMMANDS = {
    "map": make_map, "targets": make_targets, "uneven": make_uneven, "clean": make_clean, "noise": make_noise,
    "time": make_time, "peers": make_peers, "report": report,
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--kind", choices=("normal", "sign"), default="normal")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    arguments = parser.parse_args()
    FIRST = arguments.first
    warnings.simplefilter("ignore", lr.ConvergenceWarning)
    COMMANDS[arguments.command](arguments)
