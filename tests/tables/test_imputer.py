"""TableImputer."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.tables.missingness import cell_folds


def error(filled, whole, hidden):
    return np.sqrt(np.mean((((filled - whole) / whole.std(axis=0))[hidden]) ** 2))


def mean_error(table, whole, hidden):
    return error(np.where(np.isnan(table), np.nanmean(table, axis=0), table), whole, hidden)


def linear_table(n=300, d=8, seed=0, share=0.25):
    rng = np.random.default_rng(seed)
    whole = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)) + 0.3 * rng.standard_normal((n, d))
    whole = whole * np.geomspace(0.01, 100, d) + np.arange(d)
    hidden = rng.random((n, d)) < share
    return whole, hidden, np.where(hidden, np.nan, whole)


def test_missing_values_are_filled_and_observed_ones_unchanged():
    whole, hidden, table = linear_table()
    imputer = lr.TableImputer()
    filled = imputer.fit_transform(table)
    np.testing.assert_array_equal(filled[~hidden], whole[~hidden])
    assert error(filled, whole, hidden) < 0.6 * mean_error(table, whole, hidden)
    assert imputer.rank_ == 8
    truth = np.cov(whole.T)
    scale = np.sqrt(np.diag(truth))
    assert np.abs((imputer.covariance_ - truth) / np.outer(scale, scale)).max() < 0.2
    assert (filled >= np.nanmin(table, axis=0)).all()
    assert (filled <= np.nanmax(table, axis=0)).all()


def test_rows_are_filled_one_by_one_or_together():
    _, _, table = linear_table()
    imputer = lr.TableImputer().fit(table)
    np.testing.assert_allclose(imputer.transform(table[:30]), imputer.transform(table)[:30], rtol=1e-4, atol=1e-6)
    assert np.isfinite(imputer.transform(np.full((1, 8), np.nan))).all()


def test_nonlinear_relations_are_learned():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (700, 2))
    whole = np.column_stack([x, x[:, 0] ** 2, np.abs(x[:, 1])]) + 0.1 * rng.standard_normal((700, 4))
    hidden = np.zeros(whole.shape, bool)
    hidden[:, 2:] = rng.random((700, 2)) < 0.3
    table = np.where(hidden, np.nan, whole)
    line = error(lr.TableImputer(refine="none").fit_transform(table), whole, hidden)
    bent = error(lr.TableImputer().fit_transform(table), whole, hidden)
    assert bent < 0.6 * line
    assert error(lr.TableImputer(refine="trees").fit_transform(table), whole, hidden) < 0.6 * line


def test_never_much_worse_than_the_mean():
    rng = np.random.default_rng(3)
    whole = rng.standard_normal((200, 8))  # nothing in common
    hidden = rng.random(whole.shape) < 0.3
    table = np.where(hidden, np.nan, whole)
    assert error(lr.TableImputer().fit_transform(table), whole, hidden) < 1.05 * mean_error(table, whole, hidden)


def test_intervals_have_their_coverage():
    whole, hidden, table = linear_table(n=900, seed=5)
    imputer = lr.TableImputer().fit(table)
    low, high = imputer.predict_interval(table, 0.9)
    inside = (low <= whole) & (whole <= high)
    assert 0.86 < inside[hidden].mean() < 0.94
    assert (low[~hidden] == whole[~hidden]).all()
    narrow = imputer.predict_interval(table, 0.5)
    assert ((narrow[1] - narrow[0]) <= (high - low) + 1e-12).all()
    with pytest.raises(ValueError, match="coverage"):
        imputer.predict_interval(table, 2)


def test_intervals_have_their_coverage_under_mar():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1500, 3))
    noise = rng.standard_normal(1500) * np.exp(0.6 * x[:, 0])  # errors are larger where cells are missing
    whole = np.column_stack([x, x @ [1.0, 1.0, 0.5] + 0.5 * noise])
    hidden = np.zeros(whole.shape, bool)
    hidden[:, 3] = rng.random(1500) < 1 / (1 + np.exp(-x[:, 0]))
    table = np.where(hidden, np.nan, whole)
    low, high = lr.TableImputer().fit(table).predict_interval(table, 0.9)
    assert 0.85 < ((low <= whole) & (whole <= high))[hidden].mean() < 0.95


def test_intervals_end_at_bounds_that_several_cells_share():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(300)
    whole = np.column_stack([np.maximum(x, 0), x + 0.3 * rng.standard_normal(300)])
    table = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    row = np.array([[np.nan, -4.0], [np.nan, 4.0]])
    low, high = lr.TableImputer().fit(table).predict_interval(row, 0.99)
    assert low[0, 0] == 0
    assert high[1, 0] > np.nanmax(table[:, 0])  # beyond a single largest cell there may be more


def test_series_are_interpolated_where_nothing_is_significantly_better():
    rng = np.random.default_rng(6)
    whole = np.cumsum(rng.standard_normal((150, 4)), axis=0)  # nothing in common
    hidden = np.zeros(whole.shape, bool)
    hidden[40:52] = hidden[100:110] = True
    table = np.where(hidden, np.nan, whole)
    known = np.flatnonzero(~hidden[:, 0])
    line = np.column_stack([np.interp(np.arange(150), known, c[known]) for c in whole.T])
    filled = lr.TableImputer(time=True).fit_transform(table)
    assert error(filled, whole, hidden) < 1.02 * error(line, whole, hidden)


def test_samples_have_the_spread_of_the_errors():
    whole, hidden, table = linear_table(n=500)
    imputer = lr.TableImputer().fit(table)
    draws = np.stack(imputer.sample(table, 20, random_state=1))
    np.testing.assert_array_equal(draws[:, ~hidden], np.broadcast_to(whole[~hidden], (20, (~hidden).sum())))
    scale = whole.std(axis=0)
    spread = np.sqrt(np.mean((draws.std(axis=0) / scale)[hidden] ** 2))
    assert 0.7 < spread / error(imputer.transform(table), whole, hidden) < 1.3
    np.testing.assert_array_equal(imputer.sample(table, 2)[1], imputer.sample(table, 2)[1])


def wave(n=600, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    shape = np.column_stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24), np.cumsum(rng.standard_normal(n)) / 8])
    return shape @ rng.standard_normal((3, 5)) + 0.05 * rng.standard_normal((n, 5))


def test_block_gaps_are_filled_from_the_season():
    whole = wave()
    hidden = np.zeros(whole.shape, bool)
    for at in (50, 170, 290, 450):
        hidden[at : at + 14] = True
    table = np.where(hidden, np.nan, whole)
    imputer = lr.TableImputer(time=True).fit(table)
    assert imputer.period_ == 24
    known = np.flatnonzero(~hidden[:, 0])
    line = np.column_stack([np.interp(np.arange(len(table)), known, c[known]) for c in whole.T])
    found = error(imputer.transform(table), whole, hidden)
    assert found < 0.7 * error(line, whole, hidden)
    low, high = imputer.predict_interval(table)
    assert np.mean(((low <= whole) & (whole <= high))[hidden]) > 0.7


def test_times_may_be_irregular_and_rows_unordered():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    whole = wave(300)
    hidden = rng.random(whole.shape) < 0.3
    stamps = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.cumsum(rng.uniform(0.5, 1.5, 300)), unit="h")
    frame = pd.DataFrame(np.where(hidden, np.nan, whole), columns=list("abcde")).assign(when=stamps)
    filled = lr.TableImputer(time="when").fit_transform(frame)
    order = rng.permutation(300)
    mixed = frame.iloc[order]
    again = lr.TableImputer(time="when").fit_transform(mixed)
    np.testing.assert_allclose(again["a"].to_numpy(), filled["a"].to_numpy()[order], atol=0.02)
    assert error(filled[list("abcde")].to_numpy(), whole, hidden) < 0.4
    with pytest.raises(ValueError, match="time must be"):
        lr.TableImputer(time="never").fit(frame)


def test_frames_keep_their_types():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    a = rng.standard_normal(400)
    whole = pd.DataFrame(
        {
            "a": a,
            "count": pd.array(np.rint(3 * a + 10).astype(int), dtype="Int64"),
            "sign": pd.array(a > 0, dtype="boolean"),
            "size": pd.Categorical(np.select([a > 0.5, a < -0.5], ["large", "small"], "middle")),
            "grade": pd.Categorical.from_codes(np.digitize(a, [-1, 0, 1]), list("dcba"), ordered=True),
            "word": np.where(a > 0, "yes", "no"),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.rint(10 * a), unit="D"),
            "id": [f"n{k}" for k in range(400)],
        },
        index=[f"row {k}" for k in range(400)],
    )
    table, hidden = whole.copy(), {}
    for name in whole.columns[1:-1]:
        hidden[name] = rng.random(400) < 0.2
        table.loc[hidden[name], name] = None
    imputer = lr.TableImputer().fit(table)
    filled = imputer.transform(table)
    assert (filled.dtypes == table.dtypes).all()
    assert (filled.index == table.index).all()
    assert not filled.isna().any().any()
    for name in ("sign", "size", "grade", "word"):
        right = (filled[name][hidden[name]] == whole[name][hidden[name]]).mean()
        assert right > 0.8, name
    off = (filled["when"] - whole["when"])[hidden["when"]].dt.total_seconds() / 86400
    assert off.abs().mean() < 3
    assert not imputer.sample(table, 1)[0].isna().any().any()


def test_polars_frames_keep_their_types():
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    a = rng.standard_normal(200)
    frame = pl.DataFrame(
        {
            "a": a,
            "n": [None if k % 7 == 0 else round(2 * x) for k, x in enumerate(a)],
            "s": [None if k % 5 == 0 else "up" if x > 0 else "down" for k, x in enumerate(a)],
        }
    )
    filled = lr.TableImputer().fit_transform(frame)
    assert filled.schema == frame.schema
    assert filled.null_count().row(0) == (0, 0, 0)
    assert filled["s"].to_list()[0] == ("up" if a[0] > 0 else "down")


def test_wide_tables_have_a_few_factors():
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 140)) + 0.2 * rng.standard_normal((150, 140))
    hidden = rng.random(whole.shape) < 0.3
    table = np.where(hidden, np.nan, whole)
    imputer = lr.TableImputer().fit(table)
    assert 3 <= imputer.rank_ <= 8
    assert error(imputer.transform(table), whole, hidden) < 0.25


def test_constant_and_empty_columns():
    _, _, table = linear_table()
    table[:, 2], table[:, 5] = 7.0, np.nan
    table[0, 2] = np.nan
    with pytest.warns(UserWarning, match="without any value are filled with 0: 5"):
        filled = lr.TableImputer().fit_transform(table)
    assert filled[0, 2] == 7.0
    assert (filled[:, 5] == 0).all()
    constant = np.array([[1.0, np.nan], [1.0, 2.0], [np.nan, 2.0]])
    np.testing.assert_array_equal(lr.TableImputer().fit_transform(constant), [[1, 2], [1, 2], [1, 2]])


@pytest.mark.parametrize("time", [None, True])
def test_saved_models_give_the_same_answers(tmp_path, time):
    whole, _, table = linear_table(n=250)
    imputer = lr.TableImputer(time=time).fit(table)
    again = lr.load(imputer.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.transform(table), imputer.transform(table))
    np.testing.assert_array_equal(again.predict_interval(table)[0], imputer.predict_interval(table)[0])
    if time is None:
        rng = np.random.default_rng(0)
        bent = np.column_stack([whole[:, 0] ** 2, whole[:, :2]])
        bent[rng.random(bent.shape) < 0.2] = np.nan
        trees = lr.TableImputer(refine="trees").fit(bent)
        again = lr.load(trees.save(tmp_path / "trees"))
        np.testing.assert_array_equal(again.transform(bent), trees.transform(bent))


def test_large_tables_are_fitted_to_a_sample_of_rows():
    whole, hidden, table = linear_table(n=3000)
    imputer = lr.TableImputer(fit_rows=500).fit(table)
    assert error(imputer.transform(table), whole, hidden) < 0.6 * mean_error(table, whole, hidden)


def test_pooled_variances_include_missing_values():
    """Rubin's rules: the slope of a regression, and its standard error, from several imputations."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((600, 2))
    whole = np.column_stack([x, x @ [1.0, -0.5] + rng.standard_normal(600)])
    table = whole.copy()
    table[rng.random(600) < 0.4, 0] = np.nan
    slopes, variances = [], []
    for filled in lr.TableImputer().fit(table).sample(table, 20):
        A = np.column_stack([filled[:, :2], np.ones(600)])
        slope, rest, *_ = np.linalg.lstsq(A, filled[:, 2], rcond=None)
        slopes.append(slope[0])
        variances.append(rest[0] / 597 * np.linalg.inv(A.T @ A)[0, 0])
    between = np.var(slopes, ddof=1)
    deviation = np.sqrt(np.mean(variances) + (1 + 1 / 20) * between)
    assert abs(np.mean(slopes) - 1) < 3 * deviation
    assert between > 0.05 * np.mean(variances)  # missing values enlarge it
    assert deviation < 0.15


def test_set_output():
    pd = pytest.importorskip("pandas")
    _, _, table = linear_table(n=60)
    out = lr.TableImputer().set_output(transform="pandas").fit_transform(table)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == [f"x{k}" for k in range(8)]
    pl = pytest.importorskip("polars")
    out = lr.TableImputer().set_output(transform="polars").fit_transform(pd.DataFrame(table, columns=list("abcdefgh")))
    assert isinstance(out, pl.DataFrame)
    assert out.columns == list("abcdefgh")


@pytest.mark.parametrize("seed", range(3))
def test_a_constant_column_with_missing_values(seed):
    other = np.arange(300) * 0.1 + 0.01 * np.random.default_rng(seed).standard_normal(300)
    table = np.column_stack([np.full(300, 5.0), other])
    table[::9, 0] = np.nan
    filled = lr.TableImputer().fit_transform(table)
    np.testing.assert_array_equal(filled, np.column_stack([np.full(300, 5.0), other]))


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_in_a_pandas_index_are_times(zone):
    """Rows are taken in the order of their dates."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(9)
    hours = np.sort(rng.uniform(0, 400, 200))
    whole = np.column_stack([np.sin(hours / 20 + k) for k in range(3)]) + 0.05 * rng.standard_normal((200, 3))
    index = pd.Timestamp("2024-01-01", tz=zone) + pd.to_timedelta(hours, unit="h")
    frame = pd.DataFrame(np.where(rng.random(whole.shape) < 0.2, np.nan, whole), index=index, columns=list("abc"))
    order = rng.permutation(200)
    filled, mixed = (np.asarray(lr.TableImputer(time=True).fit_transform(one)) for one in (frame, frame.iloc[order]))
    np.testing.assert_allclose(mixed, filled[order], atol=0.02)
    assert abs(filled - whole).max() < 1
    torn = frame.set_axis(frame.index.where(np.arange(200) != 7))
    with pytest.raises(ValueError, match="time"):
        lr.TableImputer(time=True).fit(torn)


def test_options_of_the_other_method_are_refused_by_name():
    _, _, table = linear_table(n=40)
    for options in ({"rank": 2}, {"regularization": 1.0}, {"device": "cpu"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            lr.TableImputer(**options).fit(table)
    imputer = lr.TableImputer(method="low-rank", rank=1).fit(table)
    for ask in (imputer.predict_interval, imputer.sample):
        with pytest.raises(ValueError, match=ask.__name__):
            ask(table)
    assert not hasattr(imputer, "covariance_")


def test_categories_that_nothing_predicts_take_the_mode():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 300
    x = rng.standard_normal(n)
    frame = pd.DataFrame({"x": x, "noise": rng.choice(["a", "b", "c"], n, p=[0.55, 0.25, 0.2])})
    frame["sign"] = np.where(x > 0, "plus", "minus")
    hidden = rng.random((n, 2)) < 0.2
    gaps = frame.mask(np.column_stack([np.zeros(n, bool), hidden]))
    imputer = lr.TableImputer(refine="none").fit(gaps)
    filled = imputer.transform(gaps)
    assert (filled["noise"][hidden[:, 0]] == "a").all()
    assert (filled["sign"] == frame["sign"])[hidden[:, 1]].mean() > 0.9
    names = [column.name for column in imputer.columns_]
    quality = dict(zip(names, imputer.quality_, strict=True))
    assert quality["sign"] < 0.1 < 0.35 < quality["noise"] < 0.55
    assert 0.5 < quality["x"] < 0.9


def test_class_probabilities_are_shares_and_certain_where_observed():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    n = 400
    group = rng.integers(0, 3, n)
    frame = pd.DataFrame({"x": group + 0.4 * rng.standard_normal(n), "kind": np.array(["a", "b", "c"])[group]})
    hidden = rng.random(n) < 0.25
    gaps = frame.assign(kind=frame["kind"].mask(hidden))
    imputer = lr.TableImputer(refine="none").fit(gaps)
    shares = imputer.category_probabilities(gaps)["kind"]
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    levels = np.array(imputer.columns_[1].levels)
    np.testing.assert_array_equal(levels[shares.argmax(axis=1)], imputer.transform(gaps)["kind"])
    assert set(np.unique(shares[~hidden])) == {0.0, 1.0}
    right, largest = (levels[shares.argmax(axis=1)] == frame["kind"]).to_numpy(), shares.max(axis=1)
    sure = largest > np.median(largest[hidden])
    assert right[hidden & sure].mean() > right[hidden & ~sure].mean() + 0.2


def test_columns_of_one_category_are_held_out_together():
    rng = np.random.default_rng(2)
    missing = np.zeros((50, 5), bool)
    fold = cell_folds(missing, 6, rng, np.array([0, 1, 1, 1, 4]))
    assert (fold[:, 1] == fold[:, 2]).all()
    assert (fold[:, 1] == fold[:, 3]).all()
    assert (fold[:, 0] != fold[:, 1]).any()


def labelled_table(n=60):
    """Numbers of one decimal, whole numbers as floats, dates and categories that depend on the first column; some missing."""
    rng = np.random.default_rng(4)
    a = rng.standard_normal(n)
    data = {
        "temp": [None if k % 9 == 0 else round(20 + 3 * x, 1) for k, x in enumerate(a)],
        "count": [None if k % 8 == 0 else float(round(5 * x)) for k, x in enumerate(a)],
        "exact": (a + 0.1 * rng.standard_normal(n)).tolist(),
        "kind": [None if k % 7 == 0 else ("low" if x < -0.5 else "mid" if x < 0.5 else "high") for k, x in enumerate(a)],
    }
    dates = np.datetime64("2024-01-01", "D") + np.round(10 * a).astype("timedelta64[D]")
    return data, [None if k % 6 == 0 else str(day) for k, day in enumerate(dates)]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_intervals_of_a_frame_are_labelled(package):
    library = pytest.importorskip(package)
    data, days = labelled_table()
    if package == "pandas":
        frame = library.DataFrame(data, index=[f"row {k}" for k in range(60)])
        frame["day"] = library.to_datetime(days).values
    else:
        frame = library.DataFrame(data).with_columns(library.Series("day", days).str.to_date())
    imputer = lr.TableImputer().fit(frame)
    low, high = imputer.predict_interval(frame, 0.8)
    assert isinstance(low, library.DataFrame)
    assert list(low.columns) == ["temp", "count", "exact", *(f"kind={level}" for level in imputer.columns_[3].levels), "day"]
    filled = imputer.transform(frame)
    if package == "pandas":
        assert list(low.index) == list(frame.index)
    assert low["day"].dtype == frame["day"].dtype
    for name in ("temp", "count", "day"):
        below, value, above = (np.asarray(one[name]) for one in (low, filled, high))
        missing = np.asarray(frame[name].isna() if package == "pandas" else frame[name].is_null())
        assert missing.any()
        assert (below[~missing] == above[~missing]).all()
        assert (below[missing] <= above[missing]).all()
        assert (below[missing] < above[missing]).any()
        assert not np.isnan(value.astype(float)).any()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_imputed_values_have_the_decimals_of_their_column(package):
    library = pytest.importorskip(package)
    data, _ = labelled_table()
    filled = lr.TableImputer().fit_transform(library.DataFrame(data))
    temp, count = np.asarray(filled["temp"], float), np.asarray(filled["count"], float)
    assert (temp == np.round(temp, 1)).all()
    assert (count == np.round(count)).all()
    gaps = dict(data, exact=[None if k % 5 == 0 else x for k, x in enumerate(data["exact"])])
    exact = np.asarray(lr.TableImputer().fit_transform(library.DataFrame(gaps))["exact"], float)
    assert (exact[::5] != np.round(exact[::5], 6)).all()
    plain = np.array([gaps["temp"], gaps["exact"]], float).T  # arrays are not rounded
    assert (np.round(lr.TableImputer().fit_transform(plain)[::9, 0], 1) != lr.TableImputer().fit_transform(plain)[::9, 0]).any()


def test_indicators_of_missing_values_are_appended(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 1)) @ np.ones((1, 4)) + 0.1 * rng.standard_normal((50, 4))
    table[::5, 1] = table[::7, 3] = np.nan
    imputer = lr.TableImputer(add_indicator=True).fit(table)
    found = imputer.transform(table)
    np.testing.assert_array_equal(found[:, :4], lr.TableImputer().fit_transform(table))
    np.testing.assert_array_equal(found[:, 4:], np.isnan(table[:, [1, 3]]))
    again = lr.load(imputer.save(tmp_path / "m.lorank"))
    np.testing.assert_array_equal(again.transform(table), found)
    assert [one.shape for one in imputer.sample(table, 2)] == [(50, 6)] * 2
    assert imputer.get_feature_names_out().tolist()[4:] == ["missingindicator_x1", "missingindicator_x3"]
    new = table[:1].copy()
    new[0, 0] = np.nan  # a column without missing values in fit has no indicator
    assert imputer.transform(new).shape == (1, 6)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_indicators_of_frames_have_the_names_of_scikit_learn(package):
    library = pytest.importorskip(package)
    data, _ = labelled_table()
    frame = library.DataFrame(data)
    imputer = lr.TableImputer(add_indicator=True).fit(frame)
    found = imputer.transform(frame)
    assert list(found.columns) == [*data, *(f"missingindicator_{name}" for name in ("temp", "count", "kind"))]
    assert list(found.columns) == imputer.get_feature_names_out().tolist()
    assert [bool(x) for x in found["missingindicator_kind"]] == [k % 7 == 0 for k in range(60)]
