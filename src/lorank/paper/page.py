"""The page of ``lorank reproduce``: verdicts on the paper's claims, and a section for each experiment."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..experiments.page import facts, folded, footer, page, section
from ..experiments.styles import label
from ..experiments.tables import Tables, average, counted
from ..report.html import Markup, bullets, details, element, markup, table, write_text
from .checks import Points, compared
from .claims import METHODS, TEXTS, Judged, judge
from .methods import PROTOCOL
from .panels import panels
from .verdicts import NO_DATA, NOT, RULES, Part, Verdict

PAPER = "A Preconditioned Riemannian Gradient Descent Algorithm for Low-Rank Matrix Recovery"
SIGNS = {"exceeded": "✓+", "reproduced": "✓", "partly": "≈", "not": "✗", "no data": "–"}  # noqa: RUF001
SHOWN_BRIEFLY = 3  # figures of a claim in the summary
SHOWN = 6  # figures of a claim in the table; the others are in a details element
RANKS = {  # tables that benchmarks/paper_ranks.py writes, with title and note; no verdict depends on them
    "ranks-cpu.csv": (
        "Rank 50 with the grids of protocol 3",
        "The experiment's problems, with a setting of n = 1 500 for all n.",
    ),
    "ranks-gpu.csv": (
        "Ranks 50 and 100 up to n = 20 000, on a GPU",
        "Other problems of the same kind, created and solved on a GPU (one NVIDIA H200, wall time).",
    ),
}


def write_page(tables: Tables, out: Path) -> Path:
    """Write ``out/index.html``. The page contains its scripts and figures and needs no network."""
    return write_text(out / "index.html", render(tables, out))


def render(tables: Tables, out: Path | None = None) -> str:
    """The page as HTML. Figures and tables in the folder ``out`` are linked."""
    names = [name for name in TEXTS if name in tables.experiments()]
    judged = judge(tables)
    methods = {row.method for row in tables.results}
    main = [
        _claims(judged, [name for name in METHODS if name in methods]),
        _figures(names, out),
        [_experiment(tables, name, out) for name in names],
    ]
    made = ["Created by ", element("code", "lorank reproduce"), "."]
    body = [_header(tables, judged), _navigation(names), element("main", main), footer(out, *made)]
    return page("Reproduction of the paper's experiments - lorank", body)


def css_class(verdict: Verdict) -> str:
    """The class of elements that show a verdict."""
    return verdict.replace(" ", "-")


def pill(verdict: Verdict, more: str = "") -> Markup:
    """A verdict with its sign."""
    return element("span", SIGNS[verdict], " ", verdict, more, class_=f"verdict {css_class(verdict)}")


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
        facts(tables.results),
        [element("p", element("b", note)) for note in (common_cause(judged), former_runs(tables)) if note],
        element("p", judgeable, " Select a verdict to filter the claims."),
        element("div", tiles, class_="tiles"),
        _brief(judged),
    )


def common_cause(judged: Sequence[Judged]) -> str:
    """How many of the claims that are not reproduced have the same cause."""
    failed = [one for one in judged if one.verdict == NOT]
    alike = sum(one.claim.experiment.startswith(("sensing", "phase")) for one in failed)
    if alike < 2:
        return ""
    return (
        f"{alike} of the {len(failed)} claims that are not reproduced have one cause: exact steps on Gaussian ensembles. The "
        "rows of the gradient have similar norms there, so that PRGD and RGD take the same path, and a fraction of the exact "
        "step is faster than both."
    )


def former_runs(tables: Tables) -> str:
    """Which rules of tuning the runs followed, where these are not the present ones."""
    protocols = sorted({row.protocol for row in tables.results} - {PROTOCOL})
    if not protocols:
        return ""
    return (
        f"These are runs of protocol {', '.join(map(str, protocols))}, made with several versions of the code: settings were "
        f"selected at each point, from eight candidates. Protocol {PROTOCOL} has wider grids and one setting for all sizes of "
        "a rank, the fastest that never fails. At this scale it was run for the tables of ranks 50 and 100 alone, where RGD's "
        "selected step was the end of the former grid, which favors PRGD."
    )


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
    ranks = [element("div", pill(verdict, f", r = {rank}"), class_="small") for rank, verdict in one.by_rank.items()]
    return element(
        "tr",
        element("td", pill(one.verdict), ranks),
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


# -- figures and experiments -------------------------------------------------------------------------------------------
def _figures(names: Sequence[str], out: Path | None) -> Markup:
    """The paper's figures and the sections that correspond to them."""
    rows = []
    for name, text in TEXTS.items():
        not_run = [text.title, " ", element("span", "(not run)", class_="soft")]
        there = element("a", text.title, href=f"#{name}") if name in names else not_run
        rows.append((text.figure, there, _picture(name, out, f"{name}.png")))
    listed = table(("Paper", "Section", "Image"), rows, "narrow")
    return element("section", element("h2", "Figures of the paper"), listed, id="figures")


def _picture(name: str, out: Path | None, text: str) -> Markup | None:
    path = f"figures/{name}.png"
    return element("a", text, href=path) if out is not None and (out / path).exists() else None


def _experiment(tables: Tables, name: str, out: Path | None) -> Markup:
    text, points = TEXTS[name], average(tables.of(name))
    lead = [element("b", f"{text.figure}."), f" {text.text} {_tests(points)} ", _picture(name, out, "PNG image.")]
    found = section(tables, name, [panels(tables, name)], compared(name), METHODS)
    more = [_ranks(out, file, *texts) for file, texts in RANKS.items()] if name == "completion-size" else None
    return element("section", element("h2", text.title), element("p", lead), found, more, id=name)


def _tests(points: Points) -> str:
    numbers = sorted({len(mean.rows) for means in points.values() for mean in means.values()})
    made = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    where = f"at {counted(len(points), 'point')}" if len(points) > 1 else f"at {next(iter(points)).label()}"
    return f"{made} test{'' if numbers == [1] else 's'} of each method {where}."


def _ranks(out: Path | None, file: str, title: str, note: str) -> Markup | None:
    """A table of ``benchmarks/paper_ranks.py``, where it has been written."""
    if out is None or not (out / file).exists():
        return None
    with (out / file).open(encoding="utf-8", newline="") as opened:
        head, *rows = csv.reader(opened)
    about = f"{note} No verdict depends on this table; {Path(file).with_suffix('.md')} describes the runs."
    return folded(title, about, table(head, rows))
