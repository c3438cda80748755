"""The ordinal loss, for stars and other ordered classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..backends import Array, Arrays, Vector, backend_of, reduced
from ..common.checks import NOT_NEGATIVE, Expected, ParameterError, check_parameters, optional
from .logistic import bump, sigmoid, softplus, touching
from .loss import Loss, _given, first_bad

FAR = 300.0  # stands for an infinite threshold
MOST = 50  # classes
PRIOR = 0.5  # observations of each class
STEPS = 20  # of Newton's method for the thresholds, from the classes' shares; from the last ones, two do


def _rises(a: Any, least: int) -> bool:
    return isinstance(a, tuple) and len(a) >= least and bool(np.isfinite(a).all()) and bool((np.diff(a) > 0).all())


_CLASSES = Expected("be a tuple of at least two finite numbers that rise", lambda a: _rises(a, 2))
_THRESHOLDS = Expected("be a tuple of finite numbers that rise", lambda a: _rises(a, 1))


@dataclass(frozen=True)
class Ordinal(Loss):
    """``P(class <= c) = 1 / (1 + e^(z - threshold_c))``: ordered classes, cut out of a line at thresholds that are learned.

    The entries of the matrix say how good something is, on a scale of their own; the thresholds say where 3 stars end and 4
    begin, which is rarely half way between 3 and 4. (Proportional odds, McCullagh 1980.)

    Parameters
    ----------
    classes : tuple of float, optional
        In rising order; by default the values that occur, each of them a class.
    thresholds : tuple of float, optional
        One fewer than classes, rising. By default those that fit best: learned at each point, along with the matrix.
    ridge : float
        ``ridge z^2 / 2`` is added for each observation, or entries whose observations are all of the first class, or all of
        the last, would grow without end.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Ordinal(classes=(1.0, 2.0, 3.0), thresholds=(-1.0, 1.0))
    >>> loss.probabilities(np.array([0.0])).round(3)
    array([[0.269, 0.462, 0.269]])
    >>> loss.mean(np.array([-9.0, 0.0, 9.0])).round(2)
    array([1., 2., 3.])
    """

    classes: tuple[float, ...] | None = None
    thresholds: tuple[float, ...] | None = None
    ridge: float = 1e-2

    name: ClassVar[str] = "ordinal"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("classes", "thresholds"):
            given = getattr(self, name)
            if isinstance(given, (list, np.ndarray)):
                object.__setattr__(self, name, tuple(float(a) for a in given))
        check_parameters(self, classes=optional(_CLASSES), thresholds=optional(_THRESHOLDS), ridge=NOT_NEGATIVE)
        if self.classes is not None and self.thresholds is not None and len(self.thresholds) != len(self.classes) - 1:
            raise ValueError(
                f"Ordinal: {len(self.classes)} classes have {len(self.classes) - 1} thresholds between them, got "
                f"{len(self.thresholds)}"
            )

    # The probability of a class between the thresholds a < b is sigmoid(b - z) sigmoid(z - a) (1 - e^(a - b)): two logistic
    # losses and a constant.
    def losses(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._between(xp, y)
        z = d + y
        return softplus(xp, z - high) + softplus(xp, low - z) - xp.log1p(-xp.exp(low - high))

    def slopes(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._between(xp, y)
        z = d + y
        return sigmoid(xp, z - high) - sigmoid(xp, low - z)

    def curvatures(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._between(xp, y)
        z = d + y
        return bump(xp, z - high) + bump(xp, z - low)

    def weights(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._between(xp, y)
        z = d + y
        return (high < FAR) * touching(xp, z - high) + (low > -FAR) * touching(xp, z - low)

    def _between(self, xp: Any, y: Array) -> tuple[Array, Array]:
        """The thresholds below and above each class."""
        if self.thresholds is None:
            raise ValueError("Ordinal has no thresholds yet: give them, or take .settled(d, y) first")
        edges = np.array([-FAR, *self.thresholds, FAR])
        if xp is np:
            k = y.astype(np.intp)
            edges = edges.astype(y.dtype, copy=False)
        else:
            k, edges = y.long(), xp.as_tensor(edges, dtype=y.dtype, device=y.device)
        return edges[k], edges[k + 1]

    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        host = backend.to_numpy(values)
        found = np.unique(host)
        if self.classes is None and len(found) > MOST:
            k = int(np.flatnonzero(host == found[MOST])[0])
            raise ParameterError(
                "values",
                f"have {len(found):,} different numbers (values[{k}] = {host[k]:g} is one): loss='ordinal' takes at "
                f"most {MOST} ordered classes; group them first, or use loss='squares' or 'huber'",
            )
        if len(found) < 2:
            raise ValueError(
                f"all {len(host):,} observations are of class {found[0]:g}: with one class only there is nothing to tell "
                "apart; add observations of another one"
            )
        classes = np.array(self.classes) if self.classes is not None else found
        place = np.searchsorted(classes, host).clip(max=len(classes) - 1)
        bad = classes[place] != host
        if bad.any():
            k, value = first_bad(bad, host, backend_of(host))
            raise ValueError(f"values[{k}] = {value:g} is none of the classes {tuple(classes.tolist())}: add it to classes")
        if self.thresholds is not None and len(self.thresholds) != len(classes) - 1:
            raise ValueError(
                f"{len(classes)} classes have {len(classes) - 1} thresholds between them, and Ordinal was given "
                f"{len(self.thresholds)}: give classes as well, or leave the thresholds to be learned"
            )
        codes = backend.astype(backend.asarray(place), backend.dtype(values))
        return codes, replace(self, classes=tuple(classes.tolist()))

    def encoded(self, values: Array) -> Array:
        backend = backend_of(values)
        place = np.searchsorted(np.array(self.classes), backend.to_numpy(values))
        return backend.astype(backend.asarray(place), backend.dtype(values))

    def settled(self, d: Vector, y: Vector, near: Any = None, weights: Vector | None = None) -> Self:
        if self.thresholds is not None:
            return self
        warm = isinstance(near, Ordinal) and near.thresholds is not None
        at = np.array(near.thresholds) if warm else self._from_shares(y, weights)
        return replace(self, thresholds=tuple(self._fitted(d, y, weights, at, 2 if warm else STEPS).tolist()))

    def _from_shares(self, y: Vector, weights: Vector | None) -> np.ndarray:
        """The thresholds that give each class its share where all entries are zero."""
        below = (self._by_class(lambda xp, d, y: [], y, y, weights)[0] + PRIOR).cumsum()
        return np.asarray(np.log(below[:-1] / (below[-1] - below[:-1])))

    def _fitted(self, d: Vector, y: Vector, weights: Vector | None, at: np.ndarray, steps: int) -> np.ndarray:
        """Newton's method: the Hessian of so few thresholds is a small tridiagonal matrix."""
        value = self._with_prior(at, d, y, weights)
        for _ in range(steps):
            here = replace(self, thresholds=tuple(at.tolist()))
            sums = here._by_class(here._edge_derivatives, d, y, weights)
            sums = sums + PRIOR * here._by_class(here._edge_derivatives, *self._one_each(), None)
            counts, above, below, bend_above, bend_below = sums
            # A threshold is the upper end of one class and the lower end of the next.
            slope, hessian = above[:-1] + below[1:], np.diag(bend_above[:-1] + bend_below[1:])
            for k, (gap, count) in enumerate(zip(np.diff(at), counts[1:-1], strict=True)):  # of -log(1 - e^-gap)
                slope[k : k + 2] += count / np.expm1(gap) * np.array([1, -1])
                hessian[k : k + 2, k : k + 2] += count / (4 * np.sinh(gap / 2) ** 2) * np.array([[1, -1], [-1, 1]])
            step = np.linalg.solve(hessian + 1e-12 * np.trace(hessian) * np.eye(len(at)), -slope)
            new, lower = self._descent(d, y, weights, at, step, value)
            at, gain, value = new, value - lower, lower
            if gain <= 1e-10 * value:
                break
        return at

    def _descent(
        self, d: Vector, y: Vector, weights: Vector | None, at: np.ndarray, step: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """As much of a step as lowers the value and keeps the order."""
        for k in range(20):
            new = at + 0.5**k * step
            if (np.diff(new) > 1e-6).all() and abs(new).max() < FAR / 2:
                lower = self._with_prior(new, d, y, weights)
                if lower <= value:
                    return new, lower
        return at, value

    def _with_prior(self, thresholds: np.ndarray, d: Vector, y: Vector, weights: Vector | None) -> float:
        """The loss, and half an observation of each class at zero: a class that never occurs has a place even so."""
        here = replace(self, thresholds=tuple(thresholds.tolist()))
        return here.sums(d, y, weights, 0.0) + PRIOR * here.sums(*self._one_each(), None, 0.0)

    def _one_each(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.classes is not None
        codes = np.arange(len(self.classes), dtype=float)
        return -codes, codes

    def _edge_derivatives(self, xp: Any, d: Array, y: Array) -> list[Array]:
        """First and second derivatives of the two logistic losses in the upper and the lower threshold."""
        low, high = self._between(xp, y)
        z = d + y
        return [-sigmoid(xp, z - high), sigmoid(xp, low - z), bump(xp, z - high), bump(xp, z - low)]

    def _by_class(self, function: Any, d: Vector, y: Vector, weights: Vector | None) -> np.ndarray:
        """Sums over the observations of each class, of their weights and of what a function returns: a row for each."""
        assert self.classes is not None
        count = len(self.classes)

        def one(xp: Any, d: Array, y: Array, *w: Array) -> Array:
            k = y.astype(np.intp) if xp is np else y.long()
            found = [0 * y + 1, *function(xp, d, y)]
            return xp.stack([xp.bincount(k, w[0] * a if w else a, count) for a in found])

        return reduced(one, d, y, *_given(weights))

    def probabilities(self, z: np.ndarray) -> np.ndarray:
        """The probability of each class, shape ``(*z.shape, classes)``."""
        if self.thresholds is None:
            raise ValueError("Ordinal has no thresholds yet: fit first, or give them")
        z = np.asarray(z, float)[..., None]
        below = sigmoid(np, np.array(self.thresholds) - z)
        edge = np.ones((*z.shape[:-1], 1))
        return np.diff(np.concatenate([0 * edge, below, edge], axis=-1), axis=-1)

    def mean(self, z: np.ndarray) -> np.ndarray:
        """The expected class, in the classes' own numbers."""
        assert self.classes is not None
        return self.probabilities(z) @ np.array(self.classes)
