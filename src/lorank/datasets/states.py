"""Synthetic problems of quantum state tomography."""

from __future__ import annotations

import numpy as np

from ..backends import Backend, get_backend
from ..common.checks import POSITIVE, ParameterError, check, optional, whole
from ..geometry import SEMIDEFINITE, FixedRank
from ..problems import PauliTomography
from ..problems.pauli_labels import label_of


def random_pauli(
    qubits: int,
    rank: int,
    *,
    oversampling: float = 3.0,
    shots: int | None = None,
    seed: int = 0,
    backend: str | Backend | None = None,
) -> tuple[PauliTomography, FixedRank]:
    """Expectations of random Pauli matrices in a random state of low rank.

    Parameters
    ----------
    qubits, rank : int
        The eigenvalues decrease linearly by a factor of 2.
    oversampling : float
        Pauli matrices per degree of freedom, ``2 d r - r^2`` for dimension ``d = 2^qubits``; at most all 4^qubits - 1.
    shots : int, optional
        Measurements of each Pauli matrix; by default its exact expectation.
    seed : int
    backend : str or backend, optional

    Returns
    -------
    problem : PauliTomography
    state : FixedRank

    Raises
    ------
    ParameterError
        If a parameter is out of its range.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, state = lr.datasets.random_pauli(4, rank=2, oversampling=2)
    >>> problem, round(float(state.s.sum()), 6)
    (PauliTomography(4 qubits, 120 expectations, native), 1.0)
    """
    for name, value in (("qubits", qubits), ("rank", rank)):
        check(name, value, whole(1))
    check("oversampling", oversampling, POSITIVE)
    check("shots", shots, optional(whole(1)))
    check("seed", seed, whole(0))
    if qubits > 16:
        raise ParameterError("qubits", f"must be at most 16, got {qubits}")
    rng, d = np.random.default_rng(seed), 1 << qubits
    SEMIDEFINITE.check_rank(rank, (d, d))
    Q = np.linalg.qr(rng.standard_normal((d, rank)) + 1j * rng.standard_normal((d, rank)))[0]
    s = np.linspace(2, 1, rank)
    state = FixedRank(Q, s / s.sum(), Q)
    m = min(round(oversampling * SEMIDEFINITE.dof((d, d), rank, complex)), d * d - 1)
    chosen = rng.choice(d * d - 1, m, replace=False) + 1
    y = get_backend(None).make_pauli_sums(chosen // d, chosen % d, qubits).expectations(state.U * state.s, state.U)
    if shots is not None:
        y = 2 * rng.binomial(shots, ((1 + y) / 2).clip(0, 1)) / shots - 1
    labels = [label_of(int(k) // d, int(k) % d, qubits) for k in chosen]
    return PauliTomography(labels, y.clip(-1, 1), shots, backend=backend), state
