"""Listings of sources lead back to the page of each name, and list nothing that is not lorank's.

viewcode takes all names of a module for members of one documented module: ``lorank.diagnose`` and
``lorank.evaluation.diagnosis.Diagnosis`` are of one file, so that the latter was looked for at ``#lorank.Diagnosis``.
"""

from __future__ import annotations

import re
from pathlib import Path

BACK = re.compile(r'href="([^"#]*/(lorank[\w.]*)\.html)#(lorank[\w.]*)"')


def forget_others(app, env) -> None:
    """Functions of the standard library that are attributes of documented classes have no listing here."""
    found = getattr(env, "_viewcode_modules", {})
    for name in [name for name in found if name.partition(".")[0] != "lorank"]:
        del found[name]


def corrected(link: re.Match[str]) -> str:
    path, page, anchor = link.groups()
    if anchor == page or anchor.startswith(f"{page}."):
        return link[0]
    member = anchor.partition(f".{page.rpartition('.')[2]}")[2]
    return f'href="{path}#{page}{member}"'


def lead_back(app, failure) -> None:
    if failure is None and app.builder.format == "html":
        for listing in (Path(app.outdir) / "_modules").rglob("*.html"):
            text = listing.read_text(encoding="utf-8")
            if (better := BACK.sub(corrected, text)) != text:
                listing.write_text(better, encoding="utf-8")


def setup(app):
    app.connect("env-updated", forget_others)
    app.connect("build-finished", lead_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
