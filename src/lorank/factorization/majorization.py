"""ALS for any loss by majorization-minimization: weighted least squares that majorize the loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..backends import Vector
from ..loop.solver import Solver
from ..loop.state import State
from ..losses import Loss, Objective
from ..problems import Completion, Problem
from .factors import Factors

MIN_WEIGHT = 1e-6  # of the mean weight
STABLE_SCALE = 0.97  # ratio of the scales of two iterations from which the scale counts as converged
INTERCEPT_MAX_ITER, INTERCEPT_TOLERANCE = 100, 1e-4  # of a robust intercept; the tolerance in scales of the loss


@dataclass(frozen=True)
class Origin:
    """The observations with their loss, of which ALS fits working responses with weights.

    Attributes
    ----------
    problem : Completion
        With the loss.
    mean : float
        Intercept, to which factors add.
    """

    problem: Completion
    mean: float

    def residual(self, factors: Factors | None) -> Vector:
        """``z - y`` at the observed entries of these factors, or at the mean."""
        y = self.problem.y
        return self.mean - y if factors is None else self.problem.forward(factors.rows, factors.cols) + (self.mean - y)

    def loss_at(self, d: Vector, near: Loss | None = None) -> Loss:
        """The loss with its parameters fitted to these residuals."""
        assert self.problem.loss is not None
        return self.problem.loss.fit_parameters(d, self.problem.y, near, self.problem.observations.weights)

    def working(self, factors: Factors | None = None, near: Loss | None = None) -> tuple[Completion, Loss, float]:
        """Weighted least squares that touch the loss at these factors; the loss there, and its misfit ``sqrt(2 f)``."""
        problem, d = self.problem, self.residual(factors)
        loss, given = self.loss_at(d, near), problem.observations.weights
        objective = Objective(loss, given)
        weights, responses = objective.majorizer(d, problem.y)
        if not float(weights.sum()) > 0:  # all are outliers at the scale of earlier factors
            loss = self.loss_at(d)
            objective = Objective(loss, given)
            weights, responses = objective.majorizer(d, problem.y)
        if not loss.discrete:  # weights are relative precisions: their sum is the number of observations
            weights = weights * ((problem.m if given is None else float(given.sum())) / float(weights.sum()))
        floor = MIN_WEIGHT * float(weights.sum()) / problem.m
        observed = problem.observations.with_values(responses - self.mean).with_weights(weights + floor)
        return problem.squares(observed), loss, (2 * objective.value(d, problem.y, problem.backend)) ** 0.5


def working_problem(problem: Completion, mean: float) -> Completion:
    """The first working problem of a loss, at the mean; its ``origin`` is the problem with the loss."""
    origin = Origin(problem, mean)
    first, _, misfit = origin.working()
    first.origin = origin  # type: ignore[attr-defined]
    first.y_norm = misfit  # residuals are relative to the loss
    return first


def intercept(problem: Completion) -> float:
    """The constant that fits values best by the loss of the problem.

    For robust losses by reweighted averages: a single outlier moves the average by any amount, and factors, which are
    penalized, cannot compensate for that.
    """
    if problem.loss is None or problem.loss.discrete:
        return 0.0 if problem.loss is None else problem.loss.intercept(problem.average) or 0.0
    mean = problem.average
    for _ in range(INTERCEPT_MAX_ITER):
        origin = Origin(problem, mean)
        d = origin.residual(None)
        loss = origin.loss_at(d)
        weights, responses = Objective(loss, problem.observations.weights).majorizer(d, problem.y)
        before, mean = mean, float((weights * responses).sum()) / float(weights.sum())
        if abs(mean - before) <= INTERCEPT_TOLERANCE * getattr(loss, "scale", 0.0):
            break
    return mean


def origin_of(problem: Problem) -> Origin | None:
    """The origin of a working problem; None for least squares."""
    return getattr(problem, "origin", None)


@dataclass(frozen=True)
class ReweightedALS(Solver):
    """ALS on the majorizer at the current factors.

    For counts, the quadratic is a majorizer for small steps only: a step that increases the loss is halved.

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
        if getattr(loss, "scale", None) is not None and loss.scale < STABLE_SCALE * near.scale:  # type: ignore[attr-defined]
            moved = float("nan")  # the scale is not converged, so that the step predicts nothing
        return State(state.iteration + 1, X, gradient, misfit / (problem.y_norm or 1.0), moved, state.X, (new, loss, misfit))


def _can_halve(old: Factors, new: Factors) -> bool:
    return old.rows.shape == new.rows.shape


def _between(old: Factors, new: Factors) -> Factors:
    return replace(new, rows=(old.rows + new.rows) / 2, cols=(old.cols + new.cols) / 2)
