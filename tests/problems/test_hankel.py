"""Hankel completion against dense Hankel matrices: products, gradient, recovery, exponentials, intervals, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr
from helpers import assert_close, host, random_array
from lorank.geometry import FixedRank
from lorank.problems.exponentials import esprit

SHAPES = {"odd": (41,), "even": (30,), "two axes": (7, 9), "three axes": (4, 3, 5)}


def index_of(n, sides):
    """For each entry of the Hankel matrix the flat index of its sample."""
    rows, cols = (np.stack(np.unravel_index(np.arange(np.prod(side)), side), 1) for side in sides)
    return np.ravel_multi_index(tuple(np.moveaxis(rows[:, None] + cols[None], 2, 0)), n)


def made(n, dtype, backend=None, seed=0, rank=2, **options):
    """A problem with random samples, a random point, and its dense twin: the sample of each entry, the seen samples."""
    rng = np.random.default_rng(seed)
    flat = rng.permutation(int(np.prod(n)))[: int(np.prod(n)) // 2]
    seen = flat if len(n) == 1 else np.stack(np.unravel_index(flat, n), 1)
    problem = lr.HankelCompletion(seen, random_array(rng, len(flat), dtype), n, backend=backend, **options)
    X = FixedRank.from_factors(*(random_array(rng, (k, rank), dtype) for k in problem.shape))
    X = problem.manifold.check_point(X, problem.shape, rank, problem.dtype, problem.backend)
    return problem, X, index_of(n, problem.hankel.sides), flat


@pytest.fixture(params=[(name, dtype) for name in SHAPES for dtype in (np.float64, np.complex128)], ids=str)
def case(request, backend):
    name, dtype = request.param
    return made(SHAPES[name], dtype, backend)


def averaged(Z, K):
    """The averages over the entries of each sample, and the number of entries."""
    w = np.bincount(K.ravel())
    return (np.bincount(K.ravel(), Z.real.ravel()) + 1j * np.bincount(K.ravel(), Z.imag.ravel())) / w, w


def dense(problem, X, K, flat):
    """The value of the objective and the dense gradient, from their definitions."""
    Z = X.numpy().to_dense()
    x, w = averaged(Z, K)
    residual = x[flat] - host(problem.y)
    weights = w[flat] * len(w) / len(flat)
    square = (weights * abs(residual) ** 2).sum() + np.linalg.norm(Z - x[K]) ** 2
    h = np.zeros(len(w), complex)
    h[flat] = weights * residual / w[flat]
    return square, h[K] + Z - x[K]


def test_products_are_those_of_the_dense_hankel_matrix(case):
    problem, _, K, _ = case
    backend, rng, dtype = problem.backend, np.random.default_rng(1), problem.dtype
    x = random_array(rng, K.max() + 1, dtype)
    v, u = (random_array(rng, (k, 3), dtype) for k in (problem.shape[1], problem.shape[0]))
    times, adjoint_times = problem.hankel.products(backend.asarray(x))
    assert_close(times(backend.asarray(v)), x[K] @ v, float)
    assert_close(adjoint_times(backend.asarray(u)), x[K].conj().T @ u, float)
    sums, w = averaged(u @ v.conj().T, K)
    found = host(problem.hankel.sums(backend.asarray(u), backend.asarray(v)))
    assert_close(found, sums * w if np.iscomplexobj(found) else (sums * w).real, float)
    assert_close(problem.hankel.lengths, w.astype(float), float)


def test_the_gradient_is_that_of_the_dense_objective(case):
    problem, X, K, flat = case
    square, dense_G = dense(problem, X, K, flat)
    G = problem.gradient(X)
    assert G.residual_norm == pytest.approx(np.sqrt(square))
    U, V = host(X.U), host(X.V)
    for found, expected in ((G.GV, dense_G @ V), (G.GhU, dense_G.conj().T @ U), (G.core, U.conj().T @ dense_G @ V)):
        assert_close(found, expected if np.iscomplexobj(host(found)) else expected.real, float, 200)
    for found, axis in zip(G.squared_norms, (1, 0), strict=True):
        assert_close(found, (abs(dense_G) ** 2).sum(axis), float, 200)


def test_steps_and_normal_equations_are_those_of_the_dense_objective(case):
    problem, X, K, flat = case
    G, backend = problem.gradient(X), problem.backend
    rng = np.random.default_rng(2)
    left, right = (random_array(rng, (k, 2), problem.dtype) for k in problem.shape)
    Z = left @ right.conj().T
    x, w = averaged(Z, K)
    weights = w[flat] * len(w) / len(flat)
    square = (weights * abs(x[flat]) ** 2).sum() + np.linalg.norm(Z - x[K]) ** 2
    left, right = backend.asarray(left), backend.asarray(right)
    assert G.curvature_along(left, right) == pytest.approx(square)
    assert G.exact_step(left, right) == pytest.approx(-np.vdot(Z, dense(problem, X, K, flat)[1]).real / square)
    h = -x
    h[flat] += weights * x[flat] / w[flat]
    normal, v = h[K] + Z, random_array(rng, (problem.shape[1], 2), problem.dtype)
    found = problem.normal_products(left, right, G.curvature)[0](backend.asarray(v))
    assert_close(found, normal @ v if np.iscomplexobj(host(found)) else (normal @ v).real, float, 200)


def test_forward_and_adjoint_match_and_the_gradient_is_the_derivative(case):
    problem = case[0]
    assert lr.testing.dot_test(problem) < 1e-12
    assert abs(lr.testing.check_gradient(problem, 2) - 2) < 0.1


@pytest.mark.parametrize(
    "options", [{"weights": np.linspace(0.5, 2, 20)}, {"loss": lr.losses.Huber(scale=0.3)}], ids=["weights", "huber"]
)
def test_weights_and_losses(options):
    problem, *_ = made((41,), float, **options)
    assert abs(lr.testing.check_gradient(problem, 2) - 2) < 0.1


@pytest.mark.parametrize("options", [{}, {"real": True}, {"damping": 3.0}], ids=["complex", "real", "damped"])
def test_exact_samples_give_the_signal(options, backend):
    problem, x = lr.datasets.random_hankel(400, 4, samples=80, seed=3, backend=backend, **options)
    result = lr.solve(problem, 4)
    assert result.converged
    assert result.is_exponential
    assert np.linalg.norm(result.signal - x) < 1e-8 * np.linalg.norm(x)
    t = np.arange(400)
    again = np.exp(np.outer(t, 2j * np.pi * result.frequencies - result.dampings)) @ result.amplitudes
    assert np.linalg.norm(again - x) < 1e-8 * np.linalg.norm(x)


@pytest.mark.parametrize("n", [(24, 20), (9, 8, 7)])
def test_signals_with_several_axes(n):
    problem, x = lr.datasets.random_hankel(n, 3, samples=int(0.3 * np.prod(n)), seed=1)
    result = lr.solve(problem, 3)
    assert result.frequencies.shape == (3, len(n))
    assert np.linalg.norm(result.signal - x) < 1e-8 * np.linalg.norm(x)


@pytest.mark.parametrize("solver", ["auto", "rcg", "gauss-newton", "prgd", "adaptive-prgd", "rgd", "niht", "r3mc", "shampoo"])
def test_solvers(solver):
    problem, x = lr.datasets.random_hankel(200, 3, samples=80, seed=2)
    result = lr.solve(problem, 3, solver, max_iter=1000)
    assert result.converged
    assert np.linalg.norm(result.signal - x) < 1e-8 * np.linalg.norm(x)


def test_five_samples_per_degree_of_freedom_suffice():
    for seed in range(4):
        problem, x = lr.datasets.random_hankel(2000, 8, samples=80, seed=seed)
        result = lr.solve(problem, 8)
        assert result.converged
        assert np.linalg.norm(result.signal - x) < 1e-8 * np.linalg.norm(x)


def test_the_order_is_found_for_exact_and_for_noisy_samples():
    for noise, real in ((0.0, False), (0.1, False), (0.1, True)):
        problem, x = lr.datasets.random_hankel(500, 4, samples=120, noise=noise, real=real, seed=4)
        result = lr.solve(problem, "auto")
        assert result.X.rank == 4
        assert np.linalg.norm(result.signal - x) < (0.1 if noise else 1e-8) * np.linalg.norm(x)


def test_the_order_of_noisy_signals_is_selected_by_the_information_criterion():
    orders = []
    for seed, samples in ((104, 300), (104, 100), (109, 300), (101, 100)):
        options = {"samples": samples, "real": True, "noise": 0.2, "damping": 2.0, "seed": seed}
        problem, _ = lr.datasets.random_hankel(1000, 6, **options)
        result = lr.solve(problem, "auto")
        orders.append(result.X.rank)
        assert "smallest predicted error" in result.status.advice
        assert all(trial.rank % 2 == 0 for trial in result.rank_path)  # sinusoids are pairs
    assert orders == [6, 6, 6, 6]


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("n", [120, (12, 14)])
def test_the_predicted_error_is_the_information_criterion_of_the_exponentials(n, real):
    problem, _ = lr.datasets.random_hankel(n, 2, samples=80, noise=0.1, real=real, seed=1)
    result = lr.solve(problem, 2)
    d, total = len(problem.n), np.prod(problem.n)
    t = problem.seen.reshape(80, -1)
    poles = np.exp(2j * np.pi * result.frequencies.reshape(2, d) - result.dampings.reshape(2, d))
    model = sum(c * np.prod(pole**t, axis=1) for c, pole in zip(result.amplitudes, poles, strict=True))
    rss = np.linalg.norm(problem.y - model) ** 2
    N, components = (80, 1) if real else (160, 2)
    criterion = N * np.log(rss / N) + components * ((2 + 2 * d) * np.log(N) + 2 * np.log(total))
    null = N * np.log(np.linalg.norm(problem.y) ** 2 / N)
    assert np.isclose(N * np.log(problem.predicted_error(result.X) ** 2), criterion - null, rtol=1e-6)


def test_exponentials_that_a_refinement_step_sends_to_infinity_are_refused():
    problem, _ = lr.datasets.random_hankel(1000, 6, samples=100, real=True, noise=0.5, damping=2.0, seed=105)
    assert np.isfinite(lr.solve(problem, 8).signal).all()


def test_noise_is_estimated_and_intervals_cover_the_signal():
    covered, ends = [], []
    for seed in range(12):
        problem, x = lr.datasets.random_hankel(300, 4, samples=120, noise=0.2, real=True, damping=2.0, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lr.ConvergenceWarning)  # the test of noise refuses some fits by chance
            result = lr.solve(problem, 4)
        ends.append(result.status == "noise")
        assert result.noise == pytest.approx(0.2 * np.sqrt(np.mean(x**2)), rel=0.25)
        low, high = result.interval(0.9)
        covered.append(np.mean((low < x) & (x < high)))
    assert np.mean(ends) > 0.7
    assert 0.8 < np.mean(covered) < 0.97


def test_standard_errors_of_a_fit_are_those_of_linear_least_squares():
    """At one exponential of known frequency the Jacobian is explicit."""
    problem, _ = lr.datasets.random_hankel(100, 1, samples=60, noise=0.1, seed=0)
    result = lr.solve(problem, 1)
    (e,), (c,), n = result.exponents[:, 0], result.amplitudes, 100
    E = np.exp(e * np.arange(n) / n)
    J = np.stack([E, c * E * np.arange(n) / n], 1)
    C = np.linalg.inv(J[problem.seen].conj().T @ J[problem.seen])
    expected = result.estimate.noise * np.sqrt(np.einsum("ij,jk,ik->i", J, C, J.conj()).real)
    np.testing.assert_allclose(result.standard_error, expected, rtol=1e-8)


def test_shift_invariance_gives_the_exponents_of_a_dense_hankel_matrix():
    t = np.arange(40)
    poles = np.array([0.98 * np.exp(0.5j), np.exp(-2j), 0.9])
    x = (poles ** t[:, None]) @ np.array([1.0, 2j, 1.5])
    U = np.linalg.svd(x[index_of((40,), ((21,), (20,)))])[0][:, :3]
    found = np.exp(esprit(U, (21,), (40,))[:, 0] / 40)
    assert abs(np.sort_complex(found) - np.sort_complex(poles)).max() < 1e-10


def test_a_signal_that_is_no_sum_of_exponentials_has_the_averages_of_the_matrix():
    rng = np.random.default_rng(0)
    X = lr.FixedRank.from_factors(rng.standard_normal((51, 2)), rng.standard_normal((50, 2)))
    averages = averaged(X.to_dense(), index_of((100,), ((51,), (50,))))[0].real
    estimate = lr.HankelCompletion(np.arange(0, 100, 2), averages[::2], 100).estimate(X)
    assert not estimate.is_exponential
    np.testing.assert_allclose(estimate.signal, averages, atol=1e-12)
    assert np.isnan(estimate.standard_error).all()


def test_a_series_with_nan_and_outliers():
    t = np.arange(240)
    x = 3 * np.cos(2 * np.pi * t / 12) + np.sin(2 * np.pi * t / 31)
    gaps = x.copy()
    gaps[100:130] = np.nan
    result = lr.solve(lr.HankelCompletion.from_series(gaps), 4)
    assert abs(result.signal - x).max() < 1e-7
    gaps[10::40] += 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lr.ConvergenceWarning)
        robust = lr.solve(lr.HankelCompletion.from_series(gaps, loss="cauchy"), 4)
    assert abs(robust.signal - x).max() < 0.1


def test_checkpoints_and_devices(tmp_path):
    problem, _ = lr.datasets.random_hankel(200, 3, samples=80)
    path = tmp_path / "run.lorank"
    lr.solve(problem, 3, "rcg", stop=lr.stopping.Iterations(3), checkpoint=path, checkpoint_every=0)
    assert lr.solve(problem, 3, "rcg", checkpoint=path).converged
    other = lr.HankelCompletion(problem.seen, problem.y, 201)
    with pytest.raises(ValueError, match="checkpoint"):
        lr.solve(other, 3, "rcg", checkpoint=path)


@pytest.mark.needs("torch")
def test_a_device_gives_the_same_result():
    problem, x = lr.datasets.random_hankel(200, 3, samples=80)
    result = lr.solve(problem, 3, device="cpu").numpy()
    assert np.linalg.norm(result.signal - x) < 1e-8 * np.linalg.norm(x)


@pytest.mark.slow
def test_a_matrix_that_does_not_fit_in_memory():
    """200 000 samples: the dense matrix would take 160 GB."""
    problem, x = lr.datasets.random_hankel(200_000, 2, samples=1000)
    result = lr.solve(problem, 2)
    assert np.linalg.norm(result.signal - x) < 1e-8 * np.linalg.norm(x)


GOOD = np.arange(10)


@pytest.mark.parametrize(
    ("seen", "values", "n", "options", "name"),
    [
        ([0, 1, 1], np.ones(3), 10, {}, "seen"),
        ([0, 1, 10], np.ones(3), 10, {}, "seen"),
        ([0, 1, -1], np.ones(3), 10, {}, "seen"),
        ([0.5, 1, 2], np.ones(3), 10, {}, "seen"),
        (np.ones((3, 2), int), np.ones(3), 10, {}, "seen"),
        (GOOD, np.ones(10), (5, 5), {}, "seen"),
        (GOOD, np.ones(9), 20, {}, "values"),
        (GOOD[:1], np.ones(1), 20, {}, "values"),
        (GOOD, np.ones((10, 1)), 20, {}, "values"),
        (GOOD, ["a"] * 10, 20, {}, "values"),
        (GOOD, np.ones(10), 0, {}, "n"),
        (GOOD, np.ones(10), 20.0, {}, "n"),
        (GOOD, np.ones(10), (), {}, "n"),
        (GOOD, np.ones(10) * 1j, 20, {"loss": "huber"}, "loss"),
    ],
)
def test_invalid_data_are_refused_by_name(seen, values, n, options, name):
    with pytest.raises(lr.ParameterError) as error:
        lr.HankelCompletion(seen, values, n, **options)
    assert error.value.name == name


def test_other_refusals():
    with pytest.raises(ValueError, match=r"values\[2\] is not finite"):
        lr.HankelCompletion(GOOD, np.where(GOOD == 2, np.nan, 1.0), 20)
    with pytest.raises(ValueError, match="weights"):
        lr.HankelCompletion(GOOD, np.ones(10), 20, weights=-np.ones(10))
    with pytest.raises(lr.ParameterError, match="series"):
        lr.HankelCompletion.from_series(["a", "b"])
    problem, _ = lr.datasets.random_hankel(40, 2, samples=20)
    with pytest.raises(lr.ParameterError, match="rank"):
        lr.solve(problem, 21)
    with pytest.warns(UserWarning, match="fewer than the 22 degrees of freedom"):
        problem.check_rank(11)
    result = lr.solve(problem, 2)
    with pytest.raises(lr.ParameterError, match="real signals"):
        result.interval()
    with pytest.raises(AttributeError, match="frequency"):
        result.frequency  # noqa: B018
    assert "frequencies" in dir(result)


@pytest.mark.parametrize(
    "options", [{"rank": 3, "real": True}, {"rank": 0}, {"rank": 2, "noise": -1}, {"rank": 30, "separation": 10.0}]
)
def test_invalid_options_of_random_problems(options):
    with pytest.raises(lr.ParameterError):
        lr.datasets.random_hankel(100, **options)
