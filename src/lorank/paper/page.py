"""One self-contained HTML page: the claims, and interactive curves of every experiment."""
# ruff: noqa: RUF001 - texts for people have signs such as dashes

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..experiments.tables import BOUNDED, VERSIONS, Mean, Row, Tables, average, group, methods, varying
from ..report.plots import write_atomically
from .claims import Judged, judge
from .page_texts import BRIEF, MARKS, PAPER, TEXTS
from .panels import Panel, panels
from .plot_page import plotly_figure
from .styles import EXPLAINED, label, look_of, ordered
from .verdicts import NO_DATA, RULES, Part, Verdict, amount, rate

SHOWN = 6  # figures of a claim at once; the others are folded away
SIGNS = {"reproduced": "✓", "partly": "≈", "not": "✗", "no data": "–"}


def write_page(tables: Tables, out: Path) -> Path:
    """Write ``out/index.html``.

    The page holds all it needs, plotly's script too: it can be opened from a disk without a network, or sent to somebody.
    """
    return write_atomically(out / "index.html", render(tables, out).encode())


def render(tables: Tables, out: Path | None = None) -> str:
    """The page as text. ``out`` is where pictures and tables are looked for, to be linked."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    names = [name for name in TEXTS if name in tables.experiments()]
    drawn = {name: panels(tables, name) for name in names}
    plots = {f"{name}-{k}": plotly_figure(panel) for name, found in drawn.items() for k, panel in enumerate(found)}
    keys = {key: look_of(key) for found in drawn.values() for panel in found for key in panel.keys}
    looks = {key: {"light": look.colour, "dark": look.dark} for key, look in keys.items()}
    judged = judge(tables)
    body = [
        _head(tables, judged),
        _nav(names),
        "<main>",
        _claims(judged, [name for name in EXPLAINED if name in {row.method for row in tables.results}]),
        *(_experiment(tables, name, drawn[name], out) for name in names),
        "</main>",
        _foot(out),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            "<title>The paper's experiments, run again: lorank</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{_asset('page.css')}</style>",
            "</head><body>",
            *body,
            f'<script type="application/json" id="plots">{_json(plots)}</script>',
            f'<script type="application/json" id="looks">{_json(looks)}</script>',
            f"<script>{get_plotlyjs()}</script>",
            f"<script>{_asset('page.js')}</script>",
            "</body></html>",
        ]
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    return value.tolist()  # NumPy arrays, which plotly may have made of lists


# -- top ---------------------------------------------------------------------------------------------------------------
def _head(tables: Tables, judged: Sequence[Judged]) -> str:
    count = Counter(one.verdict for one in judged)
    tiles = "".join(
        f'<button class="tile {_class(verdict)}" type="button" aria-pressed="true" data-verdict="{_class(verdict)}">'
        f"<b>{count[verdict]}</b>{SIGNS[verdict]} {verdict}</button>"
        for verdict in Verdict
    )
    known = [one for one in judged if one.verdict != NO_DATA]
    lead = (
        f"Every experiment of the paper “{PAPER}” (Bian, Cai, Zhang), run with lorank, and each of its sentences that states a "
        "figure held against what was measured."
    )
    return (
        f"<header><h1>The paper's experiments, run again</h1><p>{_text(lead)}</p>{_facts(tables.results)}"
        f"<p><b>{len(known)} of {len(judged)} sentences could be judged.</b> "
        "Choose a verdict to see those sentences alone; choose it again for all.</p>"
        f'<div class="tiles">{tiles}</div>{_brief(judged)}</header>'
    )


def _facts(rows: Sequence[Row]) -> str:
    """Date, machine, versions, threads and scale, each as often as it differs."""
    dates = sorted({row.date[:10] for row in rows if row.date})
    found = {
        "date": [" to ".join(dict.fromkeys((dates[0], dates[-1])))] if dates else [],
        "scale": _distinct(row.scale for row in rows),
        "machine": _distinct(row.machine for row in rows),
        "threads": _distinct(str(row.threads) for row in rows),
        **{name: _distinct(row.versions[k] for row in rows) for k, name in enumerate(VERSIONS)},
        "runs": [str(len(rows))],
    }
    items = "".join(f"<div><dt>{_text(k)}</dt><dd>{_text('; '.join(v))}</dd></div>" for k, v in found.items() if v)
    return f'<dl class="facts">{items}</dl>'


def _brief(judged: Sequence[Judged]) -> str:
    """The claims that matter most, a line each."""
    found = {one.claim.key: one for one in judged}
    lines = []
    for key, about in BRIEF:
        one = found[key]
        if one.verdict != NO_DATA:
            part = one.parts[0]
            said = f"; the paper: {_text(part.said)}" if part.said else ""
            lines.append(f"<li>{_pill(part.verdict)} <span>{_text(about)}: {_measured(part.measured)}{said}</span></li>")
    return f'<ul class="brief">{"".join(lines)}</ul>' if lines else ""


def _nav(names: Sequence[str]) -> str:
    links = "".join(f'<a href="#{name}">{_text(TEXTS[name][0])}</a>' for name in names)
    return f'<nav aria-label="Experiments"><div><a href="#claims">Claims</a>{links}</div></nav>'


# -- claims ------------------------------------------------------------------------------------------------------------
def _glossary(found: Sequence[str]) -> str:
    rows = "".join(f"<tr><td>{_text(label(name))}</td><td>{_text(EXPLAINED[name])}</td></tr>" for name in found)
    return f'<table class="narrow">{rows}</table>'


def _claims(judged: Sequence[Judged], found: Sequence[str]) -> str:
    rows = "\n".join(_claim(one) for one in judged)
    return (
        '<section id="claims"><h2>The claims, one by one</h2>'
        f"{_fold('How verdicts are given', f'<p class=small>{_text(RULES)}</p>')}"
        f"{_fold('What the methods are', _glossary(found))}"
        '<table class="claims"><colgroup><col class="c1"><col class="c2"><col class="c3"><col></colgroup>'
        "<thead><tr><th>Verdict</th><th>The paper says</th><th>Measured here</th><th>Why, and what works</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></section>"
    )


def _claim(one: Judged) -> str:
    deciding, others = ([part for part in one.parts if part.decides is flag] for flag in (True, False))
    measured = _parts(deciding) if deciding else "<span class='soft'>nothing yet</span>"
    if others:
        measured += f"<details><summary>also measured ({len(others)})</summary>{_parts(others)}</details>"
    extra = ""
    if one.evidence.others:
        lines = "".join(f"<li>{_text(line)}</li>" for line in one.evidence.others)
        extra = f'<div class="beside"><b>Other methods there</b><ul>{lines}</ul></div>'
    where = f'<a href="#{_text(one.claim.experiment)}">{_text(one.claim.where)}</a>'
    return (
        f'<tr data-verdict="{_class(one.verdict)}"><td>{_pill(one.verdict)}</td>'
        f'<td><p class="quote">“{_text(one.claim.quote)}”</p><span class="small">{where}</span></td>'
        f"<td>{measured}</td><td class='small'>{_text(one.reason)}{extra}</td></tr>"
    )


def _parts(parts: Sequence[Part]) -> str:
    items = []
    for part in parts:
        said = f'<span class="said">paper {_text(part.said)},</span> here ' if part.said else ""
        sign = f'<span class="sign {_class(part.verdict)}" title="{part.verdict}">{SIGNS[part.verdict]}</span>'
        values = f'<span class="values">{said}{_measured(part.measured)}</span>'
        items.append(f"<li>{sign if part.decides else '<span></span>'}<span>{_text(part.label)}{values}</span></li>")
    shown, more = items[:SHOWN], items[SHOWN:]
    fold = f'<details><summary>and {len(more)} more</summary><ul class="parts">{"".join(more)}</ul></details>' if more else ""
    return f'<ul class="parts">{"".join(shown)}</ul>{fold}'


def _measured(text: str) -> str:
    """The figure in bold, what stands behind it in brackets not."""
    head, bracket, tail = text.partition(" (")
    return f"<b>{_text(head)}</b>{_text(bracket + tail)}"


# -- experiments -------------------------------------------------------------------------------------------------------
def _experiment(tables: Tables, name: str, found: Sequence[Panel], out: Path | None) -> str:
    _, title, text = TEXTS[name]
    points = average(tables.of(name))
    picture = out is not None and (out / "figures" / f"{name}.png").exists()
    link = f' <a href="figures/{name}.png">As a picture.</a>' if picture else ""
    return "\n".join(
        [
            f'<section id="{name}"><h2>{_text(title)}</h2>',
            f"<p>{_text(text)} {_text(_how(points))}{link}</p>",
            _controls(found),
            f'<div class="panels{" three" if len(found) == 3 or name == "sensing-success" else ""}">',
            *(_panel(name, k, panel) for k, panel in enumerate(found)),
            "</div>",
            _marks(found),
            _numbers(name, points),
            _settings(points),
            _tuning(tables, name),
            "</section>",
        ]
    )


def _how(points: dict[Any, dict[str, Mean]]) -> str:
    numbers = sorted({len(mean.rows) for means in points.values() for mean in means.values()})
    made = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    where = f"at {len(points)} points" if len(points) > 1 else f"at {next(iter(points)).label()}"
    return f"{made} test{'' if numbers == [1] else 's'} of each method {where}."


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
    tip = _text(EXPLAINED.get(key, "")) or _text(look.label)
    return (
        f'<button class="chip" type="button" aria-pressed="true" data-key="{_text(key)}" title="{tip}" '
        f'style="--c:{look.colour};--d:{look.dark}">{line}{_text(look.label)}</button>'
    )


def _panel(name: str, k: int, panel: Panel) -> str:
    only = f' data-only="{_text(panel.keys[0])}"' if panel.map else ""
    title = _text(panel.title)
    plot = f'<div class="plot" id="plot-{name}-{k}" data-plot="{name}-{k}" role="img" aria-label="{title}"></div>'
    return f'<div class="panel"{only}><h3>{title}</h3>{plot}</div>'


def _marks(found: Sequence[Panel]) -> str:
    marks = set().union(*(panel.marks for panel in found)) if found else set()
    said = "".join(f"<span>{sign} {_text(text)}</span>" for kind, (sign, text) in MARKS.items() if kind in marks)
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
            where = _text(case.label(*varying(points)))
            rows.append(f'<tr><td>{where}</td><td>{_text(label(method))}</td>{cells}<td class="number">{got}</td></tr>')
    titles = "".join(f'<th class="number">{ {"heldout_rmse": "RMSE held out"}.get(q, q) }</th>' for q in columns)
    head = f'<tr><th>point</th><th>method</th>{titles}<th class="number">got there</th></tr>'
    words = "Means over tests, with the smallest and the largest. Where runs were cut short: ≥ a lower bound, ~ the median."
    note = f"<p class='small soft'>{words}</p>"
    return _fold("The figures in numbers", f'{note}<div class="scroll"><table>{head}{"".join(rows)}</table></div>')


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
                f"<tr><td>{_text(label(method))}</td><td><code>{_text(setting)}</code></td><td>{_text(where)}</td></tr>"
            )
    head = "<tr><th>method</th><th>setting</th><th>where</th></tr>"
    return _fold("The settings chosen", f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>')


def _tuning(tables: Tables, name: str) -> str:
    """What the settings were chosen from."""
    found = [one for one in tables.tuning if one.experiment == name]
    if not found:
        return ""
    names = varying([one.case for one in found])
    rows = "".join(
        f"<tr{' class=chosen' if one.chosen else ''}><td>{_text(one.case.label(*names))}</td>"
        f"<td>{_text(label(one.method))}</td><td><code>{_text(one.candidate)}</code></td>"
        f'<td class="number">{"" if one.seed is None else one.seed}</td>'
        f'<td class="number">{_cell(one.iterations, "iterations")}</td><td class="number">{_cell(one.seconds, "seconds")}</td>'
        f'<td class="number">{_cell(one.error, "error")}</td><td>{"yes" if one.reached else "no"}</td>'
        f"<td>{'chosen' if one.chosen else ''}</td></tr>"
        for one in found
    )
    head = "".join(f"<th>{title}</th>" for title in ("point", "method", "candidate"))
    head += "".join(f'<th class="number">{title}</th>' for title in ("seed", "iterations", "seconds", "error"))
    head += "<th>got there</th><th></th>"
    note = "<p class='small soft'>On seeds apart from the reported ones.</p>"
    return _fold("The tuning grid", f'{note}<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>')


def _cell(value: float, unit: str) -> str:
    return amount(value, unit) if value >= 0 else ""


def _foot(out: Path | None) -> str:
    tables = [name for name in ("results.csv", "traces.csv", "tuning.csv") if out is not None and (out / name).exists()]
    links = ", ".join(f'<a href="{name}">{name}</a>' for name in tables)
    data = f"All of it is computed from the tables beside this page: {links}. " if links else ""
    return f"<footer class='small soft'><p>{data}Made by <code>lorank reproduce</code>.</p></footer>"


# -- small -------------------------------------------------------------------------------------------------------------
def _fold(title: str, content: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{content}</details>"


def _pill(verdict: Verdict) -> str:
    return f'<span class="verdict {_class(verdict)}">{SIGNS[verdict]} {verdict}</span>'


def _class(verdict: Verdict) -> str:
    return verdict.replace(" ", "-")


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _text(value: str) -> str:
    return html.escape(value, quote=True)
