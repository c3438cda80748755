"""MathJax from the package index, copied into the site: the site needs no network."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

PACKAGE = "sphinx-mathjax-offline"
WANTED = ("tex-chtml.js", "output/chtml/fonts/woff-v2/")  # the rest of the package is for other outputs


def copy_files(app, failure) -> None:
    if failure is not None or app.builder.format != "html":
        return
    for file in importlib.metadata.files(PACKAGE) or []:
        _, mark, rest = file.as_posix().partition("/static/mathjax/")
        if mark and rest.startswith(WANTED):
            target = Path(app.outdir) / "_static" / "mathjax" / rest
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)


def setup(app):
    app.config.mathjax_path = "mathjax/tex-chtml.js"
    app.connect("build-finished", copy_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
