"""``solve``: arguments, statuses, callbacks, interrupts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import lorank as lr
from lorank.common.timer import Timer
from lorank.loop import stopping
from lorank.loop.steps import Constant
from lorank.metrics import RowColumn


@pytest.fixture(scope="module")
def easy():
    return lr.datasets.random_completion(60, 50, 2, oversampling=6, factors="gaussian", seed=3)


def test_the_contract_of_a_result(easy):
    problem, _ = easy
    result = lr.solve(problem, rank=2)
    assert result.converged is True
    assert result.status == "converged"
    assert result.status.advice
    X = result.X
    assert X.U.shape == (60, 2)
    assert X.V.shape == (50, 2)
    np.testing.assert_allclose(X.U.T @ X.U, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(X.V.T @ X.V, np.eye(2), atol=1e-12)
    assert X.s[0] >= X.s[1] > 0
    np.testing.assert_allclose(X.entries([3, 4], [5, 6]), X.to_dense()[[3, 4], [5, 6]])
    history = result.history
    assert len(history.iteration) == len(history.seconds) == len(history.residual) == len(history.step) == result.n_iter + 1
    np.testing.assert_array_equal(history.iteration, np.arange(result.n_iter + 1))
    assert (np.diff(history.seconds) >= 0).all()
    assert math.isnan(history.step[0])
    assert (history.step[1:] > 0).all()
    misfit = np.linalg.norm(X.entries(problem.rows, problem.cols) - problem.y) / np.linalg.norm(problem.y)
    assert history.residual[-1] == pytest.approx(misfit, rel=1e-6)
    assert result.residual == history.residual[-1] <= 1e-6
    assert 0 < history.seconds[-1] <= result.seconds
    assert "converged after" in str(result)
    assert set(history.to_dict()) == {"iteration", "seconds", "residual", "step", "core_residual"}


@pytest.mark.parametrize("solver", ["auto", "prgd", "rcg", "niht"])
def test_a_result_prints_in_a_few_lines(easy, solver):
    result = lr.solve(easy[0], 2, solver)
    said = str(result)
    assert len(said.splitlines()) <= 4
    assert max(map(len, said.splitlines())) <= 160
    for word in (result.status, str(result.n_iter), "rank 2", type(result.solver).__name__, result.status.advice):
        assert word in said


def test_a_result_prints_the_number_of_outliers():
    X = np.outer(np.arange(1.0, 21.0), np.arange(1.0, 16.0))
    X[3, 7] = -500.0
    said = str(lr.solve(lr.Completion.from_dense(X, loss="robust"), rank=1))
    assert "outliers" in said
    assert len(said.splitlines()) <= 5


def test_solver_names_are_case_insensitive_and_typos_get_a_suggestion(easy):
    assert lr.solve(easy[0], 2, "PRGD", max_iter=1).solver == lr.solve(easy[0], 2, "prgd", max_iter=1).solver
    with pytest.raises(ValueError, match=r"unknown solver 'prdg'.* Did you mean 'prgd'"):
        lr.solve(easy[0], 2, "prdg")
    with pytest.raises(ValueError, match=r"unknown start 'spectrall'.* Did you mean 'spectral'"):
        lr.solve(easy[0], 2, start="spectrall")
    with pytest.raises(ValueError, match=r"loss must be one of .* Did you mean 'huber'"):
        lr.Completion([0], [0], [1.0], loss="Hubber")


def test_a_result_records_its_settings(easy):
    result = lr.solve(easy[0], 2, "prgd", max_iter=1)
    assert repr(result.solver) == (
        "RGD(metric=RowColumn(epsilon=Median(factor=1.0)), step_rule=Constant(factor=0.7), safeguard=Safeguard())"
    )


def test_a_missing_rank_is_named(easy):
    with pytest.raises(lr.ParameterError, match="rank is needed for Completion"):
        lr.solve(easy[0])


@pytest.mark.parametrize("rank", [0, -1, 51, 2.0, True, "2"])
def test_bad_ranks(easy, rank):
    with pytest.raises(ValueError, match=r"rank must (lie between|be 'auto' or an integer from) 1 (and|to) 50"):
        lr.solve(easy[0], rank)


def test_too_few_measurements_warn():
    with pytest.warns(UserWarning, match=r"1,272 measurements are fewer than the 1,800 degrees of freedom.*lower the rank"):
        lr.solve(lr.datasets.random_completion(60, 50, 12, oversampling=1.0818, seed=1)[0], 20, max_iter=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "newton"}, "unknown solver 'newton': choose one of 'auto', 'rcg', .*'gauss-newton'"),
        ({"solver": 3}, "solver must be a name or a solver such as"),
        ({"solver": lr.solvers.RGD}, r"solver must be a name or a solver .*got the class RGD itself: write RGD\("),
        ({"start": "random"}, "unknown start 'random': choose one of 'spectral'"),
        ({"start": 3}, "start must be a name, a FixedRank point"),
        ({"start": lr.FixedRank.zero((5, 5), 2, float)}, "start is a 5 x 5 matrix, the problem's is 60 x 50"),
        ({"start": lr.FixedRank.zero((60, 50), 3, float)}, "start has rank 3 .*rank 2"),
        ({"start": lr.FixedRank.zero((60, 50), 2, complex)}, "start is complex and the problem is real"),
        ({"start": (np.ones((60, 2)), np.ones(2), np.ones((50, 2)))}, r"start\.U has no orthonormal columns.*from_factors"),
        ({"start": (np.full((60, 2), np.nan), np.ones(2), np.ones((50, 2)))}, "start holds nan or inf"),
        ({"max_iter": -1}, "max_iter must be a whole number"),
        ({"max_iter": 2.5}, "max_iter must be a whole number"),
        ({"tol": -1.0}, "tol must be a finite number, 0 or more"),
        ({"tol": float("nan")}, "tol must be a finite number, 0 or more"),
        ({"tol": "small"}, "tol must be a finite number, 0 or more"),
        ({"stop": "soon"}, "stop must be a rule"),
        ({"callbacks": print}, "callbacks must be a list"),
        ({"callbacks": [3]}, "callbacks must be a list"),
        ({"start": lr.starts.Spectral}, "start must be a name"),
        ({"start": lambda problem, rank, rng: None}, "start must be a FixedRank point"),
        ({"start": (np.eye(60, 2), np.eye(2), np.eye(50, 2))}, "a point is U"),
        ({"start": (np.eye(60, 2), np.ones(2), np.eye(50, 3))}, "V 3 columns"),
        ({"start": (np.eye(60, 2), np.array([1.0, 2.0]), np.eye(50, 2))}, "decreasing order"),
        ({"start": (np.eye(60, 2), np.array([1.0, -2.0]), np.eye(50, 2))}, "not negative"),
        ({"start": (np.eye(60, 2), np.ones(2), 1j * np.eye(50, 2))}, "start is complex"),
        ({"start": tuple("abc")}, "a point is U"),
    ],
)
def test_bad_options(easy, options, message):
    with pytest.raises(ValueError, match=message):
        lr.solve(easy[0], 2, **options)


def test_a_plain_array_is_refused_with_a_hint():
    with pytest.raises(ValueError, match=r"got ndarray: for a table with missing values use Completion\.from_dense"):
        lr.solve(np.eye(3), 1)


def test_zero_data_have_the_zero_matrix():
    problem = lr.Completion([0, 1, 2], [0, 1, 2], np.zeros(3), (3, 3))
    with pytest.warns(UserWarning, match="fewer than"):
        result = lr.solve(problem, 2)
    assert result.converged
    assert not result.X.to_dense().any()


def test_a_run_continues_from_a_point(easy):
    problem, _ = easy
    first = lr.solve(problem, 2, max_iter=3)
    assert first.status == "max_iter"
    second = lr.solve(problem, 2, start=first.X)
    assert second.converged
    assert second.history.residual[0] == pytest.approx(first.residual)
    third = lr.solve(problem, 2, start=(first.X.U, first.X.s, first.X.V))
    np.testing.assert_array_equal(third.X.U, second.X.U)


def test_an_exact_start_is_recognised(easy):
    problem, truth = easy
    result = lr.solve(problem, 2, start=truth)
    assert result.converged
    assert result.n_iter == 0


def test_zero_iterations_return_the_start(easy):
    result = lr.solve(easy[0], 2, max_iter=0)
    assert result.n_iter == 0
    assert result.status == "max_iter"


def test_spectral_start_against_the_dense_svd(easy, backend):
    problem, _ = easy
    dense = np.zeros(problem.shape)
    dense[problem.rows, problem.cols] = problem.y
    problem = lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, backend=backend)
    expected = lr.FixedRank.from_dense(dense / problem.operator_scale, 2)
    start = lr.starts.Spectral(tol=1e-10, restarts=50)(problem, 2, np.random.default_rng(0))
    assert expected.distance(start) < 1e-7 * expected.norm()


@pytest.mark.filterwarnings("ignore:.*no observation")
def test_spectral_start_is_never_worse_than_zero():
    problem, _ = lr.datasets.random_completion(200, 200, 4, oversampling=0.3, factors="gaussian", seed=0)
    start = lr.starts.Spectral()(problem, 4, np.random.default_rng(0))
    assert problem.gradient(start).residual_norm <= problem.y_norm


def test_divergence_ends_with_a_status_and_the_best_point(easy):
    problem, _ = easy
    result = lr.solve(problem, 2, lr.solvers.RGD(step_rule=Constant(20.0), safeguard=None))
    assert result.status == "diverged"
    assert not result.converged
    assert result.X.is_finite()
    assert result.residual == np.nanmin(result.history.residual)


def test_overflow_ends_with_a_status_too(easy):
    problem, _ = easy
    with np.errstate(all="ignore"):
        result = lr.solve(problem, 2, lr.solvers.RGD(step_rule=Constant(1e300), safeguard=None))
    assert result.status == "diverged"
    assert result.X.is_finite()


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float64, 1e-170), (np.float64, 1e155), (np.float32, 1e-20), (np.float32, 1e18)]
)
def test_data_beyond_safe_arithmetic_are_refused(easy, dtype, scale):
    problem, _ = easy
    scaled = lr.Completion(problem.rows, problem.cols, (problem.y * scale).astype(dtype), problem.shape)
    with pytest.raises(ValueError, match=r"largest measurement .*divide the measurements by"):
        lr.solve(scaled, 2)


@pytest.mark.parametrize("name", list(lr.plans.SOLVERS))
@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float64, 1e-119), (np.float64, 1e118), (np.float32, 1e-13), (np.float32, 1e13)]
)
def test_data_within_it_are_solved(easy, name, dtype, scale):
    problem, truth = easy
    scaled = lr.Completion(problem.rows, problem.cols, (problem.y * scale).astype(dtype), problem.shape)
    result = lr.solve(scaled, 2, name, tol=1e-5, max_iter=1000)
    assert result.converged, result
    assert np.abs(result.X.s / scale - truth.s).max() < 1e-3 * truth.s[0]


@pytest.mark.parametrize("name", list(lr.plans.SOLVERS))
@pytest.mark.filterwarnings("ignore:.*(no observation|fewer than)")
def test_degenerate_data_never_raise_or_give_nan(name):
    eye = np.eye(6)
    cases = [
        lr.Completion([0], [0], [5.0], (6, 6)),
        lr.Completion(*np.nonzero(eye), np.ones(6), (6, 6)),
        lr.Completion.from_dense(np.ones((6, 6))),
        lr.Completion.from_dense(np.diag([1.0, 1e-200, 0, 0, 0, 0])),
        lr.Completion.from_dense(1e-110 * np.arange(36.0).reshape(6, 6)),
        lr.Completion([0, 1], [0, 0], [1.0, 1.0], (2, 1)),
    ]
    for problem in cases:
        for rank in {1, min(3, *problem.shape), min(problem.shape)}:
            if name == "irls" and rank == min(problem.shape):
                with pytest.raises(ValueError, match="IRLS needs a rank below"):
                    lr.solve(problem, rank, name)
                continue
            result = lr.solve(problem, rank, name, max_iter=150)
            assert result.X.is_finite(), (name, problem, rank, result)
            assert result.status.advice


def test_rank_collapse_is_a_status():
    # a start of rank 1 in rank 2's clothing, at a point where the second direction has no gradient either
    problem = lr.Completion.from_dense(np.outer([1.0, 2, 3, 4], [1.0, 1, 2, 2]))
    start = lr.FixedRank.from_dense(2 * np.outer([1.0, 2, 3, 4], [1.0, 1, 2, 2]), 2)
    result = lr.solve(problem, 2, "rgd", start=start, tol=1e-9)
    assert result.status == "rank_collapsed"
    assert "rank=1" in result.status.advice


class Interrupt:
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, problem, state, clock):
        if state.iteration == self.at:
            raise KeyboardInterrupt


def test_ctrl_c_returns_the_best_point_so_far(easy):
    result = lr.solve(easy[0], 2, callbacks=[Interrupt(3)])
    assert result.status == "interrupted"
    assert not result.converged
    assert result.n_iter == 3
    assert result.residual == min(result.history.residual)


def test_ctrl_c_inside_a_step(easy):
    class Broken(lr.solvers.RGD):
        def step(self, problem, state):
            if state.iteration == 3:
                raise KeyboardInterrupt
            return super().step(problem, state)

    result = lr.solve(easy[0], 2, Broken(RowColumn()))
    assert result.status == "interrupted"
    assert result.n_iter == 3
    assert result.residual == min(result.history.residual)


def test_ctrl_c_during_the_start(easy):
    def start(problem, rank, rng):
        raise KeyboardInterrupt

    result = lr.solve(easy[0], 2, start=start)
    assert result.status == "interrupted"
    assert result.X.shape == (60, 50)


def test_callbacks_see_problem_state_and_clock(easy):
    problem, truth = easy
    seen = []

    def callback(given, state, clock):
        assert given is problem
        assert isinstance(clock, Timer)
        seen.append((state.iteration, state.residual, clock.seconds))

    result = lr.solve(problem, 2, callbacks=[callback], max_iter=5)
    assert [row[0] for row in seen] == list(range(6))
    np.testing.assert_array_equal([row[1] for row in seen], result.history.residual)
    errors = lr.callbacks.TruthError(truth)
    result = lr.solve(problem, 2, callbacks=[errors])
    assert errors.error[-1] == pytest.approx(truth.distance(result.X) / truth.norm())
    assert len(errors.iteration) == len(errors.seconds) == result.n_iter + 1


def test_a_callback_can_end_the_run(easy):
    result = lr.solve(easy[0], 2, callbacks=[lambda problem, state, clock: np.int64(state.iteration) == 4])
    assert result.status == "callback"
    assert result.n_iter == 4


class ReadingClock:
    """A clock that advances only when it is read."""

    now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def test_the_clock_is_paused_during_callbacks(easy):
    problem, _ = easy

    seconds = ReadingClock()

    def slow(problem, state, clock):
        before = clock.seconds
        seconds.now += 1e6
        assert clock.seconds == before

    with Timer.by(seconds):
        result = lr.solve(problem, 2, callbacks=[slow], max_iter=10)
    assert 0 < result.history.seconds[-1] <= result.seconds < 1e6
    assert (np.diff(result.history.seconds) > 0).all()


def test_pauses_can_be_nested():
    seconds = ReadingClock()
    with Timer.by(seconds):
        clock = Timer()
    with clock.paused():
        at = clock.seconds
        with clock.paused():
            seconds.now += 100
        seconds.now += 100
        assert clock.seconds == at
    assert at < clock.seconds < at + 10


def test_truth_as_a_stopping_rule(easy):
    problem, truth = easy
    errors = lr.callbacks.TruthError(truth)
    result = lr.solve(problem, 2, stop=stopping.TruthDistance(truth, 1e-3), callbacks=[errors])
    assert result.status == "recovered"
    assert truth.distance(result.X) / truth.norm() <= 1e-3
    assert all(error > 1e-3 for error in errors.error[:-1])  # and not a step later


def test_progress_is_shown_on_stderr(easy, capsys):
    lr.solve(easy[0], 2, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "auto" in err
    assert "residual" in err


def test_progress_without_rich(easy, capsys, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "rich.console", None)
    lr.solve(easy[0], 2, progress=True, max_iter=12, tol=0)
    assert "iteration 10, residual" in capsys.readouterr().err


def test_blas_threads_are_limited_while_it_runs_and_restored(easy):
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def counts():
        return [lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]

    before, during = counts(), []
    lr.solve(easy[0], 2, callbacks=[lambda *_: during.extend(counts())], max_iter=1)
    assert set(during) == {1}
    assert counts() == before


@pytest.mark.parametrize("solver", ["auto", "gauss-newton"])
def test_empty_directions_of_a_too_high_rank_are_named(solver):
    problem, truth = lr.datasets.random_completion(100, 80, 2, oversampling=12)
    result = lr.solve(problem, 4, solver, tol=1e-8)
    assert result.converged
    assert truth.distance(result.X) < 1e-5 * truth.norm()
    assert "rank=2" in result.status.advice
    assert "rank=" not in lr.solve(problem, 2, solver, tol=1e-8).status.advice


def test_small_singular_values_that_the_data_need_are_no_empty_directions():
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (60, 50))
    truth = lr.FixedRank(U, np.array([1.0, 0.9, 1e-4]), V)
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.6)
    result = lr.solve(lr.Completion(rows, cols, truth.entries(rows, cols), (60, 50)), 3, tol=1e-9)
    assert truth.distance(result.X) < 1e-7
    assert "rank=" not in result.status.advice


class Resting(lr.loop.runner.Solver):
    """Stays where it starts."""

    def start(self, problem, state):
        return None

    def step(self, problem, state):
        return state.next(problem, state.X, 0.0)


def test_a_noisy_fit_with_empty_directions_is_no_success():
    problem, _truth = lr.datasets.random_completion(100, 80, 2, oversampling=12, noise=0.05)
    start = lr.solve(problem, 2).X
    assert lr.solve(problem, 2, Resting(), start=start).status == "noise"
    with pytest.warns(lr.ConvergenceWarning):
        result = lr.solve(problem, 4, Resting(), start=start.padded(4), stop=None)
    assert not result.status.success
    assert "rank=2" in result.status.advice
    assert lr.solve(problem, 4).status == "noise"  # all directions fit some noise


@pytest.mark.parametrize("solver", ["prgd", "rgd", "lmafit", "niht", "cgiht", "rtrmc"])
def test_a_noisy_fit_with_directions_on_unobserved_entries_is_no_success(solver):
    problem, truth = lr.datasets.random_completion(150, 120, 3, oversampling=6, noise=0.05, seed=4)
    assert lr.solve(problem, 3, solver).status == "noise"
    with pytest.warns(lr.ConvergenceWarning, match="Use a smaller rank"):
        result = lr.solve(problem, 8, solver, max_iter=1000)
    assert truth.distance(result.X) > 0.15 * truth.norm()
    assert not result.status.success


@pytest.mark.parametrize("solver", ["auto", "prgd"])
def test_noise_at_the_right_rank_is_a_success(solver):
    for noise, seed in itertools.product((0.05, 0.3), range(3)):
        problem, _ = lr.datasets.random_completion(150, 120, 3, oversampling=4, noise=noise, factors="gaussian", seed=seed)
        assert lr.solve(problem, 3, solver).status == "noise"
