"""ConvergenceWarning: raised if the tolerance is not reached, unless a stopping rule was given."""

from __future__ import annotations

import warnings

import pytest

import lorank as lr
from lorank.loop.stopping import Iterations, RelativeChange, Stall

pytestmark = pytest.mark.filterwarnings("default:solve did not reach tol")


@pytest.fixture(scope="module")
def noisy():
    return lr.datasets.random_completion(60, 50, 2, oversampling=6, noise=0.1, seed=1)[0]


@pytest.fixture(scope="module")
def exact():
    return lr.datasets.random_completion(60, 50, 2, oversampling=6, seed=1)[0]


def warnings_of(call) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [one for one in caught if issubclass(one.category, lr.ConvergenceWarning)]


@pytest.mark.parametrize(
    ("options", "status"),
    [({"max_iter": 3}, "max_iter"), ({"rank": 1, "solver": "rcg"}, "stalled"), ({"solver": "prgd", "max_iter": 0}, "max_iter")],
)
def test_it_warns_with_the_advice(exact, options, status):
    with pytest.warns(lr.ConvergenceWarning) as caught:
        result = lr.solve(exact, **{"rank": 2, **options})
    (warning,) = caught
    assert result.status == status
    assert not result.converged
    text = str(warning.message)
    assert text.startswith(f"solve did not reach tol=1e-06 (status '{status}', relative residual {result.residual:.1e}). ")
    assert result.status.advice in text
    assert warning.filename == __file__  # where solve was called


def test_the_category_is_a_user_warning_that_a_filter_silences(noisy):
    assert issubclass(lr.ConvergenceWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", lr.ConvergenceWarning)
        assert lr.solve(noisy, 2, max_iter=2).status == "max_iter"


def test_with_an_automatic_rank_it_warns_once(noisy):
    assert len(warnings_of(lambda: lr.solve(noisy, "auto", max_iter=3))) == 1


def test_noise_is_a_success_without_a_warning(noisy):
    assert not warnings_of(lambda: lr.solve(noisy, 2))
    result = lr.solve(noisy, 2)
    assert result.status == "noise"
    assert f"{result.noise:.2e}" in result.status.advice


def test_silence_on_success(exact):
    for options in ({}, {"solver": "gauss-newton"}, {"tol": 0.5, "solver": "rgd"}):
        assert not warnings_of(lambda options=options: lr.solve(exact, 2, **options))
    zero = lr.Completion([0, 1, 2], [0, 1, 2], [0.0, 0.0, 0.0], (3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not warnings_of(lambda: lr.solve(zero, 1, max_iter=0))


@pytest.mark.parametrize("stop", [Iterations(3), RelativeChange(1e-3) | Iterations(3), Stall(2) | Iterations(9)])
def test_no_warning_with_user_defined_rules(noisy, stop):
    assert not warnings_of(lambda: lr.solve(noisy, 2, stop=stop))
    assert not warnings_of(lambda: lr.solve(noisy, 2, stop=stop, max_iter=1))


def test_callbacks_and_ctrl_c_are_no_failures(noisy):
    def interrupt(problem, state, clock):
        if state.iteration == 2:
            raise KeyboardInterrupt

    assert lr.solve(noisy, 2, callbacks=[interrupt]).status == "interrupted"
    assert not warnings_of(lambda: lr.solve(noisy, 2, callbacks=[interrupt]))
    assert not warnings_of(lambda: lr.solve(noisy, 2, callbacks=[lambda problem, state, clock: state.iteration == 2]))
