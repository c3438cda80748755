"""Selection of the weight of unobserved pairs and of the regularization by NDCG on held-out positives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from ..backends import Array, Backend, Observations
from ..backends.top_k import rows_of
from ..common.logs import LOG
from ..evaluation import HeldOutItems, leave_some_out
from .implicit import ImplicitFactors, ImplicitSettings, fit_implicit

WARM_UP_ITER = 4  # iterations that all candidates share
CANDIDATE_ITER = 4  # further iterations of each candidate
MAX_CANDIDATES = 24
MIN_POSITIVES, MAX_FOLDS = 6000, 4  # folds are added until so many positives are held out
BATCH_USERS, BATCH_SCORES = 4000, 80_000_000  # largest batch of users, and of their scores
MAX_BATCHES, Z_SCORE = 6, 2.0  # batches are added until a difference is this many times its standard error
BLOCK = 1 << 22  # scores at a time
LIST_LENGTH = 20
GRID_FACTORS = (3.0, 3.0**0.5)  # between neighbours on the coarse and on the fine grid
MANY = 2_000_000  # observations: with more, users are sampled for the selection
HELD_OUT_SHARE = 0.1


@dataclass(frozen=True)
class ImplicitCandidate:
    """One candidate.

    Attributes
    ----------
    zeros, regularization : float
    ndcg : float
        NDCG@20 on held-out positives of the first batch of users, the same for all candidates.
    """

    zeros: float
    regularization: float
    ndcg: float


@dataclass(frozen=True)
class Positives:
    """Observed positives in row-major order, in main memory.

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
        """Row pointers and column indices."""
        indptr = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(self.rows, minlength=self.shape[0]), out=indptr[1:])
        return indptr, self.cols.astype(np.int32)

    def matrix(self) -> scipy.sparse.csr_array:
        """The weights as a sparse matrix."""
        indptr, indices = self.pattern()
        weights: np.ndarray = np.ones(len(indices)) if self.weights is None else self.weights
        return scipy.sparse.csr_array((weights, indices, indptr), self.shape)

    def observations(self, backend: Backend, dtype: type) -> Observations:
        """Ones with these weights, on a backend."""
        indptr, indices = self.pattern()
        ones: np.ndarray = np.ones(len(indices), dtype)
        found = backend.make_observations(
            backend.asindex(indptr), backend.asarray(indices), backend.asarray(ones), self.shape[1]
        )
        return found if self.weights is None else found.with_weights(backend.asarray(self.weights.astype(dtype)))


def hold_out(data: Positives, liked: np.ndarray, least: int, seed: int) -> list[tuple[np.ndarray, HeldOutItems]]:
    """Folds, each with flags of the pairs that are kept and the held-out items: a tenth of each user's liked items.

    Several where that is fewer than ``least`` in all; none where each user has one.
    """
    count = min(max(-(-least // max(int(HELD_OUT_SHARE * liked.sum()), 1)), 1), MAX_FOLDS)
    found = []
    for fold in range(count if liked.any() else 0):
        out = liked.copy()
        out[liked] = leave_some_out(data.rows[liked], HELD_OUT_SHARE, keep=1, seed=seed + fold)
        if out.any():
            found.append((~out, HeldOutItems.from_pairs(data.rows[out], data.cols[out], data.shape[0])))
    return found


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
    most: int = MAX_CANDIDATES,
) -> tuple[ImplicitSettings, list[ImplicitCandidate]]:
    """Grid search around the given settings; each candidate gets a few iterations from a common start.

    Two candidates are compared by the lists of the same users, in more and more batches until the difference is significant.

    Parameters
    ----------
    data : Positives
    backend : Backend
    settings : ImplicitSettings
        Center of the grid.
    dtype : type
        Type of the factors.
    zeros, regularization : bool
        Which of the two are selected.
    max_iter : bool
        Whether smaller numbers of iterations are tried at the end: early stopping regularizes.
    liked : (m,) bool array, optional
        Positives that may be held out; all by default.
    most : int
        Maximum number of candidates.

    Returns
    -------
    settings : ImplicitSettings
    curve : list of ImplicitCandidate
        In the order of the search; empty where nothing can be held out.
    """
    rng = np.random.default_rng(settings.seed)
    liked = np.ones(len(data.rows), bool) if liked is None else liked
    data, liked = _sample_users(data, liked, rng)
    parts = hold_out(data, liked, MIN_POSITIVES, settings.seed)
    if not parts or not (zeros or regularization):
        return settings, []
    folds = [_Fold.of(data.part(kept), held, backend, settings, dtype, rng) for kept, held in parts]
    curve: list[ImplicitCandidate] = []
    known: set[tuple[int, int]] = set()

    def trial(place: tuple[int, int]) -> _Trial:
        """The candidate at a position of the grid, in steps of the fine grid."""
        one = _at(settings, place)
        found = _Trial(folds, [fold.fit(one) for fold in folds])
        known.add(place)
        curve.append(ImplicitCandidate(one.zeros, one.regularization, float(found.ndcg(1).mean())))
        LOG.info("zeros %.3g, regularization %.3g: NDCG@20 %.4f on held-out lists", *vars(curve[-1]).values())
        return found

    best, at = trial((0, 0)), (0, 0)
    for width in (2, 1):  # in steps of the fine grid
        moved = True
        while moved and len(known) < most:
            moved, middle = False, at
            for move in _moves(width, zeros, regularization):  # all of them: good settings lie on a narrow ridge
                place = (middle[0] + move[0], middle[1] + move[1])
                if place in known or len(known) >= most:  # tried already
                    continue
                other = trial(place)
                if other.better_than(best):
                    best, at, moved = other, place, True
    chosen = _at(settings, at)
    return (replace(chosen, max_iter=_select_iterations(folds, chosen)) if max_iter else chosen), curve


def _select_iterations(folds: list[_Fold], settings: ImplicitSettings) -> int:
    """Number of iterations: all, three quarters or half of those of the settings, by NDCG."""
    counts = sorted({-(-settings.max_iter * quarters // 4) for quarters in (2, 3, 4)})
    sides: list[ImplicitFactors | None] = [None] * len(folds)
    trials, before = [], 0
    for count in counts:  # each continues the one before
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
    """A candidate's factors on each fold, and the NDCG of batches of users, computed on demand."""

    def __init__(self, folds: list[_Fold], sides: list[ImplicitFactors]) -> None:
        self.folds, self.sides = folds, sides
        self._ndcg: list[np.ndarray] = []  # of each batch, over all folds

    def ndcg(self, batches: int) -> np.ndarray:
        """NDCG of the users of the first batches."""
        while len(self._ndcg) < batches:
            k = len(self._ndcg)
            self._ndcg.append(np.concatenate([f.ndcg(side, k) for f, side in zip(self.folds, self.sides, strict=True)]))
        return np.concatenate(self._ndcg[:batches])

    def better_than(self, other: _Trial) -> bool:
        """Whether its NDCG is larger, with more and more users until the difference is significant."""
        for batches in range(1, MAX_BATCHES + 1):
            gain = self.ndcg(batches) - other.ndcg(batches)
            mean, error = float(gain.mean()), float(gain.std()) / np.sqrt(len(gain))
            if abs(mean) > Z_SCORE * error or all(fold.size(batches) == 0 for fold in self.folds):
                break
        return mean > 0


@dataclass(frozen=True)
class _Fold:
    """Held-out positives, and a common start for the fits to the others."""

    observations: Observations
    backend: Backend
    base: ImplicitFactors
    users: np.ndarray
    batch: int
    held: HeldOutItems
    seen: tuple[np.ndarray, np.ndarray]
    never: np.ndarray

    @classmethod
    def of(
        cls,
        kept: Positives,
        held: HeldOutItems,
        backend: Backend,
        settings: ImplicitSettings,
        dtype: type,
        rng: np.random.Generator,
    ) -> _Fold:
        batch = max(200, min(BATCH_USERS, BATCH_SCORES // kept.shape[1]))
        users = rng.permutation(np.flatnonzero(held.counts))[: MAX_BATCHES * batch]
        observations = kept.observations(backend, dtype)
        gentle = replace(settings, regularization=settings.regularization / GRID_FACTORS[0], max_iter=WARM_UP_ITER)
        return cls(
            observations,
            backend,
            fit_implicit(observations, backend, gentle),  # a strong penalty would let factors vanish
            users,
            batch,
            held,
            kept.pattern(),
            np.bincount(kept.cols, minlength=kept.shape[1]) == 0,
        )

    def fit(self, settings: ImplicitSettings) -> ImplicitFactors:
        """A few iterations from the common start."""
        return fit_implicit(self.observations, self.backend, replace(settings, max_iter=CANDIDATE_ITER), self.base)

    def size(self, k: int) -> int:
        """Number of users in batch k."""
        return len(self.users[k * self.batch : (k + 1) * self.batch])

    def ndcg(self, sides: ImplicitFactors, k: int) -> np.ndarray:
        """NDCG of each user in batch k."""
        users = np.sort(self.users[k * self.batch : (k + 1) * self.batch])
        if not len(users):
            return np.empty(0)
        wanted, seen = HeldOutItems(*rows_of(self.held.indptr, self.held.items, users)), rows_of(*self.seen, users)
        rows = sides.rows[self.backend.asindex(users)]
        ranks = held_ranks(self.backend, rows, sides.cols, wanted, seen, self.never, LIST_LENGTH)
        gain = np.where(ranks < LIST_LENGTH, 1 / np.log2(ranks + 2.0), 0.0)
        user = np.repeat(np.arange(len(users)), wanted.counts)
        best = np.cumsum(1 / np.log2(np.arange(2, LIST_LENGTH + 2)))[np.minimum(wanted.counts, LIST_LENGTH) - 1]
        return np.asarray(np.bincount(user, gain, len(users)) / best)


def held_ranks(
    backend: Backend,
    left: Array,
    right: Array,
    wanted: HeldOutItems,
    seen: tuple[np.ndarray, np.ndarray],
    never: np.ndarray,
    places: int,
) -> np.ndarray:
    """Rank of each held-out item in its user's list, from 0, without sorting the lists.

    Ties are resolved by the item index, among the first ``places`` only.
    """
    n2, place = len(right), 0
    ranks = np.empty(len(wanted.items), np.int64)
    hidden = backend.asindex(np.flatnonzero(never))
    step = max(1, BLOCK // n2)
    count = _by_largest if backend.in_main_memory else _together
    for begin in range(0, len(wanted.counts), step):
        end = min(begin + step, len(wanted.counts))
        block = left[begin:end] @ right.T
        ptr = seen[0][begin : end + 1]
        i = np.repeat(np.arange(end - begin), np.diff(ptr))
        block[backend.asindex(i), backend.asindex(seen[1][ptr[0] : ptr[-1]].astype(np.int64))] = -np.inf
        block[:, hidden] = -np.inf
        user = np.repeat(np.arange(end - begin), wanted.counts[begin:end])
        items = wanted.items[place : place + len(user)]
        ranks[place : place + len(user)] = np.where(never[items], n2, count(backend, block, user, items, places))
        place += len(user)
    return ranks


def _by_largest(backend: Backend, block: Array, user: np.ndarray, items: np.ndarray, places: int) -> np.ndarray:
    """Number of items before each item in its row, by the largest ``places`` scores; ``places`` for those beyond."""
    block = backend.to_numpy(block)  # no copy
    own, first = block[user, items], max(block.shape[1] - places, 0)
    largest = np.partition(block, first, axis=1)[:, first:]
    least = largest[:, 0] if first else np.full(len(block), -np.inf)  # smaller scores are beyond the first places
    found = np.full(len(user), places)
    near = np.flatnonzero(own >= least[user])
    theirs, mine = largest[user[near]], own[near, None]
    found[near] = (theirs > mine).sum(1)
    alike = ((theirs == mine).sum(1) > 1) | (mine[:, 0] == least[user[near]])  # ties, by item index
    for at in near[alike].tolist():
        row, j = block[user[at]], items[at]
        found[at] += np.count_nonzero(row[:j] == row[j])
    return found


def _together(backend: Backend, block: Array, user: np.ndarray, items: np.ndarray, places: int) -> np.ndarray:
    """The same on a device, for all places."""
    found, step = [], max(1, BLOCK // block.shape[1])
    numbers = backend.asindex(np.arange(block.shape[1]))
    for at in range(0, len(user), step):
        u, j = (backend.asindex(a[at : at + step]) for a in (user, items))
        rows, own = block[u], block[u, j][:, None]
        before = (rows > own) | ((rows == own) & (numbers[None, :] < j[:, None]))
        found.append(backend.to_numpy(before.sum(1)))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _at(settings: ImplicitSettings, place: tuple[int, int]) -> ImplicitSettings:
    step = GRID_FACTORS[1]
    return replace(settings, zeros=settings.zeros * step ** place[0], regularization=settings.regularization * step ** place[1])


def _moves(width: int, zeros: bool, regularization: bool) -> Iterator[tuple[int, int]]:
    """Neighbours: in one direction, then diagonally, since the weight of unobserved pairs regularizes, too."""
    if regularization:
        yield from ((0, -width), (0, width))
    if zeros:
        yield from ((-width, 0), (width, 0))
    if zeros and regularization:
        yield from ((width, -width), (-width, width))


def _sample_users(data: Positives, liked: np.ndarray, rng: np.random.Generator) -> tuple[Positives, np.ndarray]:
    """A sample of the users, where there are too many pairs."""
    if len(data.rows) <= MANY:
        return data, liked
    kept = rng.random(data.shape[0]) < MANY / len(data.rows)
    number = np.cumsum(kept) - 1
    flags = kept[data.rows]
    part = data.part(flags)
    return replace(part, rows=number[part.rows], shape=(int(kept.sum()), data.shape[1])), liked[flags]
