"""Tables of stored runs: runs, traces and tuning as objects, averages over tests, CSV files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..report.html import write_text
from .experiment import TRACED
from .store import Record, check_header, ordered, read

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
BOUNDED = ("iterations", "seconds")  # quantities that a stopped run bounds from below
TIMES = ("seconds", "pace")  # quantities that depend on the machine
VERSIONS = ("lorank", "numpy", "scipy", "python")
MEASURED = ("iterations", "seconds", "error", "residual", "heldout_rmse")
SYMBOLS = {
    **{"n1": "n", "rank": "r", "oversampling": "1/q"},
    **{"noise": "\N{GREEK SMALL LETTER SIGMA}", "kappa": "\N{GREEK SMALL LETTER KAPPA}"},
}


class Case(SimpleNamespace):
    """The parameters of a point as attributes; None where one does not apply. Hashable.

    Examples
    --------
    >>> case = Case(n1=100, rank=5, kappa=10.0)
    >>> case.rank, case.noise
    (5, None)
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return None

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(vars(self).items())))

    def label(self, *names: str) -> str:
        """Text such as ``n = 10 000, r = 10, 1/q = 5``; by default of all parameters that apply."""
        left_out = {"n2", "field", *(() if self.oversampling is None else ("m",))}
        chosen = names or [name for name in ordered(vars(self)) if name not in left_out]
        known = [name for name in chosen if getattr(self, name) is not None]
        return ", ".join(equal(self.symbol(name), getattr(self, name)) for name in known)

    def symbol(self, name: str) -> str:
        """The paper's symbol. Phase retrieval counts measurements per entry, not per degree of freedom."""
        by_n = name == "oversampling" and self.n1 and self.m and self.oversampling == self.m / self.n1
        return "m/n" if by_n else SYMBOLS.get(name, name)


def varying(cases: Iterable[Case]) -> list[str]:
    """The parameters in which points differ, m only where the others do not suffice; the size of a single point."""
    found = set(cases)
    known = ordered({name for case in found for name in vars(case)} - {"n2", "m", "field"})
    names = [name for name in known if len({getattr(case, name) for case in found}) > 1]
    if len({tuple(getattr(case, name) for name in names) for case in found}) < len(found):
        names.append("m")
    return names or known[:1]


@dataclass(frozen=True)
class Row:
    """A run. Numbers that do not apply are nan; ``extra`` has further measurements."""

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
    threads: int
    date: str
    versions: tuple[str, ...]
    machine: str
    protocol: int
    start: float = math.nan  # seconds of the initialization
    extra: Mapping[str, float] = field(default_factory=dict)

    def get(self, quantity: str) -> float:
        """A quantity by its name; nan where it was not measured."""
        found = getattr(self, quantity, None)
        return float(self.extra.get(quantity, math.nan) if found is None else found)

    @property
    def pace(self) -> float:
        """Seconds per iteration without the initialization; nan where its time is unknown."""
        return (self.seconds - self.start) / self.iterations if self.iterations > 0 else math.nan

    @property
    def bound(self) -> bool:
        """Whether a limit stopped the run, so that its iterations and seconds are lower bounds."""
        return self.capped and not self.reached

    @property
    def failed(self) -> bool:
        """Whether the run diverged or stagnated."""
        return not (self.reached or self.capped)


@dataclass(frozen=True)
class Curve:
    """A run, iteration by iteration: columns ``iteration``, ``seconds``, ``residual`` and the measurements, as attributes."""

    experiment: str
    method: str
    case: Case
    seed: int
    columns: Mapping[str, np.ndarray]

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_") or name == "columns":
            raise AttributeError(name)
        return self.columns.get(name, np.full(len(self.columns["iteration"]), math.nan))


@dataclass(frozen=True)
class Candidate:
    """A setting tried in tuning, on one seed."""

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
    budget: str = ""  # budget of the method as text


class Stat(NamedTuple):
    """An average over tests, with the minimum and the maximum."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Mean:
    """A method's runs at one point, one a test, to be averaged.

    Averages are means, as in the paper. Where fewer than half of the runs were stopped by a limit, the mean is unknown and the
    median replaces it. Where half or more were stopped, the mean is a lower bound.
    """

    method: str
    case: Case
    rows: tuple[Row, ...]

    @cached_property
    def counted(self) -> tuple[Row, ...]:
        """The runs that determine the cost: those that did not fail, or all if all failed."""
        return tuple(row for row in self.rows if not row.failed) or self.rows

    @property
    def tests(self) -> int:
        return len(self.counted)

    @property
    def failed(self) -> bool:
        """Whether all runs failed."""
        return all(row.failed for row in self.rows)

    @property
    def conclusive(self) -> bool:
        """Whether at least half of the runs count, or all failed."""
        return 2 * self.tests >= len(self.rows)

    @property
    def stopped(self) -> int:
        """Number of runs stopped by a limit."""
        return sum(row.bound for row in self.counted)

    @property
    def at_least(self) -> bool:
        """Whether half of the runs or more were stopped, so that the averages are lower bounds."""
        return 0 < self.tests <= 2 * self.stopped

    @property
    def by_median(self) -> bool:
        """Whether fewer than half of the runs were stopped, so that the average is the median."""
        return 0 < 2 * self.stopped < self.tests

    @property
    def timed_out(self) -> bool:
        """Whether a limit on time, not on iterations, stopped some runs."""
        return any(row.status == "time" for row in self.counted)

    @property
    def reached(self) -> int:
        """Number of tests that converged."""
        return sum(row.reached for row in self.rows)

    def of(self, quantity: str, *, median: bool = False) -> Stat:
        """The average of ``"iterations"``, ``"seconds"``, ``"error"``, ... over the tests; nan without values."""
        values = np.array([row.get(quantity) for row in self.counted], float)
        values = values[np.isfinite(values)]
        if not len(values):
            return Stat(math.nan, math.nan, math.nan)
        ends = float(values.min()), float(values.max())
        return Stat(median_of(self.counted, quantity) if median or self.by_median else float(values.mean()), *ends)


def comparable(quantity: str, *found: Mean) -> bool:
    """Whether averages may be compared: times only if all runs were made on the same machine."""
    return quantity not in TIMES or len({row.machine for mean in found for row in mean.counted}) <= 1


def median_of(rows: Sequence[Row], quantity: str) -> float:
    """The median over runs; stopped runs count as infinite where they are fewer than half."""
    bounded = quantity in BOUNDED and 2 * sum(row.bound for row in rows) < len(rows)
    values = [math.inf if bounded and row.bound else row.get(quantity) for row in rows]
    return float(np.median([value for value in values if not math.isnan(value)]))


@dataclass(frozen=True)
class Tables:
    """The content of an output folder."""

    results: tuple[Row, ...] = ()
    curves: tuple[Curve, ...] = ()
    tuning: tuple[Candidate, ...] = ()

    def experiments(self) -> list[str]:
        """Experiments with results, in the order of the table."""
        return list(dict.fromkeys(row.experiment for row in self.results))

    def of(self, *experiments: str) -> list[Row]:
        """The runs of some experiments."""
        return [row for row in self.results if row.experiment in experiments]

    def curves_of(self, experiment: str) -> list[Curve]:
        return [curve for curve in self.curves if curve.experiment == experiment]


def group(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items grouped by key, in their order."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def average(rows: Iterable[Row]) -> dict[Case, dict[str, Mean]]:
    """The runs of one experiment by point, in increasing order, and by method."""
    cases = group(rows, lambda row: row.case)
    return {
        case: {method: Mean(method, case, tuple(runs)) for method, runs in group(cases[case], lambda row: row.method).items()}
        for case in sorted(cases, key=_order)
    }


def series(points: dict[Case, dict[str, Mean]], method: str) -> list[Mean]:
    """One method's averages at all points."""
    return [means[method] for means in points.values() if method in means]


def methods(points: dict[Case, dict[str, Mean]]) -> list[str]:
    """All methods."""
    return list(dict.fromkeys(method for means in points.values() for method in means))


def equal(symbol: str, value: object) -> str:
    """``n = 10 000`` with no-break spaces."""
    return f"{symbol} = {plain(value)}".replace(" ", "\N{NO-BREAK SPACE}")


def plain(value: object) -> str:
    """A number as text: 10 000, 0.001, 1.2."""
    if not isinstance(value, (int, float)):
        return str(value)
    number = float(value)
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{number:.3g}"


def rate(mean: Mean) -> float:
    """Success rate in percent."""
    return 100.0 * mean.reached / len(mean.rows)


def amount(value: float, unit: str) -> str:
    """A quantity with its unit."""
    if unit == "seconds":
        return f"{value:.3g}\N{NO-BREAK SPACE}s"
    if unit == "pace":
        return f"{1e3 * value:.3g}\N{NO-BREAK SPACE}ms"
    return (f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")) if unit == "iterations" else f"{value:.3g}"


def counted(number: int, what: str) -> str:
    """``1 test``, ``2 tests``, ``3 boxes``."""
    plural = "" if number == 1 else "es" if what.endswith("x") else "s"
    return f"{number}\N{NO-BREAK SPACE}{what}{plural}"


def _order(case: Case) -> tuple[tuple[bool, float, str], ...]:
    first = ("rank", "oversampling", "n1", "m", "noise")
    values = [getattr(case, name) for name in (*first, *sorted({*vars(case)} - {*first, "n2"}))]
    return tuple(
        (value is not None, float(value or 0), "") if isinstance(value, (int, float, type(None))) else (True, 0.0, str(value))
        for value in values
    )


# -- from stored runs --------------------------------------------------------------------------------------------------
def stored(out: Path, names: Sequence[str], scale: str | None = None) -> list[Record]:
    """The records of these experiments in ``out/runs``, the latest of each run, with experiment and scale.

    Raises a ValueError for records of another scale than the one given, or than the first.
    """
    found: dict[tuple[str, str], Record] = {}
    for name in names:
        path = out / "runs" / f"{name}.jsonl"
        if not path.exists() or b"\n" not in path.read_bytes():
            continue
        header, records = read(path)
        check_header(path, header, scale)
        scale = header["scale"]
        found |= {(name, record["key"]): {"experiment": name, "scale": scale, **record} for record in records}
    return list(found.values())


def tables(records: Sequence[Record]) -> Tables:
    """Records as objects."""
    runs = [record for record in records if record["kind"] == "run"]
    tuned = [_budget(record) | one for record in records if record["kind"] == "tuning" for one in record["candidates"]]
    return Tables(
        tuple(_made(Row, record) for record in runs if "iterations" in record),
        tuple(_made(Curve, record | {"columns": _columns(record["trace"])}) for record in runs if record.get("trace")),
        tuple(_made(Candidate, record) for record in tuned),
    )


def _made(kind: type[T], record: Record) -> T:
    """An object from the record's entries of the same names; None becomes nan."""
    known = {name: value for name, value in record["params"].items() if value is not None}
    case = Case(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})
    values: dict[str, Any] = {**record, "case": case, "versions": tuple(record.get(name, "") for name in VERSIONS)}
    values = {"protocol": 1, "status": "", "threads": 1, "date": "", "machine": ""} | values
    if kind is not Curve:
        values |= {name: _real(record.get(name)) for name in MEASURED}
    if kind is Row:
        trace = record.get("trace") or {}
        start = record.get("start")
        values["start"] = _real((trace.get("seconds") or [None])[0] if start is None else start)
        own = {one.name for one in fields(Row)} | {"wall", "cpu"}
        values["extra"] = {name: float(v) for name, v in record.items() if isinstance(v, (int, float)) and name not in own}
    return kind(**{one.name: values[one.name] for one in fields(kind)})  # type: ignore[arg-type]


def _columns(trace: Record) -> dict[str, np.ndarray]:
    return {name: np.array([_real(value) for value in values]) for name, values in trace.items()}


def _real(value: float | None) -> float:
    return math.nan if value is None else float(value)


# -- as CSV ------------------------------------------------------------------------------------------------------------
TUNED = ("iterations", "seconds", "error", "reached", "status", "chosen")
ABOUT = ("threads", "date", *VERSIONS, "machine")


def write_csv(out: Path, records: Sequence[Record]) -> list[Path]:
    """Write ``results.csv``, ``traces.csv`` and ``tuning.csv``."""
    names = ordered({name for record in records for name in record["params"]})
    held = {name for record in records for name, values in (record.get("trace") or {}).items() if len(values)}
    further = tuple(sorted({name for row in tables(records).results for name in row.extra}))
    measured = (*MEASURED, *further, "start", "reached", "capped", "status")
    traced = (*TRACED, *sorted(held - {*TRACED}))
    return [
        write_text(out / f"{name}.csv", _csv(("experiment", *columns), rows))
        for name, columns, rows in (
            ("results", ("scale", "method", "setting", *names, "seed", *measured, *ABOUT), _runs(records)),
            ("traces", ("method", *names, "seed", *traced), _steps(records)),
            (
                "tuning",
                ("method", *names, "seed", "candidate", *TUNED, "budget", "protocol"),
                (record["params"] | _budget(record) | one for record in records for one in record.get("candidates", ())),
            ),
        )
    ]


def _budget(record: Record) -> Record:
    """The record with the method's budget as text."""
    found = record.get("budget")
    if found is None:  # first protocol
        return record | {"budget": ""}
    runs = f"{found['grid']} candidates on {found['seeds']} seeds"
    return record | {"budget": f"{runs}, at most {found['max_seconds']:g} s and {found['max_iter']} iterations each"}


def _runs(records: Iterable[Record]) -> Iterator[Record]:
    return (record["params"] | record for record in records if record["kind"] == "run")


def _steps(records: Iterable[Record]) -> Iterator[Record]:
    for record in _runs(records):
        trace = record.get("trace") or {}
        yield from (record | dict(zip(trace, row, strict=True)) for row in zip(*trace.values(), strict=True))


def _csv(columns: Iterable[str], rows: Iterable[Record]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return float(f"{value:.8g}") if isinstance(value, float) else value
