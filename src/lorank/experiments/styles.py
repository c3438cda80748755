"""Names, colours and markers of methods, the same in all figures and on the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..io.figures import STYLES
from ..report.convergence_plot import NAMES


class Style(NamedTuple):
    """The appearance of a method."""

    label: str
    colour: str
    dash: Any
    marker: str


BLUE, VERMILION, GREEN, ROSE, BLACK, OCHRE = (colour for colour, _ in STYLES[:6])
SOLID, DASH, DASHDOT, DOT = "-", (0, (6, 1.5)), (0, (4, 1.2, 1, 1.2)), (0, (1.5, 1.5))

# Variants of PRGD are blue, those of RGD warm; dashes and markers distinguish the variants, also in grey.
METHODS = {
    "prgd": Style(NAMES["prgd"], BLUE, SOLID, "o"),
    "adaptive-prgd": Style("adaptive-PRGD", "#2f8fd0", DASH, "D"),
    "prgd-relaxed": Style("relaxed PRGD", "#1d4f7c", DASHDOT, "p"),
    "prgd-probes": Style("PRGD by probes", "#0a7f8c", DOT, "h"),
    "adaptive-prgd-probes": Style("adaptive-PRGD by probes", "#3f6f8f", DOT, "d"),
    "adaptive-prgd-literal": Style("adaptive-PRGD, literal", "#6c8ebf", DOT, "1"),
    "prgd-canonical-step": Style("PRGD, RGD's step formula", "#16a6c9", DASHDOT, "2"),
    "prgd-guarded": Style("guarded PRGD", "#5b7fa8", DASHDOT, "H"),
    "rgd": Style(NAMES["rgd"], VERMILION, SOLID, "s"),
    "adaptive-rgd": Style("adaptive-RGD", OCHRE, DASH, "^"),
    "adaptive-rgd-literal": Style("adaptive-RGD, literal", "#c98f4e", DOT, "3"),
    "rgd-relaxed": Style("relaxed RGD", "#8c3b12", DASHDOT, "v"),
    "adaptive-shampoo": Style("adaptive-Shampoo", "#4f7d2c", DASH, "p"),
    "full-shampoo": Style("full Shampoo", "#1f6f54", DASHDOT, "8"),
    "prgd-relaxed-probes": Style("relaxed PRGD by probes", "#274c5e", DOT, "H"),
    "shampoo": Style(NAMES["shampoo"], GREEN, SOLID, "P"),
    "niht": Style(NAMES["niht"], ROSE, SOLID, "X"),
    "rcg": Style("RCG", "#6a4fb3", DOT, "<"),
    "fisher-rcg": Style("Fisher-RCG", "#4d4d4d", DASHDOT, ">"),
    "auto": Style("auto", BLACK, DOT, "*"),
}
NOT_RUN = "#bcd3e6"  # a cell of a map that was not run; blue, since rates are grey
MARKERS = "os^DPXv<>*"


def looks(keys: Sequence[str]) -> dict[str, Style]:
    """The appearance of legend entries: methods, or ``"#number:label"``. Unknown ones get distinct colours by position."""
    new = [key for key in keys if key not in METHODS]
    cycle = {key: (*STYLES[k % len(STYLES)], MARKERS[k % len(MARKERS)]) for k, key in enumerate(new)}
    return {key: METHODS.get(key) or Style(label(key), *cycle[key]) for key in keys}


def label(method: str) -> str:
    """The name of a method in texts."""
    return METHODS[method].label if method in METHODS else method.split(":", 1)[1] if method.startswith("#") else method


def ordered_methods(methods: Iterable[str]) -> list[str]:
    """Distinct methods in the order of :data:`METHODS`, then the others."""
    known = list(METHODS)
    return sorted(dict.fromkeys(methods), key=lambda name: known.index(name) if name in METHODS else len(known))
