"""The Poisson loss, for counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..backends import Array, Arrays
from ..common.checks import NOT_NEGATIVE, YES_OR_NO, check_parameters
from .loss import Loss, first_bad

LARGEST = 80.0  # of log means: e^80 is more than anybody counts, and its square still a number in double precision
REACH = 1.0  # the parabola lies above the loss up to so far beyond z and log y
WIDER = 2 * (math.exp(REACH) - 1 - REACH) / REACH**2


@dataclass(frozen=True)
class Poisson(Loss):
    """``e^z - y z`` for counts y, less what is left of it at ``e^z = y``: half the deviance. The entries are log means.

    Counts whose expectations differ for known reasons (time of exposure, depth of sequencing) are given with these:
    ``Completion(rows, cols, counts, loss="poisson", exposure=e)`` has the means ``e exp(z)``.

    Where no count was observed at a pair that was looked at, that is a count of 0, and has to be among the observations. For a
    whole table of counts, zeros and all, see :class:`lorank.CountTable`.

    Parameters
    ----------
    ridge : float
        ``ridge z^2 / 2`` is added for each observation (times its exposure): log means of rows without any count would
        otherwise go to minus infinity.
    rates : bool
        Take values that are not whole: rates, counts divided by an exposure which is then the observation's weight. That is
        what ``exposure=`` makes of counts, and what an estimator is given: ``fit(pairs, counts / e, sample_weight=e)``.

    Notes
    -----
    No parabola lies above an exponential function everywhere. The one of :meth:`majorizer` does up to 1 beyond both z and
    log y; its lowest point is never farther than 0.7 from z.

    Examples
    --------
    >>> import numpy as np
    >>> loss, z, y = Poisson(ridge=0.0), np.log([2.0, 2.0]), np.array([2.0, 5.0])
    >>> loss.mean(z), loss.slope(z - y, y).round(3)
    (array([2., 2.]), array([ 0., -3.]))
    """

    ridge: float = 1e-2
    rates: bool = False

    name: ClassVar[str] = "poisson"
    discrete: ClassVar[bool] = True
    exact_means: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_parameters(self, ridge=NOT_NEGATIVE, rates=YES_OR_NO)

    def losses(self, xp: Any, d: Array, y: Array) -> Array:
        z = d + y
        best = y * xp.log(y + (y == 0)) - y
        return (xp.exp(z.clip(max=LARGEST)) - y * z + best).clip(min=0)

    def slopes(self, xp: Any, d: Array, y: Array) -> Array:
        return xp.exp((d + y).clip(max=LARGEST)) - y

    def curvatures(self, xp: Any, d: Array, y: Array) -> Array:
        return xp.exp((d + y).clip(max=LARGEST))

    def weights(self, xp: Any, d: Array, y: Array) -> Array:
        mean = xp.exp((d + y).clip(max=LARGEST))
        return WIDER * xp.where(mean > y, mean, y)

    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        low = values < 0
        if low.any():
            k, value = first_bad(low, values, backend)
            raise ValueError(
                f"values[{k}] = {value:g}: counts are 0, 1, 2, ...; loss='poisson' takes none below zero. Leave out what was "
                "not counted, or use loss='squares' for measurements with a sign"
            )
        broken = values % 1 != 0
        if not self.rates and broken.any():
            k, value = first_bad(broken, values, backend)
            raise ValueError(
                f"values[{k}] = {value:g} is not whole: loss='poisson' takes counts. For rates, pass the counts and "
                "exposure=; for other measurements that are not negative, loss='squares'"
            )
        if not values.any():
            raise ValueError(f"all {len(values):,} counts are zero: there is nothing to fit; add rows or columns with counts")
        return values, self

    def mean(self, z: np.ndarray) -> np.ndarray:
        """The expected count for an exposure of 1."""
        return np.exp(np.minimum(np.asarray(z, float), LARGEST))

    def constant(self, average: float) -> float | None:
        return math.log(average)
