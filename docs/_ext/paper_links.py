"""Between the paper and the API: the names in docs/notation.md lead to the API, and the API names the symbol."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "notation.md"
NAME = re.compile(r"`(lorank(?:\.\w+)+)`")


def symbols() -> dict[str, list[tuple[str, str]]]:
    """For each name in the tables of notation.md the paper's symbols for it, with their meaning."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 3 and cells[0] not in ("paper", "where"):
            symbol, meaning, code = cells
            for name in NAME.findall(code):
                found.setdefault(name, []).append((symbol, "" if "`" in meaning else meaning))
    return found


SYMBOLS = symbols()


def restructured(text: str) -> str:
    """Markdown of a table's cell as reStructuredText: its formulas stay formulas."""

    def part(piece: str) -> str:
        if piece.startswith("$"):
            return f":math:`{piece[1:-1]}`"
        return re.sub(r"([\\\\*|_])", r"\\\1", piece)

    return "".join(map(part, re.split(r"(\$[^$]+\$)", text)))


def add_symbols(app, what, name, thing, options, lines) -> None:
    """A line "In the paper: ..." at the end of the docstring."""
    if SYMBOLS.get(name):
        said = "; ".join(f"{symbol}, {meaning}" if meaning else symbol for symbol, meaning in SYMBOLS[name])
        lines += ["", f"**In the paper**: {restructured(said)} (:doc:`/notation`)."]


def read(app, name, source) -> None:
    if name in ("notation", "metrics"):
        source[0] = NAME.sub(r"{py:obj}`\1`", source[0])


def setup(app):
    app.connect("autodoc-process-docstring", add_symbols, priority=900)  # after numpydoc
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
