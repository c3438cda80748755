"""Columns of data frames and their types; standardization."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import lorank as lr
from lorank.tables.columns import column_moments, standardize

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
def test_pandas_frames_keep_the_types_of_all_columns(cells, dtype, time, tmp_path):
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


def test_polars_durations_are_imputed():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": gapped(DAYS), "b": list(range(N))})
    filled = lr.TableImputer(time=True, refine="none").fit_transform(frame)
    assert filled.dtypes == frame.dtypes
    days = filled["a"].dt.total_seconds().to_numpy() / 86400
    np.testing.assert_allclose(days[1:], np.arange(1, N), atol=3)  # as the rows around them are


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_date_units_may_differ_from_those_of_the_fit(package):
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
        (other().tolist(), LEVELS, "column 'a'.*'x'"),
        (LEVELS, gapped(other().tolist()), "column 'a'.*loat64"),
        ([datetime.datetime(2024, 1, 1) + day for day in DAYS], [None] * N, "column 'a'.*date"),
    ],
)
def test_a_column_of_another_type_than_in_fit_is_an_error_with_its_name(package, first, then, match):
    frames = pytest.importorskip(package)
    imputer = lr.TableImputer(refine="none").fit(frames.DataFrame({"a": gapped(first), "b": other()}))
    with pytest.raises(ValueError, match=match):
        imputer.transform(frames.DataFrame({"a": then, "b": other()}))


def test_integer_and_empty_columns_are_filled_by_a_model_of_floats():
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


NAMES = [f"x{k}" for k in range(5)]


def a_table(seed: int = 0, n: int = 90) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((n, 5))
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def test_moments_equal_the_plain_formulas_exactly():
    table = 7 + 3 * a_table()
    means, scales = column_moments(table, NAMES)
    gaps = np.isnan(table)
    counts = (~gaps).sum(axis=0)
    plain = np.where(gaps, 0.0, table).sum(axis=0) / counts
    np.testing.assert_array_equal(means, plain)
    np.testing.assert_array_equal(scales, np.sqrt((np.where(gaps, 0.0, table - plain) ** 2).sum(axis=0) / counts))
    np.testing.assert_array_equal(standardize(table, means, scales), (table - means) / scales)


@pytest.mark.parametrize("power", [-1000, -600, 600, 990])
def test_moments_of_extreme_magnitudes_scale_exactly(power):
    table = a_table()
    for own, other in zip(column_moments(np.ldexp(table, power), NAMES), column_moments(table, NAMES), strict=True):
        np.testing.assert_array_equal(own, np.ldexp(other, power))


def test_constant_columns_of_any_magnitude_have_deviation_zero():
    means, scales = column_moments(np.tile([1e250, 3.0, 1e-250, 0.0], (7, 1)), NAMES)
    np.testing.assert_allclose(means, [1e250, 3.0, 1e-250, 0.0], rtol=1e-14)
    assert not scales.any()


SIZES = np.array([1e200, 1e-200, 1.0, 1e160, 1e-310])


@pytest.mark.parametrize("time", [None, True])
def test_columns_of_extreme_magnitudes_are_filled(time):
    table = a_table() if time is None else np.sin(np.arange(90)[:, None] / 7 + np.arange(5)) + 0 * a_table()
    imputer = lr.TableImputer(time=time, refine="none").fit(table * SIZES)
    gaps = np.isnan(table)
    filled, (low, high) = imputer.transform(table * SIZES), imputer.predict_interval(table * SIZES)
    drawn = np.array(imputer.sample(table * SIZES, 2))
    for found in (filled, low, high, *drawn):
        assert np.isfinite(found).all()
    plain = lr.TableImputer(time=time, refine="none").fit_transform(table)
    # the rows are hidden in another order, which chooses another fit
    assert np.sqrt(np.mean((filled / SIZES - plain)[gaps] ** 2)) < 0.2 * np.nanstd(table)
    np.testing.assert_array_equal(filled[~gaps], (table * SIZES)[~gaps])


def test_the_low_rank_model_fills_columns_of_extreme_magnitudes():
    table = a_table()
    plain = lr.TableImputer(method="low-rank", rank=2).fit_transform(table)
    np.testing.assert_allclose(
        lr.TableImputer(method="low-rank", rank=2).fit_transform(table * SIZES) / SIZES, plain, rtol=0.02, atol=0.02
    )


@pytest.mark.parametrize("size", [1e16, 1e155, 1e308])
@pytest.mark.parametrize("imputer", [lr.TableImputer(), lr.TableImputer(time=True), lr.TableImputer(method="low-rank", rank=2)])
def test_new_rows_with_extreme_outliers_give_finite_values(imputer, size):
    imputer.fit(a_table(n=150))
    rows = size * np.where(np.arange(5) % 2, 1.0, -1.0) * np.ones((6, 1))
    rows[0, 0] = rows[1, 1:] = rows[2, ::2] = np.nan
    assert np.isfinite(imputer.transform(rows)).all()
    if imputer.method == "auto":
        assert np.isfinite(imputer.predict_interval(rows)).all()
        assert np.isfinite(imputer.sample(rows, 2)).all()


@pytest.mark.parametrize("imputer", [lr.TableImputer(), lr.TableImputer(method="low-rank")])
def test_values_near_overflow_are_an_error_with_their_column(imputer):
    table = np.arange(12.0).reshape(6, 2)
    table[2, 1] = 1e305
    with pytest.raises(ValueError, match=r"'x1'.*1e\+305"):
        imputer.fit(table)


def test_an_overflowing_covariance_is_an_error():
    imputer = lr.TableImputer(refine="none").fit(a_table() * 1e200)
    with pytest.raises(ValueError, match="divide such columns by"):
        _ = imputer.covariance_
