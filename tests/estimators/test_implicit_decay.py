"""Pairs that count for less the older they are."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.estimators.decay import FAINTEST

OPTIONS = {"rank": 3, "regularization": 0.02, "zeros": 0.1}


@pytest.fixture(scope="module")
def taken():
    """Users, items, counts and days; some pairs are there several times."""
    rng = np.random.default_rng(0)
    pairs = np.column_stack([rng.integers(0, 40, 600), rng.integers(0, 25, 600)])
    return pairs, rng.integers(1, 4, 600), rng.uniform(0, 200, 600)


def test_a_half_life_is_weights(taken):
    """The plain twin: two to the power of age over half-life, in units of the mean, as sample_weight."""
    pairs, counts, days = taken
    raw = np.maximum(0.5 ** ((days.max() - days) / 30.0), FAINTEST)
    for own in (None, np.linspace(0.5, 2, len(days))):
        model = lr.ImplicitFactorization(**OPTIONS, half_life=30).fit(pairs, counts, own, times=days)
        twin = lr.ImplicitFactorization(**OPTIONS).fit(pairs, counts, raw / raw.mean() * (1 if own is None else own))
        np.testing.assert_allclose(model._factors, twin._factors, rtol=1e-12)
        np.testing.assert_allclose(model.user_factors_, twin.user_factors_, rtol=1e-4, atol=1e-5)
        assert model.half_life_ == 30
        assert twin.half_life_ is None
    plain = lr.ImplicitFactorization(**OPTIONS).fit(pairs, counts)
    assert np.abs(plain.user_factors_ - model.user_factors_).max() > 1e-2
    same = lr.ImplicitFactorization(**OPTIONS).fit(pairs, counts, times=days)  # without a half-life they are not used
    np.testing.assert_array_equal(same.user_factors_, plain.user_factors_)


@pytest.mark.parametrize("half_life", ["30d", timedelta(days=30), np.timedelta64(30, "D")])
def test_dates_and_frames(taken, half_life):
    pandas = pytest.importorskip("pandas")
    pairs, counts, days = taken
    when = np.datetime64("2024-01-01") + (days * 86400e6).astype("timedelta64[us]")
    frame = pandas.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "plays": counts, "when": when})
    by_date = lr.ImplicitFactorization(**OPTIONS, half_life=half_life)
    by_date.fit(frame, rows="user", cols="item", values="plays", times="when")
    by_number = lr.ImplicitFactorization(**OPTIONS, half_life=30.0).fit(pairs, counts, times=days)
    np.testing.assert_allclose(by_date._factors, by_number._factors, rtol=1e-6)
    assert by_date.half_life_ == 30 * 86400


def test_more_pairs_let_the_others_age(taken, tmp_path):
    """After partial_fit, also of a saved model, pairs count as in a fit to all of them."""
    pairs, counts, days = taken
    order = np.argsort(days)
    first, second = order[:400], order[400:]
    model = lr.ImplicitFactorization(**OPTIONS, half_life=60).fit(pairs[first], counts[first], times=days[first])
    model = lr.load(model.save(tmp_path / "m.lorank"))
    assert model.half_life_ == 60
    model.partial_fit(pairs[second], counts[second], times=days[second])
    whole = lr.ImplicitFactorization(**OPTIONS, half_life=60).fit(pairs, counts, times=days)
    np.testing.assert_array_equal(model._seen[1], whole._seen[1])
    np.testing.assert_allclose(model._factors, whole._factors, rtol=1e-10)


def test_what_changed_is_followed():
    """All took one half of the items long ago, and the other half of late."""
    rng = np.random.default_rng(1)
    old = [(u, i) for u in range(60) for i in rng.choice(10, 4, replace=False)]
    new = [(u, 10 + i) for u in range(60) for i in rng.choice(10, 4, replace=False)]
    days = np.repeat([0.0, 300.0], [len(old), len(new)])
    model = lr.ImplicitFactorization(rank=2, regularization=0.02, zeros=0.1, half_life=30).fit(np.array(old + new), times=days)
    best = model.recommend(np.arange(60), n=3).items
    assert (best >= 10).mean() > 0.9


def test_what_is_refused(taken):
    pairs, counts, days = taken
    model = lr.ImplicitFactorization(**OPTIONS, half_life=30)
    with pytest.raises(ValueError, match=r"half_life=30 needs times=\.\.\.: when was each pair observed"):
        model.fit(pairs, counts)
    with pytest.raises(ValueError, match="half_life='auto' is for MatrixCompletion: give a duration"):
        lr.ImplicitFactorization(**OPTIONS, half_life="auto").fit(pairs, counts, times=days)
    with pytest.raises(ValueError, match="half_life must be positive"):
        lr.ImplicitFactorization(**OPTIONS, half_life=-1).fit(pairs, counts, times=days)
    with pytest.raises(ValueError, match="must have one time per observation"):
        model.fit(pairs, counts, times=days[:-1])
    model.fit(pairs, counts, times=days)
    with pytest.raises(ValueError, match=r"fitted with a half_life: pass times=\.\.\."):
        model.partial_fit(pairs[:3], counts[:3])
    problem = lr.Completion([0, 1, 2], [0, 1, 1], [1.0, 2.0, 1.0], (3, 2))
    with pytest.raises(ValueError, match="times and half_life go with pairs in main memory, not with a Completion"):
        model.fit(problem)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_columns_named_as_times_or_weights_are_no_counts(taken, package):
    frames = pytest.importorskip(package)
    pairs, _, days = taken
    columns = {"user": pairs[:, 0], "item": pairs[:, 1]}
    timed, weighted = (frames.DataFrame(columns | {name: days}) for name in ("when", "weight"))
    model = lr.ImplicitFactorization(**OPTIONS, half_life=30)
    np.testing.assert_array_equal(model.fit(timed, times="when")._factors, model.fit(pairs, times=days)._factors)
    model = lr.ImplicitFactorization(**OPTIONS)
    np.testing.assert_array_equal(
        model.fit(weighted, sample_weight="weight")._factors, model.fit(pairs, sample_weight=days)._factors
    )
    more = model.fit(pairs).partial_fit(weighted, sample_weight="weight")._factors
    np.testing.assert_array_equal(more, model.fit(pairs).partial_fit(pairs, sample_weight=days)._factors)


def test_columns_named_as_times_or_weights_are_no_ratings(taken):
    pandas = pytest.importorskip("pandas")
    pairs, counts, days = taken
    frame = pandas.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "weight": days})
    model = lr.MatrixCompletion(rank=1, regularization="learned", half_life=30.0)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(frame, sample_weight="weight")
    whole = frame.assign(rating=counts, when=days)
    one = model.fit(whole, sample_weight="weight", times="when").predict(pairs)
    other = model.fit(whole, rows="user", cols="item", values="rating", sample_weight="weight", times="when").predict(pairs)
    np.testing.assert_array_equal(one, other)
    once = whole.iloc[:3].assign(when=300.0)
    np.testing.assert_array_equal(
        model.partial_fit(once, sample_weight="weight", times="when").predict(pairs[:3]), model.predict(once[["user", "item"]])
    )
