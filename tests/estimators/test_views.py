"""Plots of estimators, and their log messages."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import lorank as lr


def ratings(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + 0.3 * rng.standard_normal((60, 40))
    pairs = np.argwhere(rng.random(X.shape) < 0.5)
    return pairs, X[pairs[:, 0], pairs[:, 1]]


def test_the_plot_of_ratings_has_the_fitted_numbers():
    pytest.importorskip("matplotlib")
    model = lr.MatrixCompletion(intervals=True).fit(*ratings())
    figure = model.plot()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[1] == "Spectrum"
    assert titles[2] == f"Selected rank: {model.rank_}"
    step = model.history_.step
    assert np.allclose(figure.axes[0].lines[0].get_ydata(), step[np.isfinite(step) & (step > 0)])
    assert np.allclose(figure.axes[1].lines[0].get_ydata(), model.spectrum_.values)
    drawn = np.concatenate([line.get_ydata() for line in figure.axes[2].lines])
    assert min(drawn) == pytest.approx(min(one.error for one in model.curve_))
    assert np.allclose(figure.axes[3].lines[0].get_ydata(), model.heldout_[0])
    figure.canvas.draw()
    assert figure.get_facecolor()[3] == 0
    plain = lr.MatrixCompletion(rank=2, regularization=1.0).fit(*ratings()).plot()
    assert len(plain.axes) == 2


def test_the_plot_of_implicit_feedback_marks_the_selected_order():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((80, 30)) < np.where(np.arange(80)[:, None] % 2 == np.arange(30) % 2, 0.5, 0.05))
    model = lr.ImplicitFactorization().fit(np.column_stack([users, items]))
    figure = model.plot()
    settings, orders, *_ = figure.axes
    assert np.allclose(settings.collections[0].get_array(), [one.ndcg for one in model.curve_])
    assert orders.get_title() == f"Selected order: {model.order_}"
    assert np.allclose([bar.get_height() for bar in orders.patches], [one.ndcg for one in model.orders_])
    figure.canvas.draw()


@pytest.mark.parametrize("rank", [None, 10])
def test_the_plot_of_ease_has_the_weights_of_the_most_frequent_items(rank):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    chance = np.where(np.arange(200)[:, None] % 2 == np.arange(40) % 2, 0.5, 0.05) * np.linspace(1, 0.2, 40)
    users, items = np.nonzero(rng.random((200, 40)) < chance)
    model = lr.EASE(rank=rank).fit(np.column_stack([users, items + 100]))
    axes = model.plot().axes[0]
    drawn = np.asarray(axes.images[0].get_array())
    X = np.zeros((200, 40))
    X[users, items] = 1.0
    if rank is None:  # the closed form
        P = np.linalg.inv(X.T @ X + model.regularization_ * np.eye(40))
        B = -P / np.diag(P)
        np.fill_diagonal(B, 0)
    else:
        B = np.stack([model.state_.ranking.items.column(k) for k in range(40)], axis=1)
    top = np.argsort(-X.sum(0), kind="stable")[:30]
    assert np.allclose(drawn, B[np.ix_(top, top)], rtol=1e-4, atol=1e-6)
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(k + 100) for k in top]
    axes.figure.canvas.draw()


def test_the_plot_of_an_imputer_has_the_quality_of_each_column():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    table = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 5))
    table[rng.random(table.shape) < 0.1] = np.nan
    imputer = lr.TableImputer().fit(table)
    bars = imputer.plot().axes[0].patches
    assert np.allclose([bar.get_width() for bar in bars], imputer.quality_[::-1])


def test_the_plot_of_a_tensor_imputer_has_the_errors_of_the_candidates():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    X = np.einsum("ia,ja,ka->ijk", *(rng.standard_normal((n, 2)) for n in (15, 12, 10)))
    X[rng.random(X.shape) < 0.5] = np.nan
    imputer = lr.TensorImputer().fit(X)
    left, right = imputer.plot().axes
    assert np.allclose([bar.get_width() for bar in left.patches], [one.error for one in imputer.curve_])
    assert np.allclose(right.lines[0].get_xydata(), imputer.heldout_[1::-1].T)
    marked = [k for k, bar in enumerate(left.patches) if bar.get_facecolor() != left.patches[0].get_facecolor()]
    assert [tuple(imputer.curve_[k].rank) for k in marked] == [imputer.rank_]
    left.figure.canvas.draw()


def make(name):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((60, 4))
    table[::5, 1] = np.nan
    return {
        "MatrixCompletion": lambda verbose: lr.MatrixCompletion(rank=2, verbose=verbose).fit(*ratings()),
        "ImplicitFactorization": lambda verbose: lr.ImplicitFactorization(rank=2, verbose=verbose).fit(ratings()[0]),
        "TableImputer": lambda verbose: lr.TableImputer(verbose=verbose).fit(table),
    }[name]


@pytest.mark.parametrize("name", ["MatrixCompletion", "ImplicitFactorization", "TableImputer"])
def test_verbose_logs_to_standard_error_and_leaves_the_logger_alone(name, capsys, caplog):
    logger, fit = logging.getLogger("lorank"), make(name)
    caplog.clear()
    before = logger.level, list(logger.handlers)
    fit(0)
    assert not caplog.records
    fit(1)
    assert any("held-out" in record.message for record in caplog.records)
    assert not any(record.levelno == logging.DEBUG for record in caplog.records)
    assert (logger.level, logger.handlers) == before


def test_verbose_2_logs_iterations(caplog):
    make("MatrixCompletion")(2)
    assert sum("iteration" in record.message and record.levelno == logging.DEBUG for record in caplog.records) > 3


def test_without_handlers_messages_go_to_standard_error(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("lorank"), "propagate", False)
    make("MatrixCompletion")(1)
    assert "lorank: rank 2, regularization" in capsys.readouterr().err
    assert not logging.getLogger("lorank").handlers
