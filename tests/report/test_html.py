"""The HTML builder: escaping, attributes, tables, documents."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from lorank.report.html import Markup, bullets, document, element, markup, plot, table

EVIL = "<script>alert(1)</script>&\"'"


def test_text_is_escaped_and_markup_is_not():
    assert markup(EVIL) == "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#x27;"
    assert element("p", EVIL, element("b", 3), None) == f"<p>{markup(EVIL)}<b>3</b></p>"
    assert isinstance(element("p"), Markup)
    assert markup(f"{element('b', 'x')}") == "&lt;b&gt;x&lt;/b&gt;"  # joined to text it is text: escaped, not trusted


def test_attributes():
    assert element("col", class_="c1") == '<col class="c1">'
    assert element("i", data_key=EVIL, hidden=None, checked=False) == f'<i data-key="{markup(EVIL)}"></i>'


def test_columns_of_numbers_are_marked():
    found = table(("name", "n"), [(EVIL, 1)], numbers=(1,))
    head = '<tr><th>name</th><th class="number">n</th></tr>'
    assert found == f'<table>{head}<tr><td>{markup(EVIL)}</td><td class="number">1</td></tr></table>'
    assert bullets([EVIL], "x") == f'<ul class="x"><li>{markup(EVIL)}</li></ul>'


def test_a_document_without_scripts_has_none():
    text = document(EVIL, element("p", "body"))
    assert text.startswith("<!doctype html>")
    assert f"<title>{markup(EVIL)}</title>" in text
    assert "<script" not in text


def test_data_cannot_end_their_element_and_are_finite():
    pytest.importorskip("plotly")
    curve = {"x": np.arange(3), "y": [1.0, float("nan"), float("inf")], "name": "</script>"}
    text = document("t", element("div", data_plot="a"), plots={"a": plot("t", [curve], {}, {})}, data={"more": EVIL})
    held = dict(re.findall(r'<script type="application/json" id="(\w+)">(.*?)</script>', text))
    assert json.loads(held["more"]) == EVIL
    assert json.loads(held["plots"])["a"]["data"] == [{"x": [0, 1, 2], "y": [1.0, None, None], "name": "</script>"}]
