"""Pictures that open: a tap shows one by itself, as large as it is. On a phone that is how small letters are read."""

from __future__ import annotations

import re

PARTS = re.compile(r'(<a\b.*?</a>)|<img\b[^>]*? src="([^"]+)"[^>]*>', re.DOTALL)


def opened(found: re.Match[str]) -> str:
    if found[1] or found[2].endswith(".svg"):
        return found[0]
    return f'<a class="picture" href="{found[2]}" title="the picture by itself">{found[0]}</a>'


def link_pictures(app, name, template, context, doctree) -> None:
    if context.get("body") and name != "gallery/index":
        context["body"] = PARTS.sub(opened, context["body"])


def setup(app):
    app.connect("html-page-context", link_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
