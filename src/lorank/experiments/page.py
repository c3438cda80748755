"""HTML page of experiments: for each one its figures, averages, selected settings and tuning runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ..report.html import Markup, asset, details, document, element, markup, table, write_text
from .drawing import svg
from .figures import AT_LEAST, FAILED, FEWER, MEDIAN, STATED, Panel, Points
from .styles import Style, label, looks, ordered_methods
from .tables import (
    BOUNDED,
    MEASURED,
    Candidate,
    Mean,
    Row,
    Tables,
    amount,
    average,
    counted,
    group,
    methods,
    rate,
    varying,
)

MARKS = {  # signs of points in the figures
    AT_LEAST: ("\N{WHITE CIRCLE} \N{UPWARDS ARROW}", "lower bound: half of the runs or more were stopped by a limit"),
    MEDIAN: ("\N{BULLSEYE}", "median: fewer than half of the runs were stopped by a limit"),
    FEWER: ("\N{WHITE CIRCLE}", "mean over fewer tests than at other points"),
    FAILED: ("\N{MULTIPLICATION X}", "no test converged; the value at the end of the runs"),
    STATED: ("\N{HORIZONTAL BAR}", "the factor stated in the paper, times the measured value of the faster method"),
}


def page(title: str, body: object) -> str:
    """A document with the style and the scripts of experiments: legends, and the filter of claims."""
    return document(title, body, style=asset(__package__, "page.css"), script=asset(__package__, "page.js"))


def write_page(tables: Tables, out: Path, title: str, figures: Mapping[str, Mapping[str, Sequence[Panel]]]) -> Path:
    """Write ``out/index.html`` for experiments with their figures by name."""
    sections = [
        element("section", element("h2", name), section(tables, name, list(found.values())), id=name)
        for name, found in figures.items()
    ]
    head = element("header", element("h1", title), facts(tables.results))
    return write_text(out / "index.html", page(title, [head, element("main", sections), footer(out)]))


def footer(out: Path | None, *text: object) -> Markup:
    """Links to the tables of a folder, and a text."""
    names = [name for name in ("results.csv", "traces.csv", "tuning.csv") if out is not None and (out / name).exists()]
    links = [[", " if k else "", element("a", name, href=name)] for k, name in enumerate(names)]
    return element("footer", element("p", ["Data: ", links, ". "] if links else None, text), class_="small soft")


def facts(rows: Sequence[Row]) -> Markup:
    """Date, machine, versions, threads and scale of the runs."""
    dates = sorted({row.date[:10] for row in rows if row.date})
    found: dict[str, list[object]] = {
        "date": [" to ".join(dict.fromkeys((dates[0], dates[-1])))] if dates else [],
        "scale": [row.scale for row in rows],
        "machine": [processor(row) for row in rows],
        "threads": [row.threads for row in rows],
        **{name: [row.versions[k] for row in rows] for k, name in enumerate(("lorank", "numpy", "scipy", "python"))},
        "runs": [len(rows)],
    }
    shown = {name: "; ".join(dict.fromkeys(str(value) for value in values if value)) for name, values in found.items()}
    items = [element("div", element("dt", name), element("dd", text)) for name, text in shown.items() if text]
    return element("dl", items, class_="facts")


def section(
    tables: Tables,
    name: str,
    figures: Sequence[Sequence[Panel]],
    shown: Collection[str] = (),
    titles: Mapping[str, str] | None = None,
) -> Markup:
    """Figures and tables of an experiment. Of the legend entries, ``shown`` are switched on at first; by default all."""
    points = average(tables.of(name))
    panels = [panel for some in figures for panel in some]
    keys = ordered_methods([key for panel in panels for key in panel.keys])
    off = [key for key in keys if set(keys) & set(shown) and key not in shown]
    styles = looks(keys)
    return markup(
        [
            _note(_machines(tables.of(name))),
            element("div", [_chip(key, styles[key], key in off, titles or {}) for key in keys], class_="controls"),
            [_grid(f"{name}-{k}", some, styles, off) for k, some in enumerate(figures)],
            _marks(panels),
            _averages(points),
            _settings(points),
            _tuning(tables, name),
        ]
    )


def folded(summary: str, note: str, listed: Markup) -> Markup:
    """A table that a click on its summary shows."""
    return details(summary, _note(note) if note else None, element("div", listed, class_="scroll"))


def _note(text: str) -> Markup:
    return element("p", text, class_="small soft")


def _machines(rows: Sequence[Row]) -> str:
    """The machines on which times were measured, with the methods where there are several."""
    found = group(rows, lambda row: (processor(row), row.threads))
    where = {place: f"{place[0] or 'an unknown machine'} ({counted(place[1], 'thread')} per run)" for place in found}
    if len(found) == 1:
        return f"Times were measured on one machine, {next(iter(where.values()))}."
    used = {place: ordered_methods([row.method for row in some]) for place, some in found.items()}
    each = "; ".join(f"{', '.join(map(label, used[place]))} on {where[place]}" for place in found)
    return f"Times were measured on several machines and are compared on the same machine only: {each}."


def processor(row: Row) -> str:
    """The machine without the number of its cores: a run has its own threads."""
    return re.sub(r", \d+ cores", "", row.machine)


def _chip(key: str, look: Style, off: bool, titles: Mapping[str, str]) -> Markup:
    dashes = None if isinstance(look.dash, str) else " ".join(f"{part:g}" for part in look.dash[1])
    path = element("path", d="M1 4h24", stroke=look.colour, stroke_width="2.6", stroke_dasharray=dashes)
    drawn = element("svg", path, width=26, height=8, aria_hidden="true")
    state = {"type": "button", "aria_pressed": str(not off).lower(), "title": titles.get(key, look.label)}
    return element("button", drawn, look.label, class_="chip", data_chip=key, **state)


def _grid(name: str, panels: Sequence[Panel], styles: dict[str, Style], off: Collection[str]) -> Markup:
    columns = " three" if len(panels) == 3 or any(panel.map for panel in panels) else ""
    return element("div", [_panel(f"{name}-{k}", one, styles, off) for k, one in enumerate(panels)], class_=f"panels{columns}")


def _panel(name: str, panel: Panel, styles: dict[str, Style], off: Collection[str]) -> Markup:
    only = panel.keys[0] if panel.map else None
    chart = element("div", svg(panel, name, styles, off), class_="chart", role="img", aria_label=panel.title)
    return element("div", element("h3", panel.title), chart, class_="panel", data_only=only, hidden=only in off and "hidden")


def _marks(panels: Sequence[Panel]) -> Markup | None:
    marks = set().union(*(panel.marks for panel in panels)) if panels else set()
    shown = [element("span", f"{sign} {text}") for kind, (sign, text) in MARKS.items() if kind in marks]
    levels = dict.fromkeys(panel.level[1] for panel in panels if panel.level)
    shown += [element("span", f"dashed line: {text}") for text in levels]
    return element("p", shown, class_="small soft marks") if shown else None


# -- tables ------------------------------------------------------------------------------------------------------------
def _averages(points: Points) -> Markup:
    """All averages."""
    further = {name for means in points.values() for mean in means.values() for row in mean.rows for name in row.extra}
    shown = [q for q in (*MEASURED, *sorted(further)) if any(one.of(q).mean > 0 for m in points.values() for one in m.values())]
    rows = []
    for case, means in points.items():
        for method in ordered_methods(means):
            mean = means[method]
            success = f"{mean.reached} of {len(mean.rows)} ({rate(mean):.0f} %)"
            rows.append((case.label(*varying(points)), label(method), *(_average(mean, q) for q in shown), success))
    head = ("point", "method", *("held-out RMSE" if q == "heldout_rmse" else q for q in shown), "converged")
    note = "Means over tests, with minimum and maximum. Where runs were stopped by a limit: \u2265 a lower bound, ~ the median."
    return folded("Averages", note, table(head, rows, numbers=range(2, len(head))))


def _average(mean: Mean, quantity: str) -> Markup:
    stat = mean.of(quantity)
    if not stat.mean >= 0:
        return Markup()
    low, middle, high = (amount(value, quantity) for value in (stat.low, stat.mean, stat.high))
    bound = ("\u2265 " if mean.at_least else "~ " if mean.by_median else "") if quantity in BOUNDED else ""
    spread = [" ", element("span", f"({low}\u2013{high})", class_="soft")] if low != high else None
    return markup([f"{bound}{middle}", spread])


def _settings(points: Points) -> Markup:
    """The settings of each method, and the points at which they were used."""
    rows = []
    for method in ordered_methods(methods(points)):
        pairs = [(row.setting, case) for case, means in points.items() if method in means for row in means[method].rows]
        used = group(pairs, lambda pair: pair[0])
        for setting, found in used.items():
            cases = dict.fromkeys(case for _, case in found)
            where = "all points" if len(used) == 1 else "; ".join(case.label(*varying(points)) for case in cases)
            rows.append((label(method), element("code", setting), where))
    return folded("Selected settings", "", table(("method", "setting", "points"), rows))


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
    return folded("Tuning grid", note, table(head, rows, numbers=range(3, 7)))


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
