"""One way to run: Ctrl-C anywhere gives the best so far, notes decide nothing, and checkpoints know solvers by parameters."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import lorank as lr
from lorank.common.fingerprint import fingerprint
from lorank.io.archive import FileError
from lorank.loop.solver import Solver
from lorank.loop.steps import Polyak
from lorank.solvers.rcg import RCG


def problem(**changes):
    return lr.datasets.random_completion(60, 50, 3, oversampling=4, seed=1, **changes)


def interrupt_at(monkeypatch, step):
    """Ctrl-C in the given step of conjugate gradients, whoever takes it; returns how often it was pressed."""
    taken, pressed, true = [0], [0], RCG.step

    def stopped(self, problem, state):
        taken[0] += 1
        if taken[0] == step:
            pressed[0] += 1
            raise KeyboardInterrupt
        return true(self, problem, state)

    monkeypatch.setattr(RCG, "step", stopped)
    return pressed


@pytest.mark.parametrize("step", [1, 2, 5, 9])
@pytest.mark.parametrize("start", ["staged", "continuation"])
def test_ctrl_c_in_a_start_or_a_run(monkeypatch, start, step):
    made, _ = problem(factors="ill-scaled")
    pressed = interrupt_at(monkeypatch, step)
    result = lr.solve(made, 3, "rcg", start=start)
    assert pressed == [1]
    assert result.status == "interrupted"
    assert result.X.rank == 3
    assert result.X.is_finite()
    assert result.residual <= 1
    assert result.residual == pytest.approx(made.gradient(result.X).residual_norm / made.y_norm, rel=1e-9)


@pytest.mark.parametrize("step", [1, 4, 12, 20])
def test_ctrl_c_in_the_search_for_a_rank(monkeypatch, step):
    made, _ = problem(noise=0.1)
    pressed = interrupt_at(monkeypatch, step)
    result = lr.solve(made, "auto")
    assert pressed == [1]
    assert result.status == "interrupted"
    assert result.residual < 1
    assert len(result.history) == 1


def test_ctrl_c_before_there_is_anything(monkeypatch):
    made, _ = problem()

    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(made), "products", stopped)
    result = lr.solve(made, 3, start="spectral")
    assert result.status == "interrupted"
    assert result.residual == pytest.approx(1)


class Talkative(Solver):
    """A solver that goes nowhere, and says so in each step."""

    def start(self, problem, state):
        return None

    def step(self, problem, state):
        from dataclasses import replace

        return replace(state.next(problem, state.X, 1.0), note="still here")


def test_notes_do_not_keep_a_run_from_stalling():
    made, _ = problem()
    with pytest.warns(lr.ConvergenceWarning):
        result = lr.solve(made, 3, Talkative(), start="spectral")
    assert result.status == "stalled"
    assert len(result.history.notes) == result.n_iter


def test_one_problem_for_several_threads():
    """Problems keep nothing of a run."""
    made, _ = lr.datasets.random_phase(40, oversampling=6, seed=3)
    alone, found = lr.solve(made, 1, "rcg", tol=1e-8), []

    def work():
        found.append(lr.solve(made, 1, "rcg", tol=1e-8))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in found:
        np.testing.assert_allclose(result.history.residual, alone.history.residual, rtol=1e-6, atol=1e-12)


class Plain(Solver):
    """A user's solver that is no dataclass and has no repr of its own."""

    def __init__(self, factor):
        self.inner = lr.solvers.RGD(step_rule=lr.steps.Exact(factor))

    def start(self, problem, state):
        return self.inner.start(problem, state)

    def step(self, problem, state):
        return self.inner.step(problem, state)


def test_identities_tell_parameters_apart():
    assert fingerprint(Plain(0.5)) == fingerprint(Plain(0.5))
    assert fingerprint(Plain(0.5)) != fingerprint(Plain(0.6))
    assert fingerprint(lr.solvers.RGD(step_rule=Polyak(longest=5.0))) != fingerprint(
        lr.solvers.RGD(step_rule=Polyak(longest=6.0))
    )
    assert fingerprint(np.arange(3)) == fingerprint(np.arange(3))
    assert fingerprint(np.arange(3)) != fingerprint(np.arange(3.0))
    assert fingerprint({"a": (1, None), "b": {2}}) == fingerprint({"b": {2}, "a": (1, None)})


def test_a_plain_solver_resumes_from_its_checkpoint(tmp_path, backend):
    made, _ = problem(backend=backend)
    path = tmp_path / "run.lorank"
    first = lr.solve(made, 3, Plain(0.5), stop=lr.stopping.Iterations(5), checkpoint=path, checkpoint_every=0)
    again = lr.solve(made, 3, Plain(0.5), stop=lr.stopping.Iterations(1), checkpoint=path)
    assert again.history.residual[0] == pytest.approx(first.residual, rel=1e-9)
    with pytest.raises(FileError, match="checkpoint of another solver"):
        lr.solve(made, 3, Plain(0.6), checkpoint=path)


def test_a_checkpoint_goes_from_one_backend_to_another(tmp_path, backend):
    """The file belongs to the problem, wherever that is computed."""
    made, _ = problem()
    path = tmp_path / "run.lorank"
    first = lr.solve(made, 3, "rcg", stop=lr.stopping.Iterations(5), checkpoint=path, checkpoint_every=0)
    entries = made.observations.host()
    there = lr.Completion(made.rows, entries.indices, entries.values, made.shape, backend=backend)
    again = lr.solve(there, 3, "rcg", stop=lr.stopping.Iterations(1), checkpoint=path)
    assert again.history.residual[0] == pytest.approx(first.residual, rel=1e-6)
