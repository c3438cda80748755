"""Quantum states of low rank: eigenvalues, purity, fidelity and expectations."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.checks import ParameterError
from ..geometry import FixedRank
from .input_checks import finite_array


@dataclass(frozen=True, eq=False)
class QuantumState:
    """A density matrix of low rank: Hermitian, positive semidefinite, of trace one.

    Attributes
    ----------
    eigenvalues : (r,) array
        In decreasing order; their sum is 1.
    eigenvectors : (d, r) array

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> from lorank.problems.quantum_state import QuantumState
    >>> bell = QuantumState.of(lr.FixedRank.semidefinite(np.array([[1.0], [0], [0], [1.0]])))
    >>> bell.purity, round(bell.fidelity(np.array([1, 0, 0, 1])), 6), bell.expectations(["XX", "YY"]).round(6).tolist()
    (1.0, 1.0, [1.0, -1.0])
    """

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray

    @classmethod
    def of(cls, X: FixedRank) -> QuantumState:
        """The state of a Hermitian positive semidefinite point with NumPy arrays, divided by its trace."""
        total = float(X.s.sum())
        return cls(X.s / total if total > 0 else np.full(X.rank, 1.0 / X.rank), X.U)

    @functools.cached_property
    def state(self) -> np.ndarray:
        """The density matrix, a dense (d, d) array."""
        return FixedRank(self.eigenvectors, self.eigenvalues, self.eigenvectors).to_dense()

    @property
    def purity(self) -> float:
        """``trace(state^2)``: 1 for pure states."""
        return float((self.eigenvalues**2).sum())

    def fidelity(self, other: Any) -> float:
        """The fidelity to another state, 1 for equal ones.

        Parameters
        ----------
        other : (d,) array, (d, d) array or FixedRank
            A state vector psi, for which it is ``<psi| state |psi>``, or a density matrix sigma, for which it is
            ``(trace sqrt(sqrt(state) sigma sqrt(state)))^2``. They are normalized first.
        """
        d, root = len(self.eigenvectors), self.eigenvectors * np.sqrt(self.eigenvalues)
        if isinstance(other, FixedRank):
            other = other.numpy()
            half, trace = other.U * np.sqrt(other.s), float(other.s.sum())
            found = np.linalg.svd(half.conj().T @ root, compute_uv=False).sum() ** 2 if len(half) == d else None
        else:
            other = np.asarray(finite_array(other, "other"))
            if other.shape == (d,):
                trace = float(np.linalg.norm(other) ** 2)
                found = float(np.linalg.norm(other.conj() @ root) ** 2)
            elif other.shape == (d, d):
                trace = float(np.trace(other).real)
                values = np.linalg.eigvalsh(root.conj().T @ other @ root)
                found = float(np.sqrt(values.clip(min=0)).sum() ** 2)
            else:
                found = None
        if found is None:
            raise ParameterError(
                "other", f"must be a state vector of length {d} or a {d} x {d} density matrix, got {other.shape}"
            )
        if not trace > 0:
            raise ParameterError("other", "must have a positive norm or trace")
        return float(found / trace)

    def expectations(self, labels: Any) -> np.ndarray:
        """The expectations of Pauli matrices, by labels as in :class:`~lorank.PauliTomography`."""
        from ..backends import get_backend
        from .pauli_labels import parse_labels

        masks = parse_labels(labels)
        if 1 << masks.qubits != len(self.eigenvectors):
            raise ParameterError(
                "labels", f"have {masks.qubits} letters, and the state has {len(self.eigenvectors)} dimensions"
            )
        keys, place = np.unique((masks.flips << masks.qubits) + masks.signs, return_inverse=True)
        sums = get_backend("numpy").make_pauli_sums(keys >> masks.qubits, keys & ((1 << masks.qubits) - 1), masks.qubits)
        U = self.eigenvectors.astype(complex)
        return np.asarray(sums.expectations(U * self.eigenvalues, U))[place]

    def numpy(self) -> QuantumState:
        """Itself: its arrays are NumPy arrays on every backend."""
        return self

    def __repr__(self) -> str:
        return f"QuantumState({len(self.eigenvectors)} dimensions, rank {len(self.eigenvalues)}, purity {self.purity:.4g})"
