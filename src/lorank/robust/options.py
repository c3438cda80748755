"""Parameters of the search for outliers: schedules of the smoothing, and thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from ..common.checks import NOT_NEGATIVE, POSITIVE, SHARE, Expected, check_parameters, whole


@dataclass(frozen=True)
class SmoothingSchedule:
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

    gain: float = 0.02
    window: int = 2
    rate: float = 0.65
    end: float = 0.05
    first: float = 0.5

    def __post_init__(self) -> None:
        check_parameters(self, gain=NOT_NEGATIVE, window=whole(1), rate=SHARE, end=SHARE, first=POSITIVE)


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
class Thresholds:
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

    check_after: int = 4
    heavy_tails: float = 1.4
    light_tails: float = 1.1
    min_oversampling: float = 2.2
    ample_oversampling: float = 4.4
    limit_quantiles: float = 20.0
    limit_sigmas: float = 4.0
    smoothings_per_limit: float = 4.0
    round_max_iter: int = 6
    round_end_rate: float = 0.7
    stall_ratio: float = 0.8
    exact_level: float = 1e-5
    max_rounds: int = 24
    max_repairs: int = 12
    same_end: float = 0.01
    min_outliers: float = 0.005

    def __post_init__(self) -> None:
        check_parameters(
            self,
            check_after=whole(2),
            heavy_tails=POSITIVE,
            light_tails=POSITIVE,
            min_oversampling=NOT_NEGATIVE,
            ample_oversampling=NOT_NEGATIVE,
            limit_quantiles=POSITIVE,
            limit_sigmas=POSITIVE,
            smoothings_per_limit=POSITIVE,
            round_max_iter=whole(1),
            round_end_rate=SHARE,
            stall_ratio=SHARE,
            exact_level=NOT_NEGATIVE,
            max_rounds=whole(1),
            max_repairs=whole(0),
            same_end=NOT_NEGATIVE,
            min_outliers=NOT_NEGATIVE,
        )
