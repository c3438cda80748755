"""Similar rows and columns, and explanations, of MatrixCompletion."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr


@pytest.fixture(scope="module")
def model():
    """Three kinds of rows and columns; row 60 and column 30 were never observed."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((60, 30)) < np.where(np.arange(60)[:, None] % 3 == np.arange(30) % 3, 0.6, 0.05))
    values = np.clip(np.round(3 + rng.standard_normal(30)[cols] + 0.7 * rng.standard_normal(len(rows))), 1, 5)
    found = lr.MatrixCompletion(rank=1, regularization="learned", shape=(61, 31)).fit(np.column_stack([rows, cols]), values)
    found.recommend(0)
    return found


def test_similar_ones_are_taken_by_the_same(model):
    for found, factors, size in (
        (model.similar_items([4, 8], n=5), model._taste.cols, 30),
        (model.similar_users([4, 8], n=5), model._taste.rows, 60),
    ):
        unit = factors[:size] / np.linalg.norm(factors[:size], axis=1, keepdims=True)
        for at, places, cosines in zip((4, 8), *found, strict=True):
            cosine = unit[at] @ unit.T
            cosine[at] = -np.inf
            np.testing.assert_allclose(cosines, np.sort(cosine)[::-1][:5], atol=1e-5)
            np.testing.assert_allclose(cosine[places], cosines, atol=1e-5)
    assert (model.similar_items(4, n=5)[0] % 3 == 1).all()  # of the same kind
    everything = model.similar_items(4, n=1000)[0][0]
    assert 30 not in everything
    assert (everything[29:] == -1).all()


def test_an_explanation_adds_up_to_the_score(model):
    taste, row = model._taste, 7
    own = model._seen[1][model._seen[0][row] : model._seen[0][row + 1]]
    liked = model._liked[model._seen[0][row] : model._seen[0][row + 1]]
    item = int(model.recommend(row, n=1)[0][0, 0])
    found = model.explain(row, item)
    assert sorted(found.items) == own.tolist()
    assert (np.diff(found.contributions) <= 0).all()
    assert found.contributions.sum() == pytest.approx(found.score)
    assert found.score == pytest.approx(taste.rows[row] @ taste.cols[item], abs=2e-3)
    Y, w = taste.cols.astype(float), np.where(liked, 1.0, taste.disliked)
    M = (Y[own].T * w) @ Y[own] + taste.zeros * Y.T @ Y
    M += taste.regularization * (w.sum() + taste.zeros * len(Y)) * np.eye(Y.shape[1])
    by_item = dict(zip(own, w * (Y[own] @ np.linalg.solve(M, Y[item])), strict=True))
    np.testing.assert_allclose(found.contributions, [by_item[i] for i in found.items], rtol=1e-8)
    nobody = model.explain(60, 3)
    assert (len(nobody.items), nobody.score) == (0, 0.0)


def test_explanations_survive_a_file(model, tmp_path):
    again = lr.load(model.save(tmp_path / "m.lorank"))
    for a, b in zip(again.explain(3, 5), model.explain(3, 5), strict=True):
        np.testing.assert_array_equal(a, b)
    again._taste = dataclasses.replace(again._taste, zeros=float("nan"))  # as earlier versions wrote it
    with pytest.raises(ValueError, match="fit it again"):
        again.explain(3, 5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: m.similar_items(31), "cols must lie in 0 .. 30, got 31"),
        (lambda m: m.similar_users(-1), "rows must be whole numbers"),
        (lambda m: m.similar_users(0, n=0), "n must be"),
        (lambda m: m.similar_items("x"), "cols must be"),
        (lambda m: m.explain(0, 99), "cols must lie in 0 .. 30, got 99"),
        (lambda m: m.explain([0, 1], 2), "explain takes one row and one column, got 2 rows"),
        (lambda m: m.explain(0.5, 2), "rows must be whole numbers"),
    ],
)
def test_what_is_refused(model, call, said):
    with pytest.raises(ValueError, match=said):
        call(model)
