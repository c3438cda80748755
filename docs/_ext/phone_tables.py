"""Tables that a phone can show.

Tables of words get the class ``words``, and their cells the heading of their column: site.css makes paragraphs of their rows
on a phone. Tables of numbers get the class ``numbers``: they stay tables, and are moved sideways there next to their first
column; short cells are not wrapped, and long ones (class ``long``) are not squeezed.
"""

from __future__ import annotations

import re
from html import escape, unescape

TABLE = re.compile(r'<table class="([^"]*)">(.*?)</table>', re.DOTALL)
HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
ROW = re.compile(r"<tr\b[^>]*>.*?</tr>", re.DOTALL)
CELL = re.compile(r"<td\b([^>]*)>(.*?)</td>", re.DOTALL)
LONG = 26  # characters of a cell that is wrapped on a phone


def text(cell: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", "", cell)).split())


def is_words(cells: list[list[str]]) -> bool:
    """Whether rows hold sentences: long ones, and hardly a number."""
    every = [cell for row in cells for cell in row if cell]
    numbers = sum(bool(re.match(r"\W{0,2}\d", cell)) for cell in every)
    return sum(map(len, every)) > 45 * len(cells) and 3 * numbers < len(every)


def numbered(classes: str, inside: str) -> str:
    """A table of numbers, its long cells marked."""

    def one(cell: re.Match[str]) -> str:
        attributes = cell[1]
        if len(text(cell[2])) <= LONG:
            return cell[0]
        marked = attributes.replace('class="', 'class="long ') if 'class="' in attributes else f'{attributes} class="long"'
        return f"<td{marked}>{cell[2]}</td>"

    return f'<table class="{classes} numbers">{CELL.sub(one, inside)}</table>'


def labelled(found: re.Match[str]) -> str:
    classes, inside = found[1], found[2]
    headings = [text(one) for one in HEADING.findall(inside)]
    rows = [[text(cell) for _, cell in CELL.findall(row)] for row in ROW.findall(inside)]
    rows = [row for row in rows if row]
    if not headings or not rows or len(headings) < 2:
        return found[0]
    if not is_words(rows):
        return numbered(classes, inside)

    def label(row: re.Match[str]) -> str:
        names = iter(headings)

        def one(cell: re.Match[str]) -> str:
            name, inner = next(names, ""), "" if not text(cell[2]) and "<img" not in cell[2] else cell[2]
            return f'<td{cell[1]} data-label="{escape(name)}">{inner}</td>' if name else f"<td{cell[1]}>{inner}</td>"

        return CELL.sub(one, row[0])

    return f'<table class="{classes} words">{ROW.sub(label, inside)}</table>'


def adapt_tables(app, name, template, context, doctree) -> None:
    if context.get("body") and not name.startswith("api/"):
        context["body"] = TABLE.sub(labelled, context["body"])


def setup(app):
    app.connect("html-page-context", adapt_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
