"""How methods look and what they are called: the same on every figure and on the page."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..report.convergence_plot import NAMES, STYLES


class Style(NamedTuple):
    """A method's look."""

    label: str
    colour: str  # on white
    dark: str  # on a dark ground
    dash: Any  # as matplotlib takes it
    plotly_dash: str
    marker: str  # as matplotlib takes it
    symbol: str  # as plotly takes it


BLUE, VERMILION, GREEN, ROSE, BLACK, OCHRE = (colour for colour, _ in STYLES[:6])
LONG, MIXED, DOTS = (6, 1.5), (4, 1.2, 1, 1.2), (1.5, 1.5)

# PRGD and its kin are blue, RGD's warm; dashes and markers tell the kin apart, in grey too.
METHODS = {
    "prgd": Style(NAMES["prgd"], BLUE, "#4fb0ec", "-", "solid", "o", "circle"),
    "adaptive-prgd": Style("adaptive-PRGD", "#2f8fd0", "#9bd4f7", (0, LONG), "dash", "D", "diamond"),
    "prgd-relaxed": Style("relaxed PRGD", "#1d4f7c", "#7d9fd6", (0, MIXED), "dashdot", "p", "pentagon"),
    "prgd-probes": Style("PRGD by probes", "#0a7f8c", "#53c6d0", (0, DOTS), "dot", "h", "hexagon"),
    "adaptive-prgd-probes": Style("adaptive-PRGD by probes", "#3f6f8f", "#7fc3c9", (0, DOTS), "dot", "d", "diamond-tall"),
    "prgd-guarded": Style("guarded PRGD", "#5b7fa8", "#a9c3e6", (0, MIXED), "dashdot", "H", "hexagon2"),
    "rgd": Style(NAMES["rgd"], VERMILION, "#ff8a3d", "-", "solid", "s", "square"),
    "adaptive-rgd": Style("adaptive-RGD", OCHRE, "#e3b341", (0, LONG), "dash", "^", "triangle-up"),
    "rgd-relaxed": Style("relaxed RGD", "#8c3b12", "#d9855c", (0, MIXED), "dashdot", "v", "triangle-down"),
    "adaptive-shampoo": Style("adaptive-Shampoo", "#4f7d2c", "#9ccc65", (0, LONG), "dash", "p", "star-square"),
    "full-shampoo": Style("full Shampoo", "#1f6f54", "#6fd6b5", (0, MIXED), "dashdot", "8", "octagon"),
    "prgd-relaxed-probes": Style("relaxed PRGD by probes", "#274c5e", "#5fa8b8", (0, DOTS), "dot", "H", "hexagon2"),
    "shampoo": Style(NAMES["shampoo"], GREEN, "#35c99b", "-", "solid", "P", "cross"),
    "niht": Style(NAMES["niht"], ROSE, "#e38bbd", "-", "solid", "X", "x"),
    "rcg": Style("RCG", "#6a4fb3", "#b39df0", (0, DOTS), "dot", "<", "triangle-left"),
    "fisher-rcg": Style("Fisher-RCG", "#4d4d4d", "#b9b9b9", (0, MIXED), "dashdot", ">", "triangle-right"),
    "auto": Style("auto", BLACK, "#ffffff", (0, DOTS), "dot", "*", "star"),
}
NOT_RUN = "#bcd3e6"  # a box of a map that was not run: blue, as a rate is never
SPARE = (("#7f6000", "#cdb25a"), ("#5f6b2f", "#aebd72"), ("#8a5a83", "#caa1c4"))  # for methods not named above

EXPLAINED = {
    "prgd": "the paper's method: rows and columns weighted by the norms of the gradient's, constant steps",
    "adaptive-prgd": "the paper's method with exact steps: the minimum of the residual along the direction",
    "prgd-relaxed": "the paper's method with a part, 0.5 to 0.97, of the exact step; not in the paper",
    "prgd-guarded": "lorank's own PRGD, untuned: constant steps, shortened where the residual grows; not in the paper",
    "prgd-probes": "the paper's method, the norms of rows estimated by random probes",
    "adaptive-prgd-probes": "the paper's method with the exact line search, the norms of rows estimated by random probes",
    "rgd": "Riemannian gradient descent in the canonical metric, constant steps",
    "adaptive-rgd": "Riemannian gradient descent in the canonical metric, exact steps",
    "rgd-relaxed": "Riemannian gradient descent in the canonical metric with a part of the exact step; not in the paper",
    "shampoo": "Riemannian gradient descent with diagonal Shampoo: the squared norms of rows and columns, summed up over the "
    "iterations, weigh them; constant steps. (The full matrices, n x n, cannot have been used at n = 20 000.)",
    "adaptive-shampoo": "diagonal Shampoo with exact steps; not in the paper",
    "full-shampoo": "Shampoo's full matrices, constant steps: for small matrices",
    "niht": "normalised iterative hard thresholding, its step times a factor",
    "prgd-relaxed-probes": "the same with a part of the exact step; not in the paper",
    "rcg": "Riemannian conjugate gradients in the canonical metric, exact steps; not in the paper",
    "fisher-rcg": "Riemannian conjugate gradients with Fisher weights on the measurements",
    "auto": "lorank's default: conjugate gradients from a staged start, and other methods where that stalls",
}


def style(method: str) -> Style:
    """The look of a method; one that has no name of its own here gets a spare colour by its name."""
    if method in METHODS:
        return METHODS[method]
    light, dark = SPARE[sum(method.encode()) % len(SPARE)]
    return Style(method, light, dark, (0, DOTS), "dot", "o", "circle")


def look_of(key: str) -> Style:
    """The look of a legend entry: a method's, or a spare one for entries that are no methods, "#number:label"."""
    if not key.startswith("#"):
        return style(key)
    spare = ("prgd", "rgd", "shampoo", "niht", "rcg", "auto")
    number, text = key[1:].split(":", 1)
    return style(spare[int(number) % len(spare)])._replace(label=text)


def label(method: str) -> str:
    return style(method).label


def ordered(methods: list[str]) -> list[str]:
    """As above, then the others."""
    known = list(METHODS)
    return sorted(dict.fromkeys(methods), key=lambda name: known.index(name) if name in METHODS else len(known))
