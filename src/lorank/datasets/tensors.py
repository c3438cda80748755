"""Synthetic tensor completion problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..backends import Backend
from ..common.checks import NOT_NEGATIVE, POSITIVE, ParameterError, check, one_of, whole
from ..geometry import TRAIN, TUCKER, TensorTrain, Tucker
from ..tensors import TensorCompletion

TensorFactors = Literal["gaussian", "uniform"]


def random_tensor(
    shape: Sequence[int],
    rank: int | Sequence[int],
    *,
    oversampling: float = 10.0,
    factors: TensorFactors = "gaussian",
    powers: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    format: Literal["tucker", "train"] = "tucker",
    backend: str | Backend | None = None,
) -> tuple[TensorCompletion, Any]:
    """Random tensor completion problem with known solution.

    Parameters
    ----------
    shape : sequence of int
        Three modes or more.
    rank : int or sequence of int
        Multilinear rank; one number stands for all modes. For trains one number for each pair of neighbouring modes.
    oversampling : float
        Observations per degree of freedom; by default 10.
    factors : {"gaussian", "uniform"}
        Distribution of core and factors, or of the cores of a train: standard normal (the default), or uniform on [0, 1].
    powers : float
        Exponent a of the sampling frequencies ``k^-a`` of each mode, in random order; 0, the default, is uniform.
    noise : float
        Norm of the added noise relative to the norm of the observed entries; by default 0.
    seed : int
    format : {"tucker", "train"}
        Format of the solution and of the problem.
    backend : str or backend, optional

    Returns
    -------
    problem : TensorCompletion
    truth : Tucker or TensorTrain
        Scaled to entries of mean square 1.

    Raises
    ------
    ParameterError
        If a parameter is out of its range.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_tensor((30, 20, 10), rank=(3, 3, 2), oversampling=5)
    >>> problem.m, truth.rank
    (830, (3, 3, 2))
    """
    shape = tuple(int(n) for n in shape)
    if len(shape) < 3:
        raise ParameterError("shape", f"must have three modes or more, got {shape}")
    check("format", format, one_of(("tucker", "train")))
    manifold: Any = TUCKER if format == "tucker" else TRAIN
    ranks: tuple[int, ...] = manifold.check_rank(rank, shape)
    for name, value, valid in (
        ("oversampling", oversampling, POSITIVE),
        ("powers", powers, NOT_NEGATIVE),
        ("noise", noise, NOT_NEGATIVE),
    ):
        check(name, value, valid)
    check("factors", factors, one_of(("gaussian", "uniform")))
    check("seed", seed, whole(0))
    rng = np.random.default_rng(seed)
    draw: Any = rng.standard_normal if factors == "gaussian" else rng.random
    size = math.sqrt(math.prod(shape))
    truth: Tucker | TensorTrain
    if format == "tucker":
        truth = Tucker.from_factors(draw(ranks), [draw((n, r)) for n, r in zip(shape, ranks, strict=True)])
        truth = Tucker(truth.core * (size / truth.norm()), truth.factors)
    else:
        truth = TensorTrain([draw(sides) for sides in zip((1, *ranks), shape, (*ranks, 1), strict=True)])
        truth = TensorTrain([*truth.cores[:-1], truth.cores[-1] * (size / truth.norm())])
    m = max(1, round(oversampling * manifold.dof(shape, ranks, np.float64)))
    if 2 * m > math.prod(shape):
        raise ParameterError("oversampling", f"asks for {m:,} entries, more than half of {math.prod(shape):,}: lower it")
    indices = _sampled(rng, shape, m, powers)
    values = truth.entries(*indices.T)
    if noise:
        w = rng.standard_normal(m)
        values = values + noise * np.linalg.norm(values) / np.linalg.norm(w) * w
    return TensorCompletion(indices, values, shape, format=format, backend=backend), truth


def _sampled(rng: np.random.Generator, shape: tuple[int, ...], m: int, power: float) -> np.ndarray:
    """M distinct index tuples, with power-law frequencies in each mode."""
    shares = [rng.permutation(np.arange(1.0, n + 1) ** -power) for n in shape]
    keys = np.zeros(0, np.int64)
    while len(keys) < m:
        count = int(1.2 * (m - len(keys))) + 10
        drawn = [rng.choice(len(share), count, p=share / share.sum()) for share in shares]
        keys = np.union1d(keys, np.ravel_multi_index(drawn, shape))
    keys = np.sort(rng.permutation(keys)[:m])
    return np.stack(np.unravel_index(keys, shape), axis=1)
