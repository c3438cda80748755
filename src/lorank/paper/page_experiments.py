"""Sections of the paper's page, one an experiment: plots, averages, settings and tuning."""
# ruff: noqa: RUF001 - texts contain dashes and other signs

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..experiments.tables import BOUNDED, Candidate, Mean, Row, Tables, average, group, methods, varying
from ..report.html import Markup, details, element, markup, table
from .checks import Points
from .claims import METHODS, TEXTS
from .panels import AT_LEAST, FAILED, FEWER, MEDIAN, Panel
from .styles import label, look_of, ordered
from .verdicts import amount, counted, rate

GPU_TABLE = "ranks-gpu.csv"
MARKS = {  # signs of points in the figures
    AT_LEAST: ("○ ↑", "lower bound: half of the runs or more were stopped by a limit"),
    MEDIAN: ("◎", "median: fewer than half of the runs were stopped by a limit"),
    FEWER: ("○", "mean over fewer tests than at other points"),
    FAILED: ("✕", "no test converged; the value at the end of the runs"),
}
DASHES = {"solid": None, "dash": "7 3", "dashdot": "7 3 2 3", "dot": "2 3"}


def experiment_section(tables: Tables, name: str, found: Sequence[Panel], out: Path | None) -> Markup:
    """The section of an experiment. A figure in the folder ``out`` is linked."""
    text, rows = TEXTS[name], tables.of(name)
    points = average(rows)
    picture = f"figures/{name}.png"
    there = out is not None and (out / picture).exists()
    link = [" ", element("a", "PNG image.", href=picture)] if there else None
    three = " three" if len(found) == 3 or name == "sensing-success" else ""
    return element(
        "section",
        element("h2", text.title),
        element("p", element("b", f"{text.figure}."), f" {text.text} {_tests(points)}", link),
        _note(_machines(rows)),
        _controls(found),
        element("div", [_panel(name, k, panel) for k, panel in enumerate(found)], class_=f"panels{three}"),
        _marks(found),
        _averages(name, points),
        _settings(points),
        _tuning(tables, name),
        _gpu_table(out) if name == "completion-size" else None,
        id=name,
    )


def _note(text: str) -> Markup:
    return element("p", text, class_="small soft")


def _folded(summary: str, note: str, listed: Markup) -> Markup:
    return details(summary, _note(note) if note else None, element("div", listed, class_="scroll"))


def _tests(points: Points) -> str:
    numbers = sorted({len(mean.rows) for means in points.values() for mean in means.values()})
    made = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    where = f"at {counted(len(points), 'point')}" if len(points) > 1 else f"at {next(iter(points)).label()}"
    return f"{made} test{'' if numbers == [1] else 's'} of each method {where}."


def _machines(rows: Sequence[Row]) -> str:
    """The machines on which times were measured, with the methods where there are several."""
    found = group(rows, lambda row: (row.machine, row.threads))
    where = {place: f"{place[0]} ({counted(place[1], 'thread')} per run)" for place in found}
    if len(found) == 1:
        return f"Times were measured on one machine, {next(iter(where.values()))}."
    used = {place: ordered([row.method for row in some]) for place, some in found.items()}
    each = "; ".join(f"{', '.join(map(label, used[place]))} on {where[place]}" for place in found)
    return f"Times were measured on several machines and are compared on the same machine only: {each}."


# -- plots -------------------------------------------------------------------------------------------------------------
def _controls(found: Sequence[Panel]) -> Markup:
    """The legend, and buttons for linear and logarithmic axes."""
    chips = [_chip(key) for key in ordered([key for panel in found for key in panel.keys])]
    switches = [] if any(panel.map for panel in found) else [_switch(sign, found) for sign in ("x", "y")]
    return element("div", chips, element("div", switches, class_="switches"), class_="controls")


def _switch(sign: str, found: Sequence[Panel]) -> Markup:
    kinds = {"log" if getattr(panel, f"log_{sign}") else "linear" for panel in found}
    buttons = [
        element("button", kind, type="button", data_axis=f"{sign}axis", data_type=kind, aria_pressed=pressed)
        for kind, pressed in ((kind, str(kinds == {kind}).lower()) for kind in ("linear", "log"))
    ]
    name = f"scale of the {sign} axis"
    return element("div", f"{sign} ", element("span", buttons), class_="switch", role="group", aria_label=name)


def _chip(key: str) -> Markup:
    look = look_of(key)
    dashes = None if key.startswith("#") else DASHES[look.plotly_dash]
    path = element("path", d="M1 4h24", stroke="currentColor", stroke_width="2.6", stroke_dasharray=dashes)
    return element(
        "button",
        element("svg", path, width=26, height=8, aria_hidden="true"),
        look.label,
        class_="chip",
        type="button",
        aria_pressed="true",
        data_key=key,
        title=METHODS.get(key, look.label),
        style=f"--c:{look.colour};--d:{look.dark}",
    )


def _panel(name: str, k: int, panel: Panel) -> Markup:
    chart = element("div", class_="chart", data_plot=f"{name}-{k}", role="img", aria_label=panel.title)
    return element("div", element("h3", panel.title), chart, class_="panel", data_only=panel.keys[0] if panel.map else None)


def _marks(found: Sequence[Panel]) -> Markup | None:
    marks = set().union(*(panel.marks for panel in found)) if found else set()
    shown = [element("span", f"{sign} {text}") for kind, (sign, text) in MARKS.items() if kind in marks]
    return element("p", shown, class_="small soft marks") if shown else None


# -- tables ------------------------------------------------------------------------------------------------------------
def _averages(name: str, points: Points) -> Markup:
    """All averages."""
    shown = [q for q in ("iterations", "seconds", "error", "residual", "heldout_rmse") if _any(points, q)]
    rows = []
    for case, means in points.items():
        for method in ordered(list(means)):
            mean = means[method]
            success = f"{rate(mean):.0f} %" if name == "sensing-success" else f"{mean.reached} of {len(mean.rows)}"
            rows.append((case.label(*varying(points)), label(method), *(_average(mean, q) for q in shown), success))
    head = ("point", "method", *("held-out RMSE" if q == "heldout_rmse" else q for q in shown), "converged")
    note = "Means over tests, with minimum and maximum. Where runs were stopped by a limit: ≥ a lower bound, ~ the median."
    return _folded("Averages", note, table(head, rows, numbers=range(2, len(head))))


def _any(points: Points, quantity: str) -> bool:
    return any(mean.of(quantity).mean > 0 for means in points.values() for mean in means.values())


def _average(mean: Mean, quantity: str) -> Markup:
    stat = mean.of(quantity)
    if not stat.mean >= 0:
        return Markup()
    unit = quantity if quantity in ("seconds", "iterations") else "error"
    low, middle, high = (amount(value, unit) for value in (stat.low, stat.mean, stat.high))
    bound = ("≥ " if mean.at_least else "~ " if mean.by_median else "") if quantity in BOUNDED else ""
    spread = [" ", element("span", f"({low}–{high})", class_="soft")] if low != high else None
    return markup([f"{bound}{middle}", spread])


def _settings(points: Points) -> Markup:
    """The settings of each method, and the points at which they were used."""
    rows = []
    for method in ordered(methods(points)):
        pairs = [(row.setting, case) for case, means in points.items() if method in means for row in means[method].rows]
        used = group(pairs, lambda pair: pair[0])
        for setting, found in used.items():
            cases = dict.fromkeys(case for _, case in found)
            where = "all points" if len(used) == 1 else "; ".join(case.label(*varying(points)) for case in cases)
            rows.append((label(method), element("code", setting), where))
    return _folded("Selected settings", "", table(("method", "setting", "points"), rows))


def _tuning(tables: Tables, name: str) -> Markup | None:
    """The candidates from which the settings were selected."""
    found = [one for one in tables.tuning if one.experiment == name]
    if not found:
        return None
    names = varying([one.case for one in found])
    rows = [
        (
            *(one.case.label(*names), label(one.method), element("code", one.candidate)),
            *("" if one.seed is None else one.seed, _amount(one.iterations, "iterations"), _amount(one.seconds, "seconds")),
            *(_amount(one.error, "error"), "yes" if one.reached else "no", element("b", "selected") if one.chosen else ""),
        )
        for one in found
    ]
    head = ("point", "method", "candidate", "seed", "iterations", "seconds", "error", "converged", "")
    note = f"Settings were selected on other seeds than those of the results. {_budget(found)}"
    return _folded("Tuning grid", note, table(head, rows, numbers=range(3, 7)))


def _amount(value: float, unit: str) -> str:
    return amount(value, unit) if value >= 0 else ""


def _budget(found: Sequence[Candidate]) -> str:
    """The tuning budget of every method."""
    budgets = group([one for one in found if one.budget], lambda one: one.budget)
    if len(budgets) == 1:
        return f"Budget of every method: {next(iter(budgets))}."
    names = varying([one.case for one in found])
    where = {text: list(dict.fromkeys(one.case.label(*names) for one in some)) for text, some in budgets.items()}
    return "".join(f"{text[0].upper()}{text[1:]} ({'; '.join(cases)}). " for text, cases in where.items())


def _gpu_table(out: Path | None) -> Markup | None:
    """Runs at ranks 50 and 100 up to the paper's n, where ``benchmarks/paper_ranks.py`` has written them."""
    path: Any = None if out is None else out / GPU_TABLE
    if path is None or not path.exists():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    note = (
        "No verdict depends on this table: other problems of the same kind, created and solved on a GPU (one NVIDIA H200, wall "
        f"time). {Path(GPU_TABLE).with_suffix('.md')} describes the runs."
    )
    return _folded("Ranks 50 and 100 up to n = 20 000, on a GPU", note, table(head, rows))
