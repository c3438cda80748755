"""The weight of what was not observed and the strength of regularisation, chosen on held-out positives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..backends import Array, Backend, Observations
from ..backends.top_k import rows_of
from ..evaluation import HeldOutItems, leave_some_out
from .implicit import ImplicitFactors, ImplicitSettings, fit_implicit

WARM_UP = 4  # sweeps that all candidates share,
TRIED = 4  # and those that each has to itself
MOST = 24  # candidates
ENOUGH, MOST_FOLDS = 6000, 4  # held-out positives that are asked for, and how many times some are held out for that
JUDGES, LOOKED_AT = 4000, 80_000_000  # users whose lists are judged at a time at the most, and scores
TIMES, SURE = 6, 2.0  # as many times more, until a difference is this many times its standard error
BLOCK = 1 << 22  # scores at a time
PLACES = 20  # of their lists
SORTING, CALL = 25, 25_000  # what finding the largest scores and a call cost, in comparisons of two numbers
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
        Of lists of 20, against held-out positives of the first users that were asked: the same ones for all candidates.
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


def select_implicit(
    data: Positives,
    backend: Backend,
    settings: ImplicitSettings,
    dtype: type,
    *,
    zeros: bool,
    regularization: bool,
    max_iter: bool = False,
    liked: np.ndarray | None = None,
    most: int = MOST,
) -> tuple[ImplicitSettings, list[ImplicitCandidate]]:
    """Search around the settings for better ones, each candidate a few sweeps from the same start.

    Two candidates are compared by the lists of the same users, and by those of more users until the difference is clear: where
    there are many items and few of each are held out, a few thousand lists cannot tell a gain of some percent from chance.

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
    max_iter : bool
        Whether smaller numbers of iterations are tried at the end: early stopping regularizes.
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
    known: set[tuple[int, int]] = set()

    def trial(place: tuple[int, int]) -> _Trial:
        """At a place of the grid: steps of the smaller factor from where the search began."""
        one = _at(settings, place)
        found = _Trial(judged, [fold.fit(one) for fold in judged])
        known.add(place)
        curve.append(ImplicitCandidate(one.zeros, one.regularization, float(found.ndcg(1).mean())))
        return found

    best, at = trial((0, 0)), (0, 0)
    for width in (2, 1):  # steps of FACTORS[1]
        moved = True
        while moved and len(known) < most:
            moved, middle = False, at
            for move in _moves(width, zeros, regularization):  # all of them: what is best lies on a narrow ridge
                place = (middle[0] + move[0], middle[1] + move[1])
                if place in known or len(known) >= most:  # what was tried was worse than what was the best then
                    continue
                other = trial(place)
                if other.better_than(best):
                    best, at, moved = other, place, True
    chosen = _at(settings, at)
    return (replace(chosen, max_iter=_enough(judged, chosen)) if max_iter else chosen), curve


def _enough(folds: list[_Fold], settings: ImplicitSettings) -> int:
    """All the sweeps of the settings, or three quarters of them, or half, where lists are better then."""
    counts = sorted({-(-settings.max_iter * quarters // 4) for quarters in (2, 3, 4)})
    sides: list[ImplicitFactors | None] = [None] * len(folds)
    trials, before = [], 0
    for count in counts:  # each goes on from the one before
        part = replace(settings, max_iter=count - before)
        done = [fit_implicit(f.observations, f.backend, part, side) for f, side in zip(folds, sides, strict=True)]
        trials.append(_Trial(folds, done))
        sides, before = list(done), count
    best = len(counts) - 1
    for k in reversed(range(best)):
        if trials[k].better_than(trials[best]):
            best = k
    return counts[best]


class _Trial:
    """A candidate's factors on each fold, and the NDCG of lists, as many of them as were asked for."""

    def __init__(self, folds: list[_Fold], sides: list[ImplicitFactors]) -> None:
        self.folds, self.sides = folds, sides
        self._ndcg: list[np.ndarray] = []  # of each batch of judges, fold after fold

    def ndcg(self, batches: int) -> np.ndarray:
        """Of the lists of the first batches of judges; of all, where there are no more."""
        while len(self._ndcg) < batches:
            k = len(self._ndcg)
            self._ndcg.append(np.concatenate([f.ndcg(side, k) for f, side in zip(self.folds, self.sides, strict=True)]))
        return np.concatenate(self._ndcg[:batches])

    def better_than(self, other: _Trial) -> bool:
        """Whether its lists are better, asked of more and more users until that is clear."""
        for batches in range(1, TIMES + 1):
            gain = self.ndcg(batches) - other.ndcg(batches)
            mean, error = float(gain.mean()), float(gain.std()) / np.sqrt(len(gain))
            if abs(mean) > SURE * error or all(fold.size(batches) == 0 for fold in self.folds):
                break
        return mean > 0


@dataclass(frozen=True)
class _Fold:
    """Positives that are held out, and a common start for the fits to the others."""

    observations: Observations
    backend: Backend
    base: ImplicitFactors
    judges: np.ndarray
    batch: int
    held: HeldOutItems
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
        held = HeldOutItems.from_pairs(data.rows[held_out], data.cols[held_out], data.shape[0])
        batch = max(200, min(JUDGES, LOOKED_AT // data.shape[1]))
        judges = rng.permutation(np.flatnonzero(held.counts))[: TIMES * batch]
        observations = kept.observations(backend, dtype)
        gentle = replace(settings, regularization=settings.regularization / FACTORS[0], max_iter=WARM_UP)
        return cls(
            observations,
            backend,
            fit_implicit(observations, backend, gentle),  # with factors that a strong penalty would have let fade away
            judges,
            batch,
            held,
            kept.pattern(),
            np.bincount(kept.cols, minlength=data.shape[1]) == 0,
        )

    def fit(self, settings: ImplicitSettings) -> ImplicitFactors:
        """A few sweeps from the common start."""
        return fit_implicit(self.observations, self.backend, replace(settings, max_iter=TRIED), self.base)

    def size(self, k: int) -> int:
        """Judges in batch k."""
        return len(self.judges[k * self.batch : (k + 1) * self.batch])

    def ndcg(self, sides: ImplicitFactors, k: int) -> np.ndarray:
        """Of the list of each judge in batch k."""
        judges = np.sort(self.judges[k * self.batch : (k + 1) * self.batch])
        if not len(judges):
            return np.empty(0)
        wanted, seen = HeldOutItems(*rows_of(self.held.indptr, self.held.items, judges)), rows_of(*self.seen, judges)
        rows = sides.rows[self.backend.asindex(judges)]
        ranks = held_ranks(self.backend, rows, sides.cols, wanted, seen, self.never, PLACES)
        gain = np.where(ranks < PLACES, 1 / np.log2(ranks + 2.0), 0.0)
        user = np.repeat(np.arange(len(judges)), wanted.counts)
        best = np.cumsum(1 / np.log2(np.arange(2, PLACES + 2)))[np.minimum(wanted.counts, PLACES) - 1]
        return np.asarray(np.bincount(user, gain, len(judges)) / best)


def held_ranks(
    backend: Backend,
    left: Array,
    right: Array,
    wanted: HeldOutItems,
    seen: tuple[np.ndarray, np.ndarray],
    never: np.ndarray,
    places: int,
) -> np.ndarray:
    """The place of each held-out item in its user's list, 0 being the first: as in sorted lists, and many times faster.

    Those beyond the first ``places`` are counted without regard to equal scores.
    """
    n2, place = len(right), 0
    ranks = np.empty(len(wanted.items), np.int64)
    hidden = backend.asindex(np.flatnonzero(never))
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
        count = _before
        if backend.in_main_memory:  # what is held out of long rows of few is found sooner one by one
            count = _by_largest if SORTING * block.shape[0] * n2 < len(user) * (CALL + n2) else _one_by_one
        found = count(backend, block, user, items, places)
        ranks[place : place + len(user)] = np.where(never[items], n2, found)
        place += len(user)
    return ranks


def _before(backend: Backend, block: Array, user: np.ndarray, items: np.ndarray, places: int) -> np.ndarray:
    """How many come before each item in its row."""
    found, step = [], max(1, BLOCK // block.shape[1])
    numbers = backend.asindex(np.arange(block.shape[1]))
    for at in range(0, len(user), step):
        u, j = (backend.asindex(a[at : at + step]) for a in (user, items))
        rows, own = block[u], block[u, j][:, None]
        before = (rows > own) | ((rows == own) & (numbers[None, :] < j[:, None]))
        found.append(backend.to_numpy(before.sum(1)))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _one_by_one(backend: Backend, block: Array, user: np.ndarray, items: np.ndarray, places: int) -> np.ndarray:
    """The same row by row, without copies of rows: these are in the cache, and few come close enough to be looked at twice."""
    block, found = backend.to_numpy(block), np.empty(len(user), np.int64)  # no copy
    for at, (u, j) in enumerate(zip(user.tolist(), items.tolist(), strict=True)):
        row = block[u]
        before = np.count_nonzero(row > row[j])
        found[at] = before if before >= places else before + np.count_nonzero(row[:j] == row[j])
    return found


def _by_largest(backend: Backend, block: Array, user: np.ndarray, items: np.ndarray, places: int) -> np.ndarray:
    """The same by each row's largest scores, as many as there are places: all that is larger than one of them is among them."""
    block = backend.to_numpy(block)  # no copy
    own, first = block[user, items], max(block.shape[1] - places, 0)
    largest = np.partition(block, first, axis=1)[:, first:]
    least = largest[:, 0] if first else np.full(len(block), -np.inf)  # what is smaller is beyond the first places
    found = np.full(len(user), places)
    near = np.flatnonzero(own >= least[user])
    theirs, mine = largest[user[near]], own[near, None]
    found[near] = (theirs > mine).sum(1)
    alike = ((theirs == mine).sum(1) > 1) | (mine[:, 0] == least[user[near]])  # and perhaps others beyond: by their numbers
    for at in near[alike].tolist():
        row, j = block[user[at]], items[at]
        found[at] += np.count_nonzero(row[:j] == row[j])
    return found


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
