"""Optional capabilities of measurement models, and the check that a problem has those that a solver needs.

A model has a capability when it has the members of the protocol and none of them is None: ``Completion`` with a loss other than
least squares has no ``frame_constant``. Solvers, metrics and starts list what they need in ``needs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from ..backends import Array, Observations, Vector
from ..common.checks import ParameterError
from ..geometry import FixedRank

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from .problem import Problem
    from .units import Units

T = TypeVar("T")
_DEFAULT = {"solver": "'auto'", "start": "a point"}  # what works for every model


@runtime_checkable
class TightFrame(Protocol):
    """Measurements with ``A A* = c I``."""

    frame_constant: float | None  # c


@runtime_checkable
class HasCounts(Protocol):
    """Numbers of measurements of each row and column, used as weights (:class:`~lorank.metrics.Counts`)."""

    def counts(self) -> tuple[Array, ...]:
        """One array per mode: the (n1,) numbers of the rows and the (n2,) numbers of the columns."""


@runtime_checkable
class HasSplit(Protocol):
    """Random division of the measurements, for cross-validation of the rank."""

    def split(self, rng: np.random.Generator, share: float) -> tuple[Any, Any]:
        """The problem without a random ``share`` of its measurements, and the problem on those."""


@runtime_checkable
class HasObservations(Protocol):
    """Observed entries of X, in row-major order."""

    observations: Observations


@runtime_checkable
class HasWeights(Protocol):
    """Weights of the measurements."""

    def unweighted(self) -> Any:
        """The problem on the same measurements with equal weights. It has the same exact solutions."""


@runtime_checkable
class Rescalable(Protocol):
    """Units in which all rows and columns are of similar size."""

    def rescaled(self) -> Units | None:
        """The problem in those units; None where sizes differ too little for a gain."""


@runtime_checkable
class HasSinglePrecision(Protocol):
    """A copy in single precision, for starts and first iterations."""

    def single_precision(self) -> Units | None:
        """That copy; None where it would not be faster."""


@runtime_checkable
class BlockPreconditioned(Protocol):
    """Diagonal blocks of ``A* A`` on a tangent space, which precondition second order methods."""

    def blocks(self, X: FixedRank) -> tuple[Array, Array] | None:
        """Arrays of shapes (n1, r, r) and (n2, r, r): ``A* A`` on a row of L in ``L V^H`` and on a row of R in ``U R^H``.

        Blocks are multiplied from the right. None where they would take too much memory.
        """


@runtime_checkable
class FastALS(Protocol):
    """Half steps of alternating least squares in one pass over the observations."""

    observations: Observations

    def als_pays(self, rank: int) -> bool:
        """Whether an ALS sweep costs little more than a gradient, and nearly all rows and columns determine their factors."""

    def solve_blocks(self, side: int, factor: Array, shift: float, right: Array) -> Array:
        """``right_i (B_i + shift I)^-1`` for each row (side 0) or column (side 1), with B_i its normal equations."""


@runtime_checkable
class HasObservedCore(Protocol):
    """A well-observed part of the data that is solved first (:class:`~lorank.problems.observed_core.ObservedCore`)."""

    def observed_core(self, rank: int) -> Any:
        """That part; None where all rows and columns are well observed, or too few are."""


@runtime_checkable
class HasInitialPoint(Protocol):
    """An initial point of the model's own, used instead of the general ones."""

    def initial_point(self, rank: Any, rng: np.random.Generator) -> Any:
        """A point of that rank."""


@runtime_checkable
class HasRankOnePoint(Protocol):
    """A cheap rank-1 approximation of the data, from which starts grow."""

    def rank_one_point(self, rng: np.random.Generator) -> FixedRank | None:
        """A point of rank 1; None where the model's loss has none."""


@runtime_checkable
class HasSpectralNorm(Protocol):
    """Spectral norm of ``A* p``, for the noise test on manifolds of tensors.

    The gradient has ``residual`` and ``dual``, as :class:`~lorank.problems.Gradient`.
    """

    def spectral_norm(self, p: Vector) -> float:
        """To about 1 %; or another norm that is large for a low rank, such as the spectral norm of the unfoldings."""


@runtime_checkable
class HasEstimate(Protocol):
    """A quantity that X represents, such as a signal or a quantum state, returned as ``result.estimate``."""

    def estimate(self, X: Any) -> Any:
        """That of a point: an object with ``numpy()``, whose attributes are also those of the result."""


@runtime_checkable
class PredictsError(Protocol):
    """An estimate of the error on new measurements from all measurements, for selection of the rank without held-out ones."""

    def predicted_error(self, X: Any) -> float:
        """The estimate at a point that was fitted to the measurements, relative to their norm."""


def supports(problem: Any, need: type[T]) -> TypeIs[T]:
    """Whether a problem has a capability, is of a class, or has a manifold of that class.

    Parameters
    ----------
    problem : Problem
    need : type
        A protocol of this module, a class of problems such as :class:`~lorank.problems.MatrixProblem`, or a class of manifolds
        such as :class:`~lorank.geometry.FixedRankManifold`.

    Examples
    --------
    >>> import lorank as lr
    >>> from lorank.problems.capabilities import TightFrame, supports
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> supports(problem, TightFrame), supports(lr.datasets.random_sensing(4, 4, 1)[0], TightFrame)
    (True, False)
    """
    if not getattr(need, "_is_protocol", False):
        return isinstance(problem, need) or isinstance(problem.manifold, need)
    return all(getattr(problem, name, None) is not None for name in _members(need))


def require(problem: Problem, *parts: Any, parameter: str = "solver") -> None:
    """Raise a ParameterError that names the first need of these parts that the problem does not meet.

    Parameters
    ----------
    problem : Problem
    *parts : solvers, metrics or starts
        Objects with a tuple ``needs``; others need nothing.
    parameter : str
        Parameter that the parts were passed as.

    Examples
    --------
    >>> import lorank as lr
    >>> from lorank.problems.capabilities import require
    >>> try:
    ...     require(lr.datasets.random_sensing(4, 4, 1)[0], lr.solvers.IRLS())
    ... except lr.ParameterError as error:
    ...     print(error)
    solver IRLS needs a TightFrame (measurements with A A* = c I): Sensing has none; use solver='auto'
    """
    for part in parts:
        for need in getattr(part, "needs", ()):
            if not supports(problem, need):
                raise ParameterError(
                    parameter, f"{type(part).__name__} {missing(problem, need)}; use {parameter}={_DEFAULT[parameter]}"
                )


def missing(problem: Problem, need: type) -> str:
    """``"needs a TightFrame (measurements with A A* = c I): Sensing has none"``, for messages."""
    lines = (need.__doc__ or "").strip().splitlines() or [""]
    what = re.split(r"[:,] |\.$", lines[0])[0].replace("``", "")
    what = what[:1].lower() + what[1:]
    loss = getattr(problem, "loss", None)
    having = f" with loss={loss.name!r}" if loss is not None else ""
    lacks = "is not one" if hasattr(need, "manifold") else "has none"
    return f"needs a {need.__name__} ({what}): {type(problem).__name__}{having} {lacks}"


def _members(need: type) -> Iterable[str]:
    names = {*vars(need), *vars(need).get("__annotations__", {})}
    return (name for name in names if not name.startswith("_"))
