"""Riemannian gradient descent in a metric: Algorithm 1 of the paper (arXiv:2305.02543; docs/notation.md has its symbols).

Algorithm 1 is :meth:`RGD.step` with the metric :class:`~lorank.metrics.RowColumn`. PRGD, RGD and Shampoo differ in the metric
only.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..common.checks import Checked, optional, parameter
from ..loop.solver import Solver
from ..loop.state import State
from ..loop.steps import STEP_RULE, Constant, StepRule
from ..metrics import Canonical, Metric
from ..metrics.protocol import METRIC
from ..problems import Problem
from .safeguard import SAFEGUARD, UNGUARDED, GuardedState, Safeguard, Trust


@dataclass(frozen=True)
class RGD(Checked, Solver):
    """Riemannian gradient descent.

    Parameters
    ----------
    metric : Metric
        ``Canonical()``, the default, gives RGD, ``RowColumn()`` PRGD, ``Shampoo()`` Shampoo.
    step_rule : StepRule
        ``Constant(factor)``, the default, ``Exact(relaxation)``, ``Polyak(factor)`` or ``Theory()``.
    safeguard : Safeguard or None
        Backtracking; None takes every step in full.

    Examples
    --------
    PRGD with the exact step:

    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> prgd = lr.solvers.RGD(lr.metrics.RowColumn(), lr.steps.Exact())
    >>> lr.solve(problem, rank=2, solver=prgd).converged
    True
    """

    metric: Metric = parameter(factory=Canonical, expected=METRIC)
    step_rule: StepRule = parameter(factory=Constant, expected=STEP_RULE)
    safeguard: Safeguard | None = parameter(factory=Safeguard, expected=optional(SAFEGUARD))

    def start(self, problem: Problem, state: State) -> GuardedState:
        return GuardedState(self.metric.start(state.gradient), Trust(best=state.residual))

    def step(self, problem: Problem, state: State) -> State:
        X, G, memory = state.X, state.gradient, state.memory  # G_t = A*(A X_t - y)
        weights, metric_memory = self.metric.weights(G, memory.metric)  # eps_t, L_t, R_t
        xi = X.manifold.gradient(X, G, weights)  # P~_T(L^-1/4 G R^-1/4)
        guard = self.safeguard or UNGUARDED
        alpha = guard.rule(self.step_rule, memory.trust)(problem, xi, G, weights)  # alpha_t
        # X_{t+1} = H_r(X_t - alpha_t xi), with a smaller alpha_t where the safeguard rejects it
        new, trust = guard.advance(problem, state, memory.trust, alpha, lambda alpha: X.manifold.retract(xi, -alpha))
        return new.with_memory(GuardedState(metric_memory, trust))
