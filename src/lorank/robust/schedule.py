"""How the smoothing of deviations begins and falls, while outliers are looked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..common.checks import NOT_NEGATIVE, POSITIVE, SHARE, Expected, check_parameters, whole


@dataclass(frozen=True)
class Schedule:
    """How the smoothing falls.

    Parameters
    ----------
    gain : float
        The smoothing is held until the mean weight has grown by less than this share within ``look`` steps;
    look : int
    rate : float
        then it falls by this factor in each step,
    end : float
        to this share of the first one,
    first : float
        which is so many medians of the data.

    Examples
    --------
    >>> Schedule(rate=0.9)
    Schedule(gain=0.02, look=2, rate=0.9, end=0.05, first=0.5)
    """

    gain: float = 0.02
    look: int = 2
    rate: float = 0.65
    end: float = 0.05
    first: float = 0.5

    def __post_init__(self) -> None:
        check_parameters(self, gain=NOT_NEGATIVE, look=whole(1), rate=SHARE, end=SHARE, first=POSITIVE)


QUICK = Schedule(0.05, 1, 0.5, 0.05)
SCHEDULES = (QUICK, Schedule(), Schedule(0.01, 3, 0.8, 0.03, 0.25), Schedule(0.003, 5, 0.9, 0.01, 1.0))
A_TUPLE_OF_SCHEDULES = Expected(
    "be a tuple of Schedule objects",
    lambda value: isinstance(value, tuple) and len(value) > 0 and all(isinstance(one, Schedule) for one in value),
)
