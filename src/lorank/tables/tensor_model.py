"""Models of tensors with missing entries, selected on held-out entries: Tucker models and factor models of unfoldings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..common.logs import LOG
from ..factorization import FactorModel, Settings, centred_problem, fit_factors, select
from ..factorization.selection import RANKS as UNFOLDING_RANKS
from ..factorization.tucker_sampler import TuckerSample, TuckerSampler
from ..loop.runner import INTERRUPTED

RANKS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
BURN_IN, KEPT = 8, 12  # sweeps of each candidate before its samples are kept, and kept samples
BURN_IN_FINAL = 15
GAIN, MODE_GAIN = 0.01, 0.005  # smallest relative improvement by larger ranks of all modes, and of one mode
PATIENCE = 2  # ranks without improvement before the path ends
MAX_CORE = 50_000  # entries of a core
MIN_SELECTION = 30  # observations without which nothing is selected
MIN_PER_PARAMETER = 2.0  # observations per row and column of an unfolding, without which it is not tried
FIBRES = 0.05  # share of missing entries in whole missing fibres, beyond chance, from which fibres are held out


@dataclass(frozen=True)
class TensorCandidate:
    """One candidate.

    Attributes
    ----------
    method : str
        "tucker", or "unfolding".
    rank : list of int
        Of each mode; of an unfolding, that of the matrix.
    mode : int or None
        The mode whose indices are the rows of the unfolding.
    error : float
        Root mean squared error on held-out entries, in standard deviations of the observations.
    """

    method: str
    rank: list[int]
    mode: int | None
    error: float


@dataclass(frozen=True)
class TuckerPosterior:
    """Samples of a Tucker model: cores, one array; factors, one array for each mode; variances of the noise."""

    cores: np.ndarray
    factors: list[np.ndarray]
    noise: np.ndarray

    method: ClassVar = "tucker"
    mode: ClassVar = None

    @classmethod
    def of(cls, samples: Sequence[TuckerSample]) -> TuckerPosterior:
        factors = [np.stack(each) for each in zip(*(one.factors for one in samples), strict=True)]
        return cls(np.stack([one.core for one in samples]), factors, np.array([one.noise for one in samples]))

    @property
    def rank(self) -> list[int]:
        return [n - 1 for n in self.cores.shape[1:]]

    @property
    def noise_deviation(self) -> float:
        return float(np.sqrt(self.noise.mean()))

    def predict(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations, of the noise included, at the rows of an (m, d) array of indices.

        Indices beyond the shape have the prior means of the factors.
        """
        mean, squares = np.zeros(len(index)), np.zeros(len(index))
        for k, (core, noise) in enumerate(zip(self.cores, self.noise, strict=True)):
            factors = [np.concatenate([u[k], np.eye(1, u.shape[2])]) for u in self.factors]
            new = TuckerSample(core, factors, float(noise)).entries(index)
            off = new - mean
            mean += off / (k + 1)
            squares += off * (new - mean)
        return mean, np.sqrt(squares / len(self.cores) + self.noise.mean())


@dataclass(frozen=True)
class UnfoldingModel:
    """A factor model of an unfolding: rows are the indices of a mode, columns the observed combinations of the others."""

    factors: FactorModel
    shape: list[int]
    mode: int
    columns: np.ndarray

    method: ClassVar = "unfolding"

    @property
    def rank(self) -> list[int]:
        return [self.factors.rank]

    @property
    def noise_deviation(self) -> float:
        return float(self.factors.noise**-0.5)

    def predict(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations at the rows of an (m, d) array of indices; averages for unobserved columns."""
        flat = flat_columns(index, self.shape, self.mode)
        at = np.minimum(np.searchsorted(self.columns, flat), len(self.columns) - 1)
        at = np.where(self.columns[at] == flat, at, len(self.columns))
        return self.factors.predict(index[:, self.mode], at), self.factors.spread(index[:, self.mode], at)


TensorModel = TuckerPosterior | UnfoldingModel


@dataclass
class TensorFit:
    """A selected model: the candidates, and values, predictions and standard deviations of the held-out entries."""

    model: Any = None
    curve: list[TensorCandidate] = field(default_factory=list)
    heldout: np.ndarray = field(default_factory=lambda: np.empty((3, 0)))
    best: TensorCandidate | None = None
    interrupted: bool = False


def fit_tensor(
    index: np.ndarray,
    y: np.ndarray,
    shape: Sequence[int],
    rng: np.random.Generator,
    *,
    rank: Sequence[int] | None = None,
    method: str = "auto",
    holdout: float = 0.1,
    n_samples: int = 40,
) -> TensorFit:
    """Select a model on held-out entries, and fit it to all.

    Parameters
    ----------
    index : (m, d) array
    y : (m,) array
        Of mean 0 and variance 1.
    shape : tuple of int
    rng : numpy.random.Generator
    rank : tuple of int, optional
        Of a Tucker model; by default it is selected.
    method : {"auto", "tucker", "unfolding"}
    holdout : float
        Share of the entries that are held out.
    n_samples : int
        Number of samples of a Tucker model.
    """
    fit = TensorFit()
    if len(y) < MIN_SELECTION:
        return replace(fit, model=_tucker(index, y, shape, rng, rank or _ranks(1, shape), n_samples))
    held = held_out(index, shape, holdout, rng)
    kept = (index[~held], y[~held], shape)
    begin: list[Any] = []

    def attempt(model: TensorModel, method: str, mode: int | None, again: Any) -> float:
        guess, spread = model.predict(index[held])
        error = float(np.sqrt(np.mean((guess - y[held]) ** 2)))
        fit.curve.append(TensorCandidate(method, model.rank, mode, error))
        LOG.info("%s, rank %s: held-out error %.4g", method if mode is None else f"{method} {mode}", model.rank, error)
        if fit.best is None or error < fit.best.error:
            fit.best, fit.heldout, fit.model = fit.curve[-1], np.stack([y[held], guess, spread]), model
            begin[:] = [again]
        return error

    try:
        if method != "unfolding":
            _search_tucker(kept, rng, rank, lambda model: attempt(model, "tucker", None, model))
        if method == "unfolding" or (method == "auto" and rank is None):
            for k in unfoldings_to_try(kept[0], shape) or (range(len(shape)) if method == "unfolding" else ()):
                chosen = _unfolding(*kept, k, rng)
                attempt(chosen[0], "unfolding", k, chosen[1])
        best = fit.best
        assert best is not None
        if best.mode is None:
            fit.model = _tucker(index, y, shape, rng, best.rank, n_samples, begin[0])
        else:
            fit.model = _unfolding(index, y, shape, best.mode, rng, begin[0])[0]
    except KeyboardInterrupt:
        if fit.model is None:
            raise
        fit.interrupted = True
    return fit


def held_out(index: np.ndarray, shape: Sequence[int], share: float, rng: np.random.Generator) -> np.ndarray:
    """Flags of held-out entries, in the pattern of the missing ones: single entries, and whole fibres where such are missing.

    A fibre has all indices of one mode and one index of each other mode. The fibres of a mode are held out in proportion to
    the missing entries in fibres without any observation, less those that are expected by chance.
    """
    m, size = len(index), math.prod(int(n) for n in shape)
    flags = np.zeros(m, bool)
    missing = size - m
    for k, n in enumerate(shape):
        if not missing or n < 2:
            break
        _, fibre, counts = np.unique(flat_columns(index, shape, k), return_inverse=True, return_counts=True)
        empty = (size // n - len(counts)) / (size // n)
        excess = (empty - (1 - m / size) ** n) * size / missing
        if excess > FIBRES and len(counts) > 1:
            order = rng.permutation(len(counts))
            upto = np.searchsorted(np.cumsum(counts[order]), min(excess, 1.0) * share * m) + 1
            chosen = np.zeros(len(counts), bool)
            chosen[order[: min(upto, len(order) - 1)]] = True
            flags |= chosen[fibre]
    more = max(round(share * m) - int(flags.sum()), 0)
    if more:
        flags[rng.choice(np.flatnonzero(~flags), min(more, m - int(flags.sum()) - 1), replace=False)] = True
    return flags


def flat_columns(index: np.ndarray, shape: Sequence[int], k: int) -> np.ndarray:
    """Columns of the unfolding of mode k, as numbers."""
    flat = np.zeros(len(index), np.int64)
    for j, n in enumerate(shape):
        if j != k:
            flat = flat * n + index[:, j]
    return flat


def unfoldings_to_try(index: np.ndarray, shape: Sequence[int]) -> list[int]:
    """Modes whose unfoldings have enough observations for a factor model."""
    parameters = [n + len(np.unique(flat_columns(index, shape, k))) for k, n in enumerate(shape)]
    return [k for k, count in enumerate(parameters) if len(index) >= MIN_PER_PARAMETER * count]


def _ranks(rank: int, shape: Sequence[int]) -> list[int]:
    return [min(rank, n - 1) for n in shape]


def _tucker(
    index: np.ndarray,
    y: np.ndarray,
    shape: Sequence[int],
    rng: np.random.Generator,
    rank: Sequence[int],
    n_samples: int,
    begin: TuckerPosterior | None = None,
) -> TuckerPosterior:
    sampler = TuckerSampler(index, y, shape, rng)
    if begin is None:
        sampler.spectral(rank)
    else:
        sampler.begin([u[-1][:, 1:] for u in begin.factors], float(begin.noise[-1]))
    return TuckerPosterior.of(sampler.run(BURN_IN_FINAL, n_samples))


def _search_tucker(
    kept: tuple[np.ndarray, np.ndarray, Sequence[int]],
    rng: np.random.Generator,
    rank: Sequence[int] | None,
    attempt: Callable[[TuckerPosterior], float],
) -> None:
    """Candidates of growing rank of all modes, then of smaller and larger rank of single modes. Each begins at one before."""
    sampler, shape = TuckerSampler(*kept, rng), tuple(kept[2])
    best: Any = [np.inf, None]

    def run(ranks: Sequence[int], gain: float) -> bool:
        samples = sampler.run(BURN_IN, KEPT)
        error = attempt(TuckerPosterior.of(samples))
        better = error < (1 - gain) * best[0]
        if better:
            best[:] = [error, samples[-1]]
        return bool(better)

    if rank is not None:
        for step in [r for r in RANKS[1:] if r < max(rank)]:  # factors of low rank first
            _grow(sampler, [min(step, r) for r in rank])
            sampler.run(BURN_IN, 0)
        _grow(sampler, rank)
        run(rank, GAIN)
        return
    ranks, grows, since = [0] * len(shape), [True] * len(shape), 0
    for step in RANKS[1:]:
        larger = [min(step, n - 1) if more else r for r, more, n in zip(ranks, grows, shape, strict=True)]
        if larger == ranks or math.prod(r + 1 for r in larger) > MAX_CORE:
            break
        _grow(sampler, larger)
        ranks = larger
        since = 0 if run(ranks, GAIN) else since + 1
        if since >= PATIENCE:
            break
        supported = sampler.supported()
        grows = [more and supported[k] >= ranks[k] for k, more in enumerate(grows)]
        ranks = [max(min(r, own), 1) for r, own in zip(ranks, supported, strict=True)]
        sampler.truncate(ranks)
    ranks = [u.shape[1] - 1 for u in best[1].factors]
    for step in (-1, 1):  # smaller ranks first: they leave data for larger ones
        modes = list(range(len(shape)))
        while modes:
            for k in tuple(modes):
                at = int(np.searchsorted(RANKS, ranks[k])) - 1 if step < 0 else int(np.searchsorted(RANKS, ranks[k], "right"))
                rung = min(max(RANKS[min(at, len(RANKS) - 1)], 1), shape[k] - 1)
                other = [rung if j == k else r for j, r in enumerate(ranks)]
                better = False
                if rung != ranks[k] and math.prod(r + 1 for r in other) <= MAX_CORE:
                    sampler.resume(best[1])
                    sampler.truncate(other)
                    sampler.enlarge(other)
                    better = run(other, MODE_GAIN)
                if better:
                    ranks = other
                else:
                    modes.remove(k)


def _grow(sampler: TuckerSampler, rank: Sequence[int]) -> None:
    """Begin at leading directions, of the data or of the residual."""
    if sampler.factors:
        sampler.enlarge(rank)
    else:
        sampler.spectral(rank)


def _unfolding(
    index: np.ndarray, y: np.ndarray, shape: Sequence[int], k: int, rng: np.random.Generator, begin: Any = None
) -> tuple[UnfoldingModel, Any]:
    """A factor model of the unfolding of mode k; its rank is selected, or that of ``begin``: settings and initial factors."""
    columns, cols = np.unique(flat_columns(index, shape, k), return_inverse=True)
    size = shape[k], len(columns)
    if begin is None:
        settings = Settings(1, seed=int(rng.integers(2**31)))
        ranks = [r for r in UNFOLDING_RANKS if r < min(size)]
        chosen = select(index[:, k], cols, y, size, settings, ranks=ranks or [0])
        if chosen.interrupted:
            raise KeyboardInterrupt
        settings = chosen.settings
    else:
        settings = begin
    fitted = fit_factors(*centred_problem(index[:, k], cols, y, size), settings)
    if fitted.status == INTERRUPTED:
        raise KeyboardInterrupt
    return UnfoldingModel(FactorModel(**fitted.model.arrays()), [int(n) for n in shape], k, columns), settings
