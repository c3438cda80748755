"""Tensor completion beside pyttb, tensortools, teneva and tensorly, each with its own method.

python benchmarks/tensor_peers.py tucker [--instances 3]    seconds to a relative error of 1e-6, random 100 x 100 x 100 tensors
python benchmarks/tensor_peers.py cp [--instances 3]        the same for sums of five rank-one tensors
python benchmarks/tensor_peers.py kinetic [--instances 3]   held-out errors on fluorescence data that tensorly contains

Peers that are not installed are left out. Random tensors have multilinear rank 5: with a full core a CP decomposition needs
rank 10 or more, and a tensor train rank 5. On the fluorescence data (64 x 120 x 60, Nikolajsen et al. 2003) each method keeps a
tenth of the seen entries aside and takes the rank and the iterate with the smallest error there. The clock stops while errors
are computed; each fit is limited to ``--seconds``, CPU seconds. One thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import lorank as lr
from common import versions

FIRST = 7100  # seed
EXACT = 1e-6  # relative error on entries that were not seen
CHECKED = 20_000  # entries at which errors are computed
Index = np.ndarray  # (m, 3)
Entries = Callable[[Index], np.ndarray]


@dataclass
class Watch:
    """Errors of the iterates on entries that the method does not see, and the CPU seconds until the best of them."""

    index: Index
    values: np.ndarray
    limit: float
    error: float = np.inf
    seconds: float = 0.0
    best: np.ndarray | None = None
    others: Index | None = None  # entries whose values are kept for the best iterate
    began: float = field(default_factory=time.process_time)

    def __call__(self, entries: Entries) -> bool:
        """Whether to stop."""
        now = time.process_time()
        elapsed = now - self.began
        error = float(np.linalg.norm(entries(self.index) - self.values) / np.linalg.norm(self.values))
        if error < self.error:
            self.error, self.seconds = error, elapsed
            self.best = None if self.others is None else entries(self.others)
        self.began += time.process_time() - now
        return self.error < EXACT or elapsed > self.limit


def cp_entries(factors: Any) -> Entries:
    return lambda index: np.prod([u[index[:, k]] for k, u in enumerate(factors)], axis=0).sum(1)


def tucker_entries(core: np.ndarray, factors: Any) -> Entries:
    X = lr.Tucker(core, factors)
    return lambda index: X.entries(*index.T)


def dense(index: Index, y: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The tensor with 0 where it was not seen, and the mask."""
    a, mask = np.zeros(shape), np.zeros(shape)
    a[tuple(index.T)], mask[tuple(index.T)] = y, 1.0
    return a, mask


def lorank(index: Index, y: np.ndarray, shape: tuple[int, ...], rank: Any, seed: int, watch: Watch) -> None:
    def look(problem: Any, state: Any, clock: Any) -> bool:
        return watch(lambda at: state.X.entries(*at.T))

    lr.solve(lr.TensorCompletion(index, y, shape), rank, tol=1e-9, callbacks=[look])


def teneva(index: Index, y: np.ndarray, shape: tuple[int, ...], rank: Any, seed: int, watch: Watch) -> None:
    """Alternating least squares of a tensor train; the regularization is part of the rank."""
    import teneva

    r, regularization = rank
    start = teneva.rand(list(shape), r, seed=seed)
    look = lambda Y, info, options: watch(lambda at: teneva.get_many(Y, at))  # noqa: E731
    teneva.als(index, y, start, nswp=10_000, lamb=regularization, allow_skip_cores=True, cb=look)


def tensortools(index: Index, y: np.ndarray, shape: tuple[int, ...], rank: int, seed: int, watch: Watch) -> None:
    """Alternating least squares of a CP decomposition (mcp_als), two sweeps at a time: the factors are all of its state."""
    from tensortools.optimize import mcp_als

    a, mask = dense(index, y, shape)
    factors: Any = "randn"
    while True:
        fit = mcp_als(a, rank, mask, init=factors, random_state=seed, tol=-1.0, max_iter=1, verbose=False)
        factors = fit.factors
        if watch(cp_entries(list(factors))):
            return


def pyttb(index: Index, y: np.ndarray, shape: tuple[int, ...], rank: int, seed: int, watch: Watch) -> None:
    """Limited-memory BFGS on a CP decomposition (gcp_opt)."""
    import pyttb
    from pyttb.gcp.handles import Objectives
    from pyttb.gcp.optimizers import LBFGSB

    def look(vector: np.ndarray) -> None:
        if watch(cp_entries(pyttb.ktensor.from_vector(vector.copy(), shape, False).factor_matrices)):
            raise StopIteration

    a, mask = (pyttb.tensor(one) for one in dense(index, y, shape))
    rng = np.random.default_rng(seed)
    start = pyttb.ktensor([rng.standard_normal((n, rank)) for n in shape])
    optimizer = LBFGSB(maxiter=20_000, maxfun=30_000, factr=0.1, pgtol=1e-12, callback=look)
    with contextlib.suppress(StopIteration):
        pyttb.gcp_opt(a, rank, Objectives.GAUSSIAN, optimizer, init=start, mask=mask, printitn=0)


def parafac(index: Index, y: np.ndarray, shape: tuple[int, ...], rank: int, seed: int, watch: Watch) -> None:
    """tensorly: alternating least squares of a CP decomposition on imputed data."""
    from tensorly.decomposition import parafac

    def look(found: Any, error: float) -> bool:
        return watch(cp_entries([found.factors[0] * found.weights, *found.factors[1:]]))

    a, mask = dense(index, y, shape)
    with contextlib.redirect_stdout(io.StringIO()):
        parafac(a, rank, n_iter_max=100_000, tol=1e-15, init="random", random_state=seed, mask=mask, callback=look)


def tucker(index: Index, y: np.ndarray, shape: tuple[int, ...], rank: Any, seed: int, watch: Watch) -> None:
    """tensorly: higher-order orthogonal iteration on imputed data, five steps at a time."""
    from tensorly.decomposition import tucker

    a, mask = dense(index, y, shape)
    found: Any = "svd"
    while True:
        found = tucker(a, rank, n_iter_max=5, tol=0, init=found, random_state=seed, mask=mask)
        if watch(tucker_entries(np.asarray(found[0]), found[1])):
            return


METHODS = {  # method, package, rank for random tensors (Tucker, CP), ranks for the fluorescence data
    "lorank": (lorank, "lorank", (5, 5), [(3, 3, 3), (4, 4, 3), (5, 5, 4), (6, 6, 4)]),
    "teneva als": (teneva, "teneva", ((5, 1e-8), (5, 1e-8)), [(r, w) for r in (3, 4, 5, 6) for w in (1e-3, 1.0)]),
    "tensortools mcp_als": (tensortools, "tensortools", (10, 5), [3, 4, 5, 6]),
    "pyttb gcp_opt": (pyttb, "pyttb", (10, 5), [3, 4, 5, 6]),
    "tensorly parafac": (parafac, "tensorly", (10, 5), [3, 4, 5, 6]),
    "tensorly tucker": (tucker, "tensorly", ((5, 5, 5), (5, 5, 5)), [(3, 3, 3), (4, 4, 3), (5, 5, 4), (6, 6, 4)]),
}


def installed() -> dict[str, Any]:
    found = {}
    for name, entry in METHODS.items():
        with contextlib.suppress(ImportError):
            importlib.import_module(entry[1])
            found[name] = entry
    return found


def random_tensor(oversampling: float, is_cp: bool, seed: int) -> tuple[Index, np.ndarray, lr.Tucker]:
    """Indices and values of the seen entries, and the tensor."""
    problem, truth = lr.datasets.random_tensor((100,) * 3, 5, oversampling=oversampling, seed=seed)
    if is_cp:
        core, rng = np.zeros((5, 5, 5)), np.random.default_rng(seed)
        core[range(5), range(5), range(5)] = 1 / np.sqrt(5)
        truth = lr.Tucker.from_factors(core, [rng.standard_normal((100, 5)) for _ in range(3)])
    return problem.indices, truth.entries(*problem.indices.T), truth


def speed(instances: int, seconds: float, is_cp: bool, oversamplings: list[float]) -> None:
    names = installed()
    print(f"| observations per degree of freedom | {' | '.join(names)} | fastest peer / lorank |")
    print("|" + "---|" * (len(names) + 2))
    for oversampling in oversamplings:
        taken: dict[str, list[Watch]] = {name: [] for name in names}
        for seed in range(FIRST - 1, FIRST + instances):  # the first warms up
            index, y, truth = random_tensor(oversampling, is_cp, seed)
            checked = np.random.default_rng(seed).integers(0, 100, (CHECKED, 3))
            for name, (method, _, ranks, _) in names.items():
                limit = seconds if seed >= FIRST else 0.5
                watch = Watch(checked, truth.entries(*checked.T), limit)
                method(index, y, truth.shape, ranks[is_cp], seed, watch)
                taken[name] += [watch] if seed >= FIRST else []
        cells, middle = [], {}
        for name, watches in taken.items():
            found = [one.seconds for one in watches if one.error < EXACT]
            if found:
                middle[name] = statistics.median(found)
                cells.append(f"{middle[name]:.3f} ({min(found):.3f} to {max(found):.3f}), {len(found)} of {instances}")
            else:
                cells.append(f"0 of {instances}, error {min(one.error for one in watches):.0e}")
        peers = [one for name, one in middle.items() if name != "lorank"]
        ratio = f"{min(peers) / middle['lorank']:.1f}" if peers and "lorank" in middle else "-"
        print(f"| {oversampling:g} | {' | '.join(cells)} | {ratio} |", flush=True)


def fluorescence() -> tuple[Index, np.ndarray, tuple[int, ...]]:
    """Indices and values of the known entries: experiments x (emission, excitation) x times."""
    import tensorly

    folder = Path(tensorly.__file__).parent / "datasets" / "data"
    a = np.load(folder / "Kinetic.npy").astype(float).reshape(64, 120, 60)
    index = np.argwhere(~np.load(folder / "Kinetic_missing.npy").astype(bool).reshape(a.shape))
    return index, a[tuple(index.T)], a.shape


def kinetic(instances: int, seconds: float, share: float) -> None:
    names = installed()
    index, values, shape = fluorescence()
    print(f"{len(values):,} known entries, {share:.0%} of them seen")
    print("| method | held-out RMSE / standard deviation, median (range) | rank, in each run | seconds of all fits |")
    print("|---|---|---|---|")
    found: dict[str, list[tuple[float, Any, float]]] = {name: [] for name in names}
    for seed in range(FIRST, FIRST + instances):
        order, m = np.random.default_rng(seed).permutation(len(values)), round(share * len(values))
        aside, seen, test = order[: m // 10], order[m // 10 : m], order[m : m + CHECKED]
        scale = values[seen].std()
        for name, (method, _, _, ranks) in names.items():
            began, fits = time.process_time(), []
            for rank in ranks:
                watch = Watch(index[aside], values[aside] / scale, seconds, others=index[test])
                method(index[seen], values[seen] / scale, shape, rank, seed, watch)
                fits.append((watch.error, rank, watch.best))
            _, rank, best = min(fits, key=lambda one: one[0])
            error = np.sqrt(np.mean((best * scale - values[test]) ** 2)) / values[test].std()
            found[name].append((float(error), rank, time.process_time() - began))
    for name in names:
        errors, ranks, taken = zip(*found[name], strict=True)
        middle = f"{statistics.median(errors):.4f} ({min(errors):.4f} to {max(errors):.4f})"
        print(f"| {name} | {middle} | {', '.join(map(str, ranks))} | {statistics.median(taken):.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tucker", "cp", "kinetic"])
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--share", type=float, default=0.02, help="of the fluorescence data that is seen")
    parser.add_argument("--oversampling", type=float, nargs="+", default=[10.0, 20.0], help="per degree of freedom")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(versions())
    print(
        ", ".join(
            f"{name} {importlib.metadata.version(name)}"
            for name in sorted({one[1] for one in installed().values()} - {"lorank"})
        )
    )
    if arguments.what == "kinetic":
        kinetic(arguments.instances, arguments.seconds, arguments.share)
    else:
        speed(arguments.instances, arguments.seconds, arguments.what == "cp", arguments.oversampling)
