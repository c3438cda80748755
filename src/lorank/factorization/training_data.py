"""Training data stored with a model: for recommendations, explanations and partial_fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..backends import HostEntries
from ..backends.top_k import rows_of
from ..problems import Completion
from .majorization import origin_of
from .ranking_model import liked_ratings


class Growth(NamedTuple):
    """Growth of a matrix: positions of the old rows and columns in the new shape, ascending, and the new shape."""

    rows: np.ndarray
    cols: np.ndarray
    shape: tuple[int, int]


@dataclass(frozen=True)
class TrainingData:
    """Observations by row.

    Attributes
    ----------
    entries : HostEntries
        As fitted: each pair once, classes encoded.
    liked_ : (m,) bool array, optional
        Flags of positive ratings; by default the values from the median on.
    pending : (n2,) integer array, optional
        Number of observations of each column that its factors do not include yet
        (:class:`~lorank.factorization.update.Update`).
    """

    entries: HostEntries
    liked_: np.ndarray | None = None
    pending: np.ndarray | None = None

    @property
    def pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """Row pointers and column indices."""
        return self.entries.indptr, self.entries.indices

    @cached_property
    def liked(self) -> np.ndarray:
        return liked_ratings(self.entries.values) if self.liked_ is None else self.liked_

    def some_rows(self, rows: np.ndarray) -> HostEntries:
        """The entries of some rows."""
        indptr, at = rows_of(self.entries.indptr, np.arange(len(self.entries.indices)), rows)
        _, cols, values, weights = self.entries
        return HostEntries(indptr, cols[at], values[at], None if weights is None else weights[at])

    def some_cols(self, cols: np.ndarray, n2: int) -> HostEntries:
        """The entries of some columns, by column; the indices are rows."""
        place = np.full(n2, -1, np.int32)
        place[cols] = np.arange(len(cols))
        major = place[self.entries.indices]
        at = np.flatnonzero(major >= 0)
        at = at[np.argsort(major[at], kind="stable")]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(major[at], minlength=len(cols)))])
        rows = (np.searchsorted(self.entries.indptr, at, side="right") - 1).astype(np.int32)
        weights = self.entries.weights
        return HostEntries(indptr, rows, self.entries.values[at], None if weights is None else weights[at])

    def with_more(
        self, rows: np.ndarray, cols: np.ndarray, values: np.ndarray, weights: np.ndarray | None, grown: Growth
    ) -> TrainingData:
        """With more observations; a repeated pair gets the weighted mean of its values and the sum of its weights.

        Parameters
        ----------
        rows, cols : (m,) integer arrays
            In the new shape.
        values : (m,) array
        weights : (m,) array or None
        grown : Growth
        """
        n1, n2 = grown.shape
        counts = np.zeros(n1, np.int64)
        counts[grown.rows] = np.diff(self.entries.indptr)
        old = np.repeat(np.arange(n1) * n2, counts) + grown.cols[self.entries.indices]
        new, group = np.unique(rows * n2 + cols, return_inverse=True)
        w = np.ones(len(values)) if weights is None else weights
        amount = np.bincount(group, w, len(new))
        value = np.bincount(group, w * values, len(new)) / np.where(amount > 0, amount, 1)
        at = np.searchsorted(old, new)
        again = np.flatnonzero(old[np.minimum(at, len(old) - 1)] == new) if len(old) else np.empty(0, np.int64)
        values, plain = self.entries.values, self.entries.weights is None and (amount == 1).all() and not len(again)
        known = np.ones(len(old)) if self.entries.weights is None else self.entries.weights
        if len(again):
            values, known, k = values.copy(), known.copy(), at[again]
            total = known[k] + amount[again]
            values[k] = (known[k] * values[k] + amount[again] * value[again]) / np.where(total > 0, total, 1)
            known[k] = total
        pending = np.bincount(new % n2, minlength=n2)
        first = np.ones(len(new), bool)
        first[again] = False
        first &= amount > 0  # observations without weight do not count
        at, new = at[first], new[first]
        counts += np.bincount(new // n2, minlength=n1)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        indices = np.insert(grown.cols[self.entries.indices], at, new % n2).astype(np.int32)
        values = np.insert(values, at, value[first])
        merged = HostEntries(indptr, indices, values, None if plain else np.insert(known, at, amount[first]))
        if self.pending is not None:
            pending[grown.cols] += self.pending
        return TrainingData(merged, pending=pending)

    def with_unlearned(self, rows: np.ndarray, cols: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> TrainingData:
        """With observations that belong to the pattern but are not positive, such as outliers."""
        n1, n2 = shape
        own = np.repeat(np.arange(n1), np.diff(self.entries.indptr)) * n2 + self.entries.indices
        more, first = np.unique(rows * n2 + cols, return_index=True)
        fresh = ~np.isin(more, own)
        first = first[fresh]
        grown = Growth(np.arange(n1), np.arange(n2), (n1, n2))
        found = self.with_more(rows[first], cols[first], values[first], None, grown)
        liked = np.zeros(len(found.entries.indices), bool)
        keys = np.repeat(np.arange(n1), np.diff(found.entries.indptr)) * n2 + found.entries.indices
        liked[np.searchsorted(keys, own)] = self.liked
        return replace(found, liked_=liked, pending=self.pending)

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for a file; values with at most 256 levels as codes of one byte."""
        indptr, indices, values, weights = self.entries
        found = {"indptr": indptr, "indices": indices}
        levels, codes = np.unique(values, return_inverse=True)
        few = len(levels) <= 256
        found |= {"levels": levels, "codes": codes.ravel().astype(np.uint8)} if few else {"values": values}
        if self.liked_ is not None:
            found["liked"] = self.liked_
        if self.pending is not None:
            found["pending"] = self.pending
        return found if weights is None else found | {"weights": weights}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> TrainingData:
        """From :meth:`arrays`; a ValueError for inconsistent arrays."""
        indptr, indices, liked = arrays["indptr"], arrays["indices"], arrays.get("liked")
        values = arrays["levels"][arrays["codes"]] if "codes" in arrays else arrays["values"]
        whole = indptr.ndim == 1 and len(indptr) and indptr[0] == 0 and indptr[-1] == len(indices)
        optional = [a for a in (values, liked, arrays.get("weights")) if a is not None]
        if not whole or (np.diff(indptr) < 0).any() or any(a.shape != indices.shape for a in optional):
            raise ValueError("its pattern is damaged")
        return cls(HostEntries(indptr, indices, values, arrays.get("weights")), liked, arrays.get("pending"))


def training_data_of(problem: Completion, mean: float) -> TrainingData:
    """The observations of a problem, with the mean added again."""
    origin = origin_of(problem)
    host = (problem if origin is None else origin.problem).observations.host()
    values = np.asarray(host.values, float)
    if origin is None and mean:  # undo rounding errors of the mean
        values = values + mean
        largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        if 1e-280 < largest < np.inf:  # larger powers of ten overflow
            np.round(values, max(0, 13 - int(np.ceil(np.log10(largest)))), out=values)
    return TrainingData(HostEntries(host.indptr, host.indices, values, host.weights))
