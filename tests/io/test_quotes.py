"""Quotation marks in columns that are not read: no line is lost, whatever Python's csv module reads."""

from __future__ import annotations

import csv
import io
import warnings

import pytest

pytest.importorskip("polars")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorank import distributed
from lorank.io import observation_files as sources
from lorank.io import read_ratings
from lorank.io import text_columns as columns
from lorank.io.archive import FileError
from lorank.io.delimited_text import read_layout

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(params=[1 << 24, 300], ids=["one part", "many parts"], autouse=True)
def _parts(request, monkeypatch):
    monkeypatch.setattr(columns, "BYTES", request.param)


def file_with_stray_quotes(path, lines=(20, 1600), final_newline=True):
    rows = [f"{k % 40},{k // 40},{1 + k % 5},title {k}" for k in range(2000)]
    for line in lines:
        rows[line] = rows[line].rpartition(",")[0] + ',7" single'
    path.write_text("user,item,rating,title\n" + "\n".join(rows) + "\n" * final_newline)
    return path


@pytest.mark.parametrize("lines", [(20, 1600), (20,), (20, 700, 1999)])
@pytest.mark.parametrize("final_newline", [True, False])
def test_lines_between_stray_quotes_are_read(tmp_path, lines, final_newline):
    file = file_with_stray_quotes(tmp_path / "r.csv", lines, final_newline)
    assert len(read_ratings(file).values) == 2000
    assert distributed.from_csv(str(file), "user", "item", "rating").m == 2000
    pairs = list(sources.pair_batches([file], "user", "item"))
    assert sum(len(rows) for rows, _ in pairs) == 2000


CELLS = st.text(alphabet=st.sampled_from('ab"7, \n'), max_size=6)


@st.composite
def tables(draw):
    """Text of a file: fields that are quoted, or written as they are, with quotation marks inside."""
    lines = []
    for k in range(draw(st.integers(1, 30))):
        cells = []
        for _ in range(draw(st.integers(1, 2))):
            cell = draw(CELLS)
            if draw(st.booleans()):
                cells.append('"' + cell.replace('"', '""') + '"')
            else:
                cells.append("x" + cell.replace(",", "").replace("\n", ""))  # quotes after the first letter are letters
        before, after = cells[0], cells[-1]
        lines.append(f"{before},{k},{k % 7},{k % 5},{after}")
    return "note,user,item,rating,title\n" + "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=tables())
def test_the_records_are_those_of_the_csv_module(tmp_path, text):
    file = tmp_path / "r.csv"
    file.write_text(text, encoding="utf-8", newline="")
    expected = [record for record in csv.reader(io.StringIO(text, newline=""), strict=True) if record][1:]
    found = read_ratings(file, "user", "item", "rating")
    assert found.row_ids[found.rows].tolist() == [int(record[1]) for record in expected]
    assert found.values.tolist() == [float(record[3]) for record in expected]
    titles = read_ratings(file, "user", "title", "rating") if all(r[4].strip() for r in expected) else None
    if titles is not None:
        assert list(map(str, titles.col_ids[titles.cols])) == [record[4] for record in expected]
    problem = distributed.from_csv(str(file), "user", "item", "rating")
    assert problem.m == len(expected)
    cells = columns.read_cells(file, read_layout(file, header=True))
    assert [[cell or "" for cell in row] for row in cells.rows()] == expected


def test_a_field_that_goes_on_after_its_quotes_is_an_error(tmp_path):
    (tmp_path / "r.csv").write_text('user,item,rating,title\n1,2,3,"a"b\n2,2,4,c\n')
    with pytest.raises(FileError, match="line 2"):
        read_ratings(tmp_path / "r.csv")


def test_ids_with_nul_characters_are_refused(tmp_path):
    """NumPy drops them at the end, and two rows would have one name."""
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"user": ["ann", "ann\x00"], "item": [1, 1], "rating": [1.0, 2.0]})
    frame.write_parquet(tmp_path / "r.parquet")
    with pytest.raises(FileError, match="row 2, column 'user'"):
        read_ratings(tmp_path / "r.parquet")
    with pytest.raises(FileError, match="row 2, column 'user'"):
        distributed.from_parquet(str(tmp_path / "r.parquet"), "user", "item", "rating")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (tmp_path / "r.csv").write_text("user,item,rating\nann,1,2\nann\x00,1,2\n")
        with pytest.raises(FileError, match="NUL"):
            read_ratings(tmp_path / "r.csv")


def test_quotation_marks_of_quoted_files_are_searched_once(tmp_path, monkeypatch):
    """Besides the line that a part ends in, which the next one begins with."""
    file, searched, find = tmp_path / "r.csv", [], columns.find_quotes
    file.write_text('"user","item","rating"\n' + "".join(f'"{k % 40}","{k // 40}","{1 + k % 5}"\n' for k in range(3000)))
    monkeypatch.setattr(columns, "find_quotes", lambda text, separator: (searched.append(len(text)), find(text, separator))[1])
    assert len(read_ratings(file).values) == 3000
    assert sum(searched) < 1.2 * file.stat().st_size
