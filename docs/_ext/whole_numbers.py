"""Numbers that are not torn apart at the end of a line: 10 000, 5 %, 2.5 s, 1e-4, 2026-11-15, ml-1m.

The text stays as it is, for who copies or searches it; a span without line breaks is put around it.
"""

from __future__ import annotations

import re

from docutils import nodes

UNITS = "%|s|ms|ns|h|GB|MB|MiB|GiB|TB|dB|M|\u00d7|x"
GROUPS = r"\d{1,3}(?:[ \u00a0\u202f]\d{3}(?!\d))+"
WHOLE = re.compile(
    r"\d{4}-\d\d-\d\d|\b[A-Za-z]+-\d+[kKmM]\b"
    rf"|(?<![\w.,])(?:[\u2212+~<>]\s?)?(?:{GROUPS}|\d[\d.,]*)(?:e[-+\u2212]?\d+)?²?(?:[ \u00a0](?:{UNITS})(?!\w))?"
)
NOT_TEXT = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw, nodes.title, nodes.comment)


def worth(piece: str) -> bool:
    """Whether a line could end inside of it."""
    return bool(re.search(r"[\s\-\u2212]", piece.strip()))


def keep_whole(app, doctree, name) -> None:
    if name.startswith("api/"):
        return
    for text in list(doctree.findall(nodes.Text)):
        above, found = text.parent, []
        while above is not None:
            if isinstance(above, NOT_TEXT):
                break
            above = above.parent
        else:
            found = [one for one in WHOLE.finditer(text.astext()) if worth(one[0])]
        if not found:
            continue
        whole, at, pieces = text.astext(), 0, []
        for one in found:
            pieces += [nodes.Text(whole[at : one.start()]), nodes.inline("", one[0], classes=["whole"])]
            at = one.end()
        pieces.append(nodes.Text(whole[at:]))
        text.parent.replace(text, [piece for piece in pieces if piece.astext()])


def setup(app):
    app.connect("doctree-resolved", keep_whole)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
