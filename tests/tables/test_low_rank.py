"""TableImputer(method="low-rank")."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import lorank as lr


def table(n=150, d=12, rank=3, sigma=0.1, seed=0):
    rng = np.random.default_rng(seed)
    whole = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + sigma * rng.standard_normal((n, d))
    whole = whole * np.geomspace(0.01, 100, d) + np.arange(d)  # columns of very different size
    return whole, np.where(rng.random((n, d)) < 0.3, np.nan, whole)


@pytest.fixture(scope="module")
def filled():
    whole, gaps = table()
    imputer = lr.TableImputer(method="low-rank")
    return whole, gaps, imputer.fit_transform(gaps), imputer


def test_missing_values_are_filled_and_observed_ones_unchanged(filled):
    whole, gaps, out, imputer = filled
    missing = np.isnan(gaps)
    np.testing.assert_array_equal(out[~missing], whole[~missing])
    sizes = np.nanstd(gaps, axis=0)
    errors = ((out - whole) / sizes)[missing]
    mean = ((np.nanmean(gaps, axis=0) - whole) / sizes)[missing]
    assert np.sqrt(np.mean(errors**2)) < 0.3 * np.sqrt(np.mean(mean**2))
    assert imputer.rank_ >= 3
    assert imputer.model_.components.shape == (12, imputer.rank_)
    assert len(imputer.model_.curve) > 3


def test_new_rows_are_filled_without_refitting(filled):
    imputer = filled[3]
    holes = table()[1]
    np.testing.assert_allclose(imputer.transform(holes[:40]), imputer.transform(holes)[:40], rtol=1e-9)
    empty = imputer.transform(np.full((1, 12), np.nan))
    np.testing.assert_allclose(empty[0], imputer.means_, atol=0.5 * imputer.scales_.max())
    assert np.isfinite(empty).all()


def test_never_worse_than_the_column_mean():
    rng = np.random.default_rng(3)
    whole = rng.standard_normal((200, 8))  # nothing in common
    gaps = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    out, missing = lr.TableImputer(method="low-rank").fit_transform(gaps), np.isnan(gaps)
    mean = np.sqrt(np.mean((np.nanmean(gaps, axis=0) - whole)[missing] ** 2))
    assert np.sqrt(np.mean((out - whole)[missing] ** 2)) < 1.02 * mean


def test_pandas_frames_and_pipelines():
    pd = pytest.importorskip("pandas")
    _, gaps = table()
    frame = pd.DataFrame(gaps, columns=[f"c{k}" for k in range(12)])
    imputer = lr.TableImputer(method="low-rank", rank=3, regularization="learned").set_output(transform="pandas")
    out = imputer.fit_transform(frame)
    assert list(out.columns) == list(frame.columns)
    assert not out.isna().any().any()
    model = make_pipeline(lr.TableImputer(method="low-rank", rank=3, regularization="learned"), Ridge()).fit(
        frame, np.arange(150.0)
    )
    assert model.predict(frame).shape == (150,)


def test_polars_frames():
    pl = pytest.importorskip("polars")
    _, gaps = table()
    frame = pl.DataFrame({f"c{k}": [None if np.isnan(x) else x for x in gaps[:, k]] for k in range(12)})
    out = (
        lr.TableImputer(method="low-rank", rank=3, regularization="learned").set_output(transform="polars").fit_transform(frame)
    )
    assert out.columns == frame.columns
    plain = lr.TableImputer(method="low-rank", rank=3, regularization="learned").fit_transform(gaps)
    np.testing.assert_allclose(out.to_numpy(), plain)


def test_constant_and_empty_columns():
    _, gaps = table()
    gaps[:, 2], gaps[:, 5] = 7.0, np.nan
    gaps[0, 2] = np.nan
    with pytest.warns(UserWarning, match="without any value are filled with 0: 5"):
        out = lr.TableImputer(method="low-rank", rank=2, regularization="learned").fit_transform(gaps)
    assert out[0, 2] == 7.0
    assert (out[:, 5] == 0).all()
    assert np.isfinite(out).all()
    constant = np.array([[1.0, np.nan], [1.0, 2.0], [np.nan, 2.0]])
    np.testing.assert_array_equal(lr.TableImputer(method="low-rank").fit_transform(constant), [[1, 2], [1, 2], [1, 2]])


def test_bad_parameters():
    _, gaps = table()
    for options, match in (
        ({"rank": -1}, "rank"),
        ({"regularization": "x"}, "regularization"),
        ({"time": True}, "time"),
        ({"refine": "trees"}, "refine"),
    ):
        with pytest.raises(ValueError, match=match):
            lr.TableImputer(method="low-rank", **options).fit(gaps)


def test_read_only_input_is_filled_in_a_copy():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = rng.standard_normal((30, 3))
    table[rng.random(table.shape) < 0.2] = np.nan
    imputer = lr.TableImputer(method="low-rank", rank=1).fit(table)
    filled = imputer.transform(table)
    fixed = table.copy()
    fixed.setflags(write=False)
    for given in (
        fixed,
        fixed.T.copy().T,
        pandas.DataFrame(table),
        pandas.DataFrame(fixed),
        pandas.DataFrame(table).astype("Float64"),
    ):
        np.testing.assert_array_equal(imputer.transform(given), filled)
    flags = pandas.DataFrame({"a": [True, None, False, True] * 3}, dtype="boolean")  # whose arrays may not be written
    assert lr.TableImputer(method="low-rank", rank=0).fit_transform(flags).notna().all(axis=None)
    whole = imputer.transform(filled)
    assert whole is not filled
    assert not np.shares_memory(whole, filled)
