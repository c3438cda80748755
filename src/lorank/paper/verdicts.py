"""Rules for verdicts on claims: measured factors, growth, trends, and when a figure counts as reproduced."""
# ruff: noqa: RUF001 - texts contain the multiplication sign

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ..experiments.styles import label
from ..experiments.tables import BOUNDED, TIMES, Case, Curve, Mean, amount, comparable, counted, median_of, plain

KEPT, SOME = 0.9, 0.5  # exponents of a stated factor: reproduced, and partly
CLEAR = 1.1  # a method is faster than another from this factor on, slower from its inverse
ALIKE = 4 / 3  # "comparable", "almost the same": within this factor
SLIGHT = 1.5  # growth up to this factor is slight, beyond it noticeable
TREND = 1.25  # an advantage "grows" when it increases by this factor from end to end
MISSED = 10.0  # tolerance of success rates in percentage points: one trial of ten


class Verdict(StrEnum):
    """The verdict on a claim."""

    EXCEEDED = "exceeded"
    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not"
    NO_DATA = "no data"


EXCEEDED, REPRODUCED, PARTLY, NOT, NO_DATA = Verdict

RULES = (
    f"A factor of f (“1/f of the time”) is reproduced when the measured factor is at least f to the power {KEPT}, partly "
    f"when it is at least f to the power {SOME}, otherwise not, and exceeded from f to the power 1/{KEPT} on. For f = 10 "
    f"these are {10**KEPT:.1f}, {10**SOME:.1f} and {10 ** (1 / KEPT):.1f}. Averages are means over the tests, as in the "
    "paper. Where fewer than half of the runs were stopped by a limit, the mean is unknown and medians are compared; if this "
    "concerns the method that should be fast, the verdict is at most partly. Where half or more of the slower method's runs "
    "were stopped, the factor is a lower bound, “at least”; a bound that decides nothing is no data. “Comparable” and “almost "
    f"the same” mean within a factor of {ALIKE:.2f}, a slight growth at most {SLIGHT}, a trend at least {TREND} from end to "
    "end. An advantage under noise is compared at equal errors: noise levels at which the errors of the two methods differ by "
    "more than 10 % do not count. The time per iteration is that without the start. Figures of iterations leave out runs that "
    "a time limit stopped. A claim about several ranks has a verdict for each rank where ranks differ. Success rates may "
    f"differ by {MISSED:g} percentage points, one trial of ten. A sentence with several figures is reproduced when all of "
    "them are, exceeded when all of them are, not reproduced when none is, and partly otherwise. Times are compared on the "
    "same machine only."
)


@dataclass(frozen=True)
class Part:
    """One figure of a claim: the paper's value, the measured value, and the verdict."""

    label: str
    stated: str
    measured: str
    verdict: Verdict
    decides: bool = True  # False: reported only
    rank: int | None = None  # where the experiment has several ranks


def combine(parts: Sequence[Part]) -> Verdict:
    """The verdict on a sentence from the verdicts on its figures."""
    verdicts = [part.verdict for part in parts if part.decides]
    known = {verdict for verdict in verdicts if verdict != NO_DATA}
    if not known:
        return NO_DATA
    if known == {NOT}:
        return NOT
    if known <= {REPRODUCED, EXCEEDED} and NO_DATA not in verdicts:
        return EXCEEDED if known == {EXCEEDED} else REPRODUCED
    return PARTLY


UNITS = {"pace": "time per iteration"}


# -- factors -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Factor:
    """The ratio of the costs of two methods: of the means over the tests that both made.

    Attributes
    ----------
    value : float
        The ratio of the means, or of the medians where ``medians`` is set.
    low, median, high : float
        Minimum, median and maximum of the ratios of single tests.
    tests : int
    bound : str
        ``"at least"`` where runs of the slow method were stopped by a limit, ``"at most"`` where runs of the fast one were.
    slow, fast : float
        The means, or medians.
    lapsed : bool
        Whether some runs of the fast method, fewer than half, were stopped by a limit.
    """

    value: float
    low: float
    median: float
    high: float
    tests: int
    bound: str
    slow: float
    fast: float
    medians: bool = False
    lapsed: bool = False

    def text(self, unit: str) -> str:
        """The factor with its means, the number of tests and their spread."""
        bound = f"{self.bound} " if self.bound else ""
        ends = times(self.low), times(self.high)
        middle = f", median {times(self.median)}" if self.tests > 2 and self.median > 0 else ""
        spread = f"{middle}, {ends[0]} to {ends[1]}" if self.tests > 1 and ends[0] != ends[1] else ""
        means = f"{'medians ' if self.medians else ''}{amount(self.slow, unit)} against {amount(self.fast, unit)}"
        return f"{bound}{times(self.value)} ({means}; {tests(self.tests)}{spread})"

    def judge(self, stated: float) -> Verdict:
        """The verdict on a factor of the paper."""
        if self.value >= stated**KEPT:
            return NO_DATA if self.bound == "at most" else PARTLY if self.lapsed else self._kept(stated)
        if self.value >= stated**SOME:
            return NO_DATA if self.bound == "at most" else PARTLY
        return NO_DATA if self.bound == "at least" else NOT

    def _kept(self, stated: float) -> Verdict:
        return EXCEEDED if self.value >= stated ** (1 / KEPT) else REPRODUCED


def factor(slow: Mean | None, fast: Mean | None, quantity: str) -> Factor | None:
    """The factor between two methods at one point; None where no common test determines it."""
    if slow is None or fast is None or slow.failed or fast.failed:
        return None
    below = {row.seed: row for row in fast.counted}
    pairs = [(row, below[row.seed]) for row in slow.counted if row.seed in below]
    pairs = [pair for pair in pairs if all(0 < row.get(quantity) < math.inf for row in pair)]
    if quantity in TIMES:
        pairs = [(ours, theirs) for ours, theirs in pairs if ours.machine == theirs.machine]
    if not pairs:
        return None
    # A stopped run bounds its iterations and its time, not its time per iteration.
    sides = [[pair[k] for pair in pairs] for k in (0, 1)]
    cut = [sum(row.bound for row in side) if quantity in BOUNDED else 0 for side in sides]
    most, some = [2 * number >= len(pairs) for number in cut], [0 < 2 * number < len(pairs) for number in cut]
    if all(most):
        return None
    bound = "at least" if most[0] else "at most" if most[1] else ""
    found = factor_of(np.array([[row.get(quantity) for row in pair] for pair in pairs]), bound)
    if not any(some):
        return found
    above, under = (median_of(side, quantity) for side in sides)
    return replace(found, value=above / under, slow=above, fast=under, medians=True, lapsed=some[1])


def factor_of(values: np.ndarray, bound: str = "") -> Factor:
    """The factor from the costs of two methods in the same tests, an (n, 2) array."""
    slow, fast = values.mean(axis=0)
    single = values[:, 0] / values[:, 1]
    return Factor(slow / fast, single.min(), float(np.median(single)), single.max(), len(values), bound, slow, fast)


def name_of(slow: str, fast: str, quantity: str, where: str = "") -> str:
    """The name of a factor between two methods."""
    return f"{label(slow)} / {label(fast)}, {UNITS.get(quantity, quantity)}{f' ({where})' if where else ''}"


def compare(
    slow: str,
    fast: str,
    means: dict[str, Mean],
    quantity: str,
    stated: float,
    where: str,
    *,
    decides: bool = True,
    rank: int | None = None,
) -> Part:
    """One factor of the paper against the measured one at a point."""
    name, found = name_of(slow, fast, quantity, where), factor(means.get(slow), means.get(fast), quantity)
    if found is not None:
        return Part(name, times(stated), found.text(quantity), found.judge(stated), decides, rank)
    why, verdict = none_found(slow, fast, means, quantity)
    return Part(name, times(stated), why, verdict, decides, rank)


def none_found(slow: str, fast: str, means: dict[str, Mean], quantity: str) -> tuple[str, Verdict]:
    """Why there is no factor, and the verdict: a method that never converges where the other one does has lost."""
    missing = [label(method) for method in (slow, fast) if method not in means]
    if missing:
        return f"no runs of {' and '.join(missing)}", NO_DATA
    failed = [method for method in (slow, fast) if means[method].failed]
    if failed:
        why = "; ".join(f"{label(method)} converged in none of {tests(len(means[method].rows))}" for method in failed)
        return why, NOT if means[fast].failed and means[slow].reached > 0 else NO_DATA
    if means[slow].at_least and means[fast].at_least:
        return "both were stopped by their limits", NO_DATA
    if not comparable(quantity, means[slow], means[fast]):
        return "times of different machines", NO_DATA
    return "no common test", NO_DATA


# -- growth, trends, shares --------------------------------------------------------------------------------------------
def growth(means: Sequence[Mean], quantity: str) -> tuple[Factor, Mean, Mean] | None:
    """Growth of a method's average from the first point without stopped runs to the last one, with both points."""
    usable = [mean for mean in means if not mean.failed and mean.conclusive and mean.of(quantity).mean > 0]
    while usable and usable[0].at_least:
        usable.pop(0)
    if len(usable) < 2:
        return None
    ends = usable[0], usable[-1]
    if not comparable(quantity, *ends):
        return None
    medians = any(mean.by_median for mean in ends)
    first, last = (mean.of(quantity, median=medians) for mean in ends)
    bound = "at least" if ends[1].at_least else ""
    made = min(mean.tests for mean in ends)
    value = last.mean / first.mean
    low, high = last.low / first.high, last.high / first.low  # tests at two points are not paired: no median
    return Factor(value, low, math.nan, high, made, bound, last.mean, first.mean, medians), *ends


def trend(values: Sequence[float]) -> Verdict:
    """Whether values rise from first to last by a factor of ``TREND`` with a rank correlation of at least 0.7."""
    if len(values) < 2:
        return NO_DATA
    ends = values[-1] / values[0]
    ranks = np.argsort(np.argsort(values))
    correlation = np.corrcoef(np.arange(len(values)), ranks)[0, 1]
    if ends >= TREND:
        return REPRODUCED if correlation >= 0.7 else PARTLY
    return NOT


def share(hits: int, total: int) -> Verdict:
    """The verdict on a statement about all points: reproduced when true at 99 %, partly at half of them."""
    if not total:
        return NO_DATA
    return REPRODUCED if hits >= 0.99 * total else PARTLY if hits >= 0.5 * total else NOT


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# -- curves ------------------------------------------------------------------------------------------------------------
def first_below(curve: Curve, values: np.ndarray, level: float) -> float | None:
    """The first iteration at which values are at most ``level``, or None."""
    below = np.flatnonzero(values <= level)
    return float(curve.iteration[below[0]]) if len(below) else None


def contraction(curve: Curve, floor: float = 1e-12) -> np.ndarray:
    """``|X_{t+1} - X| / |X_t - X|`` for each step, while the error exceeds rounding errors."""
    error = curve.error[np.isfinite(curve.error)]
    above = error > floor
    keep = len(error) if above.all() else int(np.argmin(above)) + 1
    error = error[:keep]
    return error[1:] / error[:-1] if len(error) > 1 else np.empty(0)


# -- points and texts --------------------------------------------------------------------------------------------------
def nearest(cases: Iterable[Case], near: Mapping[str, float]) -> Case | None:
    """The point nearest to ``near``: by its first parameter, then the next, in logarithms."""

    def distance(case: Case) -> tuple[float, ...]:
        return tuple(_apart(getattr(case, name), value) for name, value in near.items())

    return min(cases, key=distance, default=None)


def _apart(value: float | None, wanted: float) -> float:
    return math.inf if not value else round(abs(math.log(value / wanted)), 3)


def stand_in(case: Case, near: Mapping[str, float]) -> str:
    """A note where the point is not the paper's; otherwise empty."""
    off = [
        f"{case.label(name)} instead of {plain(value)}"
        for name, value in near.items()
        if getattr(case, name) is not None and _apart(getattr(case, name), value) > 0.01
    ]
    return f"Measured at {', '.join(off)}, the nearest point that was run." if off else ""


def having(points: dict[Case, dict[str, Mean]], *methods: str) -> list[Case]:
    """The points at which all of these methods ran and at least half of their runs count."""
    return [case for case, means in points.items() if all(name in means and means[name].conclusive for name in methods)]


def times(value: float) -> str:
    """A factor as text: 0.87 ×, 2.35 ×, 10 ×, 118 ×."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{float(f'{value:.{digits}f}'):g}\N{NO-BREAK SPACE}×"


def tests(number: int) -> str:
    return counted(number, "test")


def theorem_label(case: Case) -> str:
    """A point of the theorem's experiment: within its assumptions, or Gaussian."""
    if not case.field:
        return f"Gaussian, {case.label('n1', 'rank', 'm')}"
    return f"{case.label('n1', 'rank')}, {case.field.replace('inside the premise', 'within the assumptions')}"  # as stored
