"""The rules by which a claim is judged: what is measured, and when that counts as reproduced."""
# ruff: noqa: RUF001 - texts for people have signs such as the one for times

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ..experiments.tables import BOUNDED, TIMES, Case, Curve, Mean, comparable, median_of, plain
from .styles import label

KEPT, SOME = 0.9, 0.5  # of a factor, in logarithms: when it is reproduced, and when partly
CLEAR = 1.1  # a method is faster than another from this factor on, slower from its inverse
ALIKE = 4 / 3  # "comparable", "almost the same": within this factor, either way
SLIGHT = 1.5  # growth up to this is slight, from this on noticeable
TREND = 1.25  # an advantage "grows" when it does so by this factor from end to end
MISSED = 10.0  # points by which a success rate may be off: one trial of ten


class Verdict(StrEnum):
    """How a claim stands."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not"
    NO_DATA = "no data"


REPRODUCED, PARTLY, NOT, NO_DATA = Verdict

RULES = (
    f"A factor of f (“1/f of the time”) is reproduced when the measured one is at least f to the power {KEPT}, partly when it "
    f"is at least f to the power {SOME}, and otherwise not: of a factor of 10 that is {10**KEPT:.1f} and {10**SOME:.1f}. More "
    "than the paper said counts as reproduced. Averages are means over the tests, as in the paper. Where runs were cut short "
    "by their caps, but fewer than half, the mean is not known and medians are compared; a method that should be fast and was "
    "cut short in some tests is reproduced in part at most. Where half or more of the slower method's runs were cut short the "
    "factor is a lower bound, “at least”; one too small to decide anything is no data. “Comparable” and “almost the same” mean "
    f"within a factor of {ALIKE:.2f}, a slight growth at most {SLIGHT}, a trend at least {TREND} from end to end. Success "
    f"rates may be off by {MISSED:g} points, one trial of ten. A sentence with several figures is reproduced when all of them "
    "are, not when none is, and partly in between. Times are compared within one machine alone."
)


@dataclass(frozen=True)
class Part:
    """One figure of a claim: what the paper says, what was measured, and how that compares."""

    label: str
    said: str
    measured: str
    verdict: Verdict
    decides: bool = True  # False: shown beside, the claim does not hang on it


def combine(parts: Sequence[Part]) -> Verdict:
    """The verdict on a sentence from those on its figures."""
    verdicts = [part.verdict for part in parts if part.decides]
    known = {verdict for verdict in verdicts if verdict != NO_DATA}
    if not known:
        return NO_DATA
    if known == {NOT}:
        return NOT
    return REPRODUCED if known == {REPRODUCED} and NO_DATA not in verdicts else PARTLY


UNITS = {"pace": "time of an iteration"}


# -- factors -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Factor:
    """How many times more one method takes than another: of the means over the tests that both made.

    ``low``, ``median`` and ``high`` are the smallest, the median and the largest factor of a single test; ``bound`` is
    ``"at least"`` where the slow method was cut short, ``"at most"`` where the fast one was. Where that happened in fewer than
    half of the tests the factor is that of medians, and ``lapsed`` says that it happened to the fast method.
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
        """With the means behind it, the number of tests and their spread."""
        bound = f"{self.bound} " if self.bound else ""
        ends = times(self.low), times(self.high)
        middle = f", median {times(self.median)}" if self.tests > 2 and self.median > 0 else ""
        spread = f"{middle}, {ends[0]} to {ends[1]}" if self.tests > 1 and ends[0] != ends[1] else ""
        means = f"{'medians ' if self.medians else ''}{amount(self.slow, unit)} against {amount(self.fast, unit)}"
        return f"{bound}{times(self.value)} ({means}; {tests(self.tests)}{spread})"

    def judge(self, said: float) -> Verdict:
        """Against the factor that the paper states."""
        if self.value >= said**KEPT:
            return NO_DATA if self.bound == "at most" else PARTLY if self.lapsed else REPRODUCED
        if self.value >= said**SOME:
            return NO_DATA if self.bound == "at most" else PARTLY
        return NO_DATA if self.bound == "at least" else NOT


def factor(slow: Mean | None, fast: Mean | None, quantity: str) -> Factor | None:
    """The factor between two methods at one point; None where they share no test that tells."""
    if slow is None or fast is None or slow.failed or fast.failed:
        return None
    below = {row.seed: row for row in fast.counted}
    pairs = [(row, below[row.seed]) for row in slow.counted if row.seed in below]
    pairs = [pair for pair in pairs if all(0 < getattr(row, quantity) < math.inf for row in pair)]
    if quantity in TIMES:
        pairs = [(ours, theirs) for ours, theirs in pairs if ours.machine == theirs.machine]
    if not pairs:
        return None
    # A run cut short bounds what it would have taken in all, not what one of its iterations takes.
    sides = [[pair[k] for pair in pairs] for k in (0, 1)]
    cut = [sum(row.bound for row in side) if quantity in BOUNDED else 0 for side in sides]
    most, some = [2 * number >= len(pairs) for number in cut], [0 < 2 * number < len(pairs) for number in cut]
    if all(most):
        return None
    bound = "at least" if most[0] else "at most" if most[1] else ""
    found = factor_of(np.array([[getattr(row, quantity) for row in pair] for pair in pairs]), bound)
    if not any(some):
        return found
    above, under = (median_of(side, quantity) for side in sides)
    return replace(found, value=above / under, slow=above, fast=under, medians=True, lapsed=some[1])


def factor_of(values: np.ndarray, bound: str = "") -> Factor:
    """From what two methods took in the same tests, an (n, 2) array."""
    slow, fast = values.mean(axis=0)
    single = values[:, 0] / values[:, 1]
    return Factor(slow / fast, single.min(), float(np.median(single)), single.max(), len(values), bound, slow, fast)


def compare(
    slow: str, fast: str, means: dict[str, Mean], quantity: str, said: float, where: str, *, decides: bool = True
) -> Part:
    """One factor of the paper against what was measured at one point."""
    name = f"{label(slow)} / {label(fast)}, {UNITS.get(quantity, quantity)}{f' ({where})' if where else ''}"
    found = factor(means.get(slow), means.get(fast), quantity)
    if found is not None:
        return Part(name, times(said), found.text(quantity), found.judge(said), decides)
    return Part(name, times(said), _why_none(slow, fast, means, quantity), _verdict_of_none(slow, fast, means), decides)


def _why_none(slow: str, fast: str, means: dict[str, Mean], quantity: str) -> str:
    missing = [label(method) for method in (slow, fast) if method not in means]
    if missing:
        return f"no runs of {' and '.join(missing)}"
    failed = [method for method in (slow, fast) if means[method].failed]
    if failed:
        return "; ".join(f"{label(method)} did not get there in any of {tests(len(means[method].rows))}" for method in failed)
    if means[slow].at_least and means[fast].at_least:
        return "both were cut short by their caps"
    if not comparable(quantity, means[slow], means[fast]):
        return "their times are of different machines"
    return "no test that both made"


def _verdict_of_none(slow: str, fast: str, means: dict[str, Mean]) -> Verdict:
    """A method that never gets there where the others do has lost; anything else decides nothing."""
    lost = fast in means and means[fast].failed and slow in means and means[slow].reached > 0
    return NOT if lost else NO_DATA


def alike(first: str, second: str, points: Sequence[tuple[str, dict[str, Mean]]], quantity: str) -> list[Part]:
    """Whether two methods take about the same, point by point."""
    parts = []
    for where, means in points:
        found = factor(means.get(first), means.get(second), quantity)
        name = f"{label(first)} / {label(second)}, {UNITS.get(quantity, quantity)}{f' ({where})' if where else ''}"
        if found is None:
            why = _why_none(first, second, means, quantity)
            parts.append(Part(name, f"about {times(1)}", why, _verdict_of_none(second, first, means)))
            continue
        within = 1 / ALIKE <= found.value <= ALIKE
        # Cut short, it may be anything beyond the bound; fewer than said is better than said, though not the same.
        verdict = REPRODUCED if within else PARTLY if found.value < 1 else NOT
        if (found.bound == "at least" and found.value <= ALIKE) or (found.bound == "at most" and found.value >= 1 / ALIKE):
            verdict = NO_DATA
        parts.append(Part(name, f"about {times(1)}", found.text(quantity), verdict))
    return parts


# -- growth, trends, shares --------------------------------------------------------------------------------------------
def growth(means: Sequence[Mean], quantity: str) -> tuple[Factor, Mean, Mean] | None:
    """By how much a method's average grows, from the first point at which no run was cut short to the last; with both."""
    usable = [mean for mean in means if not mean.failed and mean.tells and mean.of(quantity).mean > 0]
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
    low, high = last.low / first.high, last.high / first.low  # the tests at two points are not the same: no median
    return Factor(value, low, math.nan, high, made, bound, last.mean, first.mean, medians), *ends


def trend(values: Sequence[float]) -> Verdict:
    """Whether values rise from first to last: by ``TREND`` at least, and all along (rank correlation at least 0.7)."""
    if len(values) < 2:
        return NO_DATA
    ends = values[-1] / values[0]
    ranks = np.argsort(np.argsort(values))
    correlation = np.corrcoef(np.arange(len(values)), ranks)[0, 1]
    if ends >= TREND:
        return REPRODUCED if correlation >= 0.7 else PARTLY
    return NOT


def share(hits: int, total: int) -> Verdict:
    """Of a statement about "all": reproduced when (nearly) always true, partly when mostly."""
    if not total:
        return NO_DATA
    return REPRODUCED if hits >= 0.99 * total else PARTLY if hits >= 0.5 * total else NOT


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def rate(mean: Mean) -> float:
    """Success in percent."""
    return 100.0 * mean.reached / len(mean.rows)


# -- curves ------------------------------------------------------------------------------------------------------------
def first_below(curve: Curve, values: np.ndarray, level: float) -> float | None:
    """The first iteration at which values are at most ``level``; None where they never are."""
    below = np.flatnonzero(values <= level)
    return float(curve.iteration[below[0]]) if len(below) else None


def contraction(curve: Curve, floor: float = 1e-12) -> np.ndarray:
    """``|X_{t+1} - X| / |X_t - X|`` for each step, as long as the error stands clear of rounding."""
    error = curve.error[np.isfinite(curve.error)]
    above = error > floor
    keep = len(error) if above.all() else int(np.argmin(above)) + 1
    error = error[:keep]
    return error[1:] / error[:-1] if len(error) > 1 else np.empty(0)


# -- choosing a point, words -------------------------------------------------------------------------------------------
def nearest(cases: Iterable[Case], **wanted: float) -> Case | None:
    """The point closest to the one wanted: by its first parameter, then the next, in logarithms."""

    def distance(case: Case) -> tuple[float, ...]:
        return tuple(_apart(getattr(case, name), value) for name, value in wanted.items())

    return min(cases, key=distance, default=None)


def _apart(value: float | None, wanted: float) -> float:
    return math.inf if not value else round(abs(math.log(value / wanted)), 3)


def stand_in(case: Case, **wanted: float) -> str:
    """What a reader must know where the point is not the paper's; empty where it is."""
    off = [
        f"{case.label(name)} in place of {plain(value)}"
        for name, value in wanted.items()
        if getattr(case, name) is not None and _apart(getattr(case, name), value) > 0.01
    ]
    return f"Measured at {', '.join(off)}: the point nearest to the paper's among those that were run." if off else ""


def having(points: dict[Case, dict[str, Mean]], *methods: str, where: Callable[[Case], bool] = lambda case: True) -> list[Case]:
    """The points at which all of these methods ran, and none failed in most tests but not in all: too few are left of it."""
    return [
        case
        for case, means in points.items()
        if where(case) and all(method in means and means[method].tells for method in methods)
    ]


def times(value: float) -> str:
    """A factor for people: 0.87 ×, 2.35 ×, 10 ×, 118 ×."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{float(f'{value:.{digits}f}'):g}\N{NO-BREAK SPACE}×"


def tests(number: int) -> str:
    return counted(number, "test")


def counted(number: int, what: str) -> str:
    """``1 test``, ``2 tests``, ``3 boxes``."""
    plural = "" if number == 1 else "es" if what.endswith("x") else "s"
    return f"{number}\N{NO-BREAK SPACE}{what}{plural}"


def theorem_label(case: Case) -> str:
    """A point of the theorem's experiment: inside its premise, or Gaussian."""
    return f"{case.label('n1', 'rank')}, {case.field}" if case.field else f"Gaussian, {case.label('n1', 'rank', 'm')}"


def amount(value: float, unit: str) -> str:
    """A quantity with its unit."""
    if unit == "seconds":
        return f"{value:.3g}\N{NO-BREAK SPACE}s"
    if unit == "pace":
        return f"{1e3 * value:.3g}\N{NO-BREAK SPACE}ms"
    return f"{value:.3g}" if unit == "error" else f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
