"""Small pieces of HTML that the page is made of."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from .verdicts import Verdict

SIGNS = {"reproduced": "✓", "partly": "≈", "not": "✗", "no data": "–"}  # noqa: RUF001


def fold(title: str, content: str) -> str:
    return f"<details><summary>{escaped(title)}</summary>{content}</details>"


def pill(verdict: Verdict) -> str:
    return f'<span class="verdict {css_class(verdict)}">{SIGNS[verdict]} {verdict}</span>'


def css_class(verdict: Verdict) -> str:
    return verdict.replace(" ", "-")


def distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def escaped(value: str) -> str:
    return html.escape(value, quote=True)


def measured(text: str) -> str:
    """The figure in bold, what stands behind it, in brackets or after a semicolon, not."""
    end = min(found if (found := text.find(sign)) >= 0 else len(text) for sign in (" (", ";"))
    return f"<b>{escaped(text[:end])}</b>{escaped(text[end:])}"


def items(lines: Sequence[str]) -> str:
    return "".join(f"<li>{escaped(line)}</li>" for line in lines)
