"""Registry of solvers by name, and of default solvers and starts for kinds of problems.

``solver="auto"`` is :class:`~lorank.plans.Auto`, unless another solver is registered for the problem
(:func:`register_default`). Default starts are registered likewise (:func:`register_default_start`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from ..common.checks import ParameterError, check, did_you_mean
from ..geometry import FixedRankManifold
from ..loop.solver import SOLVER, Solver
from ..loop.steps import Constant, Exact
from ..metrics import Canonical, RelativeMax, RowColumn, Shampoo
from ..problems import Problem
from ..problems.capabilities import supports
from ..solvers import ALS, CGIHT, GNMR, IHT, IRLS, NIHT, R2RILS, RCG, RGD, RTRMC, Factored, GaussNewton, LMaFit, SoftImpute
from ..starts import Start
from .auto import Auto

SOLVERS: dict[str, Callable[[], Solver]] = {
    "auto": Auto,
    "rcg": RCG,
    "lrgeomcg": lambda: RCG(Canonical()),
    "r3mc": lambda: Factored(conjugate=True),
    "gauss-newton": GaussNewton,
    "rgn": GaussNewton,
    "risro": lambda: GaussNewton(retraction="orthographic"),
    "gnmr": GNMR,
    "r2rils": R2RILS,
    "rtrmc": RTRMC,
    "irls": IRLS,
    "prgd": lambda: RGD(RowColumn(), Constant(0.7)),
    "adaptive-prgd": lambda: RGD(RowColumn(), Exact()),
    "rgd": lambda: RGD(Canonical(), Constant(0.5)),
    "adaptive-rgd": lambda: RGD(Canonical(), Exact()),
    "shampoo": lambda: RGD(Shampoo(RelativeMax(1.0)), Constant(0.7)),
    "scaledgd": lambda: Factored(step_size=0.5),
    "scaledgd-lambda": lambda: Factored(damping="constant", damping_factor=0.01, step_size=0.5),
    "precgd": lambda: Factored(damping="residual", step_size=0.5),
    "altscaledgd": lambda: Factored(alternating=True, step_size=0.7),
    "asd": lambda: Factored(preconditioned=False, alternating=True),
    "scaled-asd": lambda: Factored(alternating=True),
    "niht": NIHT,
    "iht": IHT,
    "cgiht": CGIHT,
    "lmafit": LMaFit,
    "als": ALS,
    "softimpute": SoftImpute,
    "softimpute-als": lambda: SoftImpute(alternating=True),
}

Suits = Callable[[Problem, Any], bool]  # of a problem and a rank, which may be "auto"
_defaults: list[tuple[Suits, Callable[[], Solver], str]] = []
_default_starts: list[tuple[Callable[[Problem], bool], Callable[[], CheckedStart]]] = []


class CheckedStart(Start, Protocol):
    """A start that reports whether it succeeded, and may modify the problem for the solver."""

    @property
    def warning(self) -> str:
        """Appended to the advice of the status; empty if the start succeeded."""

    def adjusted(self, problem: Problem) -> Problem:
        """The problem that the solver runs on."""


def register_default(suits: Suits, make: Callable[[], Solver], refusal: str = "") -> None:
    """Use ``make()`` for ``solver="auto"`` on problems for which ``suits(problem, rank)`` is True.

    With a ``refusal``, the text of an error, no other class of solvers is accepted for these problems.
    """
    _defaults.append((suits, functools.cache(make), refusal))


def register_default_start(suits: Callable[[Problem], bool], make: Callable[[], CheckedStart]) -> None:
    """Use ``make()`` as the default start on problems for which ``suits(problem)`` is True."""
    _default_starts.append((suits, make))


@functools.cache
def named_solver(name: str) -> Solver:
    """The solver of that name, created once."""
    return SOLVERS[name]()


def resolve_solver(solver: str | Solver, problem: Problem, rank: Any) -> Solver:
    """The solver for a name, or the given solver, for this problem and rank."""
    default, refusal = next(((make(), text) for suits, make, text in _defaults if suits(problem, rank)), (None, ""))
    if not isinstance(solver, str):
        check("solver", solver, SOLVER)
        found = solver
    elif (name := solver.lower()) not in SOLVERS:  # papers use capitals
        raise ValueError(
            f"unknown solver {solver!r}: choose one of {', '.join(map(repr, SOLVERS))}, or pass a solver object"
            + did_you_mean(solver, SOLVERS)
        )
    elif name != "auto" or supports(problem, FixedRankManifold):
        found = default if name == "auto" and default is not None else named_solver(name)
    else:
        found = named_solver("rcg") if default is None else default  # the only part of the default that other manifolds have
    if refusal and not isinstance(found, type(default)):
        raise ParameterError("solver", f"{refusal}, got {found!r}")
    return found


def default_start(problem: Problem) -> CheckedStart | None:
    """The start registered for this problem; None for the default of the solver."""
    return next((make() for suits, make in _default_starts if suits(problem)), None)
