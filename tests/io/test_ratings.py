"""Observations from files: right, or an error that says where."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse

pytest.importorskip("polars")

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from lorank.io import read_ratings
from lorank.io.archive import FileError
from lorank.io.header import parse_number
from lorank.io.ratings import positions_of
from lorank.io.side_features import read_side_features


def write(tmp_path, text, name="r.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def triples(found):
    return list(zip(found.row_ids[found.rows].tolist(), found.col_ids[found.cols].tolist(), found.values.tolist(), strict=True))


def test_names_are_guessed(tmp_path):
    path = write(tmp_path, "userId,movieId,rating,timestamp\n7,30,4.5,1\n7,20,3,2\n5,30,1,3\n")
    found = read_ratings(path)
    assert triples(found) == [(7, 30, 4.5), (7, 20, 3.0), (5, 30, 1.0)]
    assert found.row_ids.tolist() == [5, 7]
    assert (found.columns.row, found.columns.col, found.columns.value) == ("userId", "movieId", "rating")


def test_names_can_be_given(tmp_path):
    path = write(tmp_path, "when;who;what;how\n1;ann;tea;3\n2;bob;tea;4\n")
    assert triples(read_ratings(path, row="who", col="what", value="how")) == [("ann", "tea", 3.0), ("bob", "tea", 4.0)]
    with pytest.raises(FileError, match=r"no column 'user': its columns are 'when', 'who'"):
        read_ratings(path, row="user")
    with pytest.raises(FileError, match=r"--row NAME --col NAME --value NAME"):
        read_ratings(path)
    with pytest.raises(FileError, match="asked for twice"):
        read_ratings(path, row="who", col="who")


def test_text_of_other_kinds(tmp_path):
    tabs = "1\t2\t3\t881250949\n1\t5\t4\t891717742\n"
    assert triples(read_ratings(write(tmp_path, tabs, "u.data"))) == [(1, 2, 3.0), (1, 5, 4.0)]
    packed = gzip.compress(b"user,item,rating\na b,x,1\n", mtime=0)
    assert triples(read_ratings(write(tmp_path, packed, "r.csv.gz"))) == [("a b", "x", 1.0)]
    assert triples(read_ratings(write(tmp_path, "\ufeffuser,item,rating\r\n1,2,3\r\n"))) == [(1, 2, 3.0)]
    quoted = 'user,item,rating\n"a, b","say ""x""",2\n'
    assert triples(read_ratings(write(tmp_path, quoted))) == [("a, b", 'say "x"', 2.0)]


def test_ids_that_turn_out_to_be_text_are_text(tmp_path):
    many = "".join(f"{k},1,2\n" for k in range(300))
    found = read_ratings(write(tmp_path, f"user,item,rating\n{many}x7,1,5\n007,1,4\n"))
    assert found.row_ids.dtype.kind == "U"
    assert triples(found)[-2:] == [("x7", 1, 5.0), ("007", 1, 4.0)] or triples(found)[-2:] == [
        ("x7", "1", 5.0),
        ("007", "1", 4.0),
    ]
    assert len(found.row_ids) == 302


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        ("user,item,rating\n", "no observations"),
        ("user,item,rating\n1,2,3\n1,3,good\n", r"line 3, column 'rating': 'good' is not a number"),
        ("user,item,rating\n1,2,3\n\n1,3,x\n", r"line 4, column 'rating': 'x' is not a number"),
        ('user,item,rating\n"a\nb",2,3\n1,3,x\n', r"line 4, column 'rating': 'x' is not a number"),
        ("user,item,rating\n1,2,\n", r"line 2, column 'rating': empty"),
        ("user,item,rating\n1,,4\n", r"line 2, column 'item': empty"),
        ("user,item,rating\n1,2,3\n1,2\n", r"line 3: 2 fields where the first line has 3"),
        ("user,item,rating\n1,2,3\n1,2,3,4\n", r"line 3: 4 fields where the first line has 3"),
        ("user,item,rating\n1,2,nan\n", r"line 2, column 'rating': 'nan' is not a number"),
        ("user,item,rating\n1,2,inf\n", r"line 2, column 'rating': 'inf' is not a number"),
        ("user,item,item\n1,2,3\n", "two columns are called 'item'"),
        (b"user,item,rating\n\xff\xfe,2,3\n", "UTF-8"),
        (b"\x00\x01\x02", "UTF-8"),
    ],
)
def test_bad_text_is_named_by_line_column_and_value(tmp_path, text, match):
    with pytest.raises(FileError, match=match):
        read_ratings(write(tmp_path, text))


def test_other_formats(tmp_path):
    S = scipy.sparse.coo_array(([1.0, 2.5, 0.0], ([0, 3, 3], [1, 0, 4])), shape=(9, 9))
    scipy.io.mmwrite(tmp_path / "s.mtx", S)
    scipy.sparse.save_npz(tmp_path / "s.npz", S)
    for name in ("s.mtx", "s.npz"):
        assert sorted(triples(read_ratings(tmp_path / name))) == [(0, 1, 1.0), (3, 0, 2.5), (3, 4, 0.0)]
    pl.DataFrame({"user": ["b", "a"], "item": [3, 1], "rating": [1, 2]}).write_parquet(tmp_path / "s.parquet")
    assert triples(read_ratings(tmp_path / "s.parquet")) == [("b", 3, 1.0), ("a", 1, 2.0)]
    pl.DataFrame({"user": ["b", None], "item": [3, 1], "rating": [1, 2]}).write_parquet(tmp_path / "n.parquet")
    with pytest.raises(FileError, match=r"row 2, column 'user': None"):
        read_ratings(tmp_path / "n.parquet")
    pl.DataFrame({"user": [1.5], "item": [3], "rating": ["x"]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(FileError, match=r"whole numbers or text|not numbers"):
        read_ratings(tmp_path / "t.parquet")


def test_objects_in_npz_are_not_loaded(tmp_path):
    np.savez(tmp_path / "o.npz", format=np.array([print], object), data=np.zeros(1))
    with pytest.raises(FileError, match="no sparse matrix"):
        read_ratings(tmp_path / "o.npz")


def test_missing_and_unknown(tmp_path):
    for name in ("x.csv", "x.parquet", "x.mtx", "x.npz"):
        with pytest.raises(FileError, match="does not exist"):
            read_ratings(tmp_path / name)
    with pytest.raises(FileError, match="unknown kind of file"):
        read_ratings(write(tmp_path, "a", "x.docx"))


def test_pairs_and_their_places(tmp_path):
    found = read_ratings(write(tmp_path, "movie,user\nx,1\ny,9\n"), with_values=False)
    rows, cols = found.row_ids[found.rows], found.col_ids[found.cols]
    assert (rows.tolist(), cols.tolist(), found.columns.row, found.values.tolist()) == ([1, 9], ["x", "y"], "user", [1, 1])
    assert positions_of(rows, np.array([1, 4, 9])).tolist() == [0, 2]
    assert positions_of(cols, np.array(["w", "y"])).tolist() == [2, 1]
    assert positions_of(np.array(["4", "x"]), np.array([1, 4])).tolist() == [1, 2]
    assert positions_of(np.array([4, 5]), np.array(["4", "x"])).tolist() == [0, 2]


# -- fuzzing: no traceback of another kind, no wrong silent result ---------------------------------------------------------
def plain_reader(path):
    """Python's csv module and nothing clever: the triples, or None where something is wrong."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            records = [r for r in csv.reader(file, strict=True) if r]
    except (csv.Error, UnicodeDecodeError):
        return None
    if not records or records[0] != ["user", "item", "rating"]:
        return None
    out = []
    for record in records[1:]:
        if len(record) != 3 or not record[0].strip() or not record[1].strip() or parse_number(record[2]) is None:
            return None
        out.append((record[0], record[1], float(record[2])))
    return out or None


cells = st.one_of(
    st.integers(-5, 10**20).map(str),
    st.floats().map(str),
    st.text(alphabet='ab ,"\n\r\t;é0_-.', max_size=6),
    st.sampled_from(["1", "2", "3.5", "", " ", "nan", "1e3", "0x1", "1_0", "+4", "٣"]),
)


@pytest.mark.filterwarnings("ignore::UserWarning")  # what is odd and read is warned about
@given(st.lists(st.lists(cells, min_size=2, max_size=4), max_size=8), st.booleans())
def test_fuzzed_records(tmp_path_factory, records, quoted):
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL, lineterminator="\n")
    writer.writerow(["user", "item", "rating"])
    writer.writerows(records)
    compare(tmp_path_factory, out.getvalue().encode())


@pytest.mark.filterwarnings("ignore::UserWarning")  # what is odd and read is warned about
@given(
    st.lists(
        st.sampled_from([b"1", b"2,", b",", b"\n", b'"', b"\r", b"a", b"\xff", b"3.5", b"\x00", b" ", b"1,2,3\n"]), max_size=14
    )
)
def test_fuzzed_bytes(tmp_path_factory, parts):
    compare(tmp_path_factory, b"user,item,rating\n" + b"".join(parts))


def compare(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(content)
    expected = plain_reader(path)
    try:
        found = read_ratings(path)
    except FileError:
        found = None
    if found is None:
        assert expected is None or b"\x00" in content, "refused what is right"
        return
    if expected is None and content.endswith(b","):  # polars does not mind a separator at the very end
        path.write_bytes(content[:-1])
        expected = plain_reader(path)
    assert expected is not None, "took what is wrong"
    assert [(str(a), str(b), c) for a, b, c in triples(found)] == expected


@pytest.mark.filterwarnings("ignore::UserWarning")  # what is odd and read is warned about
@given(st.binary(max_size=300), st.sampled_from(["x.csv", "x.tsv", "x.parquet", "x.mtx", "x.npz", "x.csv.gz"]))
def test_fuzzed_files_of_every_kind(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    said = name
    try:
        read_ratings(path)
    except FileError as error:
        said = str(error)
    assert name in said


def test_features_are_the_same_from_every_kind_of_file(tmp_path):
    frame = pl.DataFrame({"user": ["007", "12"], "age": [3, 4]})
    frame.write_parquet(tmp_path / "f.parquet")
    frame.write_csv(tmp_path / "f.csv")
    for name in ("f.parquet", "f.csv"):
        found = read_side_features(tmp_path / name, "user", np.array(["007"]))
        assert found.to_dict(as_series=False) == {"user": ["007", "12"], "age": [3, 4]}
        assert read_side_features(tmp_path / name, "user", np.array([7])).get_column("user").to_list()[1] == 12
    frame.with_columns(user=pl.Series([None, "12"])).write_parquet(tmp_path / "g.parquet")
    with pytest.raises(FileError, match="an id is missing"):
        read_side_features(tmp_path / "g.parquet", "user", np.array(["12"]))
    with pytest.raises(FileError, match="does not exist"):
        read_side_features(tmp_path / "h.csv", "user", np.array(["12"]))
    with pytest.raises(FileError, match="cannot be read"):
        read_side_features(write(tmp_path, "no table", "i.parquet"), "user", np.array(["12"]))


def test_pairs_of_a_matrix(tmp_path):
    scipy.io.mmwrite(tmp_path / "m.mtx", scipy.sparse.coo_array(([1.0, 2.0], ([0, 2], [3, 1])), shape=(3, 4)))
    found = read_ratings(tmp_path / "m.mtx")
    rows, cols = found.row_ids[found.rows], found.col_ids[found.cols]
    assert sorted(zip(rows.tolist(), cols.tolist(), found.values.tolist(), strict=True)) == [(0, 3, 1.0), (2, 1, 2.0)]


def test_times_of_a_zone_are_those_of_greenwich(tmp_path):
    stamps = pl.Series(["2024-01-01T12:00", "2024-07-01T12:00"]).str.to_datetime().dt.replace_time_zone("Europe/Berlin")
    pl.DataFrame({"u": [1, 2], "i": [1, 2], "r": [1.0, 2.0], "t": stamps}).write_parquet(tmp_path / "t.parquet")
    times = read_ratings(tmp_path / "t.parquet", time="t").times
    assert times.astype("datetime64[m]").astype(str).tolist() == ["2024-01-01T11:00", "2024-07-01T10:00"]
