"""Outputs of Python blocks: the build executes the blocks of a page in order and adds below each what it prints.

A page's blocks share one namespace and run in an empty folder. An exception is a warning of the build. A page
with blocks that cannot run on the machine that builds the site marks them ``py`` instead of ``python``.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import traceback
import warnings

from docutils import nodes
from sphinx.util import logging

WIDEST = 120  # characters: longer lines of output are cut
LOG = logging.getLogger(__name__)


def run(code: str, space: dict, page: str) -> str:
    """What a block prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page, "exec", dont_inherit=True), space)
    lines = printed.getvalue().rstrip().splitlines()
    return "\n".join(line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…" for line in lines)


def add_outputs(app, doctree) -> None:
    page = app.env.docname
    if page.startswith(("api/", "gallery/", "project/")):
        return
    space: dict = {"__name__": "page"}
    blocks = [block for block in doctree.findall(nodes.literal_block) if block.get("language") == "python"]
    if not blocks:
        return
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        os.chdir(folder)
        try:
            for block in blocks:
                output = run(block.astext(), space, page)
                if output:
                    below = nodes.literal_block(output, output, language="none", classes=["output"])
                    block.parent.insert(block.parent.index(block) + 1, below)
        except Exception:
            LOG.warning("a Python block failed:\n%s", traceback.format_exc(), location=(page, block.line))
        finally:
            os.chdir(home)


def setup(app):
    app.connect("doctree-read", add_outputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
