"""The page: one file that loads nothing from elsewhere, and the policy that forbids it to."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib.resources import files


def build_page(title: str) -> str:
    """The page as text, style and script inside."""
    parts = files(__package__) / "assets"
    page, style, script = ((parts / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js"))
    return page.replace("{{title}}", html.escape(title)).replace("{{style}}", style).replace("{{script}}", script)


def security_policy(page: str) -> str:
    """Only the style and the script of this page, and requests to its own server."""
    sums = {
        tag: " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found)
        for tag in ("style", "script")
        if (found := re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL))
    }
    return (
        f"default-src 'none'; style-src {sums['style']}; script-src {sums['script']}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
