"""Alternating least squares without a penalty, alone and as the first steps of ``auto``."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.loop.state import State
from lorank.problems import units
from lorank.solvers import ALS
from machine import _kernels


def random_problem(shape=(60, 45), rank=3, share=0.5, dtype=np.float64, weighted=False, seed=0, noise=0.0, mean=0.0):
    rng = np.random.default_rng(seed)
    left, right = (mean + rng.standard_normal((n, rank)) for n in shape)
    if np.dtype(dtype).kind == "c":
        left, right = left + 1j * rng.standard_normal(left.shape), right + 1j * rng.standard_normal(right.shape)
    truth = lr.FixedRank.from_factors(left, right)
    rows, cols = np.nonzero(rng.random(shape) < share)
    values = truth.entries(rows, cols).astype(dtype) + noise * rng.standard_normal(len(rows))
    weights = np.exp(rng.standard_normal(len(rows))) if weighted else None
    return lr.Completion(rows, cols, values, shape, weights=weights), truth


def dense_sweep(problem, V, weights):
    """Each row by ``lstsq``, and then each column."""
    rows, cols, y = problem.rows, problem.cols, problem.y
    root = np.sqrt(weights)[:, None]

    def fitted(own, other, factor, y):
        out = np.zeros((own.max() + 1, factor.shape[1]), y.dtype)
        for i in range(len(out)):
            seen = own == i
            out[i] = np.linalg.lstsq(root[seen] * factor[other[seen]].conj(), root[seen, 0] * y[seen], rcond=None)[0]
        return out

    left = fitted(rows, cols, V, y)
    right = fitted(cols, rows, left, y.conj())
    return left @ right.conj().T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_sweep_fits_all_rows_and_then_all_columns(dtype, weighted):
    problem, _ = random_problem(dtype=dtype, weighted=weighted)
    weights = problem.observations.weights
    state = State.at(problem, lr.starts.Staged()(problem, 3, np.random.default_rng(0)))
    found = ALS(damping=1e-7).step(problem, state).X.to_dense()
    expected = dense_sweep(problem, state.X.V, np.ones(problem.m) if weights is None else weights)
    assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)  # the corrections are in single precision


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_it_ends_at_the_data_s_own_digits(dtype, backend):
    problem, truth = random_problem(dtype=dtype)
    eps = float(np.finfo(dtype).eps)
    problem = lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, backend=backend)
    result = lr.solve(problem, 3, ALS(), tol=100 * eps)
    assert result.converged
    assert truth.distance(result.X.numpy().astype(truth.dtype)) < 1e4 * eps * truth.norm()


def test_a_little_more_than_a_sweep_ends_sooner():
    problem, truth = random_problem((120, 90), share=0.35)
    plain, more = (lr.solve(problem, 3, ALS(relaxation=omega), tol=1e-9) for omega in (1.0, 1.15))
    assert more.converged
    assert more.n_iter < plain.n_iter
    assert truth.distance(more.X) < 1e-7 * truth.norm()
    with pytest.raises(ValueError, match="relaxation must lie between 0 and 2"):
        ALS(relaxation=2.0)


def test_what_it_cannot_fit_is_refused_by_name():
    sensing, _ = lr.datasets.random_sensing(8, 8, rank=1, oversampling=4)
    rows, cols = np.nonzero(np.ones((6, 5)))
    with pytest.raises(ValueError, match=r"ALS needs .*Sensing"):
        lr.solve(sensing, 1, ALS())
    with pytest.raises(ValueError, match=r"ALS needs .*logistic"):
        lr.solve(lr.Completion(rows, cols, (rows + cols) % 2, loss="logistic"), 1, ALS())


@pytest.fixture
def _single_always(monkeypatch):
    monkeypatch.setattr(units, "MIN_SINGLE", 0)


native = pytest.mark.skipif(_kernels is None, reason="the fused pass is in the C++ kernels")


@native
@pytest.mark.usefixtures("_single_always")
def test_auto_begins_with_sweeps_where_observations_are_plenty():
    problem, truth = random_problem((300, 200), share=0.3, mean=2.0)  # rows alike in size
    assert problem.als_pays(3)
    swept, plain = (lr.solve(problem, 3, lr.plans.Auto(als_min_oversampling=plenty), tol=1e-12) for plenty in (4.0, 1e9))
    assert swept.converged
    assert plain.converged
    assert swept.n_iter < plain.n_iter
    assert truth.distance(swept.X) < 1e-10 * truth.norm()


@native
@pytest.mark.usefixtures("_single_always")
def test_auto_leaves_sweeps_alone_where_rows_have_little_to_go_by():
    problem, truth = random_problem((300, 200), share=0.3, mean=2.0)  # rows alike in size
    poor = problem.rows % 10 == 0
    few = poor & (np.arange(problem.m) - problem.observations.indptr[problem.rows] >= 4)
    problem = lr.Completion(problem.rows[~few], problem.cols[~few], problem.y[~few], problem.shape)
    assert not problem.als_pays(3)
    result = lr.solve(problem, 3, tol=1e-9)
    assert result.converged
    assert truth.distance(result.X) < 1e-6 * truth.norm()


@native
@pytest.mark.usefixtures("_single_always")
def test_sweeps_hand_over_where_they_no_longer_pay():
    problem, _ = random_problem((300, 200), share=0.3, noise=0.5, mean=2.0)
    result = lr.solve(problem, 3, stop=lr.stopping.Stall(window=20))
    assert any("conjugate gradients" in note for note in result.history.notes.values())
    plain = lr.solve(problem, 3, lr.plans.Auto(als_min_oversampling=1e9), stop=lr.stopping.Stall(window=20))
    assert result.residual < 1.001 * plain.residual
