"""The solves of ``tools/frozen.py``: seeded and small.

``SOLVES`` has problem, rank, solver and options of each. Its first part goes through every branch of ``Auto``; the rest has one
solve of each solver, start, loss and kind of problem.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lorank as lr

# All that is used beyond the public names of lorank: after a rename, adapt it here. What the classes below override is internal
# as well: Plain switches off what Completion offers to solvers beyond forward and adjoint.
from lorank.factorization.als import RegularizedALS
from lorank.phase import AutoPhase
from lorank.plans import SOLVERS
from lorank.solvers import ALS


class Plain(lr.Completion):
    """Completion without what solvers use of its structure: no blocks, no balancing, no tight frame."""

    frame_constant = None

    def blocks(self, X: Any) -> Any:
        return None

    def rescaled(self) -> Any:
        return None


def auto_phase(**options: Any) -> Any:
    return AutoPhase(**options)


# ----------------------------------------------------------------------------------------------------------------- problems


class Bare(lr.problems.MatrixProblem):
    """A user's own model: forward and adjoint only."""

    def __init__(self, A: np.ndarray, y: np.ndarray, shape: tuple[int, int]) -> None:
        super().__init__(y, shape)
        self.A = A

    def forward(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return self.A @ (left @ right.T).ravel()

    def adjoint(self, p: np.ndarray) -> np.ndarray:
        return (self.A.T @ p).reshape(self.shape)


class Solve(NamedTuple):
    make: Callable[[], Any]
    rank: Any
    solver: Any  # a name, or a function that makes one
    options: dict[str, Any]


SOLVES: dict[str, Solve] = {}


def add(name: str, make: Callable[[], Any], rank: Any, solver: Any = "auto", **options: Any) -> None:
    SOLVES[name] = Solve(make, rank, solver, options)


def even(n1: int, n2: int, rank: int, factors: str = "gaussian", **options: Any) -> Callable[[], Any]:
    return lambda: lr.datasets.random_completion(n1, n2, rank, factors=factors, **options)[0]


def again(make: Callable[[], Any], kind: type = lr.Completion, change: Callable = lambda y: y, **options: Any) -> Callable:
    """The same entries as another kind of completion, with other values or options."""

    def made() -> Any:
        p = make()
        return kind(np.array(p.rows), np.array(p.cols), change(np.array(p.y)), p.shape, **options)

    return made


def with_noise(rng: np.random.Generator, values: np.ndarray, noise: float) -> np.ndarray:
    return values + noise * np.linalg.norm(values) / np.sqrt(len(values)) * rng.standard_normal(len(values))


def ill(n: int, rank: int, over: float, kappa: float, seed: int, noise: float = 0.0, dtype: Any = np.float64) -> Callable:
    """Singular values from n down to n / kappa."""

    def made() -> Any:
        rng = np.random.default_rng(seed)
        u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
        truth = lr.FixedRank(u, np.geomspace(n, n / kappa, rank), v)
        rows, cols = lr.datasets.sample_pattern(rng, (n, n), int(over * (2 * n - rank) * rank))
        return lr.Completion(rows, cols, with_noise(rng, truth.entries(rows, cols), noise).astype(dtype), (n, n))

    return made


def uneven(n1: int, n2: int, rank: int, m: int, power: float, seed: int, noise: float = 0.0) -> Callable[[], Any]:
    """The k-th row and column is observed in proportion to k^-power."""

    def made() -> Any:
        rng = np.random.default_rng(seed)
        of_rows, of_cols = (1 / np.arange(1, n + 1) ** power for n in (n1, n2))
        drawn = rng.choice(n1, m, p=of_rows / of_rows.sum()) * n2 + rng.choice(n2, m, p=of_cols / of_cols.sum())
        rows, cols = np.divmod(np.unique(drawn), n2)
        left, right = rng.standard_normal((n1, rank)), rng.standard_normal((n2, rank))
        values = np.einsum("ij,ij->i", left[rows], right[cols])
        return lr.Completion(rows, cols, with_noise(rng, values, noise), (n1, n2))

    return made


def own(n1: int, n2: int, rank: int, over: float, seed: int, kappa: float = 1.0) -> Callable[[], Any]:
    def made() -> Any:
        rng = np.random.default_rng(seed)
        u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in (n1, n2))
        X = (u * np.geomspace(1, 1 / kappa, rank)) @ v.T
        m = int(over * (n1 + n2 - rank) * rank)
        A = rng.standard_normal((m, n1 * n2)) / np.sqrt(m)
        return Bare(A, A @ X.ravel(), (n1, n2))

    return made


def phase(n: int, **options: Any) -> Callable[[], Any]:
    return lambda: lr.datasets.random_phase(n, **options)[0]


def phase_permuted() -> Any:
    p = phase(40, oversampling=4, seed=1)()
    return lr.PhaseRetrieval(p.linear_map.A, np.random.default_rng(1).permutation(p.y))


def with_outliers(share: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(y: np.ndarray) -> np.ndarray:
        wrong = np.random.default_rng(seed).choice(len(y), int(share * len(y)), replace=False)
        y[wrong] = 30.0 * np.random.default_rng(seed + 1).standard_normal(len(wrong))
        return y

    return change


def robust(n1: int, n2: int, rank: int, over: float, share: float, seed: int) -> Callable[[], Any]:
    return again(even(n1, n2, rank, oversampling=over, seed=seed), change=with_outliers(share, seed), loss="robust")


def full() -> Any:
    rng = np.random.default_rng(3)
    rows, cols = np.divmod(rng.permutation(12 * 8)[:90], 8)
    return lr.Completion(rows, cols, rng.standard_normal(90), (12, 8))


def weighted(make: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: again(make, weights=np.random.default_rng(1).random(make().m) + 0.1)()


def counts() -> Any:
    rng = np.random.default_rng(4)
    return rng.poisson(2 * np.exp(0.5 * rng.standard_normal((60, 2)) @ rng.standard_normal((2, 45))))


def partitions(**options: Any) -> Any:
    """Mapped from a folder, which goes when the problem does."""
    folder = tempfile.TemporaryDirectory()
    place = Path(folder.name) / "entries"
    lr.distributed.save_partitions(even(120, 100, 3, oversampling=6, noise=0.02, seed=1)(), place, n_partitions=3)
    problem = lr.distributed.from_partitions(place, **options)
    problem.folder_kept = folder
    return problem


# ------------------------------------------------------------------------------------------------------------------- solves

complex_, single = np.complex128, np.float32
add("even_1", even(500, 400, 5, factors="uniform", seed=1), 5)
add("even_2", even(200, 150, 3, oversampling=3, seed=2), 3, tol=1e-12)
add("even_tight_tol", even(150, 120, 4, oversampling=2.2, seed=5), 4, tol=1e-13, max_iter=300)
add("complex", even(120, 100, 3, oversampling=4, dtype=complex_, seed=3), 3, tol=1e-10)
add("float32", even(200, 150, 4, oversampling=4, dtype=single, seed=4), 4, tol=1e-6)
add("float32_ill", ill(150, 3, 4.0, 1e3, 1, dtype=single), 3, tol=1e-7, max_iter=300)
add("rank_1", even(150, 100, 1, oversampling=3, seed=6), 1, tol=1e-10)
add("rank_1_few", even(150, 100, 1, oversampling=1.5, seed=7), 1, tol=1e-12, max_iter=400)
add("reference_backend", even(200, 150, 3, oversampling=3, seed=2, backend="numpy"), 3, tol=1e-10)
add("uneven_1", uneven(300, 200, 3, 12000, 0.5, 1), 3, tol=1e-9)
add("uneven_2", uneven(600, 400, 4, 30000, 0.8, 2), 4, tol=1e-9, max_iter=400)
add("uneven_noise", uneven(300, 200, 3, 12000, 0.5, 3, noise=0.05), 3)
add("uneven_few", uneven(400, 300, 4, 9000, 0.6, 4), 4, tol=1e-9, max_iter=400)
scaled = functools.partial(even, factors="ill-scaled")
add("balanced_1", scaled(300, 250, 4, oversampling=5, spread=1.0, seed=1), 4, tol=1e-9)
add("balanced_2", scaled(300, 250, 4, oversampling=5, spread=2.0, seed=1), 4, tol=1e-9)
add("balanced_noise", scaled(200, 150, 3, oversampling=6, spread=1.0, noise=0.02, seed=1), 3, max_iter=1000)
add("balanced_few", scaled(200, 150, 3, oversampling=1.8, spread=1.0, seed=2), 3, tol=1e-9, max_iter=500)
add("balanced_large", scaled(900, 700, 4, oversampling=18, spread=1.5, seed=2), 4, tol=1e-9)
add("balanced_rests_1", scaled(150, 120, 2, oversampling=8, spread=0.6, seed=1, noise=0.3), 2, max_iter=300)
add("balanced_rests_2", scaled(150, 120, 2, oversampling=8, spread=0.9, seed=1, noise=0.6), 2, max_iter=300)
add("single_sweeps", even(1500, 1200, 5, oversampling=10, seed=1), 5, tol=1e-9)
add("single_sweeps_ill", ill(1200, 5, 9.0, 1e3, 2), 5, tol=1e-10)
add("single_sweeps_slow", ill(1400, 8, 4.6, 1e5, 3), 8, tol=1e-9, max_iter=400)
add("single_no_sweeps", even(3000, 2500, 8, oversampling=2.6, seed=2), 8, tol=1e-9)
add("single_noise", even(1200, 1000, 5, oversampling=10, noise=0.05, seed=3), 5)
add("single_complex", even(900, 800, 4, oversampling=10, dtype=complex_, seed=4), 4, tol=1e-9)
large_values = again(even(900, 800, 4, oversampling=16, seed=4), change=lambda y: 1e9 * y)
add("single_other_unit", large_values, 4, tol=1e-9)
add("single_uneven", uneven(2500, 1500, 5, 220000, 0.6, 5), 5, tol=1e-9, max_iter=400)
noisy = even(200, 150, 3, oversampling=6, noise=0.05, seed=1)
add("noise_1", noisy, 3)
add("noise_long", noisy, 3, stop=lr.stopping.Iterations(100))
add("noise_small", ill(300, 5, 4.0, 1e4, 0, noise=1e-7), 5, max_iter=1000)
add("kappa_1e4", ill(200, 4, 4.0, 1e4, 0), 4, tol=1e-10)
add("kappa_1e5", ill(250, 5, 3.0, 1e5, 1), 5, tol=1e-11, max_iter=1000)
add("kappa_1e5_b", ill(200, 6, 2.0, 1e5, 2), 6, tol=1e-11, max_iter=1000)
add("barely_1e3", ill(200, 3, 1.6, 1e3, 7), 3, tol=1e-11, max_iter=1000)
for k in (0, 1):
    add(f"misspecified_{k}", even(80, 70, 6, oversampling=3, seed=k), 3, max_iter=1000)
add("rank_too_large", ill(300, 3, 6.0, 1e4, 0), 5, tol=1e-8, max_iter=1000)
add("plain_growth", again(ill(300, 5, 4.0, 1e4, 0), Plain), 5, tol=1e-10)
add("plain_growth_stuck", again(even(80, 70, 6, oversampling=3, seed=1), Plain), 3, max_iter=1000)
add("plain_rank_1", again(even(80, 70, 3, oversampling=3, seed=1), Plain), 1, max_iter=600)
add("weights", weighted(even(200, 150, 3, oversampling=4, seed=8)), 3, tol=1e-10)
add("weights_ill", weighted(ill(200, 4, 4.0, 1e4, 3)), 4, tol=1e-10)
add("huber", again(even(150, 120, 3, oversampling=6, noise=0.1, seed=8), loss="huber"), 3, max_iter=300)
add("sensing", lambda: lr.datasets.random_sensing(40, 30, 2, oversampling=3, seed=1)[0], 2, tol=1e-10)
add("sensing_few", lambda: lr.datasets.random_sensing(40, 30, 3, oversampling=1.3, seed=2)[0], 3, tol=1e-9, max_iter=600)
add("own_growth", own(25, 20, 4, 1.5, 3, kappa=1e4), 4, tol=1e-10, max_iter=800)
add("own", own(25, 20, 2, 3.0, 4), 2, tol=1e-10)
add("own_rank_1", own(20, 15, 3, 2.0, 5), 1, max_iter=600)
add("phase_many", phase(64, oversampling=6, seed=3), 1)
add("phase_real_few", phase(120, oversampling=1.75, seed=0), 1, tol=1e-8)
add("phase_complex_few", phase(120, oversampling=2.75, dtype=complex_, seed=1), 1, tol=1e-8)
add("phase_complex", phase(120, oversampling=4.0, dtype=complex_, seed=2), 1, tol=1e-8)
add("phase_descent_stalls", phase(120, oversampling=2, seed=7), 1, lambda: auto_phase(min_oversampling_real=1.0), tol=1e-8)
add("phase_noise", phase(80, oversampling=3.0, dtype=complex_, noise=0.05, seed=2), 1, max_iter=1000)
add("phase_noise_many", phase(80, oversampling=6.0, noise=1e-3, seed=2), 1, max_iter=1000)
add("phase_unfit", phase_permuted, 1, lambda: auto_phase(max_attempts=2), max_iter=2000)
add("phase_float32", phase(100, oversampling=2.0, dtype=single, seed=1), 1, tol=1e-5)
add("phase_masks", lambda: lr.datasets.random_diffraction((12, 11), masks=3, seed=1)[0], 1, tol=1e-8)
add("phase_rank_2", phase(40, oversampling=6, seed=3), 2, max_iter=200)
add("robust_outliers", robust(120, 100, 2, 8, 0.05, 1), 2)
add("robust_clean", robust(120, 100, 2, 4, 0.0, 2), 2)
add("robust_scarce", robust(120, 100, 3, 2.0, 0.0, 3), 3, max_iter=400)
add("full_rank", full, 8, max_iter=300)
add("full_rank_ill", ill(12, 12, 1.0, 1e6, 1), 12, tol=1e-13, max_iter=300)

small = even(80, 70, 3, oversampling=6, seed=1)
for name in SOLVERS:
    add(f"solver_{name}", small, 3, name, max_iter=200)
for name in ("spectral", "staged", "continuation"):
    add(f"start_{name}", small, 3, start=name)
add("solver_irls", even(80, 70, 3, oversampling=1.8, seed=1), 3, lr.solvers.IRLS, max_iter=200)
add("solver_sweeps", small, 3, ALS, max_iter=100)
add("solver_alternating", noisy, 3, RegularizedALS, stop=lr.stopping.Iterations(20))
add("solver_niht_sensing", lambda: lr.datasets.random_sensing(30, 25, 2, seed=1)[0], 2, "niht", max_iter=200)
add("solver_fisher", phase(60, oversampling=8, seed=1), 1, lambda: lr.solvers.RCG(reweighting=lr.phase.Fisher()), max_iter=200)
add("solver_signal_cg", phase(60, oversampling=6, dtype=complex_, seed=1), 1, lr.phase.SignalCG, max_iter=200)
add("solver_message_passing", phase(60, oversampling=3, seed=1), 1, lr.phase.MessagePassing, max_iter=100)
for metric in (lr.metrics.Blocks, lr.metrics.Counts, lr.metrics.FullShampoo):
    name = f"metric_{metric.__name__}"
    add(name, small, 3, lambda metric=metric: lr.solvers.RGD(metric(), lr.steps.Exact()), max_iter=60)
add("metric_Whitened", phase(60, oversampling=8, seed=1), 1, lambda: lr.solvers.RCG(lr.phase.Whitened()), max_iter=200)
add("step_polyak", small, 3, lambda: lr.solvers.RGD(lr.metrics.RowColumn(), lr.steps.Polyak()), max_iter=60)

far_off = again(even(120, 100, 2, oversampling=8, noise=0.05, seed=1), change=with_outliers(0.03, 1))
for name in ("huber", "cauchy", "tukey", "absolute"):
    add(f"loss_{name}", again(far_off, loss=name), 2, max_iter=300)
settled = {"stop": lr.stopping.RelativeChange(1e-4), "max_iter": 300}
as_classes = {
    "logistic": lambda y: (y + np.random.default_rng(1).logistic(size=len(y)) > 0).astype(float),
    "ordinal": lambda y: np.clip(np.round(3 + y), 1, 5),
    "poisson": lambda y: np.random.default_rng(1).poisson(np.exp(np.clip(y, -2, 2))).astype(float),
}
for name, change in as_classes.items():
    add(f"loss_{name}", again(even(80, 60, 2, oversampling=8, seed=1), change=change, loss=name), 2)
    add(f"loss_{name}_settled", again(even(80, 60, 2, oversampling=8, seed=2), change=change, loss=name), 2, "rcg", **settled)
add("counts", lambda: lr.CountTable(counts()), 2)
add("counts_intercepts", lambda: lr.CountTable(counts(), "columns", intercepts=True), 2, **settled)
add("counts_reference", lambda: lr.CountTable(counts(), backend="numpy"), 2, "rcg", **settled)
add("auto_rank_clean", even(120, 100, 3, oversampling=6, seed=1), "auto")
add("auto_rank_noise", even(120, 100, 3, oversampling=8, noise=0.1, seed=1), "auto")
add("auto_rank_robust", robust(120, 100, 2, 10, 0.05, 1), "auto")
add("auto_rank_ordinal", again(even(80, 60, 2, oversampling=8, seed=1), change=as_classes["ordinal"], loss="ordinal"), "auto")
add("partitions", partitions, 3)
add("partitions_rcg", partitions, 3, "rcg", max_iter=60)
add("partitions_huber", lambda: partitions(loss="huber"), 3)
