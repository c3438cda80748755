"""One self-contained HTML page: the claims, and interactive curves of every experiment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..experiments.tables import VERSIONS, Row, Tables
from ..report.convergence_plot import write_atomically
from .claims import Judged, judge
from .html import SIGNS, css_class, distinct, escaped, fold, items, measured, pill
from .page_experiments import experiment_section
from .page_texts import BRIEF, FORMER, PAPER, TEXTS
from .panels import panels
from .plot_page import plotly_figure
from .styles import EXPLAINED, label, look_of
from .verdicts import NO_DATA, RULES, Part, Verdict

SHOWN_BRIEFLY = 3  # figures of a claim in the list at the top
SHOWN = 6  # figures of a claim at once; the others are folded away
# Claims for which the relatives of the methods are tried, too.
VARIED = (
    *("tenfold", "size-time", "oversampling-three", "noise-tenth", "movielens-half", "sensing-iterations", "sensing-time"),
    *("sensing-constant", "success-2-300", "success-8-900", "success-8-800", "phase-real-third", "phase-complex-third"),
)


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
        _figures(names, out),
        *(experiment_section(tables, name, drawn[name], out) for name in names),
        _changes(judged),
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
        f'<button class="tile {css_class(verdict)}" type="button" aria-pressed="true" data-verdict="{css_class(verdict)}">'
        f"<b>{count[verdict]}</b>{SIGNS[verdict]} {verdict}</button>"
        for verdict in Verdict
    )
    known = [one for one in judged if one.verdict != NO_DATA]
    lead = (
        f"Every experiment of the paper “{PAPER}” (Bian, Cai, Zhang), run with lorank, and each of its sentences that states a "
        "figure held against what was measured."
    )
    return (
        f"<header><h1>The paper's experiments, run again</h1><p>{escaped(lead)}</p>{_facts(tables.results)}"
        f"<p><b>{len(known)} of {len(judged)} sentences could be judged.</b> "
        "Choose a verdict to see those sentences alone; choose it again for all.</p>"
        f'<div class="tiles">{tiles}</div>{_brief(judged)}</header>'
    )


def _facts(rows: Sequence[Row]) -> str:
    """Date, machine, versions, threads and scale, each as often as it differs."""
    dates = sorted({row.date[:10] for row in rows if row.date})
    found = {
        "date": [" to ".join(dict.fromkeys((dates[0], dates[-1])))] if dates else [],
        "scale": distinct(row.scale for row in rows),
        "machine": distinct(row.machine for row in rows),
        "threads": distinct(str(row.threads) for row in rows),
        **{name: distinct(row.versions[k] for row in rows) for k, name in enumerate(VERSIONS)},
        "runs": [str(len(rows))],
    }
    items = "".join(f"<div><dt>{escaped(k)}</dt><dd>{escaped('; '.join(v))}</dd></div>" for k, v in found.items() if v)
    return f'<dl class="facts">{items}</dl>'


def _brief(judged: Sequence[Judged]) -> str:
    """The claims that matter most, a line each."""
    found = {one.claim.key: one for one in judged}
    lines = []
    for key, about in BRIEF:
        one = found[key]
        if one.verdict != NO_DATA:
            deciding = [part for part in one.parts if part.decides and part.verdict != NO_DATA]
            names = _names(deciding)
            figures = "; ".join(
                _brief_part(part, name) for part, name in list(zip(deciding, names, strict=True))[:SHOWN_BRIEFLY]
            )
            more = f" and {len(deciding) - SHOWN_BRIEFLY} more" if len(deciding) > SHOWN_BRIEFLY else ""
            lines.append(f"<li>{pill(one.verdict)} <span>{escaped(about)}: {figures}{more}</span></li>")
    return f'<ul class="brief">{"".join(lines)}</ul>' if lines else ""


def _names(parts: Sequence[Part]) -> list[str]:
    """What to call each: nothing where it is alone, and its point only where it takes that to tell it from another."""
    short = [part.label.split(" (")[0] for part in parts]
    if len(parts) == 1:
        return [""]
    return [f"{part.label if short.count(name) > 1 else name} " for part, name in zip(parts, short, strict=True)]


def _brief_part(part: Part, name: str) -> str:
    said = f" (paper {escaped(part.said)})" if part.said else ""
    return f"{escaped(name)}<b>{escaped(part.measured.split(' (')[0])}</b>{said}"


def _nav(names: Sequence[str]) -> str:
    links = "".join(f'<a href="#{name}">{escaped(TEXTS[name][0])}</a>' for name in names)
    links = f'<a href="#claims">Claims</a><a href="#figures">Figures</a>{links}<a href="#changes">Changes</a>'
    return f'<nav aria-label="Experiments"><div>{links}</div></nav>'


# -- claims ------------------------------------------------------------------------------------------------------------
def _glossary(found: Sequence[str]) -> str:
    rows = "".join(f"<tr><td>{escaped(label(name))}</td><td>{escaped(EXPLAINED[name])}</td></tr>" for name in found)
    return f'<table class="narrow">{rows}</table>'


def _claims(judged: Sequence[Judged], found: Sequence[str]) -> str:
    seen: set[tuple[str, ...]] = set()
    rows = "\n".join(_claim(one, seen) for one in judged)
    return (
        '<section id="claims"><h2>The claims, one by one</h2>'
        f"{fold('How verdicts are given', f'<p class=small>{escaped(RULES)}</p>')}"
        f"{fold('What the methods are', _glossary(found))}"
        '<table class="claims"><colgroup><col class="c1"><col class="c2"><col class="c3"><col></colgroup>'
        "<thead><tr><th>Verdict</th><th>The paper says</th><th>Measured here</th><th>Why, and what works</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></section>"
    )


def _claim(one: Judged, seen: set[tuple[str, ...]]) -> str:
    """A row of the table. Lines on other methods that an earlier row has are not said again."""
    deciding, others = ([part for part in one.parts if part.decides is flag] for flag in (True, False))
    measured = _parts(deciding) if deciding else "<span class='soft'>nothing yet</span>"
    if others:
        measured += f"<details><summary>also measured ({len(others)})</summary>{_parts(others)}</details>"
    extra = ""
    if one.evidence.variants:
        extra += _list("It comes true with", one.evidence.variants)
    elif one.verdict in ("partly", "not") and one.evidence.settings and one.claim.key in VARIED:
        extra += '<div class="beside"><b>It comes true under none of the settings tried</b></div>'
    if one.evidence.others and one.evidence.others not in seen:
        extra += _list("Other methods there", one.evidence.others)
    seen.add(one.evidence.others)
    if one.evidence.settings:
        extra += fold("Settings", f'<ul class="settings">{items(one.evidence.settings)}</ul>')
    where = f'<a href="#{escaped(one.claim.experiment)}">{escaped(one.claim.where)}</a>'
    return (
        f'<tr data-verdict="{css_class(one.verdict)}"><td>{pill(one.verdict)}</td>'
        f'<td><p class="quote">“{escaped(one.claim.quote)}”</p><span class="small">{where}</span></td>'
        f"<td>{measured}</td><td class='small'>{escaped(one.reason)}{extra}</td></tr>"
    )


def _list(title: str, lines: Sequence[str]) -> str:
    return f'<div class="beside"><b>{title}</b><ul>{items(lines)}</ul></div>'


def _figures(names: Sequence[str], out: Path | None) -> str:
    """From the paper's figures to the ones here."""
    rows = ""
    for name, (_, figure, title, _) in TEXTS.items():
        shown = (
            f'<a href="#{name}">{escaped(title)}</a>'
            if name in names
            else f"{escaped(title)} <span class='soft'>(not run)</span>"
        )
        there = out is not None and (out / "figures" / f"{name}.png").exists()
        picture = f'<a href="figures/{name}.png">{name}.png</a>' if there else ""
        rows += f"<tr><td>{escaped(figure)}</td><td>{shown}</td><td>{picture}</td></tr>"
    head = "<tr><th>The paper</th><th>Here</th><th>Picture</th></tr>"
    return (
        f'<section id="figures"><h2>From the paper\'s figures to these</h2><table class="narrow">{head}{rows}</table></section>'
    )


def _changes(judged: Sequence[Judged]) -> str:
    """What has changed against the verdicts of the first protocol, and why."""
    rows = {True: "", False: ""}
    for one in judged:
        former, why = FORMER.get(one.claim.key, ("", "A sentence that the first list did not have."))
        was = pill(Verdict(former)) if former else "<span class='soft'>not listed</span>"
        found = "; ".join(f"{part.label}: {part.measured}" for part in one.parts[:2] if part.decides)
        rows[former != one.verdict] += (
            f"<tr><td>{escaped(one.claim.where)}: “{escaped(one.claim.quote)}”</td><td>{was}</td>"
            f"<td>{pill(one.verdict)}</td><td class='small'>{escaped(why)} {escaped(found)}</td></tr>"
        )
    head = "<tr><th>Sentence</th><th>Then</th><th>Now</th><th>Why, and what was measured</th></tr>"
    kept = fold("Sentences whose verdict is the same, on new runs", f"<table class='changes'>{head}{rows[False]}</table>")
    text = (
        "The first list of verdicts was made at the paper's size under the first protocol: what was called RGD and Shampoo had "
        "exact steps there, PRGD constant ones. Sentences whose verdict is another one now, here on the runs of this page:"
    )
    changed = f"<p>{text}</p><table class='changes'>{head}{rows[True]}</table>{kept if rows[False] else ''}"
    return f'<section id="changes"><h2>Appendix: what changed</h2>{changed}</section>'


def _parts(parts: Sequence[Part]) -> str:
    items = []
    for part in parts:
        said = f'<span class="said">paper {escaped(part.said)},</span> here ' if part.said else ""
        sign = f'<span class="sign {css_class(part.verdict)}" title="{part.verdict}">{SIGNS[part.verdict]}</span>'
        values = f'<span class="values">{said}{measured(part.measured)}</span>'
        items.append(f"<li>{sign if part.decides else '<span></span>'}<span>{escaped(part.label)}{values}</span></li>")
    shown, more = items[:SHOWN], items[SHOWN:]
    fold = f'<details><summary>and {len(more)} more</summary><ul class="parts">{"".join(more)}</ul></details>' if more else ""
    return f'<ul class="parts">{"".join(shown)}</ul>{fold}'


def _foot(out: Path | None) -> str:
    tables = [name for name in ("results.csv", "traces.csv", "tuning.csv") if out is not None and (out / name).exists()]
    links = ", ".join(f'<a href="{name}">{name}</a>' for name in tables)
    data = f"All of it is computed from the tables beside this page: {links}. " if links else ""
    return f"<footer class='small soft'><p>{data}Made by <code>lorank reproduce</code>.</p></footer>"
