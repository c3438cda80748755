"""The report of an imputed table."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.report.table_page import BINS, FilledColumn, write_table_page

pl = pytest.importorskip("polars")


def test_observed_and_imputed_cells_are_counted_apart():
    column = FilledColumn("kind", "levels", ["a", "b"], np.empty(0))
    column.add(pl.Series(["a", None, "b", None]), pl.Series(["a", "b", "b", "b"]))
    assert (column.rows, column.gaps) == (4, 2)
    assert column.known.tolist() == [1, 1]
    assert column.filled.tolist() == [0, 2]


def test_few_imputed_cells_are_drawn_in_wider_bins():
    column = FilledColumn("x", "number", [], np.linspace(0, 1, BINS + 1))
    column.add(pl.Series([0.0, None, 1.0]), pl.Series([0.0, 0.5, 1.0]))
    merged = column.coarser()
    assert len(merged.known) == BINS // 4
    assert (merged.known.sum(), merged.filled.sum()) == (2, 1)


def test_names_are_escaped_and_columns_ordered_by_missing_values(tmp_path):
    evil = "<script>x</script>"
    columns = []
    for name, gaps in (("few", 1), (evil, 2), ("none", 0)):
        column = FilledColumn(name, "number", [], np.linspace(0, 1, BINS + 1))
        values = [0.1, 0.5, 0.9]
        column.add(pl.Series([None] * gaps + values[gaps:], dtype=pl.Float64), pl.Series(values))
        columns.append(column)
    text = write_table_page(tmp_path / "t.html", evil, columns, 2).read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.index("&lt;script&gt;x&lt;/script&gt;</h3>") < text.index("few</h3>")
    assert "none</h3>" not in text
    assert text.count("<svg") == 2
