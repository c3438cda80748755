"""Comparison of solvers: runs, errors with and without a known solution, table, frame and figure."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import lorank as lr
from lorank.loop.state import relative


@pytest.fixture(scope="module")
def exact():
    return lr.datasets.random_completion(80, 60, 2, oversampling=6)


def test_runs_keep_the_way_to_the_solution(exact):
    problem, truth = exact
    run = lr.compare(problem, 2, ["prgd"], truth=truth, tol=1e-4).runs[0]
    assert run.reached
    assert run.final <= 1e-4 < run.error[-2]
    assert run.error[-1] == pytest.approx(run.final)
    assert run.iteration.tolist() == list(range(run.n_iter + 1))
    assert (np.diff(run.seconds) >= 0).all()
    assert "RowColumn" in run.composition
    short = lr.compare(problem, 2, ["prgd"], truth=truth, tol=1e-4, max_iter=3).runs[0]
    assert not short.reached
    assert short.status == "max_iter"
    assert lr.compare(problem, 2, ["prgd"], truth=truth, tol=1e-14, max_seconds=0.0).runs[0].status == "time"


def test_without_a_truth_errors_are_those_of_held_out_measurements():
    problem, truth = lr.datasets.random_completion(80, 60, 2, oversampling=8, factors="gaussian", noise=0.2, seed=3)
    found = lr.compare(problem, 2, ["auto", "rcg"], holdout=0.2, seed=5)
    assert found.measure == "held-out error"
    kept, held = problem.split(np.random.default_rng(5), 0.2)
    for run in found.runs:
        assert run.status in ("noise", "stalled")
        assert run.final == pytest.approx(relative(held, held.gradient(lr.solve(kept, 2, run.solver, seed=5).X)), rel=1e-2)
    noise = np.linalg.norm(held.y - truth.entries(held.rows, held.cols)) / np.linalg.norm(held.y)
    assert all(run.final < 1.5 * noise for run in found.runs)
    assert all(run.error[-1] < 0.8 * run.error[0] for run in found.runs)


def test_models_that_cannot_be_split_show_residuals():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((80, 8)), rng.standard_normal(8)
    found = lr.compare(lr.PhaseRetrieval(A, (A @ x) ** 2), 1, ["auto"])
    assert found.measure == "relative residual"
    assert found.runs[0].final <= 1e-6


def test_solvers_with_labels_and_objects(exact):
    problem, truth = exact
    found = lr.compare(problem, 2, {"default": "auto", "mine": lr.solvers.RCG()}, truth=truth)
    assert [run.solver for run in found.runs] == ["default", "mine"]
    assert [run.solver for run in lr.compare(problem, 2, [lr.solvers.RCG()], truth=truth).runs] == [repr(lr.solvers.RCG())]


def test_table_frame_and_html_have_the_numbers(exact):
    pytest.importorskip("pandas")
    problem, truth = exact
    found = lr.compare(problem, 2, ["auto", "rgd"], truth=truth)
    frame = found.to_frame()
    assert list(frame.columns) == ["solver", "iterations", "seconds", "status", "relative error"]
    assert frame["relative error"].tolist() == [run.final for run in found.runs]
    text, page = str(found), found._repr_html_()
    for run in found.runs:
        for shown in (run.solver, str(run.n_iter), f"{run.final:.2e}"):
            assert shown in text
            assert shown in page


def test_the_figure_has_a_curve_a_solver(exact):
    pytest.importorskip("matplotlib")
    problem, truth = exact
    found = lr.compare(problem, 2, ["auto", "rgd"], truth=truth)
    figure = found.plot()
    curves = {line.get_label(): line for line in figure.axes[0].lines}
    assert np.allclose(curves["RGD"].get_ydata(), found.runs[1].error)
    assert figure.axes[0].get_ylabel() == "relative error"
    assert figure.get_facecolor()[3] == 0
    figure.canvas.draw()


def test_ctrl_c_keeps_the_runs_so_far(exact, monkeypatch):
    problem, truth = exact
    trace = sys.modules["lorank.report.comparison"]._Trace
    plain, calls = trace.__call__, []

    def call(self, problem, state, clock):
        calls.append(state.iteration)
        if calls.count(0) == 2 and state.iteration == 2:
            raise KeyboardInterrupt
        plain(self, problem, state, clock)

    monkeypatch.setattr(trace, "__call__", call)
    found = lr.compare(problem, 2, ["auto", "rgd", "rcg"], truth=truth)
    assert found.interrupted
    assert [str(run.status) for run in found.runs][1:] == ["interrupted"]


@pytest.mark.parametrize(
    ("options", "name"),
    [({"truth": 3}, "truth"), ({"tol": -1.0}, "tol"), ({"holdout": 1.0}, "holdout"), ({"seed": -1}, "seed")],
)
def test_invalid_parameters_are_named(options, name, exact):
    with pytest.raises(lr.ParameterError) as caught:
        lr.compare(exact[0], 2, **options)
    assert caught.value.name == name
