"""The rooms of docs/architecture.md, a Mermaid flowchart of layers, as boxes of the page: no script draws them."""

from __future__ import annotations

import re
from html import escape


def boxes(found: re.Match[str]) -> str:
    rows = []
    for number, inside in re.findall(r'subgraph \w+\["(\d+)"\]\n(.*?)\n\s*end', found[1], re.DOTALL):
        rooms = "".join(f"<code>{escape(room.strip())}</code>" for room in inside.splitlines())
        rows.append(f'<div class="layer"><span>{number}</span>{rooms}</div>')
    label = "The rooms in their layers; imports point down"
    return f'```{{raw}} html\n<div class="rooms" role="img" aria-label="{label}">{"".join(rows)}</div>\n```'


def read(app, name, source) -> None:
    if name == "architecture":
        source[0] = re.sub(r"^```mermaid\n(.*?)^```", boxes, source[0], flags=re.MULTILINE | re.DOTALL)


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
