"""The page's sections, one an experiment: curves, figures in numbers, settings and tuning."""
# ruff: noqa: RUF001 - texts for people have signs such as dashes

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..experiments.tables import BOUNDED, Candidate, Mean, Row, Tables, average, group, methods, varying
from .html import escaped, fold
from .page_texts import MARKS, PROTOCOLS, TEXTS
from .panels import Panel
from .styles import EXPLAINED, label, look_of, ordered
from .verdicts import amount, counted, rate

GPU_TABLE = "ranks-gpu.csv"


def experiment_section(tables: Tables, name: str, found: Sequence[Panel], out: Path | None) -> str:
    _, figure, title, text = TEXTS[name]
    points = average(tables.of(name))
    picture = out is not None and (out / "figures" / f"{name}.png").exists()
    link = f' <a href="figures/{name}.png">As a picture.</a>' if picture else ""
    return "\n".join(
        [
            f'<section id="{name}"><h2>{escaped(title)}</h2>',
            f"<p><b>{escaped(figure)}.</b> {escaped(text)} {escaped(_how(points))}{link}</p>",
            _protocols(tables.of(name)),
            _machines(tables.of(name)),
            _controls(found),
            f'<div class="panels{" three" if len(found) == 3 or name == "sensing-success" else ""}">',
            *(_panel(name, k, panel) for k, panel in enumerate(found)),
            "</div>",
            _marks(found),
            _numbers(name, points),
            _settings(points),
            _tuning(tables, name),
            _on_a_gpu(out) if name == "completion-size" else "",
            "</section>",
        ]
    )


def _how(points: dict[Any, dict[str, Mean]]) -> str:
    numbers = sorted({len(mean.rows) for means in points.values() for mean in means.values()})
    made = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    where = f"at {counted(len(points), 'point')}" if len(points) > 1 else f"at {next(iter(points)).label()}"
    return f"{made} test{'' if numbers == [1] else 's'} of each method {where}."


def _protocols(rows: Sequence[Row]) -> str:
    """Which methods' runs are of which protocol, where there is more than one."""
    found = group(sorted(rows, key=lambda row: row.protocol), lambda row: row.protocol)
    if set(found) <= {max(PROTOCOLS)}:
        return ""
    said = [
        f"{', '.join(label(name) for name in ordered([row.method for row in some]))} "
        f"({some[0].date[:10]}{'' if len({row.date[:10] for row in some}) == 1 else ' and later'}): {PROTOCOLS[number]}"
        for number, some in found.items()
    ]
    return f"<p class='small soft'>Runs and their protocols. {escaped('; '.join(said))}.</p>"


def _machines(rows: Sequence[Row]) -> str:
    """On which machine the seconds were measured; where there were several, which methods' on which."""
    found = group(rows, lambda row: (row.machine, row.threads))
    where = {place: f"{place[0]} ({counted(place[1], 'thread')} a run)" for place in found}
    if len(found) == 1:
        said = f"Seconds: all on one machine, {next(iter(where.values()))}."
    else:
        used = {place: ordered([row.method for row in some]) for place, some in found.items()}
        each = "; ".join(f"{', '.join(map(label, used[place]))} on {where[place]}" for place in found)
        said = f"Seconds are of several machines, and are compared within one alone: {each}."
    return f"<p class='small soft'>{escaped(said)}</p>"


def _controls(found: Sequence[Panel]) -> str:
    keys = list(dict.fromkeys(key for panel in found for key in panel.keys))
    chips = "".join(_chip(key) for key in ordered(keys))
    switches = ""
    if not any(panel.map for panel in found):
        for axis, sign in (("xaxis", "x"), ("yaxis", "y")):
            kinds = {"log" if getattr(panel, f"log_{sign}") else "linear" for panel in found}
            buttons = "".join(
                f'<button type="button" data-axis="{axis}" data-type="{kind}" aria-pressed="{str(kinds == {kind}).lower()}">'
                f"{short}</button>"
                for kind, short in (("linear", "linear"), ("log", "log"))
            )
            switches += (
                f'<div class="switch" role="group" aria-label="scale of the {sign} axis">{sign} <span>{buttons}</span></div>'
            )
    return f'<div class="controls">{chips}<div class="switches">{switches}</div></div>'


def _chip(key: str) -> str:
    look = look_of(key)
    dashes = {"solid": "", "dash": "7 3", "dashdot": "7 3 2 3", "dot": "2 3"}[look.plotly_dash]
    dash = f' stroke-dasharray="{dashes}"' if dashes and not key.startswith("#") else ""
    path = f'<path d="M1 4h24" stroke="currentColor" stroke-width="2.6"{dash}/>'
    line = f'<svg width="26" height="8" aria-hidden="true">{path}</svg>'
    tip = escaped(EXPLAINED.get(key, "")) or escaped(look.label)
    return (
        f'<button class="chip" type="button" aria-pressed="true" data-key="{escaped(key)}" title="{tip}" '
        f'style="--c:{look.colour};--d:{look.dark}">{line}{escaped(look.label)}</button>'
    )


def _panel(name: str, k: int, panel: Panel) -> str:
    only = f' data-only="{escaped(panel.keys[0])}"' if panel.map else ""
    title = escaped(panel.title)
    plot = f'<div class="plot" id="plot-{name}-{k}" data-plot="{name}-{k}" role="img" aria-label="{title}"></div>'
    return f'<div class="panel"{only}><h3>{title}</h3>{plot}</div>'


def _marks(found: Sequence[Panel]) -> str:
    marks = set().union(*(panel.marks for panel in found)) if found else set()
    said = "".join(f"<span>{sign} {escaped(text)}</span>" for kind, (sign, text) in MARKS.items() if kind in marks)
    return f'<p class="small soft marks">{said}</p>' if said else ""


def _numbers(name: str, points: dict[Any, dict[str, Mean]]) -> str:
    """All averages as a table."""
    columns = [q for q in ("iterations", "seconds", "error", "residual", "heldout_rmse") if _any(points, q)]
    rows = []
    for case, means in points.items():
        for method in ordered(list(means)):
            mean = means[method]
            cells = "".join(f'<td class="number">{_number(mean, quantity)}</td>' for quantity in columns)
            got = f"{rate(mean):.0f} %" if name == "sensing-success" else f"{mean.reached} of {len(mean.rows)}"
            where = escaped(case.label(*varying(points)))
            rows.append(f'<tr><td>{where}</td><td>{escaped(label(method))}</td>{cells}<td class="number">{got}</td></tr>')
    titles = "".join(f'<th class="number">{ {"heldout_rmse": "RMSE held out"}.get(q, q) }</th>' for q in columns)
    head = f'<tr><th>point</th><th>method</th>{titles}<th class="number">got there</th></tr>'
    words = "Means over tests, with the smallest and the largest. Where runs were cut short: ≥ a lower bound, ~ the median."
    note = f"<p class='small soft'>{words}</p>"
    return fold("The figures in numbers", f'{note}<div class="scroll"><table>{head}{"".join(rows)}</table></div>')


def _any(points: dict[Any, dict[str, Mean]], quantity: str) -> bool:
    return any(mean.of(quantity).mean > 0 for means in points.values() for mean in means.values())


def _number(mean: Mean, quantity: str) -> str:
    stat = mean.of(quantity)
    if not stat.mean >= 0:
        return ""
    unit = {"seconds": "seconds", "iterations": "iterations"}.get(quantity, "error")
    low, middle, high = (amount(value, unit) for value in (stat.low, stat.mean, stat.high))
    bound = ("≥ " if mean.at_least else "~ " if mean.by_median else "") if quantity in BOUNDED else ""
    return f"{bound}{middle}" + (f" <span class='soft'>({low}–{high})</span>" if low != high else "")


def _settings(points: dict[Any, dict[str, Mean]]) -> str:
    """Which epsilon policy and step each method ran with, and where."""
    rows = []
    for method in ordered(methods(points)):
        used = group(
            [(row.setting, case) for case, means in points.items() if method in means for row in means[method].rows],
            lambda pair: pair[0],
        )
        for setting, pairs in used.items():
            cases = list(dict.fromkeys(case for _, case in pairs))
            where = "all points" if len(used) == 1 else "; ".join(case.label(*varying(points)) for case in cases)
            rows.append(
                f"<tr><td>{escaped(label(method))}</td><td><code>{escaped(setting)}</code></td><td>{escaped(where)}</td></tr>"
            )
    head = "<tr><th>method</th><th>setting</th><th>where</th></tr>"
    return fold("The settings chosen", f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>')


def _tuning(tables: Tables, name: str) -> str:
    """What the settings were chosen from."""
    found = [one for one in tables.tuning if one.experiment == name]
    if not found:
        return ""
    names = varying([one.case for one in found])
    rows = "".join(
        f"<tr{' class=chosen' if one.chosen else ''}><td>{escaped(one.case.label(*names))}</td>"
        f"<td>{escaped(label(one.method))}</td><td><code>{escaped(one.candidate)}</code></td>"
        f'<td class="number">{"" if one.seed is None else one.seed}</td>'
        f'<td class="number">{_cell(one.iterations, "iterations")}</td><td class="number">{_cell(one.seconds, "seconds")}</td>'
        f'<td class="number">{_cell(one.error, "error")}</td><td>{"yes" if one.reached else "no"}</td>'
        f"<td>{'chosen' if one.chosen else ''}</td></tr>"
        for one in found
    )
    head = "".join(f"<th>{title}</th>" for title in ("point", "method", "candidate"))
    head += "".join(f'<th class="number">{title}</th>' for title in ("seed", "iterations", "seconds", "error"))
    head += "<th>got there</th><th></th>"
    words = f"On seeds apart from the reported ones. {_budget(found)}"
    note = f"<p class='small soft'>{escaped(words)}</p>"
    return fold("The tuning grid", f'{note}<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>')


def _budget(found: Sequence[Candidate]) -> str:
    """What every method was given."""
    said = group([one for one in found if one.budget], lambda one: one.budget)
    if len(said) == 1:
        return f"The same budget for every method: {next(iter(said))}."
    names = varying([one.case for one in found])
    where = {text: list(dict.fromkeys(one.case.label(*names) for one in some)) for text, some in said.items()}
    return "".join(f"{text[0].upper()}{text[1:]} ({'; '.join(cases)}). " for text, cases in where.items())


def _on_a_gpu(out: Path | None) -> str:
    """The runs at ranks 50 and 100 up to the paper's n, where ``benchmarks/paper_ranks.py`` has left them beside the page."""
    path = None if out is None else out / GPU_TABLE
    if path is None or not path.exists():
        return ""
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    titles = "".join(f"<th>{escaped(title)}</th>" for title in head)
    cells = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    note = (
        "A table of its own, which no verdict rests on: other problems of the same kind, made and solved on a GPU (one NVIDIA "
        f"H200, seconds by the clock). How it was run stands in {Path(GPU_TABLE).with_suffix('.md')}."
    )
    table = f'<div class="scroll"><table><tr>{titles}</tr>{cells}</table></div>'
    return fold("Ranks 50 and 100 up to n = 20 000, on a GPU", f"<p class='small soft'>{escaped(note)}</p>{table}")


def _cell(value: float, unit: str) -> str:
    return amount(value, unit) if value >= 0 else ""
