"""Tables with gaps from files."""

from __future__ import annotations

import pytest

pytest.importorskip("polars")

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from lorank.io import open_table
from lorank.io import text_columns as columns
from lorank.io.archive import FileError


def write(table, path, filled):
    """Write a table whose missing values were filled."""
    with table.writing(path) as write:
        write(next(table.blocks()), filled)


def test_numbers_gaps_and_the_rest(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name,a,b,c\nann,1,,3\nbob,NA,2.5,?\n,4,nan,-1e3\n")
    table = open_table(path)
    assert table.kinds == {"name": "text", "a": "whole", "b": "number", "c": "number"}
    values = table.read()
    assert values.select("a", "b", "c").rows() == [(1, None, 3), (None, 2.5, None), (4, None, -1000)]
    write(table, tmp_path / "o.csv", values.with_columns(pl.col("a", "b", "c").fill_null(0)))
    assert (tmp_path / "o.csv").read_text() == "name,a,b,c\nann,1,0.0,3\nbob,0,2.5,0.0\n,4,0.0,-1e3\n"
    write(table, tmp_path / "o.parquet", values)
    assert open_table(tmp_path / "o.parquet").read().equals(values)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\n1,2\n2,2\nx,3\n", r"line 4, column 'a': 'x' is not a number"),
        ("a,b\n1,2\n2,2\ninf,3\n", r"line 4, column 'a': 'inf' is not a number"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2,3\n", "line 2: 3 fields"),
        ("", "is empty"),
    ],
)
def test_bad_tables(tmp_path, text, match):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(FileError, match=match):
        open_table(tmp_path / "t.csv")


def test_a_failed_write_leaves_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    table = open_table(tmp_path / "t.csv")
    with pytest.raises(FileError, match="cannot be written"):
        write(table, tmp_path / "nowhere" / "o.csv", table.read())


@pytest.mark.filterwarnings("ignore::UserWarning")  # what is odd and read is warned about
@given(st.binary(max_size=200), st.sampled_from(["y.csv", "y.tsv", "y.parquet"]))
def test_fuzzed(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    said, values = name, pl.DataFrame()
    try:
        values = open_table(path).read()
    except FileError as error:
        said = str(error)
    assert name in said
    assert not any(column.is_infinite().any() for column in values if column.dtype.is_float())


def test_what_is_there_is_written_as_it_was(tmp_path):
    """Long ids and zeros in front are no business of whoever fills gaps."""
    (tmp_path / "t.csv").write_text("id,zip,x\n1000000000000000001,00012,+1.50\n1000000000000000003,00013,\n7,00014,2\n")
    table = open_table(tmp_path / "t.csv")
    write(table, tmp_path / "o.csv", table.read().with_columns(pl.col("x").fill_null(5.0)))
    assert (tmp_path / "o.csv").read_text() == (tmp_path / "t.csv").read_text().replace("00013,", "00013,5.0")
    pl.DataFrame({"id": [10**18 + 1, 3], "x": [None, 2]}).write_parquet(tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    write(table, tmp_path / "o.parquet", table.read().fill_null(5))
    assert pl.read_parquet(tmp_path / "o.parquet").to_dict(as_series=False) == {"id": [10**18 + 1, 3], "x": [5, 2]}


def test_line_ends_of_old(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\r1,2\r,4\r5,6\r")
    table = open_table(tmp_path / "t.csv")
    assert table.read().rows() == [(1, 2), (None, 4), (5, 6)]
    assert [table.rows, table.kinds] == [3, {"a": "whole", "b": "whole"}]


def test_parquet_with_nan_and_infinity(tmp_path):
    pl.DataFrame({"a": [1.0, float("nan"), None], "b": [1, 2, 3]}).write_parquet(tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    assert next(table.typed(block) for block in table.blocks())["a"].to_list() == [1, None, None]
    pl.DataFrame({"a": [1.0, float("inf")], "b": [[1], [2]]}).write_parquet(tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    with pytest.raises(FileError, match="column 'a': holds an infinite number"):
        next(table.typed(block) for block in table.blocks())
    pl.DataFrame({"a": [1.0, 2.0], "b": [[1], [2]]}).write_parquet(tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    with pytest.raises(FileError, match=r"write a \.parquet file instead"):
        write(table, tmp_path / "o.csv", table.read())


@pytest.mark.parametrize("size", [1 << 24, 40])
def test_quotes_that_are_letters(tmp_path, monkeypatch, size):
    """Fields that end in a quote without beginning with one, beside line breaks in quotes: polars alone miscounts lines."""
    monkeypatch.setattr(columns, "BYTES", size)
    rows = [(str(k), f'{k}"' if k % 3 else f"a\n{k}", "" if k % 4 == 1 else str(2 * k)) for k in range(30)]
    quoted = [[f'"{cell}"' if "\n" in cell else cell for cell in row] for row in rows]
    path = tmp_path / "t.csv"
    path.write_bytes(("a,b,c\n" + "".join(",".join(row) + "\n" for row in quoted)).encode())
    table = open_table(path)
    assert [tuple(cell or "" for cell in row) for block in table.blocks() for row in block.rows()] == rows
    assert table.read()["a"].to_list() == list(range(30))
