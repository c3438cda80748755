"""Numbers that may stand for "no value", as -999 does in many tables: they are left as they are, and it is said."""

from __future__ import annotations

import warnings

import numpy as np

from ..common.checks import counted

SENTINELS = np.array([sign * (10.0**k - 1) for k in range(2, 7) for sign in (-1, 1)])  # -99, 99, -999, ..., 999999
FEWEST, SHARE = 3, 0.002  # copies, and their share of all: what is rarer may be an outlier
LEAVE_OUT = "leave out such lines"


class Sentinels:
    """The values of one column, as they come.

    Parameters
    ----------
    where : str
        Whose they are, for the message.
    remedy : str
        What to do, with {} for the number.
    """

    def __init__(self, where: str, remedy: str) -> None:
        self.where, self.remedy, self.total = where, remedy, 0
        self.copies = np.zeros(len(SENTINELS), np.int64)
        self.low, self.high = np.inf, -np.inf  # of the others

    def add(self, values: np.ndarray) -> None:
        """Some more of them; nan is a gap."""
        values = values[~np.isnan(values)] if np.isnan(values).any() else values
        self.total += len(values)
        if not len(values):
            return
        low, high = values.min(), values.max()
        if low <= -99 or high >= 99:
            known = np.isin(values, SENTINELS)
            self.copies += (values[known][:, None] == SENTINELS).sum(0)
            values = values[~known]
            if not len(values):
                return
            low, high = values.min(), values.max()
        self.low, self.high = min(self.low, low), max(self.high, high)

    def found(self) -> list[tuple[float, int]]:
        """Numbers that lie further from all others than these from each other, and how often each is there."""
        spread = self.high - self.low
        if not np.isfinite(spread):
            return []
        far = np.maximum(self.low - SENTINELS, SENTINELS - self.high) > spread
        often = self.copies >= max(FEWEST, SHARE * self.total)
        return [(float(SENTINELS[k]), int(self.copies[k])) for k in np.flatnonzero(far & often)]

    def warn(self, stacklevel: int = 2) -> None:
        """Say which there are."""
        for value, copies in self.found():
            warnings.warn(
                f"{self.where}: {counted(copies, 'copy', 'copies')} of {value:g}, and all else lies between {self.low:g} and "
                f"{self.high:g}: if {value:g} stands for no value, {self.remedy.format(f'{value:g}')}",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
