"""``MatrixCompletion(loss=)``: predictions in the data's own terms, ranks by held-out deviance, files, and refusals by name."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.losses import LOSSES, Huber, Ordinal

NAMES = sorted(LOSSES)


def data(name, seed=0, shape=(90, 70), rank=2, share=0.5):
    """Pairs, values, and what is to be expected of them."""
    rng = np.random.default_rng(seed)
    Z = 0.5 + 1.2 * rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    pairs = np.argwhere(rng.random(shape) < share)
    z = Z[pairs[:, 0], pairs[:, 1]]
    if name == "logistic":
        mean = 1 / (1 + np.exp(-z))
        return pairs, (rng.random(len(z)) < mean).astype(float), mean
    if name == "ordinal":
        cuts = np.array([-2.0, 0.0, 2.0])
        above = 1 / (1 + np.exp(cuts[:, None] - z))
        return pairs, 1.0 + np.digitize(z + rng.logistic(size=len(z)), cuts), 1 + above.sum(0)
    if name == "poisson":
        mean = np.exp(0.5 * z)
        return pairs, rng.poisson(mean).astype(float), mean
    y = z + 0.2 * rng.standard_normal(len(z))
    wrong = rng.random(len(z)) < 0.08
    y[wrong] += 25
    return pairs, y, z


@pytest.mark.filterwarnings("ignore::lorank.OutlierWarning")  # squares say that they do not fit
@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_in_the_terms_of_the_data(name):
    pairs, y, mean = data(name)
    model, squares = (lr.MatrixCompletion(2, "learned", loss=loss).fit(pairs, y).predict(pairs) for loss in (name, "squares"))
    error, plain = (np.sqrt(np.mean((a - mean) ** 2)) for a in (model, squares))
    assert error < (1.1 if name in ("logistic", "ordinal") else 0.7) * plain  # of classes, squares fit the means as well
    assert error < 0.6 * mean.std()


@pytest.mark.parametrize("name", ["huber", "logistic", "ordinal", "poisson"])
def test_the_rank_by_held_out_deviance(name):
    pairs, y, _ = data(name, shape=(130, 110), seed=1)
    model = lr.MatrixCompletion(regularization="learned", loss=name).fit(pairs, y)
    assert model.rank_ in (2, 3)
    assert model.loss_.name == name


def test_probabilities():
    pairs, y, _ = data("logistic")
    model = lr.MatrixCompletion(2, "learned", loss="logistic").fit(pairs, y)
    p = model.predict_proba(pairs)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(p[:, 1], model.predict(pairs))
    assert model.classes_.tolist() == [0, 1]
    signs = lr.MatrixCompletion(2, "learned", loss="logistic").fit(pairs, 2 * y - 1)
    assert signs.classes_.tolist() == [-1, 1]
    np.testing.assert_allclose(signs.predict_proba(pairs), p, atol=1e-9)
    pairs, y, _ = data("ordinal")
    model = lr.MatrixCompletion(2, "learned", loss="ordinal").fit(pairs, y)
    assert model.classes_.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(model.predict_proba(pairs) @ model.classes_, model.predict(pairs))
    likelihood = -np.log(model.predict_proba(pairs)[np.arange(len(y)), y.astype(int) - 1]).mean()
    shares = np.bincount(y.astype(int))[1:] / len(y)
    assert likelihood < -(shares * np.log(shares)).sum() - 0.1


def test_separable_labels_converge():
    pairs = np.argwhere(np.ones((20, 15)))
    labels = (pairs[:, 0] < 10) == (pairs[:, 1] < 7)
    model = lr.MatrixCompletion(1, "learned", loss="logistic").fit(pairs, labels)
    assert np.isfinite(model.U_).all()
    assert ((model.predict(pairs) > 0.5) == labels).all()


@pytest.mark.parametrize("name", ["huber", "logistic", "ordinal", "poisson"])
def test_a_file_keeps_the_loss(name, tmp_path):
    pairs, y, _ = data(name, shape=(40, 30))
    loss = Huber(threshold=1.5) if name == "huber" else name
    model = lr.MatrixCompletion(2, "learned", loss=loss).fit(pairs, y)
    again = lr.load(model.save(tmp_path / "model.lorank"))
    assert again.loss_ == model.loss_
    assert again.loss == model.loss
    np.testing.assert_array_equal(again.predict(pairs), model.predict(pairs))
    cols, values = pairs[pairs[:, 0] == 3, 1], y[pairs[:, 0] == 3]
    np.testing.assert_array_equal(again.fold_in(cols, values).predictions, model.fold_in(cols, values).predictions)
    if name in ("logistic", "ordinal"):
        np.testing.assert_array_equal(again.predict_proba(pairs), model.predict_proba(pairs))


@pytest.mark.parametrize("name", ["huber", "logistic", "ordinal", "poisson"])
def test_fold_in_equals_a_fitted_row(name):
    pairs, y, _ = data(name, share=0.8)
    model = lr.MatrixCompletion(2, "learned", loss=name).fit(pairs, y)
    mine = pairs[:, 0] == 5
    folded = model.fold_in(pairs[mine, 1], y[mine]).predictions
    there = model.predict(np.column_stack([np.full(70, 5), np.arange(70)]))
    assert np.corrcoef(folded, there)[0, 1] > 0.95
    best, scores = model.recommend([5], 3, exclude_seen=False, by="rating")
    np.testing.assert_allclose(scores[0], there[best[0]], rtol=1e-9)
    assert scores[0][0] == pytest.approx(there[model.model_.col_counts > 0].max())


def test_intervals_mean_the_right_thing_or_are_refused():
    pairs, y, _ = data("huber")
    model = lr.MatrixCompletion(2, "learned", loss="huber", intervals=True).fit(pairs, y)
    low, high = model.predict_interval(pairs, 0.8)
    assert ((low <= y) & (y <= high)).mean() > 0.75
    for name in ("logistic", "ordinal", "poisson"):
        pairs, y, _ = data(name, shape=(30, 25))
        with pytest.raises(ValueError, match=f"loss='{name}' has no intervals"):
            lr.MatrixCompletion(1, "learned", loss=name, intervals=True).fit(pairs, y)
        with pytest.raises(ValueError, match=f"loss='{name}' has no intervals"):
            lr.MatrixCompletion(1, "learned", loss=name).fit(pairs, y).predict_interval(pairs)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ([0, 1, 2, 1], {"loss": "logistic"}, r"values\[2\] = 2: loss='logistic' takes two classes"),
        ([1, 1, 1, 1], {"loss": "logistic"}, "all 4 labels are 1"),
        ([0, 1, -2, 1], {"loss": "poisson"}, r"values\[2\] = -2"),
        ([0, 1, 0.5, 1], {"loss": "poisson"}, r"values\[2\] = 0.5"),
        ([3, 3, 3, 3], {"loss": "ordinal"}, "all 4 observations are of class 3"),
        ([3, 1, 2, 5], {"loss": Ordinal((1.0, 2.0, 3.0))}, r"values\[3\] = 5 is none of the classes"),
        ([3, 1, 2, 5], {"loss": "robustly"}, "loss must be one of 'squares', 'huber'"),
        ([3, 1, 2, 5], {"loss": Huber}, r"write Huber\(\)"),
    ],
)
def test_data_that_do_not_fit_are_refused_by_name(values, options, words):
    pairs = [[0, 0], [0, 1], [1, 0], [1, 1]]
    with pytest.raises(ValueError, match=words):
        lr.MatrixCompletion(1, "learned", **options).fit(pairs, values)


def test_repeated_pairs():
    pairs = [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1]]
    model = lr.MatrixCompletion(0, "learned", loss="logistic").fit(pairs, [1, 0, 1, 0, 1])
    assert np.isfinite(model.predict(pairs)).all()
    with pytest.raises(ValueError, match="with loss='ordinal', keep one observation of each pair"):
        lr.MatrixCompletion(0, "learned", loss="ordinal").fit(pairs, [1, 2, 3, 1, 2])


def test_only_classes_have_probabilities():
    pairs, y, _ = data("huber", shape=(20, 15))
    with pytest.raises(ValueError, match="loss='huber' has no classes"):
        lr.MatrixCompletion(1, "learned", loss="huber").fit(pairs, y).predict_proba(pairs)
