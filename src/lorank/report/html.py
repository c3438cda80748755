"""HTML pages: elements with escaped content, plots, and the document with its stylesheet.

Model reports, the paper's page and ``lorank serve`` are built with these functions. A page holds its style, its scripts and its
data, and loads nothing from elsewhere.
"""

from __future__ import annotations

import html
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..io import figures
from ..io.archive import FileError, atomic

BLUE, ORANGE, GREEN, GREY = figures.EITHER_BLUE, figures.ORANGE, figures.GREEN, figures.EITHER
VOID = ("br", "col", "link", "meta")  # elements without an end tag
Plot = dict[str, Any]  # a figure of plotly, with "title" and "caption"


class Markup(str):
    """Text that is HTML already; :func:`element` escapes all other text."""

    __slots__ = ()


def markup(content: object) -> Markup:
    """HTML of text, numbers, elements, or iterables of them; None gives nothing.

    Examples
    --------
    >>> markup(["a < b", element("br"), None, 3])
    'a &lt; b<br>3'
    """
    if content is None or isinstance(content, Markup):
        return content or Markup()
    if isinstance(content, str) or not isinstance(content, Iterable):
        return Markup(html.escape(str(content)))
    return Markup("".join(map(markup, content)))


def element(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element with its content and attributes, both escaped.

    Parameters
    ----------
    name : str
    *content
        See :func:`markup`.
    **attributes
        ``class_`` stands for class, underscores for hyphens. False and None leave an attribute out.

    Examples
    --------
    >>> element("p", "1 < 2", class_="soft", data_key="a")
    '<p class="soft" data-key="a">1 &lt; 2</p>'
    """
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{listed}>" + ("" if name in VOID else f"{markup(content)}</{name}>"))


def table(
    head: Sequence[object], rows: Iterable[Iterable[object]], class_: str | None = None, numbers: Container[int] = ()
) -> Markup:
    """A table. ``numbers`` holds the indices of columns of numbers, which are aligned right."""

    def row(tag: str, cells: Iterable[object]) -> Markup:
        return element("tr", [element(tag, cell, class_="number" if k in numbers else None) for k, cell in enumerate(cells)])

    return element("table", row("th", head) if head else None, [row("td", cells) for cells in rows], class_=class_)


def bullets(lines: Iterable[object], class_: str | None = None) -> Markup:
    """An unordered list."""
    return element("ul", [element("li", line) for line in lines], class_=class_)


def details(summary: str, *content: object) -> Markup:
    """Content that a click on its summary shows."""
    return element("details", element("summary", summary), *content)


def cards(facts: Iterable[tuple[object, object]]) -> Markup:
    """Numbers with their labels."""
    found = (element("div", element("b", number), label, class_="card") for number, label in facts)
    return element("div", found, class_="cards")


# -- plots -------------------------------------------------------------------------------------------------------------
def plot(
    title: str, data: list[Any], x: dict[str, Any], y: dict[str, Any], caption: str = "", layout: dict[str, Any] | None = None
) -> Plot:
    """A figure of plotly with its title and caption. ``x`` and ``y`` are axes; ``layout`` replaces defaults."""
    standard = {
        "margin": {"l": 46, "r": 14, "t": 14, "b": 40},
        "showlegend": len(data) > 1,
        "legend": {"orientation": "h", "y": 1.16, "x": 0},
        "bargap": 0.04,
        "xaxis": {"automargin": True, **x},
        "yaxis": {"automargin": True, **y},
    }
    return {"title": title, "caption": caption, "data": data, "layout": standard | (layout or {})}


def axis(title: str, **options: Any) -> dict[str, Any]:
    """An axis of a plot."""
    return {"title": {"text": title}, **options}


def integer_axis(title: str, count: int) -> dict[str, Any]:
    """An axis of whole numbers with at most ten ticks."""
    return axis(title, tick0=0, dtick=max(1, -(-count // 10)))


def bars(x: list[Any], y: list[Any], colour: str, name: str = "") -> dict[str, Any]:
    """One group of bars."""
    return {"type": "bar", "x": x, "y": y, "name": name, "marker": {"color": colour}}


def line(x: list[Any], y: list[Any], colour: str, name: str, mode: str = "lines+markers", dash: str = "solid") -> Any:
    """One curve."""
    style = {"color": colour, "dash": dash}
    return {"type": "scatter", "x": x, "y": y, "mode": mode, "name": name, "line": style, "marker": {"size": 7}}


def plot_grid(plots: Mapping[str, Plot]) -> Markup:
    """The places where the script draws the plots, in two columns."""
    return element(
        "div",
        [
            element(
                "div",
                element("h3", one["title"]),
                element("p", one["caption"], class_="soft") if one["caption"] else None,
                element("div", class_="chart", data_plot=name),
                class_="card",
            )
            for name, one in plots.items()
        ],
        class_="plots",
    )


# -- documents ---------------------------------------------------------------------------------------------------------
def asset(package: str, name: str) -> str:
    """The text of a file in a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def document(
    title: str,
    body: object,
    *,
    style: str = "",
    script: str = "",
    plots: Mapping[str, Plot] | None = None,
    data: Mapping[str, object] | None = None,
) -> str:
    """A whole page.

    Parameters
    ----------
    title : str
    body
        See :func:`markup`.
    style, script : str
        CSS and JavaScript added to those of all pages.
    plots : mapping, optional
        Figures drawn in the elements whose ``data-plot`` is their name. Needs plotly.
    data : mapping, optional
        JSON for the script, by the ids of the elements that hold it.
    """
    scripts = [script]
    found = dict(data or {})
    if plots is not None:
        try:
            from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
        except ImportError:
            raise FileError('a report needs plotly: pip install "lorank[files]"') from None
        found["plots"] = plots
        scripts = [get_plotlyjs(), asset(__package__, "assets/plots.js") + script]
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(asset(__package__, "assets/page.css") + style)),
    ]
    held = [element("script", Markup(_json(value)), type="application/json", id=name) for name, value in found.items()]
    code = [element("script", Markup(text)) for text in scripts if text]
    whole = element("html", element("head", head), "\n", element("body", body, "\n", held, code), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _json(value: object) -> str:
    """JSON that cannot end the script element that holds it; numbers that are not finite become null."""
    finite = json.loads(json.dumps(value, default=lambda array: array.tolist()), parse_constant=lambda _: None)
    return json.dumps(finite, separators=(",", ":")).replace("<", "\\u003c")


def write_text(path: str | Path, content: str) -> Path:
    """Write a text file atomically: an interruption leaves the former file."""
    with atomic(path) as temporary:
        temporary.write_text(content, encoding="utf-8", newline="\n")
    return Path(path)
