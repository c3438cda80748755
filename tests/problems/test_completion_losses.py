"""``Completion(..., loss=)``: dense twins on every backend, every solver to the same place, bad input by name."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
import partitioned  # noqa: F401  (registers itself)
from helpers import dense_point, dense_tangent, host, random_mask, random_point, random_tangent
from lorank.backends import get_backend
from lorank.losses import LOSSES, Huber, Objective, Ordinal
from lorank.problems.testing import check_gradient
from lorank.solvers.tangent_system import Damping, TangentSystem, inner

NAMES = sorted(LOSSES)
SOLVERS = ("auto", "rcg", "gauss-newton", "prgd", "adaptive-rgd")


def values_of(name, z, rng):
    """Data that a loss is made for, from what the matrix has."""
    if name == "logistic":
        return (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(float)
    if name == "ordinal":
        return 1.0 + np.digitize(z + rng.logistic(size=len(z)), [-1.5, 0, 1.5])
    if name == "poisson":
        return rng.poisson(np.exp(0.5 * z)).astype(float)
    y = z + 0.1 * rng.standard_normal(len(z))
    wrong = rng.random(len(z)) < 0.1
    y[wrong] += 30 * rng.standard_normal(wrong.sum())
    return y


def problem_of(name, shape=(40, 30), rank=2, share=0.7, seed=0, backend=None, weights=False, loss=None):
    rng = np.random.default_rng(seed)
    truth = lr.FixedRank.from_factors(rng.standard_normal((shape[0], rank)), rng.standard_normal((shape[1], rank)))
    rows, cols = np.nonzero(random_mask(rng, shape, share))
    order = rng.permutation(len(rows))
    rows, cols = rows[order], cols[order]
    y = values_of(name, truth.entries(rows, cols), rng)
    w = rng.uniform(0.5, 2, len(y)) if weights else None
    return lr.Completion(rows, cols, y, shape, weights=w, loss=loss or name, backend=backend), truth


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_against_dense(name, weights, backend):
    problem, _ = problem_of(name, (13, 9), backend=backend, weights=weights)
    rng = np.random.default_rng(1)
    X = random_point(rng, (13, 9), 2, np.dtype(float), backend)
    G = problem.gradient(X)
    rows, cols, y = host(problem.rows), host(problem.cols), host(problem.y)
    objective = Objective(G.objective.loss, host(problem.observations.weights) if weights else None)
    d = dense_point(X)[rows, cols] - y
    dense = np.zeros((13, 9))
    dense[rows, cols] = objective.slope(d, y)
    np.testing.assert_allclose(host(G.GV), dense @ host(X.V), atol=1e-11)
    np.testing.assert_allclose(host(G.GhU), dense.T @ host(X.U), atol=1e-11)
    np.testing.assert_allclose(host(G.squared_norms[0]), (dense**2).sum(1), atol=1e-11)
    np.testing.assert_allclose(host(G.squared_norms[1]), (dense**2).sum(0), atol=1e-11)
    assert G.residual_norm == pytest.approx(np.sqrt(2 * objective.value(d, y, None)))
    xi = random_tangent(rng, X)
    system = TangentSystem(G.quadratic_model(), X, Damping.constant(X, 0.0), G.curvature)
    image = dense_tangent(xi)[rows, cols]
    assert inner(system.apply(xi), xi) == pytest.approx(objective.curvature(d, y) @ image**2)
    assert (problem.objective.weights is not None) == weights


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_belongs_to_the_misfit(name):
    given = {"loss": LOSSES[name](scale=1.0)} if name in ("huber", "absolute", "tukey", "cauchy") else {}
    if name == "ordinal":  # thresholds that are learned are as good as Newton's method makes them, not to the last digit
        given = {"loss": Ordinal(thresholds=(-1.5, 0.0, 1.5))}
    problem, _ = problem_of(name, **given)
    check_gradient(problem, rank=2)


@pytest.mark.parametrize("name", NAMES)
def test_every_solver_ends_at_the_same_place(name):
    given = {"loss": LOSSES[name](scale=1.0)} if name in ("huber", "absolute", "tukey", "cauchy") else {}
    problem, _ = problem_of(name, **given)
    near = lr.solve(problem, 2, "rcg", stop=lr.stopping.Iterations(20)).X
    stop = lr.stopping.RelativeChange(1e-5)
    found = {solver: lr.solve(problem, 2, solver, start=near, stop=stop, max_iter=150) for solver in SOLVERS}
    least = min(result.residual for result in found.values())
    for solver, result in found.items():
        assert result.residual < 1.02 * least, solver


@pytest.mark.parametrize("name", ["huber", "logistic", "ordinal", "poisson"])
def test_every_backend_takes_the_same_steps(name):
    names = ["numpy", "partitioned:3", *(["torch"] if _has_torch() else [])]
    for solver in ("rcg", "gauss-newton", "auto"):
        stop = lr.stopping.Iterations(4)
        one, *others = (
            lr.solve(problem_of(name, backend=get_backend(b), weights=True)[0], 2, solver, stop=stop, max_iter=4) for b in names
        )
        for other in others:
            np.testing.assert_allclose(other.history.residual, one.history.residual, rtol=1e-7)


def _has_torch():
    import machine

    return machine.has("torch")


@pytest.mark.parametrize("name", ["huber", "cauchy", "tukey", "absolute"])
def test_gross_errors_do_little(name):
    problem, truth = problem_of(name, (80, 60), seed=3)
    robust = lr.solve(problem, 2, stop=lr.stopping.RelativeChange(1e-6))
    squares = lr.solve(problem.squares(), 2, stop=lr.stopping.RelativeChange(1e-6))
    assert truth.distance(robust.X) < 0.1 * truth.norm()
    assert truth.distance(squares.X) > 0.5 * truth.norm()


@pytest.mark.parametrize("name", ["logistic", "ordinal", "poisson"])
def test_rank_auto_by_held_out_deviance(name):
    problem, _ = problem_of(name, (150, 120), rank=1, share=0.8, seed=5)
    result = lr.solve(problem, "auto", stop=lr.stopping.RelativeChange(1e-4))
    assert result.X.rank in (1, 2)  # a constant beside it may pay
    assert len(result.rank_path) > result.X.rank


def test_separable_labels_do_not_diverge():
    u, v = np.linspace(-1, 1, 30), np.linspace(-1, 1, 20)
    rows, cols = np.nonzero(np.ones((30, 20)))
    labels = np.sign(u[rows] * v[cols] + 1e-9)
    result = lr.solve(lr.Completion(rows, cols, labels, loss="logistic"), 1, stop=lr.stopping.RelativeChange(1e-6))
    z = result.X.entries(rows, cols)
    assert abs(z).max() < 10
    assert (np.sign(z) == labels).mean() > 0.95


def test_labels_of_all_kinds_mean_the_same():
    problem, _ = problem_of("logistic")
    y = problem.y
    for labels in (y == 1, 2 * y - 1, y.astype(int)):
        twin = lr.Completion(problem.rows, problem.cols, labels, problem.shape, loss="logistic")
        np.testing.assert_array_equal(twin.y, y)


def test_exposure_is_an_offset():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(np.ones((20, 15)))
    e, y = rng.uniform(0.5, 5, 300), rng.poisson(3, 300)
    problem = lr.Completion(rows, cols, y, loss=lr.losses.Poisson(ridge=0.0), exposure=e)
    X = random_point(rng, (20, 15), 2, np.dtype(float))
    log_mean = X.entries(rows, cols) + np.log(e)
    slope = np.exp(log_mean) - y
    deviance = 2 * (np.exp(log_mean) - y * log_mean - y + y * np.log(np.maximum(y, 1))).sum()
    np.testing.assert_allclose(problem.gradient(X).dual, slope, rtol=1e-10, atol=1e-10)
    assert problem.objective_root(X) ** 2 == pytest.approx(deviance)


def test_repeated_labels_are_as_good_as_their_mean():
    rows, cols, labels = [0, 0, 0, 1, 1], [0, 0, 1, 0, 1], [1, 0, 1, 0, 1]
    problem = lr.Completion(rows, cols, labels, weights=np.ones(5), loss="logistic", duplicates="mean")
    X = lr.FixedRank.from_dense(np.array([[0.3, 0.6], [0.1, 0.2]]), 1)
    z = X.entries(np.array(rows), np.array(cols))
    value = (np.log1p(np.exp(z)) - np.array(labels) * z + 0.005 * z**2).sum()
    assert problem.gradient(X).residual_norm == pytest.approx(np.sqrt(2 * value))


COUNTS = np.arange(12) % 4
TABLE = np.divmod(np.arange(12), 4)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (COUNTS, {"loss": "hubert"}, "loss must be one of 'squares', 'huber'"),
        (COUNTS, {"loss": "logistic"}, r"values\[2\] = 2: loss='logistic' takes two classes.*loss='ordinal'"),
        (0 * COUNTS + 1, {"loss": "logistic"}, "all 12 labels are 1"),
        (0 * COUNTS, {"loss": "logistic"}, "all 12 labels are 0"),
        (0 * COUNTS - 1, {"loss": "logistic"}, "all 12 labels are -1"),
        (COUNTS - 1, {"loss": "poisson"}, r"values\[0\] = -1.*loss='squares'"),
        (COUNTS / 2, {"loss": "poisson"}, r"values\[1\] = 0.5.*exposure="),
        (0 * COUNTS, {"loss": "poisson"}, "all 12 counts are zero"),
        (0 * COUNTS + 3, {"loss": "ordinal"}, "all 12 observations are of class 3"),
        (COUNTS, {"loss": Ordinal((0.0, 1.0, 2.0))}, r"values\[3\] = 3 is none of the classes \(0.0, 1.0, 2.0\)"),
        (COUNTS, {"loss": Ordinal(thresholds=(0.0, 1.0))}, "4 classes need 3 thresholds"),
        (np.array(list("abcd") * 3), {"loss": "ordinal"}, "values must be numbers, got .*: map ordered classes to 1, 2, 3"),
        (COUNTS * 1j, {"loss": "poisson"}, "values are complex: loss='poisson' takes real"),
        (COUNTS, {"exposure": np.ones(12)}, "exposure is for counts, loss='poisson'"),
        (COUNTS, {"loss": "poisson", "exposure": np.arange(12)}, r"exposure\[0\] = 0.0: exposures are positive"),
        (COUNTS, {"loss": "poisson", "exposure": np.ones(11)}, "exposure and values .* got 11 and 12"),
        (COUNTS, {"loss": "ordinal", "duplicates": "mean"}, "duplicates='mean' has no meaning with loss='ordinal'"),
        (COUNTS % 2, {"loss": "logistic", "duplicates": "sum"}, "duplicates='sum' has no meaning with loss='logistic'"),
        (COUNTS, {"loss": "huber", "weights": -np.ones(12)}, r"weights\[0\] = -1.0: weights are numbers from 0 up"),
        (COUNTS, {"loss": "huber", "weights": np.full(12, np.nan)}, r"weights\[0\] = nan"),
        (COUNTS, {"loss": "poisson", "weights": np.zeros(12)}, "all weights are zero"),
    ],
)
def test_data_that_do_not_fit_are_refused_by_name(values, options, words):
    with pytest.raises(ValueError, match=words):
        lr.Completion(*TABLE, values, **options)


def test_many_numbers_are_no_classes():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(np.ones((10, 10)))
    with pytest.raises(
        ValueError, match=r"values have 100 different numbers \(values\[\d+\] = .*loss='ordinal' takes at most 50"
    ):
        lr.Completion(rows, cols, rng.random(100), loss="ordinal")


def test_a_solver_for_exact_data_says_so():
    problem, _ = problem_of("logistic")
    with pytest.raises(ValueError, match="IRLS needs"):
        lr.solve(problem, 2, lr.solvers.IRLS())


def test_a_problem_keeps_its_loss_when_it_moves():
    problem, _ = problem_of("ordinal")
    kept, held = problem.split(np.random.default_rng(0), 0.1)
    assert kept.loss == held.loss == problem.loss
    assert problem.with_observations(problem.observations).loss == problem.loss
    assert problem.squares().loss is None
    assert problem.squares().frame_constant == 1.0
    assert (
        problem.fingerprint()
        != lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, loss=Ordinal(ridge=1.0)).fingerprint()
    )
    if _has_torch():
        assert problem.to("cpu").loss == problem.loss


def test_complex_values_with_gross_errors():
    rng = np.random.default_rng(0)
    truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, 2)) + 1j * rng.standard_normal((n, 2)) for n in (60, 50)))
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.7)
    y = truth.entries(rows, cols)
    wrong = rng.random(len(y)) < 0.05
    y[wrong] += 50
    result = lr.solve(lr.Completion(rows, cols, y, (60, 50), loss=Huber(scale=0.01)), 2, stop=lr.stopping.RelativeChange(1e-7))
    assert truth.distance(result.X) < 0.02 * truth.norm()
