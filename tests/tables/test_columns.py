"""Frames of all kinds: their types stay, and where that cannot be, the column is named."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import lorank as lr

pytest.importorskip("sklearn")
N = 30
GAPS = np.arange(N) % 5 == 0


def gapped(cells):
    return [None if gap else cell for gap, cell in zip(GAPS, cells, strict=True)]


def other(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(N)


DAYS = [datetime.timedelta(days=k) for k in range(N)]
LEVELS = ["x", "y", "y"] * (N // 3)


@pytest.mark.parametrize("time", [None, True])
@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        (LEVELS, "string"),
        (range(N), "Int64"),
        (LEVELS, "category"),
        (DAYS, "timedelta64[s]"),
        (DAYS, "timedelta64[ns]"),
        (np.arange(N) / 7, "Sparse[float64]"),
        ((np.arange(N) / 7).tolist(), object),
    ],
)
def test_frames_of_pandas_come_back_filled_with_their_types(cells, dtype, time, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.Series(gapped(cells), dtype=dtype), "b": other()})
    before = frame.copy()
    imputer = lr.TableImputer(time=time, refine="none").fit(frame)
    filled = imputer.transform(frame)
    assert list(filled.dtypes) == list(frame.dtypes)
    assert not filled.isna().to_numpy().any()
    pandas.testing.assert_frame_equal(frame, before)
    assert filled["a"][~GAPS].tolist() == frame["a"][~GAPS].tolist()
    again = lr.load(imputer.save(tmp_path / "model.lorank"))
    pandas.testing.assert_frame_equal(again.transform(frame), filled)
    assert len(imputer.transform(frame[:0])) == 0
    assert len(imputer.sample(frame[:0], 1)[0]) == 0
    assert not imputer.transform(frame[:1]).isna().to_numpy().any()


def test_whole_numbers_among_objects_stay_whole():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.Series(gapped(list(range(N))), dtype=object), "b": other()})
    filled = lr.TableImputer(refine="none").fit_transform(frame)["a"]
    assert all(type(cell) is int for cell in filled)


def test_durations_of_polars_are_numbers():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": gapped(DAYS), "b": list(range(N))})
    filled = lr.TableImputer(time=True, refine="none").fit_transform(frame)
    assert filled.dtypes == frame.dtypes
    days = filled["a"].dt.total_seconds().to_numpy() / 86400
    np.testing.assert_allclose(days[1:], np.arange(1, N), atol=3)  # as the rows around them are


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_dates_in_other_units_than_those_of_the_fit_are_the_same_dates(package):
    frames = pytest.importorskip(package)
    dates = [datetime.datetime(2024, 1, 1) + day for day in DAYS]
    frame = frames.DataFrame({"a": dates, "b": list(range(N))})
    hidden = frames.DataFrame({"a": gapped(dates), "b": list(range(N))})
    imputer = lr.TableImputer(time=True, refine="none").fit(frame)
    for unit in ("ms", "us", "ns"):
        if package == "pandas":
            given = hidden.astype({"a": f"datetime64[{unit}]"})
        else:
            given = hidden.with_columns(frames.col("a").cast(frames.Datetime(unit)))
        filled = imputer.transform(given)["a"]
        off = [abs((found - true).total_seconds()) for found, true in zip(filled.to_list(), dates, strict=True)]
        assert max(off) < 3 * 86400  # and not in another century
        assert filled.dtype == given["a"].dtype


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("first", "then", "match"),
    [
        (other().tolist(), LEVELS, "column 'a' held numbers or dates in fit, and now holds 'x'"),
        (LEVELS, gapped(other().tolist()), "column 'a' held levels in fit, and its type is .*loat64 now"),
        ([datetime.datetime(2024, 1, 1) + day for day in DAYS], [None] * N, "column 'a' held dates in fit, and its type is"),
    ],
)
def test_a_column_of_another_kind_than_in_the_fit_is_named(package, first, then, match):
    frames = pytest.importorskip(package)
    imputer = lr.TableImputer(refine="none").fit(frames.DataFrame({"a": gapped(first), "b": other()}))
    with pytest.raises(ValueError, match=match):
        imputer.transform(frames.DataFrame({"a": then, "b": other()}))


def test_numbers_of_the_fit_are_whole_ones_where_the_frame_has_these_and_nothing_but_gaps_is_filled_too():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    numbers = pandas.DataFrame({"a": np.where(GAPS, np.nan, np.arange(N) / 2), "b": other()})
    imputer = lr.TableImputer(time=True, refine="none").fit(numbers)
    whole = pandas.DataFrame({"a": pandas.Series(gapped(range(N)), dtype="Int64"), "b": other()})
    assert imputer.transform(whole)["a"].dtype == "Int64"
    empty = polars.DataFrame({"a": [None] * N, "b": other()})
    assert imputer.transform(empty)["a"].null_count() == 0


def test_complex_columns_are_refused_by_name():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="column 'a' is complex"):
        lr.TableImputer().fit(pandas.DataFrame({"a": np.arange(N) + 1j, "b": other()}))
