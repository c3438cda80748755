"""Rows and columns without observations: predicted as what is observed says, not as the mean of rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.factorization import Settings, centred_problem, fit_factors
from lorank.factorization.factors import fixed_coordinate
from lorank.factorization.update import add_unseen


@pytest.fixture(scope="module")
def data():
    """Who rates much rates low, and what is liked is rated: 150 rows and 80 columns, of which some have no observation."""
    rng = np.random.default_rng(5)
    activity = rng.uniform(0.05, 0.7, 150)
    X = 3 - 3 * activity[:, None] + rng.standard_normal((150, 2)) @ rng.standard_normal((2, 80))
    pairs = np.argwhere(rng.random(X.shape) < activity[:, None] * np.clip(X / 3, 0.1, 1))
    values = X[pairs[:, 0], pairs[:, 1]] + 0.3 * rng.standard_normal(len(pairs))
    return pairs, values, pairs[:, 0] >= 120


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("settings", [Settings(2), Settings(2, 3.0), Settings(2, biases=False)])
def test_the_shift_is_that_of_least_squares(data, weighted, settings):
    pairs, values, new = data
    pairs, values = pairs[~new], values[~new]
    weights = np.random.default_rng(0).uniform(0.5, 2, len(values)) if weighted else None
    problem, mean = centred_problem(pairs[:, 0], pairs[:, 1], values, (150, 80), weights, centre=settings.biases)
    plain = fit_factors(problem, mean, settings).model.host()
    model = add_unseen(problem, plain)
    w = np.ones(len(values)) if weights is None else weights
    for columns, shift, own, other in (
        (False, model.row_unseen, plain.sides[0].unseen_factors, plain.cols[pairs[:, 1]]),
        (True, model.col_unseen, plain.sides[1].unseen_factors, plain.rows[pairs[:, 0]]),
    ):
        free = np.arange(len(shift)) != fixed_coordinate(len(shift), columns, settings.biases)
        P = (model.col_precision if columns else model.row_precision)[np.ix_(free, free)] / model.noise
        r = values - mean - other @ own
        dense = np.linalg.solve((w[:, None] * other[:, free]).T @ other[:, free] + P, other[:, free].T @ (w * r))
        np.testing.assert_allclose(shift[free], dense, rtol=1e-6, atol=1e-9)
        assert (shift[~free] == 0).all()
    np.testing.assert_allclose(model.rows[149], plain.rows[149] + model.row_unseen)
    np.testing.assert_array_equal(model.rows[:120], plain.rows[:120])
    np.testing.assert_array_equal(model.sides[0].unseen_factors, plain.sides[0].unseen_factors + model.row_unseen)


@pytest.mark.parametrize("features", [False, True])
def test_unseen_rows_are_predicted_better_with_the_shift(data, features, tmp_path):
    pairs, values, new = data
    more = {"row_features": np.random.default_rng(1).standard_normal((150, 2))} if features else {}
    model = lr.MatrixCompletion(rank=2, regularization="learned", shape=(150, 80), handle_unknown="ignore")
    model.fit(pairs[~new], values[~new], **more)
    plain = model.model_

    def error(shift):
        guess = model.predict(pairs[new]) - plain.cols[pairs[new, 1]] @ shift
        return np.sqrt(np.mean((guess - values[new]) ** 2))

    assert error(0 * plain.row_unseen) < 0.97 * error(plain.row_unseen)
    again = lr.load(model.save(tmp_path / "m.lorank"))
    np.testing.assert_array_equal(again.predict(pairs[new]), model.predict(pairs[new]))
    beyond = model.predict([[999, 3]])
    if not features:
        np.testing.assert_allclose(beyond, model.predict([[149, 3]]), rtol=0.02)
    np.testing.assert_allclose(model.fold_in([], []).predictions[3], beyond)
