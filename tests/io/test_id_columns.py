"""Ids stay as they are written, whichever way a file is read: zeros in front, long numbers, lines without names above them."""

import gzip

import numpy as np
import pytest

pytest.importorskip("polars")
pytest.importorskip("sklearn")
pytest.importorskip("rich")

import polars as pl

from lorank import distributed
from lorank.cli.evaluate import read_interactions
from lorank.cli.output import table_writer
from lorank.cli.sources import File, PartitionOptions, Partitions, choose_source
from lorank.io import observation_files as sources
from lorank.io import read_ratings
from lorank.io.ratings import as_type_of
from lorank.io.side_features import read_side_features


def _written(path, lines, head="user,item,rating"):
    path.write_text("\n".join([*([head] if head else []), *lines]) + "\n")
    return path


def test_zeros_in_front_are_kept_in_partitions(tmp_path):
    file = _written(tmp_path / "a.csv", ["7,x,1", "007,x,2", "8,y,3"])
    problem = distributed.from_csv(file, "user", "item", "rating", folder=tmp_path / "parts")
    assert problem.row_ids.tolist() == ["007", "7", "8"]
    pairs = list(sources.pair_batches([file], "user", "item"))
    assert pairs[0][0].tolist() == ["7", "007", "8"]


def test_partitions_read_files_without_names_to_their_first_line(tmp_path):
    file = _written(tmp_path / "a.csv", ["1,10,4", "2,20,5"], head="")
    assert list(sources.schema_of(file)) == ["column_1", "column_2", "column_3"]
    piece = next(sources.TableSource([file], ("column_1", "column_2", "column_3", None)).chunks())
    assert piece.rows.to_list() == [1, 2]
    assert piece.values.tolist() == [4, 5]


def test_ids_like_floats_are_text_in_partitions(tmp_path):
    file = _written(tmp_path / "a.csv", ["1e5,10,4", "2e5,20,5"])
    piece = next(sources.TableSource([file], ("user", "item", "rating", None)).chunks())
    assert piece.rows.to_list() == ["1e5", "2e5"]
    assert piece.cols.to_list() == [10, 20]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_zeros_in_front_that_come_late_are_kept_in_memory(tmp_path, ending):
    text = "user,item,rating\n" + "".join(f"{k},1,3\n" for k in range(1, 400)) + "007,1,5\n"
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if ending.endswith("gz") else text.encode())
    data = read_ratings(path)
    assert len(data.row_ids) == 400
    assert {"7", "007"} <= set(data.row_ids.tolist())


def test_long_numbers_are_found_as_text():
    known = np.array([-(2**63), 1234567890123456001, 2**63 - 1])
    assert as_type_of(known.astype(str), known).tolist() == known.tolist()
    strange = as_type_of(np.array([str(2**63), "0" + str(2**60), "9" * 19, "²"]), known)
    assert not np.isin(strange, known).any()


def test_features_are_of_ids_as_written(tmp_path):
    file = _written(tmp_path / "side.csv", ["001,1", "002,0"], head="user,age")
    found = read_side_features(file, "user", np.array(["001", "002"]))
    assert found["user"].to_list() == ["001", "002"]
    assert found["age"].to_list() == [1, 0]
    file = _written(tmp_path / "side.csv", ["1,1", "2,0"], head="user,age")
    assert read_side_features(file, "user", np.array([1, 2]))["user"].to_list() == [1, 2]


def test_pairs_in_parquet_have_the_names_of_the_model(tmp_path):
    pl.DataFrame({"what": [1], "who": [2]}).write_parquet(tmp_path / "pairs.parquet")
    columns, pairs = File([str(tmp_path / "pairs.parquet")]).pairs({"row": "who", "col": "what"})
    assert (columns.row, columns.col) == ("who", "what")
    assert [(rows.tolist(), cols.tolist()) for rows, cols in pairs] == [([2], [1])]


@pytest.mark.parametrize("value", [None, "plays"])
def test_what_was_taken_may_have_dates(tmp_path, value):
    lines = ["a,x,1,2024-01-02", "a,y,2,2024-03-01", "a,x,1,2024-05-01", "b,y,1,2023-01-01"]
    file = _written(tmp_path / "a.csv", lines, head="user,item,plays,when")
    users, items, counts, times, shape = read_interactions(File([str(file)], (None, None, value), extra="when"))
    assert shape == (2, 2)
    assert users.tolist() == [0, 0, 1]
    assert items.tolist() == [0, 1, 1]
    assert np.argsort(times).tolist() == [2, 1, 0]
    assert counts.tolist() == [2, 1 if value is None else 2, 1]


def test_endings_in_capitals(tmp_path):
    for name in ("a.TSV", "a.PARQUET"):
        with table_writer(tmp_path / name) as write:
            write({"x": [1], "y": [2]})
    assert (tmp_path / "a.TSV").read_text() == "x\ty\n1\t2\n"
    assert pl.read_parquet(tmp_path / "a.PARQUET" / "part-00000.parquet").shape == (1, 2)


def test_what_repeated_pairs_mean_is_not_ignored_in_small_files(tmp_path):
    file = str(_written(tmp_path / "a.csv", ["1,10,4"]))
    names = (None, None, None)
    assert isinstance(choose_source([file], names, PartitionOptions(duplicates="mean")), Partitions)
    assert isinstance(choose_source([file], names, PartitionOptions()), File)


IDS = {
    "whole numbers": (["3", "17", "0", "3"], [3, 17, 0, 3]),
    "negative": (["-3", "4", "-17"], [-3, 4, -17]),
    "quoted numbers": (['"3"', '"17"', "4"], [3, 17, 4]),
    "text": (["anna", "ben", "42"], None),
    "mixed, late": ([*map(str, range(300)), "anna"], None),
    "quoted text": (['"a, b"', '"say ""hi"""', "c"], ["a, b", 'say "hi"', "c"]),
    "zeros in front": (["007", "7", "8"], None),
    "zeros, late": ([*map(str, range(300)), "007"], None),
    "signs": (["+7", "7"], None),
    "minus zero": (["-0", "0"], None),
    "with blanks": ([" 7", "7 ", "7"], None),
    "dates": (["2024-05-31", "2024-06-01"], None),
    "decimals": (["1.0", "2.0"], None),
    "17 digits": (["12345678901234567", "1"], [12345678901234567, 1]),
    "beyond 64 bits, late": ([*map(str, range(300)), "9" * 25], None),
}


@pytest.mark.filterwarnings("ignore:.*begin or end with blanks")
@pytest.mark.parametrize("written", list(IDS))
def test_ids_by_one_pass_are_those_of_pythons_csv_module(tmp_path, monkeypatch, written):
    """Whole numbers where all are written as such, else text, letter by letter; polars reads the file once."""
    cells, expected = IDS[written]
    file = _written(tmp_path / "a.csv", [f"{cell},x{k % 2},{k % 5}" for k, cell in enumerate(cells)])
    passes = []
    read_csv = pl.read_csv
    monkeypatch.setattr(pl, "read_csv", lambda *a, **o: passes.append(1) or read_csv(*a, **o))
    monkeypatch.setattr(pl, "scan_csv", lambda *a, **o: passes.append(2))
    data = read_ratings(file)
    assert passes == [1]
    assert data.row_ids[data.rows].tolist() == (cells if expected is None else expected)
    assert data.col_ids[data.cols].tolist() == [f"x{k % 2}" for k in range(len(cells))]
    monkeypatch.setattr(pl, "read_csv", lambda *a, **o: (_ for _ in ()).throw(pl.exceptions.ComputeError("stumbles")))
    slowly = read_ratings(file)
    assert slowly.row_ids.dtype == data.row_ids.dtype
    assert slowly.row_ids.tolist() == data.row_ids.tolist()
    np.testing.assert_array_equal(slowly.rows, data.rows)
    np.testing.assert_array_equal(slowly.values, data.values)


@pytest.mark.parametrize(
    "cell", ["--7", "-", "-7", "07", "-0", "+7", " 7", "7 ", "", "12345678901234567", "123456789012345678"]
)
@pytest.mark.filterwarnings("ignore:.*blanks:UserWarning")
def test_one_cell_and_a_column_of_it_are_whole_numbers_alike(tmp_path, cell):
    from lorank.io.header import is_integer
    from lorank.io.text_columns import as_integers

    assert is_integer(cell) == (as_integers(pl.Series([cell])) is not None)
    if cell.strip():  # with an empty line the file is read in another way
        ids = [read_ratings(_written(tmp_path / "a.csv", [f"{cell},1,2", *empty, "5,1,3"])).row_ids for empty in ([], [""])]
        assert ids[0].tolist() == ids[1].tolist()


def test_the_separator_is_that_of_the_first_line_that_is_not_empty(tmp_path):
    found = read_ratings(_written(tmp_path / "a.csv", ["7;1;2.5", "8;2;3"], head="\n\r\nuser;item;rating"))
    assert (found.row_ids.tolist(), found.values.tolist()) == ([7, 8], [2.5, 3.0])
