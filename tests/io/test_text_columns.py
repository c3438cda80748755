"""Unusual text files, read in memory and in partitions: the same ids, values and counts, or the same error."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest

pytest.importorskip("polars")

import polars as pl

from lorank import distributed
from lorank.io import observation_files as sources
from lorank.io import read_ratings
from lorank.io import text_columns as columns
from lorank.io.archive import FileError
from lorank.io.ratings import find_columns

HEAD = "user,item,rating\n"
MANY = "".join(f"{k},1,2\n" for k in range(60))
SOME = HEAD + "1,2,3\n2,2,4\n"

READ = {  # what is read: rows, columns and values, in the file's order
    "a blank before a number": (HEAD + "1,2, 3\n2,2,4\n", [(1, 2, 3), (2, 2, 4)]),
    "a plus": (HEAD + "1,2,+3\n2,2,4\n", [(1, 2, 3), (2, 2, 4)]),
    "blanks after numbers": (HEAD + "1,2,3 \n2,2,4\t\n", [(1, 2, 3), (2, 2, 4)]),
    "points at ends": (HEAD + "1,2,3.\n2,2,.5\n", [(1, 2, 3), (2, 2, 0.5)]),
    "an exponent": (HEAD + "1,2,1e3\n", [(1, 2, 1000)]),
    "line ends of old": (SOME.replace("\n", "\r"), [(1, 2, 3), (2, 2, 4)]),
    "line ends of Windows": (SOME.replace("\n", "\r\n"), [(1, 2, 3), (2, 2, 4)]),
    "line ends twice": (SOME.replace("\n", "\r\r\n"), [(1, 2, 3), (2, 2, 4)]),
    "all line ends": (HEAD + "1,2,3\r\n2,2,4\n3,3,3\r4,4,4\n", [(1, 2, 3), (2, 2, 4), (3, 3, 3), (4, 4, 4)]),
    "no line end": (SOME.rstrip(), [(1, 2, 3), (2, 2, 4)]),
    "empty lines": ("\n\n" + HEAD + "\n1,2,3\n\n\n2,2,4\n\n", [(1, 2, 3), (2, 2, 4)]),
    "text, late": (HEAD + MANY + "x,1,2\n", [*((str(k), 1, 2) for k in range(60)), ("x", 1, 2)]),
    "zeros, late": (HEAD + MANY + "007,1,2\n", [*((str(k), 1, 2) for k in range(60)), ("007", 1, 2)]),
    "zeros and text, late": (
        HEAD + MANY + "007,1,2\n8,01,3\n",
        [*((str(k), "1", 2) for k in range(60)), ("007", "1", 2), ("8", "01", 3)],
    ),
    "beyond 64 bits, late": (HEAD + MANY + "9" * 25 + ",1,2\n", [*((str(k), 1, 2) for k in range(60)), ("9" * 25, 1, 2)]),
    "fractions, late": (HEAD + MANY + "60,1,2.5\n", [*((k, 1, 2) for k in range(60)), (60, 1, 2.5)]),
    "17 digits": (HEAD + "12345678901234567,2,3\n", [(12345678901234567, 2, 3)]),
    "18 digits": (HEAD + "123456789012345678,2,3\n1,2,4\n", [("123456789012345678", 2, 3), ("1", 2, 4)]),
    "20 digits": (HEAD + "12345678901234567890,2,3\n", [("12345678901234567890", 2, 3)]),
    "minus zero": (HEAD + "-0,1,2\n0,1,3\n", [("-0", 1, 2), ("0", 1, 3)]),
    "true and false": (HEAD + "1,2,true\n2,2,False\n3,2, TRUE\n", [(1, 2, 1), (2, 2, 0), (3, 2, 1)]),
    "dates": (HEAD + "2024-05-31,1,3\n2024-06-01,1,2\n", [("2024-05-31", 1, 3), ("2024-06-01", 1, 2)]),
    "decimals as ids": (HEAD + "1.0,1,3\n", [("1.0", 1, 3)]),
    "other scripts": (HEAD + "Zoë,東京,3\n\U0001d4b3,\ue000,4\n", [("Zoë", "東京", 3), ("\U0001d4b3", "\ue000", 4)]),
    "a byte order mark": ("\ufeff" + SOME, [(1, 2, 3), (2, 2, 4)]),
    "semicolons": (SOME.replace(",", ";"), [(1, 2, 3), (2, 2, 4)]),
    "bars": (SOME.replace(",", "|"), [(1, 2, 3), (2, 2, 4)]),
    "tabs": (SOME.replace(",", "\t"), [(1, 2, 3), (2, 2, 4)]),
    "no names": ("1,2,3\n2,2,4\n", [(1, 2, 3), (2, 2, 4)]),
    "one row, no names": ("1,2,3\n", [(1, 2, 3)]),
    "names with blanks": (SOME.replace(",", ", ", 2), [(1, 2, 3), (2, 2, 4)]),
    "a column without a name": ("user,item,rating,\n1,2,3,\n2,2,4,\n", [(1, 2, 3), (2, 2, 4)]),
    "quotes": (HEAD + '"a, b","say ""x""","2"\n', [("a, b", 'say "x"', 2)]),
    "numbers in quotes": (HEAD + '"1","2","3"\n', [(1, 2, 3)]),
    "line breaks in quotes": (HEAD + '"a\nb",x,2\n"c\n\nd",y,3\n', [("a\nb", "x", 2), ("c\n\nd", "y", 3)]),
    "quotes within": (
        HEAD + 'a"b,2,3\nc,2,4\n"d\ne",2,5\n5" pipe,2,6\n',
        [('a"b', 2, 3), ("c", 2, 4), ("d\ne", 2, 5), ('5" pipe', 2, 6)],
    ),
    "quotes at ends": (
        HEAD + "".join(f'{k},12",3\n"a\n{k}",2,4\n' for k in range(20)),
        [*((str(k), '12"', 3) for k in range(20)), *((f"a\n{k}", "2", 4) for k in range(20))],
    ),
    "all line ends, and a column that is not asked for": (
        "user,item,rating,when\n1,2,3,4\r\n2,2,4,4\r3,3,3,4\n\r4,x,4,4\n5,5,5,4\r",
        [(1, "2", 3), (2, "2", 4), (3, "3", 3), (4, "x", 4), (5, "5", 5)],
    ),
    "line ends of old, and line breaks in quotes": (
        SOME.replace("\n", "\r") + "".join(f'7,{k},4\r"a\n{k}",2,4\r' for k in range(20)),
        [
            ("1", 2, 3),
            ("2", 2, 4),
            *(("7", k, 4) for k in range(20)),
            *((f"a\n{k}", 2, 4) for k in range(20)),
        ],
    ),
    "a line short of what is not asked for": ("user,item,rating,when\n1,2,3,4\n1,3,4\n", [(1, 2, 3), (1, 3, 4)]),
    "ids like none": (HEAD + "NA,2,3\nb,2,4\nNA,3,3\n", [("NA", 2, 3), ("b", 2, 4), ("NA", 3, 3)]),
    "99 for no value": (
        HEAD + MANY + "".join(f"{k},2,99\n" for k in range(5)),
        [*((k, 1, 2) for k in range(60)), *((k, 2, 99) for k in range(5))],
    ),
    "ids with blanks": (HEAD + " 7,2,3\n7,2,4\n", [(" 7", 2, 3), ("7", 2, 4)]),
}
REFUSED = {
    "true and others": (HEAD + "1,2,3\n1,3,true\n", "line 3, column 'rating': 'true' is not a number"),
    "others and true": (HEAD + "1,2,true\n" * 250 + "1,3,3\n", "line 252, column 'rating': '3' is neither true nor false"),
    "a header alone": (HEAD, "has no observations"),
    "a header alone, no line end": (HEAD[:-1], "has no observations"),
    "nothing": ("", "is empty"),
    "empty lines alone": ("\n\n\n", "is empty"),
    "text below empty lines": (HEAD + "1,2,3\n\n\n2,2,x\n", "line 5, column 'rating': 'x' is not a number"),
    "text below line breaks in quotes": (HEAD + '"a\n\nb",2,3\n1,3,x\n', "line 5, column 'rating': 'x' is not a number"),
    "text far below": (HEAD + MANY + "1,3,x\n", "line 62, column 'rating': 'x' is not a number"),
    "a line of blanks": (HEAD + "1,2,3\n   \n2,2,4\n", "line 3: 1 field where the first line has 3"),
    "a line of blanks, last": (HEAD + MANY + "  \n", "line 62: 1 field where the first line has 3"),
    "a line of separators": (HEAD + "1,2,3\n,,\n", "line 3, column 'user': empty"),
    "a short line": (HEAD + "1,2,3\n1,3\n", "line 3: 2 fields where the first line has 3"),
    "a long line": (HEAD + "1,2,3\n1,3,4,5\n", "line 3: 4 fields where the first line has 3"),
    "a comment": (HEAD + "# hello\n1,2,3\n", "line 2: 1 field where the first line has 3"),
    "nan": (HEAD + "1,2,nan\n", "line 2, column 'rating': 'nan' is not a number; leave out"),
    "inf": (HEAD + "1,2,3\n1,3,inf\n", "line 3, column 'rating': 'inf' is not a number"),
    "too large for a number": (HEAD + "1,2,1e999\n", "line 2, column 'rating': '1e999' is not a number"),
    "no value": (HEAD + "1,2,\n", "line 2, column 'rating': empty; leave out lines without a value"),
    "no id": (HEAD + "1,2,3\n,2,3\n", "line 3, column 'user': empty"),
    "a blank id": (HEAD + '" ",2,3\n', "line 2, column 'user': empty"),
    "decimal commas": ("user;item;rating\n1;2;3,5\n", "'3,5' is not a number; numbers need decimal points"),
    "thousands": (HEAD + '1,2,"1,000.5"\n', "without commas between thousands"),
    "underscores": (HEAD + "1,2,1_000\n", "'1_000' is not a number"),
    "other digits": (HEAD + "1,2,٣\n", "'٣' is not a number"),
    "two columns of a name": ("user,item,item\n1,2,3\n", "two columns are called 'item'"),
    "one column": ("user\n1\n2\n", "which column is which"),
    "two colons": ("1::2::3\n2::3::4\n", "'::'"),
    "a gap in a first line without names": ("1,,3\n2,3,4\n", "line 1, column 'column_2': empty"),
    "a quote never closed": (HEAD + '"a,2,3\n' + MANY, "line 2: a quotation mark"),
    "Latin-1": ((HEAD + "Zoë,2,3\n").encode("latin-1"), "is not text in UTF-8"),
    "Latin-1, late": (
        (HEAD + MANY * 5 + "Zoë,2,3\n").encode("latin-1"),
        "line 302, column 'user': 'Zo\ufffd' is not text in UTF-8",
    ),
    "NUL": (HEAD + "1,2,3\n1,\x00,3\n", "holds NUL bytes"),
    "NUL, late": (HEAD + MANY * 5 + "1,\x00,3\n", "line 302, column 'item': '\\x00' holds NUL bytes"),
    "UTF-16": (SOME.encode("utf-16"), "is text in UTF-16"),
}


def in_memory(paths):
    found = read_ratings(paths)
    return _triples(found.row_ids, found.col_ids, found.rows, found.cols, found.values)


def in_partitions(paths):
    names = find_columns(paths[0])
    read = distributed.from_parquet if paths[0].suffix == ".parquet" else distributed.from_csv
    problem = read([str(path) for path in paths], names.row, names.col, names.value, dtype="float64")
    indptr, cols, values, _ = problem.observations.host()
    rows = np.repeat(np.arange(problem.shape[0]), np.diff(indptr))
    return _triples(problem.row_ids, problem.col_ids, rows, np.asarray(cols), np.asarray(values))


def _triples(row_ids, col_ids, rows, cols, values):
    return sorted(zip(row_ids[rows].tolist(), col_ids[cols].tolist(), values.tolist(), strict=True), key=str)


def told(read, *paths):
    """What was read or why not, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = read(list(paths))
        except FileError as error:
            found = str(error)
    return found, [str(one.message) for one in said]


def written(path, content):
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


@pytest.fixture(params=[1 << 24, 90], ids=["one part", "many parts"])
def size(request, monkeypatch):
    monkeypatch.setattr(columns, "BYTES", request.param)
    monkeypatch.setattr(columns, "MAX_FIELD", 4 * request.param)
    monkeypatch.setattr(sources, "CHUNK_SIZE", 2)
    return request.param


@pytest.mark.parametrize("what", list(READ))
def test_what_can_be_read(tmp_path, size, what):
    content, expected = READ[what]
    path = written(tmp_path / "r.csv", content)
    found = told(in_memory, path)
    assert found[0] == sorted(expected, key=str)
    assert told(in_partitions, path) == found
    assert bool(found[1]) == what.startswith(("ids ", "99 "))


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_cannot_be_read(tmp_path, size, what):
    content, words = REFUSED[what]
    path = written(tmp_path / "r.csv", content)
    found = told(in_memory, path)
    assert words in found[0]
    assert str(path) in found[0]
    assert told(in_partitions, path) == found


def test_packed_files(tmp_path, size):
    path = written(tmp_path / "r.csv.gz", HEAD + MANY + "x,1,2\n")
    assert told(in_partitions, path) == told(in_memory, path)
    path.write_bytes(path.read_bytes()[:-20])
    assert told(in_partitions, path) == told(in_memory, path)
    assert "the packed file" in told(in_memory, path)[0]


@pytest.mark.parametrize(
    ("second", "refused"),
    [("x,1,2\n", True), ("200,1,2\n", False), (MANY.replace(",1,", ",2,") + "x,1,2\n", True)],
)
def test_files_whose_ids_differ(tmp_path, size, second, refused):
    """Two files with the same columns are one, unless the ids of one are numbers and those of the other text."""
    paths = written(tmp_path / "a.csv", HEAD + MANY), written(tmp_path / "b.csv", HEAD + second)
    for order in (paths, paths[::-1]):
        found = [told(read, *order)[0] for read in (in_memory, in_partitions)]
        assert [isinstance(one, str) and "have different schemas: the column 'user'" in one for one in found] == [refused] * 2
        assert refused or found[0] == found[1]


def test_files_whose_ids_all_turn_to_text_late(tmp_path, size):
    paths = [written(tmp_path / f"{k}.csv", HEAD + MANY.replace(",1,", f",{k},") + f"x{k},1,2\n") for k in range(3)]
    found = told(in_partitions, *paths)
    assert len(found[0]) == 183
    assert found == told(in_memory, *paths)


TYPED = {
    "truth": {"user": [1, 2], "item": [3, 4], "rating": [True, False]},
    "no sign": {"user": pl.Series([1, 2], dtype=pl.UInt64), "item": [3, 4], "rating": [1, 2]},
    "no sign, too long": {"user": pl.Series([1, 2**63], dtype=pl.UInt64), "item": [3, 4], "rating": [1, 2]},
    "categories": {"user": pl.Series(["b", "a"], dtype=pl.Categorical), "item": [3, 4], "rating": [1, 2]},
    "18 digits": {"user": [123456789012345678, 1], "item": [3, 4], "rating": [1, 2]},
    "decimals as ids": {"user": [1.0, 2.0], "item": [3, 4], "rating": [1, 2]},
    "dates as ids": {"user": pl.Series([1, 2]).cast(pl.Date), "item": [3, 4], "rating": [1, 2]},
    "nothing": {"user": pl.Series([], dtype=pl.Int64), "item": pl.Series([], dtype=pl.Int64), "rating": []},
    "no id": {"user": ["a", None, "b"], "item": [3, 4, 5], "rating": [1, 2, 3]},
    "an empty id": {"user": ["a", "", "b"], "item": [3, 4, 5], "rating": [1, 2, 3]},
    "no value": {"user": ["a", "c", "b"], "item": [3, 4, 5], "rating": [1, 2, None]},
    "nan": {"user": ["a", "c", "b"], "item": [3, 4, 5], "rating": [1.0, 2.0, float("nan")]},
    "text as values": {"user": ["a", "c"], "item": [3, 4], "rating": ["1", "2"]},
    "ids like none": {"user": ["a", "NULL", "null"], "item": [3, 4, 5], "rating": [1, 2, 3]},
    "no such columns": {"who": [1], "what": [2], "how": [3], "when": [4]},
}


@pytest.mark.parametrize("what", list(TYPED))
def test_parquet(tmp_path, size, what):
    pl.DataFrame(TYPED[what]).write_parquet(tmp_path / "r.parquet")
    found = told(in_memory, tmp_path / "r.parquet")
    assert told(in_partitions, tmp_path / "r.parquet") == found
    read = what in ("truth", "no sign", "categories", "18 digits", "an empty id", "ids like none")
    assert isinstance(found[0], list) == read
    assert bool(found[1]) == (what in ("an empty id", "ids like none"))


KINDS = {
    "a web page": ("r.csv", b"<!DOCTYPE html>\n<html><body>404</body></html>\n", "is a web page"),
    "a pointer": ("r.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n", "git lfs pull"),
    "a comment": ("r.csv", b"# from our shop\n" + SOME.encode(), "first line is a comment: delete it"),
    "commas called tabs": ("r.tsv", SOME.encode(), ".tsv"),
    "spaces": ("r.csv", SOME.replace(",", " ").encode(), "spaces"),
    "thousands": ("r.csv", HEAD.encode() + b'1,2,"2,000"\n', "without commas between thousands (2.000 if it is a decimal one)"),
    "no ending": ("ratings", SOME.encode(), "unknown kind of file"),
    "a damaged file": ("r.parquet", b"PAR1 and no more", "Parquet file"),
    "a torn file": ("r.csv.gz", gzip.compress(SOME.encode(), mtime=0)[:30], "the packed file"),
}


@pytest.mark.parametrize("what", list(KINDS))
@pytest.mark.parametrize("command", [["diagnose"], ["complete", "--rank", "1", "--regularization", "0.1"]])
def test_commands_refuse_a_file_in_the_same_words(tmp_path, what, command):
    pytest.importorskip("typer")
    pytest.importorskip("sklearn")
    from command_line import refused

    name, content, words = KINDS[what]
    (tmp_path / name).write_bytes(content)
    said = [refused(*command, tmp_path / name, *more).splitlines()[-1] for more in ([], ["--max-memory", "1GB"])]
    assert words in said[0]
    assert said[0] == said[1]
    if command[0] == "complete" and what != "thousands":
        assert refused(*command, tmp_path / name, "--implicit").splitlines()[-1].split(":")[:2] == said[0].split(":")[:2]


def test_a_matrix_is_read_in_memory_alone(tmp_path):
    pytest.importorskip("typer")
    import scipy.sparse

    from command_line import done, refused

    scipy.sparse.save_npz(tmp_path / "r.npz", scipy.sparse.eye_array(4).tocsr())
    done("diagnose", tmp_path / "r.npz", "--rank", 1)
    assert "r.npz is a matrix" in refused("diagnose", tmp_path / "r.npz", "--max-memory", "1GB")


def test_endings_in_capitals_are_read_both_ways(tmp_path):
    for name in ("a.CSV", "a.CSV.GZ", "a.PARQUET"):
        if name == "a.PARQUET":
            pl.DataFrame({"user": [1, 2], "item": [2, 2], "rating": [3, 4]}).write_parquet(tmp_path / name)
        else:
            (tmp_path / name).write_bytes(gzip.compress(SOME.encode(), mtime=0) if name.endswith("GZ") else SOME.encode())
        assert told(in_memory, tmp_path / name)[0] == [(1, 2, 3), (2, 2, 4)]
        problem = (distributed.from_parquet if name == "a.PARQUET" else distributed.from_csv)(
            tmp_path / name, "user", "item", "rating"
        )
        assert problem.m == 2


def test_values_that_vanish_in_single_precision_are_refused(tmp_path):
    path = written(tmp_path / "r.csv", HEAD + "1,2,0\n1,3,1\n1,4,1e-60\n")
    with pytest.raises(FileError, match="observation 3: 1e-60 is too small for float32: multiply all values"):
        distributed.from_csv(path, "user", "item", "rating")
    assert distributed.from_csv(path, "user", "item", "rating", dtype="float64").m == 3
