"""Ctrl-C anywhere in a fit: one is enough, and the best model so far comes back."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import lorank as lr

STAGES = {
    "lorank.factorization.selection": ["fit_biases", "fit_factors", "_largest"],
    "lorank.factorization.fit": ["initialize", "run"],
    "lorank.factorization.initialization": ["descend", "Staged"],
    "lorank.factorization.variational": ["advance"],
    "lorank.factorization.als": ["advance"],
    "lorank.estimators.fitting": ["select", "fit_factors"],
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + rng.standard_normal((60, 1))
    rows, cols = np.nonzero(rng.random(X.shape) < 0.5)
    return np.column_stack([rows, cols]), X[rows, cols] + 0.1 * rng.standard_normal(len(rows))


def interrupting(original, at, calls):
    def called(*args, **options):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return original(*args, **options)

    return called


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in STAGES.items() for n in names])
@pytest.mark.parametrize("options", [{}, {"rank": 2, "regularization": "learned"}, {"rank": 2, "regularization": 1.0}])
def test_ctrl_c_returns_the_best_fit_so_far(data, module, name, at, options, monkeypatch):
    calls: list[int] = []
    room = importlib.import_module(module)
    monkeypatch.setattr(room, name, interrupting(getattr(room, name), at, calls))
    model = lr.MatrixCompletion(**options).fit(*data)
    assert np.isfinite(model.predict(data[0])).all()
    if len(calls) >= at:
        assert model.status_ == "interrupted"
        assert len(calls) == at  # nothing goes on after it
    else:
        assert model.status_ == "converged"


def test_the_fit_is_kept_where_ctrl_c_comes_at_the_end(data, monkeypatch):
    room, calls = importlib.import_module("lorank.estimators.fitting"), []
    monkeypatch.setattr(room, "diagnose", interrupting(room.diagnose, 1, calls))
    model = lr.MatrixCompletion(rank=2, regularization="learned").fit(*data)
    monkeypatch.undo()
    whole = lr.MatrixCompletion(rank=2, regularization="learned").fit(*data)
    assert model.status_ == "interrupted"
    assert model.diagnosis_ == whole.diagnosis_
    np.testing.assert_array_equal(model.predict(data[0]), whole.predict(data[0]))


@pytest.mark.parametrize("at", [1, 2, 3, 6])
def test_ctrl_c_in_an_implicit_fit_keeps_the_last_iteration_or_finishes_the_first(data, monkeypatch, at):
    room, calls = importlib.import_module("lorank.factorization.implicit"), []
    monkeypatch.setattr(room, "half_sweep", interrupting(room.half_sweep, at, calls))
    model = lr.ImplicitFactorization(rank=3, regularization=0.1, zeros=0.1, max_iter=8).fit(data[0])
    monkeypatch.undo()
    assert (model.status_, model.n_iter_) == ("interrupted", max((at - 1) // 2, 1))
    if at < 3:
        first = lr.ImplicitFactorization(rank=3, regularization=0.1, zeros=0.1, max_iter=1).fit(data[0])
        np.testing.assert_array_equal(model.user_factors_, first.user_factors_)


def test_ctrl_c_keeps_the_fit_of_the_imputer(monkeypatch):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 8))
    table[rng.random(table.shape) < 0.2] = np.nan
    room, calls = importlib.import_module("lorank.factorization.variational"), []
    monkeypatch.setattr(room, "advance", interrupting(room.advance, 12, calls))
    imputer = lr.TableImputer(method="low-rank").fit(table)
    assert imputer.model_.status == "interrupted"
    assert len(calls) == 12
    assert np.isfinite(imputer.transform(table)).all()
