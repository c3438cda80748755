"""Quantum state tomography from expectations of Pauli matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import Array, Backend, Vector, get_backend
from ..common.checks import ParameterError, counted, shown
from ..geometry import SEMIDEFINITE, FixedRank, Tangent
from ..losses import Objective
from .gradient import Gradient, ProductOperator
from .input_checks import finite_array
from .pauli_labels import PauliMasks, expectations_of_counts, label_of, parse_labels
from .problem import MatrixProblem
from .quantum_state import QuantumState

TRACE_WEIGHT = 1.0, 10.0  # of the trace, in units of operator_scale: for exact expectations, and for those with noise
BEYOND = 1e-9  # of an expectation above 1, which is rounding


class PauliTomography(MatrixProblem):
    """Quantum state tomography: a density matrix of low rank from expectations ``y_k = trace(P_k X)`` of Pauli matrices.

    X is Hermitian, positive semidefinite and of trace one. No Pauli matrix is formed: a pass over all measurements takes
    ``O(d^2 (r + log d))`` operations for dimension d, and memory for thin arrays and the measurements.

    The result has ``state``, ``eigenvalues``, ``eigenvectors``, ``purity``, ``fidelity(other)`` and ``expectations(labels)`` of
    :class:`~lorank.problems.quantum_state.QuantumState`.

    Parameters
    ----------
    labels : list of str
        Pauli matrices such as ``"XIZ"``, each once; as in Qiskit the last letter belongs to qubit 0. The identity is not
        needed, since the trace is one.
    expectations : (m,) array
        Real numbers from -1 to 1.
    shots : int or (m,) array, optional
        Numbers of measurements that the expectations are means of. They are weighted by the inverses of their variances
        ``(1 - y^2) / shots``, averaged over the posterior of y under a uniform prior, and ``result.noise`` is in units of these
        standard deviations: about 1 where the model holds.
    backend : {"native", "numpy", "torch", "torch:cuda"}, optional

    Notes
    -----
    The trace is a measurement of large weight, and the result is divided by its trace.

    States of which most expectations are 0, such as GHZ and other stabilizer states, are determined by the few that are 1 or
    -1: by q independent ones for q qubits. From measurements with fewer of these, several states fit alike.

    Raises
    ------
    ParameterError
        For labels that are repeated or invalid, expectations beyond -1 to 1, shots that are not positive.

    Examples
    --------
    >>> import lorank as lr
    >>> labels = ["XX", "YY", "ZZ", "XI", "IZ", "ZI", "IX", "XZ"]
    >>> result = lr.solve(lr.PauliTomography(labels, [1, -1, 1, 0, 0, 0, 0, 0]), rank=1)
    >>> round(result.fidelity([1, 0, 0, 1]), 6), round(result.purity, 6)
    (1.0, 1.0)
    """

    manifold = SEMIDEFINITE
    isotropic = True

    def __init__(self, labels: Any, expectations: Any, shots: Any = None, *, backend: str | Backend | None = None) -> None:
        found = get_backend(backend, expectations)
        self._set_up(parse_labels(labels), expectations, shots, found)

    @classmethod
    def from_counts(cls, settings: Any, counts: Any, *, backend: str | Backend | None = None) -> PauliTomography:
        """The problem of counted measurement outcomes.

        Parameters
        ----------
        settings : list of str
            The basis of each qubit, such as ``"XZY"``.
        counts : list of dict
            For each setting the number of times that each bit string was measured, ``{"010": 37, ...}``; the digits are in the
            order of the letters. Each setting gives the expectations of all Pauli matrices with its letters or I. They are
            weighted one by one: correlations between expectations of the same shots are not used.

        Examples
        --------
        >>> import lorank as lr
        >>> counts = [{"00": 51, "11": 49}, {"00": 46, "11": 54}, {"01": 52, "10": 48}]
        >>> problem = lr.PauliTomography.from_counts(["XX", "ZZ", "YY"], counts)
        >>> result = lr.solve(problem, rank=1, stop=lr.stopping.RelativeChange(1e-6))
        >>> bool(result.fidelity([1, 0, 0, 1]) > 0.99)
        True
        """
        masks, values, shots = expectations_of_counts(settings, counts)
        self = cls.__new__(cls)
        self._set_up(masks, values, shots, get_backend(backend))
        return self

    def _set_up(self, masks: PauliMasks, expectations: Any, shots: Any, backend: Backend) -> None:
        y = np.asarray(get_backend(None, expectations).to_numpy(finite_array(expectations, "expectations")))
        if y.dtype.kind == "c":
            raise ParameterError("expectations", "are complex: expectations of Hermitian matrices are real")
        y, m, d = y.astype(float), len(masks.flips), 1 << masks.qubits
        if y.shape != (m,):
            raise ParameterError("expectations", f"must be one number per label: got shape {y.shape} for {counted(m, 'label')}")
        keys = (masks.flips << masks.qubits) + masks.signs
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(np.diff(keys[order]) == 0)
        if len(same):
            one, two = (int(k) for k in order[same[0] : same[0] + 2])
            label = label_of(int(masks.flips[one]), int(masks.signs[one]), masks.qubits)
            raise ParameterError("labels", f"repeat {label!r}, at positions {one} and {two}: average its expectations")
        outside = np.flatnonzero(~(np.abs(y) <= 1 + BEYOND))
        if len(outside):
            k = int(outside[0])
            raise ParameterError("expectations", f"[{k}] = {y[k]:.6g} is beyond -1 to 1: clip corrected values with numpy.clip")
        identity = np.flatnonzero(keys == 0)
        if len(identity) and abs(y[identity[0]] - 1) > 1e-6:
            k = int(identity[0])
            raise ParameterError("expectations", f"[{k}] = {y[k]:.6g} is that of the identity, which is 1 for every state")
        self.shots = None if shots is None else _shots(shots, m)
        if len(identity):  # the trace is measured anyway
            keep = keys != 0
            masks = PauliMasks(masks.flips[keep], masks.signs[keep], masks.qubits)
            y, self.shots, m = y[keep], None if self.shots is None else self.shots[keep], m - 1
        if m == 0:
            raise ParameterError("labels", "must hold a Pauli matrix other than the identity")
        self.masks, self.qubits = masks, masks.qubits
        self.variances = np.ones(m) if self.shots is None else _mean_variance(y, self.shots) / self.shots
        weights = 1 / self.variances
        weights = weights / weights.mean()
        scale = m / d
        self.sums = backend.make_pauli_sums(masks.flips, masks.signs, masks.qubits)
        weights = backend.asarray(np.append(weights, TRACE_WEIGHT[shots is not None] * scale))
        y = backend.asarray(np.append(y, 1.0))
        super().__init__(y, (d, d), operator_scale=scale, backend=backend, objective=Objective(weights=weights))

    @property
    def dtype(self) -> Any:
        return np.dtype(complex)

    @functools.cached_property
    def labels(self) -> list[str]:
        """Labels of the measurements, in the order of ``y``; the last entry of ``y`` is the trace."""
        return [label_of(int(f), int(z), self.qubits) for f, z in zip(self.masks.flips, self.masks.signs, strict=True)]

    # -- the model -----------------------------------------------------------------------------------------------------
    def forward(self, left: Array, right: Array) -> Array:
        """``Re trace(P_k left right^H)``, and the real part of the trace at the end."""
        left, right = self.backend.asarrays(left, right)
        trace = (left * right.conj()).real.sum().reshape(1)
        return self.backend.concat([self.sums.expectations(left, right), trace], axis=0)

    def adjoint(self, p: Array) -> Any:
        return ProductOperator(self.shape, self.dtype, *self.products(p))

    def products(self, p: Vector) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        times = functools.partial(self.times, p)
        return times, times

    def times(self, p: Vector, v: Array) -> Array:
        """``sum_k p_k P_k v``, with the identity as the last matrix."""
        v = self.backend.asarray(v)
        return self.backend.asarray(self.sums.times(p[:-1], v) + p[-1] * v)

    def gradient(self, X: FixedRank) -> PauliGradient:
        return PauliGradient(self, X)

    # -- what solvers and results use ------------------------------------------------------------------------------------
    def project_feasible(self, X: FixedRank) -> FixedRank:
        """The nearest semidefinite matrix, divided by its trace."""
        X = self.manifold.nearest(X)
        trace = float(X.s.sum())
        return FixedRank(X.U, X.s / trace, X.U, X.backend) if trace > 0 else X

    def estimate(self, X: FixedRank) -> QuantumState:
        """The state of a point."""
        return QuantumState.of(X.numpy())

    def split(self, rng: np.random.Generator, share: float) -> tuple[PauliTomography, PauliTomography]:
        held = rng.random(self.m - 1) < share
        held[rng.integers(len(held))] = True
        return self._part(~held, self.backend), self._part(held, self.backend)

    def _part(self, flags: np.ndarray, backend: Backend) -> PauliTomography:
        masks = PauliMasks(self.masks.flips[flags], self.masks.signs[flags], self.qubits)
        twin = PauliTomography.__new__(PauliTomography)
        y = self.backend.to_numpy(self.y)[:-1]
        twin._set_up(masks, y[flags], None if self.shots is None else self.shots[flags], backend)
        return twin

    def _moved(self, backend: Backend) -> PauliTomography:
        return self._part(np.ones(self.m - 1, bool), backend)

    def _hash_operator(self, found: Any) -> None:
        found.update(np.ascontiguousarray(self.masks.flips, np.int64).tobytes())
        found.update(np.ascontiguousarray(self.masks.signs, np.int64).tobytes())

    def __repr__(self) -> str:
        return f"PauliTomography({counted(self.qubits, 'qubit')}, {counted(self.m - 1, 'expectation')}, {self.backend.name})"


class PauliGradient(Gradient):
    """``G = sum_k d_k P_k`` for the slopes d, Hermitian, by its products."""

    problem: PauliTomography

    def squared_image_norm(self, xi: Tangent) -> float:
        if not xi.hermitian:
            return super().squared_image_norm(xi)
        X, backend = xi.X, self.problem.backend
        # trace(P (U M U^H + Up U^H + U Up^H)) = Re trace(P (U M + 2 Up) U^H)
        return self.curvature_along(backend.minus(2 * xi.Up, X.U, -xi.M), X.U)

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, Array]:
        rows = self.problem.sums.row_squares(self.dual[:-1], self.dual[-1])
        return rows, rows

    @property
    def dispersion(self) -> float:
        """Standard deviation of an expectation or, with numbers of shots, of the residuals in units of theirs."""
        problem, rest = self.problem, self.problem.m - self.problem.dof(self.X.rank)
        if rest <= 0:
            return math.nan
        d = problem.backend.to_numpy(self.residual)[:-1]
        return float(math.sqrt((d**2 / problem.variances).sum() / rest))


def _shots(shots: Any, m: int) -> np.ndarray:
    a = np.asarray(finite_array(shots if np.ndim(shots) else np.full(m, shots), "shots"), float)
    if a.shape != (m,):
        raise ParameterError("shots", f"must be one number, or one per label: got shape {a.shape} for {counted(m, 'label')}")
    if not (a >= 1).all():
        k = int(np.flatnonzero(~(a >= 1))[0])
        raise ParameterError("shots", f"must be 1 or more, got {shown(float(a[k]))} at position {k}")
    return a


def _mean_variance(y: np.ndarray, shots: np.ndarray) -> np.ndarray:
    """The mean of ``1 - t^2`` over the posterior of the expectation t under a uniform prior."""
    a, b = shots * (1 + y) / 2 + 1, shots * (1 - y) / 2 + 1
    return 4 * a * b / ((a + b) * (a + b + 1))
