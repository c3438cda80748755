"""Sources of observations: the same problem as in memory, and bad input refused by name."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import lorank as lr
from lorank.distributed.building import build
from lorank.io import observation_files as sources
from lorank.io import read_ratings
from lorank.io import text_columns as columns
from lorank.io.archive import FileError
from lorank.io.observation_files import Chunk

pl = pytest.importorskip("polars")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_SIZE", 100)


def table(seed=0, m=700, text=True):
    rng = np.random.default_rng(seed)
    pairs = rng.choice(90 * 40, m, replace=False)
    rows, cols = pairs // 40 * 7 - 50, pairs % 40
    return pl.DataFrame(
        {
            "user": [f"u{k}" for k in rows] if text else rows,
            "item": cols,
            "stars": rng.standard_normal(m),
            "weight": rng.uniform(0.5, 2, m),
        }
    )


def write(frame, place, files=3, kind="parquet"):
    place.mkdir(exist_ok=True)
    for k, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        getattr(frame[part.tolist()], f"write_{kind}")(place / f"part-{k}.{kind}")
    (place / "_SUCCESS").write_text("")
    return place


def in_memory(frame, **options):
    users, rows = np.unique(
        frame["user"].to_numpy().astype(str if frame["user"].dtype == pl.String else int), return_inverse=True
    )
    items, cols = np.unique(frame["item"].to_numpy(), return_inverse=True)
    values = frame["stars"].to_numpy().astype(np.float32)
    return lr.Completion(rows, cols, values, (len(users), len(items)), **options), users, items


def assert_same(problem, expected, users, items):
    for a, b in zip(expected.observations.host(), problem.observations.host(), strict=True):
        np.testing.assert_array_equal(b, a)
    np.testing.assert_array_equal(problem.row_ids, users)
    np.testing.assert_array_equal(problem.col_ids, items)


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_are_the_same_as_in_memory(tmp_path, kind, text):
    frame = table(text=text)
    place = write(frame, tmp_path / "in", kind=kind)
    read = getattr(lr.distributed, f"from_{kind}")
    problem = read(place, rows="user", cols="item", values="stars", n_partitions=4)
    assert len(problem.observations.sizes) == 4
    assert_same(problem, *in_memory(frame))
    again = read(str(place / f"*.{kind}"), "user", "item", "stars", folder=tmp_path / "out")
    assert_same(again, *in_memory(frame))
    assert_same(lr.distributed.from_partitions(tmp_path / "out"), *in_memory(frame))


def test_weights_and_double_precision(tmp_path):
    frame = table()
    problem = lr.distributed.from_parquet(
        write(frame, tmp_path), "user", "item", "stars", "weight", dtype="float64", n_partitions=2
    )
    assert problem.dtype == np.float64
    expected, _, _ = in_memory(frame.with_columns(pl.col("stars").cast(pl.Float64)), weights=frame["weight"].to_numpy())
    np.testing.assert_allclose(problem.observations.host().weights, expected.observations.host().weights, rtol=1e-6)


@pytest.mark.parametrize("how", ["mean", "last", "sum"])
def test_pairs_that_occur_in_two_files(tmp_path, how):
    frame = table()
    place = write(pl.concat([frame, frame[:50].with_columns(stars=pl.col("stars") + 1)]), tmp_path)
    with pytest.raises(FileError, match=r"row u.*more than once"):
        lr.distributed.from_parquet(place, "user", "item", "stars", n_partitions=5)
    problem = lr.distributed.from_parquet(place, "user", "item", "stars", n_partitions=5, duplicates=how)
    both = pl.concat([frame, frame[:50].with_columns(stars=pl.col("stars") + 1)])
    expected, _, _ = in_memory(both, duplicates=how)
    np.testing.assert_allclose(problem.observations.host().values, expected.observations.host().values, rtol=1e-5)


@pytest.mark.parametrize("how", ["mean", "last"])
def test_weighted_pairs_that_occur_twice(how):
    frame = table()
    again = frame[:50].with_columns(stars=pl.col("stars") + 1, weight=pl.col("weight") * 3)
    names = {"rows": "user", "cols": "item", "values": "stars", "weights": "weight", "dtype": "float64"}
    problem = lr.distributed.from_frames([frame, again], **names, n_partitions=5, duplicates=how)
    both = pl.concat([frame, again])
    expected, _, _ = in_memory(both, duplicates=how, weights=both["weight"].to_numpy())
    for found, wanted in zip(problem.observations.host(), expected.observations.host(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)  # values of single precision there
    with pytest.raises(ValueError, match="'sum' has no meaning with weights"):
        lr.distributed.from_frames([frame, again], **names, duplicates="sum")
    with pytest.raises(ValueError, match="the mean of classes is no class"):
        lr.distributed.from_frames([frame, again], **names, duplicates="mean", loss="ordinal")


class Arrays:
    """A custom source: indices in two chunks."""

    names = ("row", "col", "value", None)

    def __init__(self, *arrays):
        self.arrays = arrays

    def chunks(self):
        for first in (0, 400):
            part = slice(first, first + 400)
            yield Chunk(*(a[part] for a in self.arrays), None, "the arrays", first)


def test_arrays_with_numbers(tmp_path):
    rng = np.random.default_rng(0)
    pairs = rng.choice(50 * 30, 600, replace=False)
    source = Arrays(pairs // 30, pairs % 30, rng.standard_normal(600))
    folder = build(source, tmp_path / "p", shape=(50, 30), n_partitions=7)
    assert folder.shape == (50, 30)
    assert folder.ids(0) is None
    with pytest.raises(FileError, match=r"42.*0 \.\. 39"):
        build(source, tmp_path / "q", shape=(40, 30))
    with pytest.raises(ValueError, match=r"n_partitions.*600"):
        build(source, tmp_path / "q", shape=(50, 30), n_partitions=600)
    with pytest.raises(FileError, match="no observations"):
        build(Arrays(*(a[:0] for a in source.arrays)), tmp_path / "q", shape=(50, 30))
    source.arrays[2][450] = np.inf
    with pytest.raises(FileError, match=r"the arrays, observation 451: inf"):
        build(source, tmp_path / "q", shape=(50, 30))
    assert [f.name for f in tmp_path.iterdir()] == ["p"]


def test_weights_that_are_not_positive():
    frame = pl.DataFrame({"r": [0, 1, 2], "c": [0, 1, 2], "v": [1.0, 2.0, 3.0], "w": [1.0, 0.0, 1.0]})
    with pytest.raises(FileError, match=r"observation 2: 0.0"):
        lr.distributed.from_frames(frame, "r", "c", "v", "w")


def bad_schema(frame, place):
    frame.with_columns(pl.col("user").str.len_chars().cast(pl.Int64)).write_parquet(place / "part-1.parquet")
    return r"part-1\.parquet.*different schemas.*'user'"


def bad_column(frame, place):
    frame.drop("stars").write_parquet(place / "part-1.parquet")
    return r"part-1\.parquet has no column 'stars'"


def bad_nan(frame, place):
    values = frame["stars"].to_numpy().copy()
    values[13] = np.nan
    frame.with_columns(stars=values).write_parquet(place / "part-1.parquet")
    return r"part-1\.parquet, row 14, column 'stars'"


def bad_null(frame, place):
    frame.with_columns(user=pl.Series([None, *frame["user"][1:]])).write_parquet(place / "part-1.parquet")
    return r"part-1\.parquet, row 1, column 'user'"


def bad_kind(frame, place):
    frame.with_columns(stars=pl.lit("many")).write_parquet(place / "part-0.parquet")
    return r"part-0\.parquet, column 'stars': holds String"


def bad_ids(frame, place):
    frame.with_columns(item=pl.col("item").cast(pl.Float64)).write_parquet(place / "part-0.parquet")
    return "ids must be whole numbers or text"


def bad_wide(frame, place):
    frame.with_columns(item=pl.Series([2**63, *range(len(frame) - 1)], dtype=pl.UInt64)).write_parquet(place / "part-0.parquet")
    return r"part-0\.parquet, row 1, column 'item': 9223372036854775808 .*: cast .* to text"


def bad_empty(frame, place):
    frame[:0].write_parquet(place / "part-1.parquet")
    return r"part-1\.parquet has no observations"


def bad_bytes(frame, place):
    (place / "part-2.parquet").write_bytes(b"PAR1 and no more")
    return r"part-2\.parquet is not a Parquet file"


def bad_size(frame, place):
    frame.with_columns(stars=pl.lit(1e300)).write_parquet(place / "part-2.parquet")
    return r"part-2\.parquet.*too large for float32"


BAD = [bad_schema, bad_column, bad_nan, bad_null, bad_kind, bad_ids, bad_wide, bad_empty, bad_bytes, bad_size]


@pytest.mark.parametrize("spoil", BAD)
def test_bad_input_is_refused_by_name(tmp_path, spoil):
    frame = table()
    place = write(frame, tmp_path / "in")
    message = spoil(frame[:200], place)
    with pytest.raises(FileError, match=message):
        lr.distributed.from_parquet(place, "user", "item", "stars", folder=tmp_path / "out")
    assert [f.name for f in tmp_path.iterdir()] == ["in"]


def test_no_files(tmp_path):
    with pytest.raises(FileError, match="no files"):
        lr.distributed.from_parquet(tmp_path, "user", "item", "stars")
    with pytest.raises(FileError, match="no files"):
        lr.distributed.from_csv(str(tmp_path / "*.csv"), "user", "item", "stars")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("gap", [1, 30, 250])
def test_empty_lines_are_skipped_as_in_memory(tmp_path, gap, ends):
    """At the top, between and at the end, also if whole batches are empty; within quotes they are part of an id."""
    lines = ["user,item,stars", *[f"u{k % 17},{k % 23},{k / 8}" for k in range(17 * 23)], '"a', "", 'b",3,1.5']
    text = ends.join([*[""] * gap, lines[0], *[""] * gap, *lines[1:150], *[""] * gap, *lines[150:], *[""] * gap])
    (tmp_path / "r.csv").write_bytes(text.encode())
    problem = lr.distributed.from_csv(tmp_path / "r.csv", "user", "item", "stars", folder=tmp_path / "p")
    twin = read_ratings(tmp_path / "r.csv", "user", "item", "stars")
    expected = lr.Completion(twin.rows, twin.cols, twin.values.astype(np.float32), problem.shape)
    assert_same(problem, expected, twin.row_ids, twin.col_ids)
    assert f"a{ends}{ends}b" in problem.row_ids


def test_empty_lines_cost_no_more_than_the_part_that_has_them(tmp_path, monkeypatch):
    """At the end they cost nothing, and none is read line by line with them."""
    monkeypatch.setattr(columns, "BYTES", 40)
    slow, slowly = [], columns._columns_by_csv
    monkeypatch.setattr(columns, "_columns_by_csv", lambda *a: slow.append(a[-1].line) or slowly(*a))
    for ends in ("\n", "\r\n"):
        lines = ["user,item,stars", *(f"{k},2,3.5" for k in range(20)), "", *(f"{k},3,6.5" for k in range(20)), "", ""]
        (tmp_path / "r.csv").write_bytes(ends.join(lines).encode())
        (tmp_path / "r.csv.gz").write_bytes(gzip.compress(ends.join(lines).encode()))
        for name in ("r.csv", "r.csv.gz"):
            slow.clear()
            problem = lr.distributed.from_csv(tmp_path / name, "user", "item", "stars")
            np.testing.assert_array_equal(problem.observations.host().values, [3.5, 6.5] * 20)
            assert len(set(slow)) == 1


@pytest.mark.parametrize("line", [",,", "  ", ",,,"])
def test_lines_of_nothing_but_separators_are_refused_as_in_memory(tmp_path, line):
    (tmp_path / "r.csv").write_text(f"user,item,stars\n1,2,3.5\n\n{line}\n4,5,6.5\n")
    with pytest.raises(FileError, match=r"r\.csv"):
        read_ratings(tmp_path / "r.csv", "user", "item", "stars")
    with pytest.raises(FileError, match=r"r\.csv"):
        lr.distributed.from_csv(tmp_path / "r.csv", "user", "item", "stars", folder=tmp_path / "p")


def test_lines_of_separators_are_refused_next_to_empty_lines_in_quotes(tmp_path):
    (tmp_path / "r.csv").write_text('user,item,stars\n1,2,3.5\n,,\n"a\n\nb",5,6.5\n')
    with pytest.raises(FileError, match="line 3, column 'user': empty"):
        lr.distributed.from_csv(tmp_path / "r.csv", "user", "item", "stars", folder=tmp_path / "p")


@pytest.mark.parametrize("blank", ['""', '" "'])
def test_blank_ids_are_refused_as_in_memory(tmp_path, blank):
    (tmp_path / "r.csv").write_text(f"user,item,stars\na,2,3.5\n{blank},5,6.5\n")
    with pytest.raises(FileError, match="column 'user'"):
        read_ratings(tmp_path / "r.csv", "user", "item", "stars")
    with pytest.raises(FileError, match="line 3, column 'user': empty"):
        lr.distributed.from_csv(tmp_path / "r.csv", "user", "item", "stars", folder=tmp_path / "p")


@pytest.mark.parametrize("names", [("user", "item", "stars"), ("column_1", "column_2", "column_3")])
def test_values_may_begin_as_integers(tmp_path, monkeypatch, names):
    monkeypatch.setattr(columns, "BYTES", 100)
    lines = ([] if names[0] == "column_1" else [",".join(names)]) + [f"{k},{k % 3},{k % 5}" for k in range(40)] + ["40,1,4.5"]
    (tmp_path / "r.csv").write_text("\n".join(lines))
    problem = lr.distributed.from_csv(tmp_path / "r.csv", *names, folder=tmp_path / "p")
    twin = read_ratings(tmp_path / "r.csv", *names)
    expected = lr.Completion(twin.rows, twin.cols, twin.values.astype(np.float32), problem.shape)
    assert_same(problem, expected, twin.row_ids, twin.col_ids)
    assert expected.y.max() == 4.5


class Dask:
    """As a Dask data frame looks: partitions that are computed one at a time."""

    def __init__(self, parts, alone=False):
        self.parts, self.npartitions, self.columns = parts, len(parts), parts[0].columns
        self.partitions = parts if alone else [Dask([part], alone=True) for part in parts]

    def compute(self):
        return self.parts[0]


@pytest.mark.parametrize("kind", ["pandas", "polars", "dask"])
def test_data_frames(kind):
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.5)
    values = rng.standard_normal(len(rows))
    parts = []
    for some in np.array_split(rng.permutation(len(rows)), 3):
        columns = {"user": [f"u{k:02d}" for k in rows[some]], "item": cols[some] + 5, "stars": values[some]}
        parts.append(pytest.importorskip("pandas").DataFrame(columns) if kind != "polars" else pl.DataFrame(columns))
    frames = Dask([*parts, parts[0][:0]]) if kind == "dask" else parts
    problem = lr.distributed.from_frames(frames, "user", "item", "stars", dtype="float64", n_partitions=3)
    np.testing.assert_array_equal(problem.rows, rows)
    np.testing.assert_array_equal(problem.cols, cols)
    np.testing.assert_array_equal(np.asarray(problem.y), values)
    assert problem.row_ids[3] == "u03"
    with pytest.raises(ValueError, match="no column 'who'"):
        lr.distributed.from_frames(frames, "who", "item", "stars")
    with pytest.raises(ValueError, match="Dask, pandas or polars"):
        lr.distributed.from_frames([3], "user", "item", "stars")


def test_a_real_dask_data_frame():
    frames = pytest.importorskip("dask.dataframe", exc_type=ImportError)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 2], "stars": [1.0, 2.0, 3.0]})
    problem = lr.distributed.from_frames(frames.from_pandas(table, npartitions=2), "user", "item", "stars")
    assert problem.m == 3
