"""TensorImputer: accuracy against simpler models, patterns of missing entries, keys, files, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone

import lorank as lr
from lorank.io.archive import FileError, read_archive, write_archive
from lorank.tables import tensor_model
from lorank.tables.tensor_model import flat_columns, held_out


def tucker(shape, rank, seed=0, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rank,) * len(shape))
    for n in shape:
        X = np.tensordot(X, rng.standard_normal((n, rank)), (0, 1))
    return X / X.std() + noise * rng.standard_normal(shape)


def gaps(X, share, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, X, np.nan)


def rms(filled, X, observed):
    missing = np.isnan(observed)
    return float(np.sqrt(np.mean((filled - X)[missing] ** 2)))


@pytest.fixture(scope="module")
def fitted():
    X = tucker((20, 18, 15), 2)
    observed = gaps(X + 0.2 * np.random.default_rng(5).standard_normal(X.shape), 0.2)
    return lr.TensorImputer().fit(observed), observed, X


def test_values_are_recovered_better_than_by_plain_tucker_and_by_means(fitted):
    imputer, observed, X = fitted
    filled = imputer.transform(observed)
    seen = ~np.isnan(observed)
    assert (filled[seen] == observed[seen]).all()
    assert imputer.method_ == "tucker"
    plain = lr.solve(lr.TensorCompletion.from_dense(observed), rank=4).X.to_dense()  # a rank that is too large
    error = rms(filled, X, observed)
    assert error < 0.5 * rms(plain, X, observed)
    assert error < 0.12
    assert imputer.quality_ == pytest.approx(0.2 / np.nanstd(observed), rel=0.3)
    assert imputer.noise_ == pytest.approx(0.2, rel=0.15)


def test_intervals_contain_the_missing_values(fitted):
    imputer, observed, X = fitted
    missing = np.isnan(observed)
    noisy = X + 0.2 * np.random.default_rng(6).standard_normal(X.shape)
    widths = []
    for coverage in (0.5, 0.9):
        low, high = imputer.predict_interval(observed, coverage)
        assert abs(((low <= noisy) & (noisy <= high))[missing].mean() - coverage) < 0.08
        assert (low[~missing] == observed[~missing]).all()
        assert (high[~missing] == observed[~missing]).all()
        widths.append((high - low)[missing].mean())
    assert widths[0] < widths[1]


def test_noise_and_superfluous_ranks_do_not_overfit():
    X = tucker((20, 18, 15), 2)
    observed = gaps(X + np.random.default_rng(2).standard_normal(X.shape), 0.3)
    plain = lr.solve(lr.TensorCompletion.from_dense(observed), rank=6).X.to_dense()
    filled = lr.TensorImputer(rank=6).fit_transform(observed)
    assert rms(filled, X, observed) < 0.5 * rms(plain, X, observed)


def test_hours_of_sensors_that_are_missing_for_days_come_from_other_sensors():
    """Whole fibres are missing: held-out entries are whole fibres, and their error is that of the imputed ones."""
    X = tucker((15, 30, 24), 2, seed=3) + np.random.default_rng(0).standard_normal((15, 1, 24))
    dead = np.random.default_rng(4).random((15, 30)) < 0.3
    observed = np.where(dead[:, :, None], np.nan, X + 0.1 * np.random.default_rng(7).standard_normal(X.shape))
    imputer = lr.TensorImputer().fit(observed)
    error = rms(imputer.transform(observed), X, observed)
    assert error < 0.1
    whole_days = {tuple(round(float(v), 9) for v in observed[i, j]) for i, j in np.argwhere(~dead)}
    held = {round(float(v), 9) for v in imputer.heldout_[0]}
    days = [day for day in whole_days if held & set(day)]
    assert all(len(held & set(day)) == 24 for day in days)
    mean = np.nanmean(observed, axis=1, keepdims=True) + 0 * X
    assert error < 0.2 * rms(mean, X, observed)


def test_held_out_entries_are_single_ones_where_single_ones_are_missing():
    index = np.argwhere(~np.isnan(gaps(np.zeros((20, 18, 15)), 0.1)))
    flags = held_out(index, (20, 18, 15), 0.1, np.random.default_rng(0))
    assert flags.sum() == round(0.1 * len(index))


@pytest.mark.parametrize("k", [0, 1, 2])
def test_held_out_fibres_are_those_of_the_mode_whose_fibres_are_missing(k):
    shape, rng = (12, 10, 11), np.random.default_rng(1)
    other = tuple(1 if j == k else n for j, n in enumerate(shape))
    index = np.argwhere(np.broadcast_to(rng.random(other) < 0.7, shape))
    flags = held_out(index, shape, 0.2, rng)
    fibre = flat_columns(index, shape, k)
    assert set(fibre[flags]) & set(fibre[~flags]) == set()
    assert 0.1 < flags.mean() < 0.35


def test_columns_of_unfoldings_are_numbered_as_by_numpy():
    index = np.argwhere(np.ones((3, 4, 5)))
    for k in range(3):
        rest = [j for j in range(3) if j != k]
        expected = np.ravel_multi_index(index[:, rest].T, [(3, 4, 5)[j] for j in rest])
        assert (flat_columns(index, (3, 4, 5), k) == expected).all()


def test_an_unfolding_is_selected_where_its_error_is_smaller():
    """A matrix of rank 2 whose columns are pairs without structure: a Tucker model needs all ranks of the other modes."""
    rng = np.random.default_rng(8)
    X = (rng.standard_normal((40, 2)) @ rng.standard_normal((2, 14 * 15))).reshape(40, 14, 15)
    observed = gaps(X + 0.1 * rng.standard_normal(X.shape), 0.3)
    imputer = lr.TensorImputer().fit(observed)
    assert (imputer.method_, imputer.mode_, imputer.rank_) == ("unfolding", 0, (2,))
    assert rms(imputer.transform(observed), X, observed) < 0.1
    least = min(one.error for one in imputer.curve_ if one.method == "tucker")
    assert imputer.quality_ < least


def test_slices_without_observations_have_averages():
    X = tucker((12, 10, 9), 1, seed=2) + 5
    observed = gaps(X, 0.5)
    observed[3] = np.nan
    imputer = lr.TensorImputer(rank=1).fit(observed)
    filled = imputer.transform(observed)
    assert abs(filled[3].mean() - np.nanmean(observed)) < 0.5
    low, high = imputer.predict_interval(observed)
    assert (high - low)[3].mean() > 3 * (high - low)[np.isnan(observed) & (np.arange(12) != 3)[:, None, None]].mean()


@pytest.mark.parametrize("shape", [(8, 7, 6, 5), (6, 1, 7), (30, 2, 9)])
def test_shapes(shape):
    observed = gaps(tucker(shape, 1, noise=0.1), 0.6)
    filled = lr.TensorImputer().fit_transform(observed)
    assert filled.shape == shape
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("value", [0.0, -3.5, 1e12])
def test_constant_arrays(value):
    observed = gaps(np.full((6, 5, 4), value), 0.5)
    assert lr.TensorImputer().fit_transform(observed) == pytest.approx(value, abs=1e-6)


def test_few_observations():
    observed = np.full((4, 4, 4), np.nan)
    observed[0, 0, 0], observed[1, 1, 1] = 1.0, 3.0
    imputer = lr.TensorImputer().fit(observed)
    assert np.isnan(imputer.quality_)
    assert np.isfinite(imputer.transform(observed)).all()
    low, high = imputer.predict_interval(observed)
    assert (low <= high).all()


def test_units_do_not_matter():
    X = gaps(tucker((10, 9, 8), 1, noise=0.3), 0.5)
    filled = lr.TensorImputer(rank=1).fit_transform(X)
    assert lr.TensorImputer(rank=1).fit_transform(1e6 * X + 3e6) == pytest.approx(1e6 * filled + 3e6, rel=1e-4, abs=1e2)


def test_scikit_learn_manners(fitted):
    _, observed, _ = fitted
    imputer = lr.TensorImputer(rank=2, n_samples=5, random_state=3)
    again = clone(imputer).set_params(holdout=0.2)
    assert again.get_params() == imputer.get_params() | {"holdout": 0.2}
    first, second = (clone(imputer).fit_transform(observed) for _ in range(2))
    assert (first == second).all()
    assert (clone(imputer).set_params(random_state=4).fit_transform(observed) != first).any()
    with pytest.raises(ValueError, match="not fitted"):
        imputer.transform(observed)


# -- long tables -------------------------------------------------------------------------------------------------------
def long_table(frame_of=None):
    X = tucker((10, 9, 8), 1, noise=0.05)
    index = np.argwhere(np.random.default_rng(2).random(X.shape) < 0.5)
    ids = [np.array([f"s{k}" for k in range(10)]), np.arange(100, 109), np.array(["mon", "tue", *"cdefgh"])]
    parts = {name: own[index[:, k]] for k, (name, own) in enumerate(zip(("sensor", "day", "hour"), ids, strict=True))}
    return (parts if frame_of is None else frame_of(parts)), X[tuple(index.T)], X, index, ids


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_keys_of_a_data_frame(package):
    frames = pytest.importorskip(package)
    keys, values, X, index, _ = long_table(frames.DataFrame)
    imputer = lr.TensorImputer(rank=1).fit_entries(keys, values)
    assert imputer.shape_ == (10, 9, 8)
    assert [str(ids[0]) for ids in imputer.ids_] == ["s0", "100", "c"]
    assert np.sqrt(np.mean((imputer.predict(keys) - X[tuple(index.T)]) ** 2)) < 0.15
    together = frames.DataFrame(
        dict(zip(keys.columns, (keys[c].to_numpy() for c in keys.columns), strict=True)) | {"y": values}
    )
    assert (lr.TensorImputer(rank=1).fit_entries(together, "y").predict(keys) == imputer.predict(keys)).all()
    low, high = imputer.predict_interval(keys)
    assert (low < high).all()


def test_array_and_keys_give_the_same_model():
    _, values, X, index, _ = long_table()
    observed = np.full(X.shape, np.nan)
    observed[tuple(index.T)] = values
    a, b = lr.TensorImputer(rank=1).fit(observed), lr.TensorImputer(rank=1).fit_entries(index, values)
    assert (a.predict(index) == b.predict(index)).all()


def test_repeated_keys_have_the_mean_of_their_values():
    _, values, _, index, _ = long_table()
    twice, both = np.concatenate([index, index]), np.concatenate([values - 1, values + 1])
    a, b = (lr.TensorImputer(rank=1).fit_entries(*data) for data in ((index, values), (twice, both)))
    np.testing.assert_allclose(a.predict(index), b.predict(index), atol=1e-6)


@pytest.mark.parametrize("method", ["tucker", "unfolding"])
def test_unknown_ids_have_averages_and_a_warning(method):
    _, values, X, index, _ = long_table()
    imputer = lr.TensorImputer(method=method).fit_entries(index, values)
    with pytest.warns(UserWarning, match="1 line with unknown ids"):
        found = imputer.predict([[99, 0, 0]])
    assert abs(found[0] - np.mean(values)) < 4 * X.std()


# -- files -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{"rank": 1}, {"method": "unfolding"}], ids=str)
def test_files(options, tmp_path):
    keys, values, *_ = long_table()
    keys = np.column_stack([part.astype(str) for part in keys.values()])
    imputer = lr.TensorImputer(**options).fit_entries(keys, values)
    again = lr.load(imputer.save(tmp_path / "model.lorank"))
    assert (again.predict(keys) == imputer.predict(keys)).all()
    assert np.array_equal(again.predict_interval(keys), imputer.predict_interval(keys))
    assert (again.rank_, again.method_, again.quality_, again.shape_) == (
        imputer.rank_,
        imputer.method_,
        imputer.quality_,
        imputer.shape_,
    )
    assert again.get_params() == imputer.get_params()


DAMAGES = {
    "shorter": lambda x: x[:-1],
    "empty": lambda x: x.reshape(-1)[:0],
    "text": lambda x: x.astype("U3"),
    "nan": lambda x: np.full_like(x, np.nan if x.dtype.kind == "f" else 100),
}


@pytest.mark.parametrize("options", [{"rank": 1}, {"method": "unfolding"}], ids=str)
@pytest.mark.parametrize("damage", DAMAGES)
def test_forged_arrays_are_refused_or_give_answers(options, damage, tmp_path):
    observed = gaps(tucker((8, 7, 6), 1, noise=0.1), 0.6)
    path = lr.TensorImputer(**options).fit(observed).save(tmp_path / "model.lorank")
    kind, meta, arrays = read_archive(path)
    refused = 0
    for name in arrays:
        forged = write_archive(tmp_path / "forged.lorank", kind, meta, arrays | {name: DAMAGES[damage](arrays[name])})
        try:
            imputer = lr.load(forged)
        except FileError:
            refused += 1
        else:
            assert np.isfinite(imputer.transform(observed)).all(), name
    assert refused > 0


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("at", [2, 40, 60])
def test_ctrl_c_returns_the_best_model_so_far(at, monkeypatch):
    observed, calls = gaps(tucker((10, 9, 8), 1, noise=0.1), 0.6), []
    original = tensor_model.TuckerSampler.sweep

    def sweep(self):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        original(self)

    monkeypatch.setattr(tensor_model.TuckerSampler, "sweep", sweep)
    if at == 2:  # before the first candidate
        with pytest.raises(KeyboardInterrupt):
            lr.TensorImputer().fit(observed)
        return
    imputer = lr.TensorImputer().fit(observed)
    assert imputer.status_ == "interrupted"
    assert len(calls) == at
    assert np.isfinite(imputer.transform(observed)).all()


# -- refusals ----------------------------------------------------------------------------------------------------------
def test_bad_arrays_are_refused():
    imputer = lr.TensorImputer()
    for X, words in (
        (np.ones((3, 3)), "got shape .* TableImputer"),
        (np.full((3, 3, 3), np.nan), "no observed entry"),
        (np.full((3, 3, 3), np.inf), r"infinite value at \(0, 0, 0\)"),
        (np.ones((3, 3, 3), complex), "array of numbers"),
        ([["a"]], "array of numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            imputer.fit(X)


@pytest.mark.parametrize("rank", [0, -1, 1.5, (1, 1), (1, 0, 1), "two", None, [[1]]])
def test_bad_ranks_are_refused(rank):
    with pytest.raises(ValueError, match="rank must be 'auto', a whole number, 1 or more, or 3 of them"):
        lr.TensorImputer(rank=rank).fit(np.ones((3, 3, 3)))


def test_other_arrays_and_keys_are_refused(fitted):
    imputer, observed, _ = fitted
    with pytest.raises(ValueError, match="fit an imputer to this array"):
        imputer.transform(observed[:-1])
    with pytest.raises(ValueError, match="indices of an array of shape"):
        imputer.predict([[20, 0, 0]])
    with pytest.raises(ValueError, match="keys must have three columns"):
        imputer.predict([[0, 0]])
    with pytest.raises(ValueError, match="needs method='tucker'"):
        lr.TensorImputer(rank=2, method="unfolding").fit(observed)


def test_bad_entries_are_refused():
    _, values, _, index, _ = long_table()
    imputer = lr.TensorImputer(rank=1)
    for keys, given, words in (
        (index, values[:-1], "values must be a number for each line"),
        (index, np.where(values == values[3], np.nan, values), r"values \[3\] = nan"),
        (index[:, :2], values, "three columns or more"),
        (index + 0.5, values, "column 0 holds numbers that are not whole"),
        (np.where(index == 0, None, index.astype(object)), values, "missing ids"),
        (index, "y", "names no column"),
        (index.ravel(), values, "a line for each entry"),
    ):
        with pytest.raises(ValueError, match=words):
            imputer.fit_entries(keys, given)


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lr.TensorImputer().fit(gaps(tucker((12, 10, 9), 1, noise=0.5), 0.1))
