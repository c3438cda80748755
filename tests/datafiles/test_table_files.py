"""Tables with gaps from files."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("polars")

from hypothesis import given
from hypothesis import strategies as st

from lorank.datafiles import read_table
from lorank.files import FileError


def test_numbers_gaps_and_the_rest(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name,a,b,c\nann,1,,3\nbob,NA,2.5,?\n,4,nan,-1e3\n")
    table = read_table(path)
    assert table.numbers == ["a", "b", "c"]
    np.testing.assert_array_equal(table.values, [[1, np.nan, 3], [np.nan, 2.5, np.nan], [4, np.nan, -1000]])
    table.write(tmp_path / "o.csv", np.nan_to_num(table.values))
    assert (tmp_path / "o.csv").read_text() == "name,a,b,c\nann,1.0,0.0,3.0\nbob,0.0,2.5,0.0\n,4.0,0.0,-1000.0\n"
    table.write(tmp_path / "o.parquet", table.values)
    np.testing.assert_array_equal(read_table(tmp_path / "o.parquet").values, table.values)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\n1,2\nx,3\n", r"line 3, column 'a': 'x' is no number, but others"),
        ("a,b\n1,2\ninf,3\n", r"line 3, column 'a': 'inf' is no number"),
        ("a,b\nx,y\n", "no column of numbers"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2,3\n", "line 2: 3 fields"),
        ("", "is empty"),
    ],
)
def test_bad_tables(tmp_path, text, match):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(FileError, match=match):
        read_table(tmp_path / "t.csv")


def test_a_failed_write_leaves_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    table = read_table(tmp_path / "t.csv")
    with pytest.raises(FileError, match="cannot be written"):
        table.write(tmp_path / "nowhere" / "o.csv", table.values)


@given(st.binary(max_size=200), st.sampled_from(["y.csv", "y.tsv", "y.parquet"]))
def test_fuzzed(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    try:
        table = read_table(path)
    except FileError as error:
        said, values = str(error), np.zeros(0)
    else:
        said, values = name, table.values
    assert name in said
    assert not np.isinf(values).any()
