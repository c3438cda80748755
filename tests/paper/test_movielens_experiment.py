"""The MovieLens experiment: held-out ratings and their error."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.paper import load, movielens
from lorank.plans import solve


def test_without_data_the_experiment_is_missing_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))
    movielens.ratings.cache_clear()
    experiment = load("movielens")
    assert "ml-1m.zip" in experiment.missing("paper")
    assert experiment.missing("tiny") is None


def test_held_out_ratings_are_held_out():
    experiment = load("movielens")
    (where,) = experiment.points("tiny")
    one, again, other = (experiment.instance(where, seed) for seed in (0, 0, 1))
    kept = set(zip(one.problem.rows.tolist(), one.problem.cols.tolist(), strict=True))
    held = set(zip(one.extra.rows.tolist(), one.extra.cols.tolist(), strict=True))
    assert not kept & held
    assert len(kept) == where.params["m"]
    assert len(held) == pytest.approx(0.1 * (len(kept) + len(held)), abs=1)
    assert (again.extra.rows == one.extra.rows).all()
    assert (other.extra.rows != one.extra.rows).any()


def test_held_out_error_against_a_dense_twin():
    experiment = load("movielens")
    (where,) = experiment.points("tiny")
    instance = experiment.instance(where, 0)
    X = solve(instance.problem, 2, "rgd", max_iter=5).X
    held = instance.extra
    dense = np.clip(X.to_dense(), 1, 5)[held.rows, held.cols]
    assert held.rmse(X) == pytest.approx(np.sqrt(((dense - held.ratings) ** 2).mean()))
