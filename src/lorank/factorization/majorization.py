"""Factor models with any loss: sweeps of least squares on the parabolas that lie above it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..backends import Vector
from ..loop.runner import Solver
from ..loop.state import State
from ..losses import Loss, Objective
from ..problems import Completion, Problem
from .factors import Factors


@dataclass(frozen=True)
class Origin:
    """The observations as they came, of which a fit sees working responses and their weights.

    Attributes
    ----------
    problem : Completion
        With its loss.
    mean : float
        The z of an average entry, to which factors add.
    """

    problem: Completion
    mean: float

    def residual(self, factors: Factors | None) -> Vector:
        """``z - y`` at the entries of these factors, by default at the mean alone."""
        y = self.problem.y
        return self.mean - y if factors is None else self.problem.forward(factors.rows, factors.cols) + (self.mean - y)

    def loss_at(self, d: Vector, near: Loss | None = None) -> Loss:
        """The loss with what it has to learn learned there."""
        assert self.problem.loss is not None
        return self.problem.loss.fit_parameters(d, self.problem.y, near, self.problem.observations.weights)

    def working(self, factors: Factors | None = None, near: Loss | None = None) -> tuple[Completion, Loss, float]:
        """Weighted least squares that touch the loss at these factors; the loss there, and its misfit ``sqrt(2 f)``."""
        problem, d = self.problem, self.residual(factors)
        loss, given = self.loss_at(d, near), problem.observations.weights
        objective = Objective(loss, given)
        weights, responses = objective.majorizer(d, problem.y)
        if not loss.discrete:  # an observation that counts for little has much noise, and is one observation even so
            weights = weights * ((problem.m if given is None else float(given.sum())) / float(weights.sum()))
        floor = LEAST * float(weights.sum()) / problem.m
        observed = problem.observations.with_values(responses - self.mean).with_weights(weights + floor)
        return problem.squares(observed), loss, (2 * objective.value(d, problem.y, problem.backend)) ** 0.5


LEAST = 1e-6  # weights, of their mean
SETTLED = 0.97  # a scale that falls by less from one sweep to the next has come to rest


def working_problem(problem: Completion, mean: float) -> Completion:
    """The first least squares problem of a loss, at the mean alone; it knows where it came from."""
    origin = Origin(problem, mean)
    first, _, misfit = origin.working()
    first.origin = origin  # type: ignore[attr-defined]
    first.y_norm = misfit  # so that residuals are told in the loss itself
    return first


def origin_of(problem: Problem) -> Origin | None:
    """Where the working responses of a problem come from; None where they are the values themselves."""
    return getattr(problem, "origin", None)


@dataclass(frozen=True)
class ReweightedALS(Solver):
    """Sweeps of another solver, each on the parabolas at the point where the last one ended.

    Where a parabola is one for small steps alone (counts), a sweep that raises the loss is halved.

    Attributes
    ----------
    inner : VariationalALS or RegularizedALS
    origin : Origin
    """

    inner: Any
    origin: Origin
    tries: int = 6

    def start(self, problem: Problem, state: State) -> tuple[Factors, Loss, float]:
        factors = self.inner.start(problem, state)
        _, loss, misfit = self.origin.working(factors)
        return factors, loss, misfit

    def step(self, problem: Problem, state: State) -> State:
        old, near, before = state.memory
        working, _, _ = self.origin.working(old, near)
        inner = self.inner.step(working, State(state.iteration, state.X, state.gradient, state.residual, memory=old))
        new: Factors = inner.memory
        for _ in range(self.tries):
            _, loss, misfit = self.origin.working(new, near)
            if misfit <= 1.01 * before or not _can_halve(old, new):
                break
            new = _between(old, new)
        X, moved = new.point(problem.backend), new.distance(old, problem.backend)
        gradient = problem.gradient(X)
        if getattr(loss, "scale", None) is not None and loss.scale < SETTLED * near.scale:  # type: ignore[attr-defined]
            moved = float("nan")  # a scale that still falls: how far the next sweep goes is not known from this one
        return State(state.iteration + 1, X, gradient, misfit / (problem.y_norm or 1.0), moved, state.X, (new, loss, misfit))


def _can_halve(old: Factors, new: Factors) -> bool:
    return old.rows.shape == new.rows.shape


def _between(old: Factors, new: Factors) -> Factors:
    return replace(new, rows=(old.rows + new.rows) / 2, cols=(old.cols + new.cols) / 2)
