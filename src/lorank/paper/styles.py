"""Names, colours and markers of methods, the same in all figures and on the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..io.figures import STYLES
from ..report.convergence_plot import NAMES


class Style(NamedTuple):
    """The appearance of a method."""

    label: str
    colour: str  # on white
    dark: str  # on a dark background
    dash: Any  # of matplotlib
    plotly_dash: str
    marker: str  # of matplotlib
    symbol: str  # of plotly


BLUE, VERMILION, GREEN, ROSE, BLACK, OCHRE = (colour for colour, _ in STYLES[:6])
SOLID = ("-", "solid")
DASH, DASHDOT, DOT = ((0, (6, 1.5)), "dash"), ((0, (4, 1.2, 1, 1.2)), "dashdot"), ((0, (1.5, 1.5)), "dot")

# Variants of PRGD are blue, those of RGD warm; dashes and markers distinguish the variants, also in grey.
METHODS = {
    "prgd": Style(NAMES["prgd"], BLUE, "#4fb0ec", *SOLID, "o", "circle"),
    "adaptive-prgd": Style("adaptive-PRGD", "#2f8fd0", "#9bd4f7", *DASH, "D", "diamond"),
    "prgd-relaxed": Style("relaxed PRGD", "#1d4f7c", "#7d9fd6", *DASHDOT, "p", "pentagon"),
    "prgd-probes": Style("PRGD by probes", "#0a7f8c", "#53c6d0", *DOT, "h", "hexagon"),
    "adaptive-prgd-probes": Style("adaptive-PRGD by probes", "#3f6f8f", "#7fc3c9", *DOT, "d", "diamond-tall"),
    "prgd-guarded": Style("guarded PRGD", "#5b7fa8", "#a9c3e6", *DASHDOT, "H", "hexagon2"),
    "rgd": Style(NAMES["rgd"], VERMILION, "#ff8a3d", *SOLID, "s", "square"),
    "adaptive-rgd": Style("adaptive-RGD", OCHRE, "#e3b341", *DASH, "^", "triangle-up"),
    "rgd-relaxed": Style("relaxed RGD", "#8c3b12", "#d9855c", *DASHDOT, "v", "triangle-down"),
    "adaptive-shampoo": Style("adaptive-Shampoo", "#4f7d2c", "#9ccc65", *DASH, "p", "star-square"),
    "full-shampoo": Style("full Shampoo", "#1f6f54", "#6fd6b5", *DASHDOT, "8", "octagon"),
    "prgd-relaxed-probes": Style("relaxed PRGD by probes", "#274c5e", "#5fa8b8", *DOT, "H", "hexagon2"),
    "shampoo": Style(NAMES["shampoo"], GREEN, "#35c99b", *SOLID, "P", "cross"),
    "niht": Style(NAMES["niht"], ROSE, "#e38bbd", *SOLID, "X", "x"),
    "rcg": Style("RCG", "#6a4fb3", "#b39df0", *DOT, "<", "triangle-left"),
    "fisher-rcg": Style("Fisher-RCG", "#4d4d4d", "#b9b9b9", *DASHDOT, ">", "triangle-right"),
    "auto": Style("auto", BLACK, "#ffffff", *DOT, "*", "star"),
}
NOT_RUN = "#bcd3e6"  # a cell of a map that was not run; blue, since rates are grey
SPARE = (("#7f6000", "#cdb25a"), ("#5f6b2f", "#aebd72"), ("#8a5a83", "#caa1c4"))  # for other methods


def style(method: str) -> Style:
    """The appearance of a method; a spare colour for an unknown one."""
    if method in METHODS:
        return METHODS[method]
    light, dark = SPARE[sum(method.encode()) % len(SPARE)]
    return Style(method, light, dark, *DOT, "o", "circle")


def look_of(key: str) -> Style:
    """The appearance of a legend entry: a method, or ``"#number:label"`` for an entry that is no method."""
    if not key.startswith("#"):
        return style(key)
    spare = ("prgd", "rgd", "shampoo", "niht", "rcg", "auto")
    number, text = key[1:].split(":", 1)
    return style(spare[int(number) % len(spare)])._replace(label=text)


def label(method: str) -> str:
    """The name of a method in texts."""
    return style(method).label


def ordered(methods: Iterable[str]) -> list[str]:
    """Distinct methods in the order of :data:`METHODS`, then the others."""
    known = list(METHODS)
    return sorted(dict.fromkeys(methods), key=lambda name: known.index(name) if name in METHODS else len(known))
