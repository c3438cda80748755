"""Synthetic problems of Hankel completion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends import Backend
from ..common.checks import NOT_NEGATIVE, YES_OR_NO, ParameterError, check, optional, whole
from ..problems import HankelCompletion

TRIES = 1000  # draws of separated frequencies


def random_hankel(
    n: int | Sequence[int],
    rank: int,
    *,
    samples: int | None = None,
    real: bool = False,
    damping: float = 0.0,
    separation: float = 1.5,
    noise: float = 0.0,
    seed: int = 0,
    backend: str | Backend | None = None,
) -> tuple[HankelCompletion, np.ndarray]:
    """Random samples of a sum of exponentials, with the known signal.

    Parameters
    ----------
    n : int or sequence of int
        Length or shape of the signal.
    rank : int
        Number of exponentials; even for real signals, whose sinusoids are pairs.
    samples : int, optional
        Number of observed samples; by default ten per degree of freedom.
    real : bool
        Real sinusoids instead of complex exponentials.
    damping : float
        Largest decay over an axis: components decay by factors from 1 to ``exp(-damping)``.
    separation : float
        Smallest distance of the frequencies along each axis, in units of 1 / n.
    noise : float
        Standard deviation of the added noise, relative to the root mean square of the signal.
    seed : int
    backend : str or backend, optional

    Returns
    -------
    problem : HankelCompletion
    signal : array of shape n

    Raises
    ------
    ParameterError
        If a parameter is out of its range.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, signal = lr.datasets.random_hankel(500, rank=4, samples=60)
    >>> problem.m, signal.shape
    (60, (500,))
    """
    sides: tuple[Any, ...] = tuple(n) if isinstance(n, (tuple, list)) else (n,)
    for k in sides:
        check("n", k, whole(2))
    shape = tuple(int(k) for k in sides)
    check("rank", rank, whole(1))
    check("samples", samples, optional(whole(2)))
    check("real", real, YES_OR_NO)
    for name, value in (("damping", damping), ("separation", separation), ("noise", noise)):
        check(name, value, NOT_NEGATIVE)
    check("seed", seed, whole(0))
    if real and rank % 2:
        raise ParameterError("rank", f"must be even for a real signal, got {rank}")
    rng, total, pairs = np.random.default_rng(seed), math.prod(shape), rank // 2 if real else rank
    factors: list[Any] = []
    top = 0.5 if real else 1.0
    for axis, k in enumerate(shape):
        f = _separated(rng, pairs, separation / k, top if axis == 0 else 1.0)
        d = damping * rng.random(pairs) / k
        factors.append(np.exp(np.outer(np.arange(k), 2j * np.pi * f - d)))
    amplitudes = (1 + 10 ** (0.5 * rng.random(pairs))) * np.exp(2j * np.pi * rng.random(pairs))
    x: Any = amplitudes
    for factor in factors[::-1]:
        x = factor[(slice(None), *(None,) * (x.ndim - 1))] * x[None]
    x = x.sum(-1)
    x = 2 * x.real if real else x
    m = min(10 * rank * (len(shape) + 1) if samples is None else samples, total)
    flat = np.sort(rng.choice(total, m, replace=False))
    values = x.reshape(-1)[flat]
    if noise:
        size = noise * float(np.sqrt(np.mean(np.abs(x) ** 2)))
        w = rng.standard_normal(m) if real else (rng.standard_normal(m) + 1j * rng.standard_normal(m)) / math.sqrt(2)
        values = values + size * w
    seen = flat if len(shape) == 1 else np.stack(np.unravel_index(flat, shape), axis=1)
    return HankelCompletion(seen, values, shape if len(shape) > 1 else shape[0], backend=backend), x


def _separated(rng: np.random.Generator, count: int, distance: float, top: float) -> np.ndarray:
    """Random frequencies between 0 and ``top``, at least that distance from each other and, where top is below 1, its ends."""
    for _ in range(TRIES):
        f = np.sort(rng.random(count)) * top
        ends = [f[0] + 1] if top == 1.0 else [top + (top - f[-1])]
        if np.diff(np.append(f, ends)).min() >= distance and (top == 1.0 or 2 * f[0] >= distance):
            return rng.permutation(f)
    raise ParameterError("separation", f"is too large for {count} frequencies: lower it")
