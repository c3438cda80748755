"""Losses for discrete data: logistic for two classes, ordinal for ordered classes, Poisson for counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..backends import Array, Arrays, Vector, backend_of, reduced
from ..common.checks import NOT_NEGATIVE, YES_OR_NO, Checked, Expected, ParameterError, counted, optional, parameter
from .loss import Loss, first_bad
from .objective import Objective

SERIES_BELOW = 1e-3  # tanh(z / 2) / (2 z) is computed by its series there
INFINITE_THRESHOLD = 300.0  # stands for an infinite threshold
MAX_CLASSES = 50
CLASS_PRIOR = 0.5  # observations of each class at zero, added when thresholds are fitted
THRESHOLD_MAX_ITER = 20  # Newton steps for the thresholds; 2 from thresholds of a nearby point
MAX_LOG_MEAN = 80.0  # e^80 is larger than any count, and its square is finite in double precision
MAJORIZER_REACH = 1.0  # the Poisson majorizer lies above the loss up to this far beyond z and log y
MAJORIZER_FACTOR = 2 * (math.exp(MAJORIZER_REACH) - 1 - MAJORIZER_REACH) / MAJORIZER_REACH**2


# -- logistic function -----------------------------------------------------------------------------------------------
def softplus(xp: Any, z: Array) -> Array:
    """``log(1 + e^z)``."""
    return z.clip(min=0) + xp.log1p(xp.exp(-abs(z)))


def sigmoid(xp: Any, z: Array) -> Array:
    """``1 / (1 + e^-z)``, without overflow."""
    return 0.5 * (1 + xp.tanh(z / 2))


def sigmoid_derivative(xp: Any, z: Array) -> Array:
    """``e^z / (1 + e^z)^2``, without cancellation."""
    small = xp.exp(-abs(z))
    return small / (1 + small) ** 2


def softplus_majorizer(xp: Any, z: Array) -> Array:
    """``tanh(z / 2) / (2 z)``: curvature of the parabola that touches ``log(1 + e^z)`` at z and at -z and lies above it."""
    near = abs(z) < SERIES_BELOW
    far = z + near * 1.0  # avoids a division by zero
    return xp.where(near, 0.25 - z * z / 48, xp.tanh(far / 2) / (2 * far))


@dataclass(frozen=True)
class Logistic(Checked, Loss):
    """Logistic loss ``log(1 + e^z) - y z`` for labels y of 0 and 1. The entries are logits: ``P(y = 1) = 1 / (1 + e^-z)``.

    Labels may be 0 and 1, -1 and 1, or False and True.

    Parameters
    ----------
    ridge : float
        ``ridge z^2 / 2`` is added for each observation: logits would diverge where a low-rank matrix separates the labels.
        With the default 0.01, logits of entries with equal labels end near 3.4, a probability of 0.97.

    Examples
    --------
    >>> import numpy as np
    >>> loss, z, y = Logistic(ridge=0.0), np.array([0.0, 2.0]), np.array([1.0, 1.0])
    >>> loss.mean(z).round(3), loss.slope(np, z - y, y).round(3)
    (array([0.5  , 0.881]), array([-0.5  , -0.119]))
    """

    ridge: float = parameter(1e-2, NOT_NEGATIVE)

    name: ClassVar[str] = "logistic"
    discrete: ClassVar[bool] = True
    exact_means: ClassVar[bool] = True

    def value(self, xp: Any, d: Array, y: Array) -> Array:
        z = d + y
        return softplus(xp, z) - y * z  # means of repeated labels lie between 0 and 1, where the minimum is not 0

    def slope(self, xp: Any, d: Array, y: Array) -> Array:
        return sigmoid(xp, d + y) - y

    def curvature(self, xp: Any, d: Array, y: Array) -> Array:
        return sigmoid_derivative(xp, d + y)

    def majorizer_weight(self, xp: Any, d: Array, y: Array) -> Array:
        return softplus_majorizer(xp, d + y)

    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        one = values == 1
        low = 0.0 if (values == 0).any() else -1.0 if (values == -1).any() else 0.0
        bad = ~(one | (values == low))
        if bad.any():
            k, value = first_bad(bad, values, backend)
            raise ValueError(
                f"values[{k}] = {value:g}: loss='logistic' takes two classes, 0 and 1 (or -1 and 1, or False and True); "
                "binarize the values first, for example values >= 4, or use loss='ordinal' for more than two ordered classes"
            )
        if one.all() or not one.any():
            only = 1 if one.all() else int(low)
            raise ValueError(
                f"all {counted(len(values), 'label')} are {only}: loss='logistic' needs two classes; add observations of the "
                "other class"
            )
        return values if low == 0 else (values + 1) / 2, self

    def encode(self, values: Array) -> Array:
        return (values + 1) / 2 if (values == -1).any() else values

    def mean(self, z: np.ndarray) -> np.ndarray:
        """Probability of label 1."""
        return np.asarray(sigmoid(np, np.asarray(z, float)))

    def intercept(self, average: float) -> float | None:
        return math.log(average / (1 - average))


# -- ordinal -----------------------------------------------------------------------------------------------------------
def _increasing(a: Any, least: int) -> bool:
    return isinstance(a, tuple) and len(a) >= least and bool(np.isfinite(a).all()) and bool((np.diff(a) > 0).all())


_CLASSES = Expected("be a tuple of at least two finite, increasing numbers", lambda a: _increasing(a, 2))
_THRESHOLDS = Expected("be a tuple of finite, increasing numbers", lambda a: _increasing(a, 1))


@dataclass(frozen=True)
class Ordinal(Checked, Loss):
    """Ordinal regression for ordered classes such as star ratings: ``P(class <= c) = 1 / (1 + e^(z - threshold_c))``.

    The entries are positions on a latent scale, which the thresholds divide into classes (proportional odds, McCullagh 1980).

    Parameters
    ----------
    classes : tuple of float, optional
        In increasing order. Default: the distinct values.
    thresholds : tuple of float, optional
        Increasing, one fewer than classes. By default fitted together with the matrix.
    ridge : float
        ``ridge z^2 / 2`` is added for each observation: entries would diverge whose observations are all of the first class,
        or all of the last. Default 0.01.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Ordinal(classes=(1.0, 2.0, 3.0), thresholds=(-1.0, 1.0))
    >>> loss.probabilities(np.array([0.0])).round(3)
    array([[0.269, 0.462, 0.269]])
    >>> loss.mean(np.array([-9.0, 0.0, 9.0])).round(2)
    array([1., 2., 3.])
    """

    classes: tuple[float, ...] | None = parameter(None, optional(_CLASSES))
    thresholds: tuple[float, ...] | None = parameter(None, optional(_THRESHOLDS))
    ridge: float = parameter(1e-2, NOT_NEGATIVE)

    name: ClassVar[str] = "ordinal"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("classes", "thresholds"):
            given = getattr(self, name)
            if isinstance(given, (list, np.ndarray)):
                object.__setattr__(self, name, tuple(float(a) for a in given))
        super().__post_init__()
        if self.classes is not None:
            self._check_thresholds(len(self.classes))

    def _check_thresholds(self, classes: int) -> None:
        if self.thresholds is not None and len(self.thresholds) != classes - 1:
            raise ValueError(
                f"Ordinal: {classes} classes need {classes - 1} thresholds, got {len(self.thresholds)}: pass classes as well, "
                "or leave out thresholds"
            )

    # The probability of a class between the thresholds a < b is sigmoid(b - z) sigmoid(z - a) (1 - e^(a - b)): the loss is a
    # sum of two logistic losses and a constant.
    def value(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._bounds(xp, y)
        z = d + y
        return softplus(xp, z - high) + softplus(xp, low - z) - xp.log1p(-xp.exp(low - high))

    def slope(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._bounds(xp, y)
        z = d + y
        return sigmoid(xp, z - high) - sigmoid(xp, low - z)

    def curvature(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._bounds(xp, y)
        z = d + y
        return sigmoid_derivative(xp, z - high) + sigmoid_derivative(xp, z - low)

    def majorizer_weight(self, xp: Any, d: Array, y: Array) -> Array:
        low, high = self._bounds(xp, y)
        z = d + y
        upper, lower = softplus_majorizer(xp, z - high), softplus_majorizer(xp, z - low)
        return (high < INFINITE_THRESHOLD) * upper + (low > -INFINITE_THRESHOLD) * lower

    def _bounds(self, xp: Any, y: Array) -> tuple[Array, Array]:
        """Thresholds below and above each class."""
        if self.thresholds is None:
            raise ValueError("Ordinal has no thresholds yet: pass thresholds=, or call fit_parameters(d, y) first")
        edges = np.array([-INFINITE_THRESHOLD, *self.thresholds, INFINITE_THRESHOLD])
        if xp is np:
            k = y.astype(np.intp)
            edges = edges.astype(y.dtype, copy=False)
        else:
            k, edges = y.long(), xp.as_tensor(edges, dtype=y.dtype, device=y.device)
        return edges[k], edges[k + 1]

    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        host = backend.to_numpy(values)
        found = np.unique(host)
        if self.classes is None and len(found) > MAX_CLASSES:
            k = int(np.flatnonzero(host == found[MAX_CLASSES])[0])
            raise ParameterError(
                "values",
                f"have {len(found):,} different numbers (values[{k}] = {host[k]:g} is one): loss='ordinal' takes at "
                f"most {MAX_CLASSES} ordered classes; group them first, or use loss='squares' or 'huber'",
            )
        if len(found) < 2:
            raise ValueError(
                f"all {len(host):,} observations are of class {found[0]:g}: loss='ordinal' needs at least two classes; add "
                "observations of another one"
            )
        classes = np.array(self.classes) if self.classes is not None else found
        place = np.searchsorted(classes, host).clip(max=len(classes) - 1)
        bad = classes[place] != host
        if bad.any():
            k, value = first_bad(bad, host, backend_of(host))
            raise ValueError(f"values[{k}] = {value:g} is none of the classes {tuple(classes.tolist())}: add it to classes")
        self._check_thresholds(len(classes))
        codes = backend.astype(backend.asarray(place), backend.dtype(values))
        return codes, replace(self, classes=tuple(classes.tolist()))

    def encode(self, values: Array) -> Array:
        backend = backend_of(values)
        place = np.searchsorted(np.array(self.classes), backend.to_numpy(values))
        return backend.astype(backend.asarray(place), backend.dtype(values))

    def fit_parameters(self, d: Vector, y: Vector, near: Any = None, weights: Vector | None = None) -> Self:
        if self.thresholds is not None:
            return self
        if isinstance(near, Ordinal) and near.thresholds is not None:
            fitted = self._fit_thresholds(d, y, weights, np.array(near.thresholds), 2)
        else:
            fitted = self._fit_thresholds(d, y, weights, self._thresholds_at_zero(y, weights), THRESHOLD_MAX_ITER)
        return replace(self, thresholds=tuple(fitted.tolist()))

    def _thresholds_at_zero(self, y: Vector, weights: Vector | None) -> np.ndarray:
        """Thresholds that give each class its observed share at ``z = 0``."""
        below = (self._sums_by_class(lambda xp, d, y: [], y, y, weights)[0] + CLASS_PRIOR).cumsum()
        return np.asarray(np.log(below[:-1] / (below[-1] - below[:-1])))

    def _fit_thresholds(self, d: Vector, y: Vector, weights: Vector | None, at: np.ndarray, max_iter: int) -> np.ndarray:
        """Newton's method: the Hessian is a small tridiagonal matrix."""
        value = self._value_with_prior(at, d, y, weights)
        for _ in range(max_iter):
            here = replace(self, thresholds=tuple(at.tolist()))
            sums = here._sums_by_class(here._threshold_derivatives, d, y, weights)
            sums = sums + CLASS_PRIOR * here._sums_by_class(here._threshold_derivatives, *self._one_of_each_class(), None)
            counts, above, below, curvature_above, curvature_below = sums
            # A threshold is the upper end of one class and the lower end of the next.
            slope, hessian = above[:-1] + below[1:], np.diag(curvature_above[:-1] + curvature_below[1:])
            for k, (gap, count) in enumerate(zip(np.diff(at), counts[1:-1], strict=True)):  # of -log(1 - e^-gap)
                slope[k : k + 2] += count / np.expm1(gap) * np.array([1, -1])
                hessian[k : k + 2, k : k + 2] += count / (4 * np.sinh(gap / 2) ** 2) * np.array([[1, -1], [-1, 1]])
            step = np.linalg.solve(hessian + 1e-12 * np.trace(hessian) * np.eye(len(at)), -slope)
            new, lower = self._backtrack(d, y, weights, at, step, value)
            at, gain, value = new, value - lower, lower
            if gain <= 1e-10 * value:
                break
        return at

    def _backtrack(
        self, d: Vector, y: Vector, weights: Vector | None, at: np.ndarray, step: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """Halve a step until it decreases the value and keeps the thresholds in order."""
        for k in range(20):
            new = at + 0.5**k * step
            if (np.diff(new) > 1e-6).all() and abs(new).max() < INFINITE_THRESHOLD / 2:
                lower = self._value_with_prior(new, d, y, weights)
                if lower <= value:
                    return new, lower
        return at, value

    def _value_with_prior(self, thresholds: np.ndarray, d: Vector, y: Vector, weights: Vector | None) -> float:
        """Objective without the ridge, plus the prior, which keeps the thresholds of a class without observations finite."""
        here = replace(self, thresholds=tuple(thresholds.tolist()))
        prior = Objective(here).deviance(*self._one_of_each_class()) / 2
        return Objective(here, weights).deviance(d, y) / 2 + CLASS_PRIOR * prior

    def _one_of_each_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Residual and values of one observation of each class at ``z = 0``."""
        assert self.classes is not None
        codes = np.arange(len(self.classes), dtype=float)
        return -codes, codes

    def _threshold_derivatives(self, xp: Any, d: Array, y: Array) -> list[Array]:
        """First and second derivatives of the two logistic losses in the upper and the lower threshold."""
        low, high = self._bounds(xp, y)
        z = d + y
        slopes = [-sigmoid(xp, z - high), sigmoid(xp, low - z)]
        return [*slopes, sigmoid_derivative(xp, z - high), sigmoid_derivative(xp, z - low)]

    def _sums_by_class(self, function: Any, d: Vector, y: Vector, weights: Vector | None) -> np.ndarray:
        """Weighted sums over the observations of each class: of ones, and of each array that the function returns."""
        assert self.classes is not None
        count = len(self.classes)

        def one(xp: Any, d: Array, y: Array, *w: Array) -> Array:
            k = y.astype(np.intp) if xp is np else y.long()
            found = [0 * y + 1, *function(xp, d, y)]
            return xp.stack([xp.bincount(k, w[0] * a if w else a, count) for a in found])

        return reduced(one, d, y) if weights is None else reduced(one, d, y, weights)

    def probabilities(self, z: np.ndarray) -> np.ndarray:
        """Probability of each class, shape ``(*z.shape, classes)``."""
        if self.thresholds is None:
            raise ValueError("Ordinal has no thresholds yet: fit the model first, or pass thresholds=")
        z = np.asarray(z, float)[..., None]
        below = sigmoid(np, np.array(self.thresholds) - z)
        edge = np.ones((*z.shape[:-1], 1))
        return np.diff(np.concatenate([0 * edge, below, edge], axis=-1), axis=-1)

    def mean(self, z: np.ndarray) -> np.ndarray:
        """Expected class, in the units of the classes."""
        assert self.classes is not None
        return self.probabilities(z) @ np.array(self.classes)


# -- Poisson -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Poisson(Checked, Loss):
    """Poisson loss for counts y: half the deviance, ``e^z - y z`` minus its minimum. The entries are log means.

    For counts with known exposures (observation time, sequencing depth), pass these:
    ``Completion(rows, cols, counts, loss="poisson", exposure=e)`` has the means ``e exp(z)``.

    A pair that was examined without a count is an observation of 0 and has to be listed. For a complete table of counts see
    :class:`lorank.CountTable`.

    Parameters
    ----------
    ridge : float
        ``ridge z^2 / 2`` is added for each observation (times its exposure): the log means of rows without counts would
        otherwise tend to minus infinity. Default 0.01.
    rates : bool
        Accept values that are not whole numbers: rates, counts divided by an exposure, which is then the observation's weight.
        ``exposure=`` does that; estimators take ``fit(pairs, counts / e, sample_weight=e)``. Default False.

    Notes
    -----
    No parabola lies above an exponential function everywhere. That of :meth:`majorizer_weight` does so up to 1 beyond both z
    and log y; its minimum is at most 0.7 from z.

    Examples
    --------
    >>> import numpy as np
    >>> loss, z, y = Poisson(ridge=0.0), np.log([2.0, 2.0]), np.array([2.0, 5.0])
    >>> loss.mean(z), loss.slope(np, z - y, y).round(3)
    (array([2., 2.]), array([ 0., -3.]))
    """

    ridge: float = parameter(1e-2, NOT_NEGATIVE)
    rates: bool = parameter(False, YES_OR_NO)

    name: ClassVar[str] = "poisson"
    discrete: ClassVar[bool] = True
    exact_means: ClassVar[bool] = True

    def value(self, xp: Any, d: Array, y: Array) -> Array:
        z = d + y
        best = y * xp.log(y + (y == 0)) - y
        return (xp.exp(z.clip(max=MAX_LOG_MEAN)) - y * z + best).clip(min=0)

    def slope(self, xp: Any, d: Array, y: Array) -> Array:
        return xp.exp((d + y).clip(max=MAX_LOG_MEAN)) - y

    def curvature(self, xp: Any, d: Array, y: Array) -> Array:
        return xp.exp((d + y).clip(max=MAX_LOG_MEAN))

    def majorizer_weight(self, xp: Any, d: Array, y: Array) -> Array:
        mean = xp.exp((d + y).clip(max=MAX_LOG_MEAN))
        return MAJORIZER_FACTOR * xp.where(mean > y, mean, y)

    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        negative = values < 0
        if negative.any():
            k, value = first_bad(negative, values, backend)
            raise ValueError(
                f"values[{k}] = {value:g}: loss='poisson' takes counts 0, 1, 2, ...; leave out missing counts, or use "
                "loss='squares' for signed measurements"
            )
        fractional = values % 1 != 0
        if not self.rates and fractional.any():
            k, value = first_bad(fractional, values, backend)
            raise ValueError(
                f"values[{k}] = {value:g} is not a whole number: loss='poisson' takes counts; for rates, pass the counts and "
                "exposure=; for other nonnegative measurements, loss='squares'"
            )
        if not values.any():
            raise ValueError(f"all {len(values):,} counts are zero: there is nothing to fit; add rows or columns with counts")
        return values, self

    def mean(self, z: np.ndarray) -> np.ndarray:
        """Expected count for an exposure of 1."""
        return np.exp(np.minimum(np.asarray(z, float), MAX_LOG_MEAN))

    def intercept(self, average: float) -> float | None:
        return math.log(average)
