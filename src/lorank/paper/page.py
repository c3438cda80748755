"""The page of ``lorank reproduce``: verdicts on the paper's claims, and a section for each experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..experiments.tables import VERSIONS, Row, Tables
from ..report.html import Markup, asset, bullets, details, document, element, markup, table, write_text
from .claims import METHODS, TEXTS, Judged, judge
from .page_experiments import experiment_section
from .panels import panels
from .plot_page import plotly_figure
from .styles import label, look_of
from .verdicts import NO_DATA, RULES, Part, Verdict

PAPER = "A Preconditioned Riemannian Gradient Descent Algorithm for Low-Rank Matrix Recovery"
SIGNS = {"reproduced": "✓", "partly": "≈", "not": "✗", "no data": "–"}  # noqa: RUF001
SHOWN_BRIEFLY = 3  # figures of a claim in the summary
SHOWN = 6  # figures of a claim in the table; the others are in a details element


def write_page(tables: Tables, out: Path) -> Path:
    """Write ``out/index.html``. The page contains its scripts and data and needs no network."""
    return write_text(out / "index.html", render(tables, out))


def render(tables: Tables, out: Path | None = None) -> str:
    """The page as HTML. Figures and tables in the folder ``out`` are linked."""
    names = [name for name in TEXTS if name in tables.experiments()]
    drawn = {name: panels(tables, name) for name in names}
    plots = {f"{name}-{k}": plotly_figure(panel) for name, found in drawn.items() for k, panel in enumerate(found)}
    keys = {key: look_of(key) for found in drawn.values() for panel in found for key in panel.keys}
    judged = judge(tables)
    methods = {row.method for row in tables.results}
    main = [
        _claims(judged, [name for name in METHODS if name in methods]),
        _figures(names, out),
        [experiment_section(tables, name, drawn[name], out) for name in names],
    ]
    return document(
        "Reproduction of the paper's experiments - lorank",
        [_header(tables, judged), _navigation(names), element("main", main), _footer(out)],
        style=asset(__package__, "page.css"),
        script=asset(__package__, "page.js"),
        plots=plots,
        data={"looks": {key: {"light": look.colour, "dark": look.dark} for key, look in keys.items()}},
    )


def css_class(verdict: Verdict) -> str:
    """The class of elements that show a verdict."""
    return verdict.replace(" ", "-")


def pill(verdict: Verdict) -> Markup:
    """A verdict with its sign."""
    return element("span", SIGNS[verdict], " ", verdict, class_=f"verdict {css_class(verdict)}")


# -- top ---------------------------------------------------------------------------------------------------------------
def _header(tables: Tables, judged: Sequence[Judged]) -> Markup:
    count = Counter(one.verdict for one in judged)
    tiles = [
        element(
            "button",
            element("b", count[verdict]),
            f"{SIGNS[verdict]} {verdict}",
            class_=f"tile {css_class(verdict)}",
            type="button",
            aria_pressed="true",
            data_verdict=css_class(verdict),
        )
        for verdict in Verdict
    ]
    known = sum(one.verdict != NO_DATA for one in judged)
    lead = f"The experiments of “{PAPER}” (Bian, Cai, Zhang), run with lorank, and a verdict on each claim with a figure."
    judgeable = element("b", f"{known} of {len(judged)} claims could be judged.")
    return element(
        "header",
        element("h1", "Reproduction of the paper's experiments"),
        element("p", lead),
        _facts(tables.results),
        element("p", judgeable, " Select a verdict to filter the claims."),
        element("div", tiles, class_="tiles"),
        _brief(judged),
    )


def _facts(rows: Sequence[Row]) -> Markup:
    """Date, machine, versions, threads and scale of the runs."""

    def distinct(values: Iterable[object]) -> list[str]:
        return list(dict.fromkeys(str(value) for value in values if value))

    dates = sorted({row.date[:10] for row in rows if row.date})
    found = {
        "date": [" to ".join(dict.fromkeys((dates[0], dates[-1])))] if dates else [],
        **{name: distinct(getattr(row, name) for row in rows) for name in ("scale", "machine", "threads")},
        **{name: distinct(row.versions[k] for row in rows) for k, name in enumerate(VERSIONS)},
        "runs": [str(len(rows))],
    }
    items = [element("div", element("dt", name), element("dd", "; ".join(values))) for name, values in found.items() if values]
    return element("dl", items, class_="facts")


def _brief(judged: Sequence[Judged]) -> Markup | None:
    """The main claims, a line each."""
    lines = []
    for one in judged:
        if one.claim.brief and one.verdict != NO_DATA:
            deciding = [part for part in one.parts if part.decides and part.verdict != NO_DATA]
            shown = list(zip(deciding, _short_names(deciding), strict=True))[:SHOWN_BRIEFLY]
            figures = [[_brief_part(part, name), "; " if k < len(shown) - 1 else ""] for k, (part, name) in enumerate(shown)]
            more = f" and {len(deciding) - SHOWN_BRIEFLY} more" if len(deciding) > SHOWN_BRIEFLY else ""
            lines.append([pill(one.verdict), " ", element("span", f"{one.claim.brief}: ", figures, more)])
    return bullets(lines, class_="brief") if lines else None


def _short_names(parts: Sequence[Part]) -> list[str]:
    """Names of figures: empty for a single one, and without the point where that is not needed to tell them apart."""
    short = [part.label.split(" (")[0] for part in parts]
    if len(parts) == 1:
        return [""]
    return [f"{part.label if short.count(name) > 1 else name} " for part, name in zip(parts, short, strict=True)]


def _brief_part(part: Part, name: str) -> Markup:
    stated = f" (paper {part.stated})" if part.stated else ""
    return markup([name, element("b", part.measured.split(" (")[0]), stated])


def _navigation(names: Sequence[str]) -> Markup:
    links = {"claims": "Claims", "figures": "Figures", **{name: TEXTS[name].short for name in names}}
    found = [element("a", title, href=f"#{name}") for name, title in links.items()]
    return element("nav", element("div", found), aria_label="Experiments")


# -- claims ------------------------------------------------------------------------------------------------------------
def _claims(judged: Sequence[Judged], methods: Sequence[str]) -> Markup:
    seen: set[tuple[str, ...]] = set()
    titles = ("Verdict", "Claim of the paper", "Measured", "Explanation")
    return element(
        "section",
        element("h2", "Claims"),
        details("Rules for verdicts", element("p", RULES, class_="small")),
        details("Methods", table((), [(label(name), METHODS[name]) for name in methods], "narrow")),
        element(
            "table",
            element("colgroup", [element("col", class_=name) for name in ("c1", "c2", "c3", None)]),
            element("thead", element("tr", [element("th", title) for title in titles])),
            element("tbody", [_claim(one, seen) for one in judged]),
            class_="claims",
        ),
        id="claims",
    )


def _claim(one: Judged, seen: set[tuple[str, ...]]) -> Markup:
    """A row of the table. Results of other methods that an earlier row lists are not repeated."""
    claim, evidence = one.claim, one.evidence
    deciding, others = ([part for part in one.parts if part.decides is flag] for flag in (True, False))
    measured: list[object] = [_parts(deciding) if deciding else element("span", "no results", class_="soft")]
    if others:
        measured.append(details(f"also measured ({len(others)})", _parts(others)))
    extra: list[object] = []
    if evidence.variants:
        extra.append(_aside("Holds for", evidence.variants))
    elif one.verdict in ("partly", "not") and evidence.settings and claim.variants:
        extra.append(_aside("Holds for none of the settings tried"))
    if evidence.others and evidence.others not in seen:
        extra.append(_aside("Other methods at this point", evidence.others))
    seen.add(evidence.others)
    if evidence.settings:
        extra.append(details("Settings", bullets(evidence.settings)))
    where = element("span", element("a", claim.where, href=f"#{claim.experiment}"), class_="small")
    return element(
        "tr",
        element("td", pill(one.verdict)),
        element("td", element("p", f"“{claim.quote}”", class_="quote"), where),
        element("td", measured),
        element("td", one.reason, extra, class_="small"),
        data_verdict=css_class(one.verdict),
    )


def _aside(title: str, lines: Sequence[str] = ()) -> Markup:
    return element("div", element("b", title), bullets(lines) if lines else None, class_="aside")


def _parts(parts: Sequence[Part]) -> list[Markup]:
    items = []
    for part in parts:
        stated = [element("span", f"paper {part.stated},", class_="stated"), " here "] if part.stated else None
        sign = {"class_": f"sign {css_class(part.verdict)}", "title": part.verdict} if part.decides else {}
        end = min(at if (at := part.measured.find(mark)) >= 0 else len(part.measured) for mark in (" (", ";"))
        values = element("span", stated, element("b", part.measured[:end]), part.measured[end:], class_="values")
        mark = element("span", SIGNS[part.verdict] if part.decides else None, **sign)
        items.append([mark, element("span", part.label, values)])
    more = [details(f"and {len(items) - SHOWN} more", bullets(items[SHOWN:], "parts"))] if len(items) > SHOWN else []
    return [bullets(items[:SHOWN], "parts"), *more]


def _figures(names: Sequence[str], out: Path | None) -> Markup:
    """The paper's figures and the sections that correspond to them."""
    rows = []
    for name, text in TEXTS.items():
        not_run = [text.title, " ", element("span", "(not run)", class_="soft")]
        picture = f"figures/{name}.png"
        there = out is not None and (out / picture).exists()
        section = element("a", text.title, href=f"#{name}") if name in names else not_run
        rows.append((text.figure, section, element("a", f"{name}.png", href=picture) if there else ""))
    listed = table(("Paper", "Section", "Image"), rows, "narrow")
    return element("section", element("h2", "Figures of the paper"), listed, id="figures")


def _footer(out: Path | None) -> Markup:
    names = [name for name in ("results.csv", "traces.csv", "tuning.csv") if out is not None and (out / name).exists()]
    links = [[", " if k else "", element("a", name, href=name)] for k, name in enumerate(names)]
    data = ["Data: ", links, ". "] if links else None
    text = element("p", data, "Created by ", element("code", "lorank reproduce"), ".")
    return element("footer", text, class_="small soft")
