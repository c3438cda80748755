"""Parameters of the search for outliers: schedules of the smoothing, and thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from ..common.checks import NOT_NEGATIVE, POSITIVE, SHARE, Checked, Expected, parameter, whole


@dataclass(frozen=True)
class SmoothingSchedule(Checked):
    """Schedule of the smoothing epsilon of the weights ``(1 + |d / epsilon|^2)^(-3/4)``.

    Parameters
    ----------
    gain : float
        Epsilon is constant until the mean weight has grown by less than this share within ``window`` steps.
    window : int
        Number of those steps.
    rate : float
        Factor on epsilon in each later step.
    end : float
        Ratio of the last epsilon to the first.
    first : float
        First epsilon, in medians of the absolute data.

    Examples
    --------
    >>> SmoothingSchedule(rate=0.9)
    SmoothingSchedule(gain=0.02, window=2, rate=0.9, end=0.05, first=0.5)
    """

    gain: float = parameter(0.02, NOT_NEGATIVE)
    window: int = parameter(2, whole(1))
    rate: float = parameter(0.65, SHARE)
    end: float = parameter(0.05, SHARE)
    first: float = parameter(0.5, POSITIVE)


SCHEDULES = (
    SmoothingSchedule(0.05, 1, 0.5, 0.05),
    SmoothingSchedule(),
    SmoothingSchedule(0.01, 3, 0.8, 0.03, 0.25),
    SmoothingSchedule(0.003, 5, 0.9, 0.01, 1.0),
)
A_TUPLE_OF_SCHEDULES = Expected(
    "be a tuple of SmoothingSchedule objects",
    lambda value: isinstance(value, tuple) and len(value) > 0 and all(isinstance(one, SmoothingSchedule) for one in value),
)


@dataclass(frozen=True)
class Thresholds(Checked):
    """Thresholds of the search for outliers.

    The *limit* is the deviation beyond which an observation is considered an outlier. A *round* is a number of least-squares
    steps with the observations within the limit, after which the limit is updated.

    Parameters
    ----------
    check_after : int
        Steps of the first least-squares fit after which its residuals are tested.
    heavy_tails, light_tails : float
        Root mean square of the residuals over that of normal noise with the same median. Above ``heavy_tails``, outliers are
        searched for; for a residual that has stalled, above ``light_tails``.
    min_oversampling : float
        Observations per degree of freedom below which only a stalled residual above ``heavy_tails`` starts the search: poor
        fits to clean data have heavy tails, too.
    ample_oversampling : float
        Observations per degree of freedom above which the first, fast schedule is used and white noise is accepted as the
        end of the first attempt.
    limit_quantiles : float
        The limit, in three-quarter quantiles of the deviations within it, over that of a normal distribution.
    limit_sigmas : float
        The limit in standard deviations, where the residual is noise.
    smoothings_per_limit : float
        Ratio of the limit to epsilon while the smoothing follows the fit.
    round_max_iter : int
        Largest number of steps in a round.
    round_end_rate : float
        A round ends when a step leaves more than this share of the residual.
    stall_ratio : float
        The fit has stalled when a round leaves more than this share of the residual.
    exact_level : float
        Ratio of typical deviations to the median of the data below which smooth weights are replaced by the limit.
    max_rounds : int
        Largest number of rounds before a fit is judged.
    max_repairs : int
        Largest number of times that rows and columns are refitted in one attempt.
    same_end : float
        Relative difference of the objectives of two attempts that are considered to have the same end.
    min_outliers : float
        Share of outliers below which a failed search continues with all observations.

    Examples
    --------
    >>> Thresholds(limit_sigmas=5.0).limit_sigmas
    5.0
    """

    check_after: int = parameter(4, whole(2))
    heavy_tails: float = parameter(1.4, POSITIVE)
    light_tails: float = parameter(1.1, POSITIVE)
    min_oversampling: float = parameter(2.2, NOT_NEGATIVE)
    ample_oversampling: float = parameter(4.4, NOT_NEGATIVE)
    limit_quantiles: float = parameter(20.0, POSITIVE)
    limit_sigmas: float = parameter(4.0, POSITIVE)
    smoothings_per_limit: float = parameter(4.0, POSITIVE)
    round_max_iter: int = parameter(6, whole(1))
    round_end_rate: float = parameter(0.7, SHARE)
    stall_ratio: float = parameter(0.8, SHARE)
    exact_level: float = parameter(1e-5, NOT_NEGATIVE)
    max_rounds: int = parameter(24, whole(1))
    max_repairs: int = parameter(12, whole(0))
    same_end: float = parameter(0.01, NOT_NEGATIVE)
    min_outliers: float = parameter(0.005, NOT_NEGATIVE)
