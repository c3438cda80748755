"""The tables of a reproduction, read back: runs, their traces, the tuning, and averages over tests."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
BOUNDED = ("iterations", "seconds")  # what a run that is cut short bounds from below
VERSIONS = ("lorank", "numpy", "scipy", "python")


class Case(NamedTuple):
    """The parameters that tell points of an experiment apart; None or an empty text where one does not apply."""

    n1: int | None
    n2: int | None
    rank: int | None
    oversampling: float | None
    m: int | None
    noise: float | None
    field: str

    def label(self, *names: str) -> str:
        """For people: ``n = 10 000, r = 10, 1/q = 5``. By default all that applies, m and n2 where they say more."""
        chosen = names or ("n1", "rank", "oversampling", "noise", *(("m",) if self.oversampling is None else ()))
        known = [name for name in chosen if getattr(self, name) is not None]
        return ", ".join(equal(self.symbol(name), getattr(self, name)) for name in known)

    def symbol(self, name: str) -> str:
        """What the paper calls a parameter. Phase retrieval counts measurements by n, not by degrees of freedom."""
        by_n = name == "oversampling" and self.n1 and self.m and self.oversampling == self.m / self.n1
        return "m/n" if by_n else SYMBOLS[name]


SYMBOLS = {"n1": "n", "n2": "n2", "rank": "r", "oversampling": "1/q", "m": "m", "noise": "\N{GREEK SMALL LETTER SIGMA}"}


def varying(cases: Iterable[Case]) -> list[str]:
    """The parameters in which points differ, m only where the others leave some alike; the size where there is one point."""
    found = set(cases)
    names = [name for name in ("rank", "oversampling", "n1", "noise") if len({getattr(case, name) for case in found}) > 1]
    if len({tuple(getattr(case, name) for name in names) for case in found}) < len(found):
        names.append("m")
    return names or ["n1"]


@dataclass(frozen=True)
class Row:
    """One run. Numbers that do not apply are nan."""

    experiment: str
    scale: str
    method: str
    setting: str
    case: Case
    seed: int
    iterations: float
    seconds: float
    error: float
    residual: float
    heldout_rmse: float
    reached: bool
    capped: bool
    status: str
    threads: str
    date: str
    versions: tuple[str, ...]
    machine: str

    @property
    def pace(self) -> float:
        """Seconds an iteration, the start shared out among them."""
        return self.seconds / self.iterations if self.iterations > 0 else math.nan

    @property
    def bound(self) -> bool:
        """Whether the run was cut short, so that its iterations and seconds are lower bounds."""
        return self.capped and not self.reached

    @property
    def failed(self) -> bool:
        """Whether the run ended by itself without having reached its aim: it diverged, or stood still."""
        return not (self.reached or self.capped)


@dataclass(frozen=True)
class Curve:
    """One run's way, iteration by iteration; ``case.noise`` is None."""

    experiment: str
    method: str
    case: Case
    seed: int
    iteration: np.ndarray
    seconds: np.ndarray
    residual: np.ndarray
    error: np.ndarray
    heldout_rmse: np.ndarray


@dataclass(frozen=True)
class Candidate:
    """A setting that tuning tried, on one seed."""

    experiment: str
    method: str
    case: Case
    seed: int | None
    candidate: str
    iterations: float
    seconds: float
    error: float
    reached: bool
    chosen: bool


class Stat(NamedTuple):
    """An average over tests, with the smallest and the largest of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Mean:
    """A method's runs at one point, one a test, to be averaged.

    Averages are means, as in the paper. Where some runs were cut short, but fewer than half, what these would have taken is
    not known and the mean neither, but the median is: it then stands in for the mean. Otherwise the mean is a lower bound.
    """

    method: str
    case: Case
    rows: tuple[Row, ...]

    @cached_property
    def counted(self) -> tuple[Row, ...]:
        """The runs that say how long the method takes: those that failed are left out, unless all did."""
        return tuple(row for row in self.rows if not row.failed) or self.rows

    @property
    def tests(self) -> int:
        return len(self.counted)

    @property
    def failed(self) -> bool:
        """Whether no run reached its aim, or was on its way there when cut short."""
        return all(row.failed for row in self.rows)

    @property
    def cut(self) -> int:
        """How many runs were cut short."""
        return sum(row.bound for row in self.counted)

    @property
    def at_least(self) -> bool:
        """Whether half of the runs or more were cut short, so that the averages are lower bounds."""
        return 0 < self.tests <= 2 * self.cut

    @property
    def is_median(self) -> bool:
        """Whether some runs were cut short, but so few that the median is known: it is the average then."""
        return 0 < 2 * self.cut < self.tests

    @property
    def reached(self) -> int:
        """In how many tests the aim was reached."""
        return sum(row.reached for row in self.rows)

    def of(self, quantity: str, *, median: bool = False) -> Stat:
        """The average of ``"iterations"``, ``"seconds"``, ``"error"``, ... over the tests; nan where there is none."""
        values = np.array([getattr(row, quantity) for row in self.counted], float)
        values = values[np.isfinite(values)]
        if not len(values):
            return Stat(math.nan, math.nan, math.nan)
        ends = float(values.min()), float(values.max())
        return Stat(middle(self.counted, quantity) if median or self.is_median else float(values.mean()), *ends)


def middle(rows: Sequence[Row], quantity: str) -> float:
    """The median over runs; those cut short count as the longest, as far as they are fewer than half."""
    bounded = quantity in BOUNDED and 2 * sum(row.bound for row in rows) < len(rows)
    values = [math.inf if bounded and row.bound else float(getattr(row, quantity)) for row in rows]
    return float(np.median([value for value in values if not math.isnan(value)]))


@dataclass(frozen=True)
class Tables:
    """All that an output folder holds."""

    results: tuple[Row, ...] = ()
    curves: tuple[Curve, ...] = ()
    tuning: tuple[Candidate, ...] = ()

    def experiments(self) -> list[str]:
        """Those with results, in the order of the table."""
        return list(dict.fromkeys(row.experiment for row in self.results))

    def of(self, *experiments: str) -> list[Row]:
        """The rows of some experiments."""
        return [row for row in self.results if row.experiment in experiments]

    def curves_of(self, experiment: str) -> list[Curve]:
        return [curve for curve in self.curves if curve.experiment == experiment]


def load(out: Path) -> Tables:
    """Read the tables in a folder. A table that is not there is empty."""
    rows = [_row(cells) for cells in _read(out / "results.csv")]
    # A run that was made again stands further down, and counts.
    results = {(row.experiment, row.method, row.case, row.seed): row for row in rows}
    return Tables(tuple(results.values()), tuple(_curves(out / "traces.csv")), tuple(_tuning(out / "tuning.csv")))


def group(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items with the same key together, in their order."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def average(rows: Iterable[Row]) -> dict[Case, dict[str, Mean]]:
    """The runs of one experiment, averaged over tests: by point, from small to large, and by method."""
    cases = group(rows, lambda row: row.case)
    return {
        case: {method: Mean(method, case, tuple(runs)) for method, runs in group(cases[case], lambda row: row.method).items()}
        for case in sorted(cases, key=_order)
    }


def series(points: dict[Case, dict[str, Mean]], method: str) -> list[Mean]:
    """One method's averages, from point to point."""
    return [means[method] for means in points.values() if method in means]


def methods(points: dict[Case, dict[str, Mean]]) -> list[str]:
    """All methods that occur."""
    return list(dict.fromkeys(method for means in points.values() for method in means))


def typical(curves: Sequence[Curve]) -> Curve:
    """Of several tests the one with the median number of iterations."""
    return sorted(curves, key=lambda curve: (len(curve.iteration), curve.seed))[(len(curves) - 1) // 2]


def equal(symbol: str, value: object) -> str:
    """``n = 10 000``, in one piece where lines are broken."""
    return f"{symbol} = {plain(value)}".replace(" ", "\N{NO-BREAK SPACE}")


def plain(value: object) -> str:
    """A number for people: 10 000, 0.001, 1.2."""
    if isinstance(value, str):
        return value
    number = float(value)  # type: ignore[arg-type]
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{number:.3g}"


def _order(case: Case) -> tuple[tuple[bool, float], ...]:
    values = (case.rank, case.oversampling, case.n1, case.m, case.noise)
    return tuple((value is not None, float(value or 0)) for value in values)


# -- reading -----------------------------------------------------------------------------------------------------------
class _Cells:
    """A line of a table; complaints name the file, the line and the column."""

    def __init__(self, path: Path, line: int, cells: dict[str, str]) -> None:
        self.path, self.line, self.cells = path, line, cells

    def text(self, name: str) -> str:
        try:
            return self.cells[name] or ""
        except KeyError:
            raise ValueError(f"{self.path} has no column {name!r}: it was not written by `lorank reproduce`") from None

    def real(self, name: str) -> float:
        text = self.text(name)
        try:
            return float(text) if text else math.nan
        except ValueError:
            raise ValueError(f"{self.path}, line {self.line}, column {name!r}: {text!r} is not a number") from None

    def maybe(self, name: str) -> float | None:
        value = self.real(name)
        return None if math.isnan(value) else value

    def whole(self, name: str) -> int | None:
        value = self.real(name)
        if math.isnan(value):
            return None
        if value != int(value):
            raise ValueError(f"{self.path}, line {self.line}, column {name!r}: {self.text(name)!r} is not a whole number")
        return int(value)

    def flag(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in ("true", "false", ""):
            raise ValueError(f"{self.path}, line {self.line}, column {name!r}: {text!r} is neither true nor false")
        return text == "true"

    def case(self, *, noise: bool = True) -> Case:
        return Case(
            self.whole("n1"),
            self.whole("n2"),
            self.whole("rank"),
            self.maybe("oversampling"),
            self.whole("m"),
            self.maybe("noise") if noise else None,
            self.text("field"),
        )


def _read(path: Path) -> Iterator[_Cells]:
    if not path.exists():
        return
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        for cells in reader:
            yield _Cells(path, reader.line_num, cells)


def _row(cells: _Cells) -> Row:
    return Row(
        experiment=cells.text("experiment"),
        scale=cells.text("scale"),
        method=cells.text("method").lower(),
        setting=cells.text("setting"),
        case=cells.case(),
        seed=cells.whole("seed") or 0,
        iterations=cells.real("iterations"),
        seconds=cells.real("seconds"),
        error=cells.real("error"),
        residual=cells.real("residual"),
        heldout_rmse=cells.real("heldout_rmse"),
        reached=cells.flag("reached"),
        capped=cells.flag("capped"),
        status=cells.text("status"),
        threads=cells.text("threads"),
        date=cells.text("date"),
        versions=tuple(cells.text(name) for name in VERSIONS),
        machine=cells.text("machine"),
    )


def _curves(path: Path) -> Iterator[Curve]:
    lines = group(
        _read(path),
        lambda cells: (
            cells.text("experiment"),
            cells.text("method").lower(),
            cells.case(noise=False),
            cells.whole("seed") or 0,
        ),
    )
    for (experiment, method, case, seed), steps in lines.items():
        columns = {
            name: np.array([cells.real(name) for cells in steps])
            for name in ("iteration", "seconds", "residual", "error", "heldout_rmse")
        }
        order = np.argsort(columns["iteration"], kind="stable")
        yield Curve(experiment, method, case, seed, **{name: column[order] for name, column in columns.items()})


def _tuning(path: Path) -> Iterator[Candidate]:
    for cells in _read(path):
        yield Candidate(
            cells.text("experiment"),
            cells.text("method").lower(),
            cells.case(),
            cells.whole("seed"),
            cells.text("candidate"),
            cells.real("iterations"),
            cells.real("seconds"),
            cells.real("error"),
            cells.flag("reached"),
            cells.flag("chosen"),
        )
