"""LaTeX tables of averages, with the rules of the package booktabs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ..report.html import write_text
from .figures import NAMED, Points
from .styles import label, ordered_methods
from .tables import BOUNDED, Mean, varying

SPECIAL = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
SYMBOLS = {
    "n": "$n$",
    "n1": "$n$",
    "rank": "$r$",
    "oversampling": "$1/q$",
    "m": "$m$",
    "noise": r"$\sigma$",
    "kappa": r"$\kappa$",
}


def latex_table(points: Points, quantities: Sequence[str] = ("iterations", "seconds", "error")) -> str:
    r"""A table for ``\usepackage{booktabs}``: a line for each point and method, means over the tests, the best in bold.

    Where runs were stopped by a limit, numbers of iterations and seconds are lower bounds.
    """
    names = varying(points)
    shown = [
        q for q in quantities if any(math.isfinite(mean.of(q).mean) for means in points.values() for mean in means.values())
    ]
    total = max((len(mean.rows) for means in points.values() for mean in means.values()), default=0)
    head = [
        *(SYMBOLS.get(name, escaped(name)) for name in names),
        "method",
        *(escaped(NAMED.get(q, q)) for q in shown),
        "solved",
    ]
    lines = [rf"\begin{{tabular}}{{{'r' * len(names)}l{'r' * (len(shown) + 1)}}}", r"\toprule", _line(head)]
    for case, means in points.items():
        lines.append(r"\midrule")
        best = {q: _best([mean for mean in means.values() if not mean.failed], q) for q in shown}
        for k, name in enumerate(ordered_methods(means)):
            mean = means[name]
            where = [escaped(_number(getattr(case, one))) if k == 0 else "" for one in names]
            cells = [_cell(mean, q, best[q]) for q in shown]
            lines.append(_line([*where, escaped(label(name)), *cells, f"{mean.reached}/{len(mean.rows)}"]))
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([f"% {total} tests at most; means over the tests that did not fail", *lines, ""])


def write_latex(points: Points, path: Path) -> Path:
    r"""Write the table to a file for ``\input``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_text(path, latex_table(points))


def escaped(text: str) -> str:
    """Text with the special signs of LaTeX escaped."""
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _best(means: Sequence[Mean], quantity: str) -> float:
    known = [mean.of(quantity).mean for mean in means if not (mean.at_least and quantity in BOUNDED)]
    return min((value for value in known if math.isfinite(value)), default=math.nan)


def _cell(mean: Mean, quantity: str, best: float) -> str:
    value = mean.of(quantity).mean
    if (mean.failed and quantity in BOUNDED) or not math.isfinite(value):
        return "--"
    if 0 < abs(value) < 1e-3:
        exponent = math.floor(math.log10(abs(value)))
        text = rf"{value / 10.0**exponent:.1f}\cdot 10^{{{exponent}}}"
    else:
        text = f"{value:.0f}" if quantity == "iterations" or value >= 100 else f"{value:.3g}"
    bound = r"\ge " if mean.at_least and quantity in BOUNDED else ""
    return f"$\\mathbf{{{text}}}$" if value == best and quantity in BOUNDED and not bound else f"${bound}{text}$"


def _number(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
