"""The weight of what was not observed and the strength of regularisation, chosen on held-out positives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..backends import Array, Backend, Observations
from ..evaluation import Held, leave_some_out
from ..top import rows_of
from .implicit import ImplicitSettings, Sides, fit_implicit

WARM_UP = 4  # sweeps that all candidates share,
TRIED = 4  # and those that each has to itself
MOST = 18  # candidates
ENOUGH, MOST_FOLDS = 6000, 4  # held-out positives that are asked for, and how many times some are held out for that
JUDGES, LOOKED_AT = 4000, 80_000_000  # users whose lists are judged at the most, and scores
BLOCK = 1 << 22  # scores at a time
PLACES = 20  # of their lists
FACTORS = (3.0, 3.0**0.5)  # between neighbours, first and at the end
MANY = 2_000_000  # observations: from here on as many users are left out of the choice as bring them down to this
SHARE = 0.1


@dataclass(frozen=True)
class ImplicitCandidate:
    """One point of the search.

    Attributes
    ----------
    zeros, regularization : float
    ndcg : float
        Of lists of 20, against held-out positives.
    """

    zeros: float
    regularization: float
    ndcg: float


@dataclass(frozen=True)
class Positives:
    """Observed positives in row-major order, on the host.

    Attributes
    ----------
    rows, cols : (m,) int64 arrays
    weights : (m,) array or None
    shape : (int, int)
    """

    rows: np.ndarray
    cols: np.ndarray
    weights: np.ndarray | None
    shape: tuple[int, int]

    def part(self, flags: np.ndarray) -> Positives:
        return replace(
            self, rows=self.rows[flags], cols=self.cols[flags], weights=None if self.weights is None else self.weights[flags]
        )

    def pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """As indptr and indices."""
        indptr = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(self.rows, minlength=self.shape[0]), out=indptr[1:])
        return indptr, self.cols.astype(np.int32)

    def observations(self, backend: Backend, dtype: type) -> Observations:
        """Ones with these weights, where the backend computes."""
        indptr, indices = self.pattern()
        ones: np.ndarray = np.ones(len(indices), dtype)
        found = backend.make_observations(
            backend.asindex(indptr), backend.asarray(indices), backend.asarray(ones), self.shape[1]
        )
        return found if self.weights is None else found.with_weights(backend.asarray(self.weights.astype(dtype)))


def choose_implicit(
    data: Positives,
    backend: Backend,
    settings: ImplicitSettings,
    dtype: type,
    *,
    zeros: bool,
    regularization: bool,
    liked: np.ndarray | None = None,
    most: int = MOST,
) -> tuple[ImplicitSettings, list[ImplicitCandidate]]:
    """Search around the settings for better ones, each candidate a few sweeps from the same start.

    Parameters
    ----------
    data : Positives
    backend : Backend
    settings : ImplicitSettings
        Where the search begins.
    dtype : type
        Of the factors.
    zeros, regularization : bool
        Which of the two are looked for.
    liked : (m,) bool array, optional
        Which of the data are held out to judge by; all by default.
    most : int
        Candidates that are tried at the most.

    Returns
    -------
    settings : ImplicitSettings
    curve : list of ImplicitCandidate
        In the order in which they were tried; empty where nothing can be held out.
    """
    rng = np.random.default_rng(settings.seed)
    liked = np.ones(len(data.rows), bool) if liked is None else liked
    data, liked = _fewer(data, liked, rng)
    count = min(max(-(-ENOUGH // max(int(SHARE * liked.sum()), 1)), 1), MOST_FOLDS)
    folds = [_Fold.of(data, liked, backend, settings, dtype, rng, fold) for fold in range(count)]
    judged = [fold for fold in folds if fold is not None]
    if not judged or not (zeros or regularization):
        return settings, []
    curve: list[ImplicitCandidate] = []
    known: dict[tuple[int, int], float] = {}

    def quality(place: tuple[int, int]) -> float:
        """At a place of the grid: steps of the smaller factor from where the search began."""
        if place not in known:
            one = _at(settings, place)
            known[place] = float(np.mean([fold.quality(one) for fold in judged]))
            curve.append(ImplicitCandidate(one.zeros, one.regularization, known[place]))
        return known[place]

    best = (0, 0)
    quality(best)
    for width in (2, 1):  # steps of FACTORS[1]
        moved = True
        while moved and len(known) < most:
            moved = False
            for move in _moves(width, zeros, regularization):
                place = (best[0] + move[0], best[1] + move[1])
                if len(known) < most and quality(place) > known[best]:
                    best, moved = place, True
                    break
    return _at(settings, best), curve


@dataclass(frozen=True)
class _Fold:
    """Positives that are held out, and a common start for the fits to the others."""

    observations: Observations
    backend: Backend
    base: Sides
    judges: np.ndarray
    wanted: Held
    seen: tuple[np.ndarray, np.ndarray]
    never: np.ndarray

    @classmethod
    def of(
        cls,
        data: Positives,
        liked: np.ndarray,
        backend: Backend,
        settings: ImplicitSettings,
        dtype: type,
        rng: np.random.Generator,
        fold: int,
    ) -> _Fold | None:
        """None where nothing can be held out."""
        if not liked.any():
            return None
        held_out = liked.copy()
        held_out[liked] = leave_some_out(data.rows[liked], SHARE, keep=1, seed=settings.seed + fold)
        if not held_out.any():
            return None
        kept = data.part(~held_out)
        held = Held.from_pairs(data.rows[held_out], data.cols[held_out], data.shape[0])
        judges = np.flatnonzero(held.counts)
        judges = np.sort(rng.permutation(judges)[: max(200, min(JUDGES, LOOKED_AT // data.shape[1]))])
        observations = kept.observations(backend, dtype)
        gentle = replace(settings, regularization=settings.regularization / FACTORS[0], sweeps=WARM_UP)
        return cls(
            observations,
            backend,
            fit_implicit(observations, backend, gentle),  # with factors that a strong penalty would have let fade away
            judges,
            Held(*rows_of(held.indptr, held.items, judges)),
            rows_of(*kept.pattern(), judges),
            np.bincount(kept.cols, minlength=data.shape[1]) == 0,
        )

    def quality(self, settings: ImplicitSettings) -> float:
        """The mean NDCG of the judges' lists."""
        sides = fit_implicit(self.observations, self.backend, replace(settings, sweeps=TRIED), self.base)
        rows = sides.rows[self.backend.asindex(self.judges)]
        ranks = held_ranks(self.backend, rows, sides.cols, self.wanted, self.seen, self.never)
        gain = np.where(ranks < PLACES, 1 / np.log2(ranks + 2.0), 0.0)
        user = np.repeat(np.arange(len(self.judges)), self.wanted.counts)
        best = np.cumsum(1 / np.log2(np.arange(2, PLACES + 2)))[np.minimum(self.wanted.counts, PLACES) - 1]
        return float(np.mean(np.bincount(user, gain, len(self.judges)) / best))


def held_ranks(
    backend: Backend,
    left: Array,
    right: Array,
    wanted: Held,
    seen: tuple[np.ndarray, np.ndarray],
    never: np.ndarray,
) -> np.ndarray:
    """The place of each held-out item in its user's list, 0 being the first: as in sorted lists, and many times faster."""
    n2, place = len(right), 0
    ranks = np.empty(len(wanted.items), np.int64)
    hidden = backend.asindex(np.flatnonzero(never))
    numbers = backend.asindex(np.arange(n2))
    step = max(1, BLOCK // n2)
    for begin in range(0, len(wanted.counts), step):
        end = min(begin + step, len(wanted.counts))
        block = left[begin:end] @ right.T
        ptr = seen[0][begin : end + 1]
        i = np.repeat(np.arange(end - begin), np.diff(ptr))
        block[backend.asindex(i), backend.asindex(seen[1][ptr[0] : ptr[-1]].astype(np.int64))] = -np.inf
        block[:, hidden] = -np.inf
        user = np.repeat(np.arange(end - begin), wanted.counts[begin:end])
        items = wanted.items[place : place + len(user)]
        for at in range(0, len(user), step):
            u, j = (backend.asindex(a[at : at + step]) for a in (user, items))
            rows = block[u]
            own = block[u, j][:, None]
            before = (rows > own) | ((rows == own) & (numbers[None, :] < j[:, None]))
            found = backend.to_numpy(before.sum(1))
            ranks[place + at : place + at + len(found)] = np.where(never[items[at : at + step]], n2, found)
        place += len(user)
    return ranks


def _at(settings: ImplicitSettings, place: tuple[int, int]) -> ImplicitSettings:
    step = FACTORS[1]
    return replace(settings, zeros=settings.zeros * step ** place[0], regularization=settings.regularization * step ** place[1])


def _moves(width: int, zeros: bool, regularization: bool) -> Iterator[tuple[int, int]]:
    """Neighbours: one alone, then one against the other, since the zeros regularise as well."""
    if regularization:
        yield from ((0, -width), (0, width))
    if zeros:
        yield from ((-width, 0), (width, 0))
    if zeros and regularization:
        yield from ((width, -width), (-width, width))


def _fewer(data: Positives, liked: np.ndarray, rng: np.random.Generator) -> tuple[Positives, np.ndarray]:
    """Without some users, where there are so many that the rest will do; what is penalised grows with their number."""
    if len(data.rows) <= MANY:
        return data, liked
    kept = rng.random(data.shape[0]) < MANY / len(data.rows)
    number = np.cumsum(kept) - 1
    flags = kept[data.rows]
    part = data.part(flags)
    return replace(part, rows=number[part.rows], shape=(int(kept.sum()), data.shape[1])), liked[flags]
