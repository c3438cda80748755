"""Sums of damped exponentials: poles from a low-rank Hankel matrix (ESPRIT), refined by least squares on the samples."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..common.checks import SHARE, ParameterError, check

EMPTY = 1e-10  # singular values below this share of the largest have no pole
MAX_GROWTH = 30.0  # exponent of a growing exponential over the whole signal
STEPS, TRIES = 20, 8
MAX_MISFIT = 2.0  # of the exponentials to the samples, relative to that of the matrix
BLOCK = 1 << 22  # numbers of a block of the Jacobian


@dataclass(frozen=True, eq=False)
class Exponentials:
    """A sum of damped exponentials ``x_t = sum_k c_k exp((2 pi i f_k - d_k) t)``, fitted to samples.

    Attributes
    ----------
    signal : array of the shape of the signal
        All samples.
    frequencies : (r,) array, or (r, d) for signals with d axes
        In cycles per sample, from -0.5 to 0.5, by decreasing energy of their components. A real sinusoid has two, of opposite
        signs.
    dampings : array of the shape of ``frequencies``
        Decay per sample; negative for growing components.
    amplitudes : (r,) complex array
        At the first sample.
    noise : float
        Standard deviation of the residual of a sample of weight 1, adjusted for the degrees of freedom.
    is_exponential : bool
        Whether ``signal`` is the sum of the exponentials. Where they fit the samples much worse than the matrix, it has the
        averages over the antidiagonals of the matrix instead, and no standard errors.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> x = 2 * np.cos(2 * np.pi * 0.1 * np.arange(100))
    >>> seen = np.sort(np.random.default_rng(0).permutation(100)[:40])
    >>> result = lr.solve(lr.HankelCompletion(seen, x[seen], 100), rank=2)
    >>> abs(result.amplitudes).round(6).tolist(), sorted(result.frequencies.round(6).tolist())
    ([1.0, 1.0], [-0.1, 0.1])
    """

    signal: np.ndarray
    frequencies: np.ndarray
    dampings: np.ndarray
    amplitudes: np.ndarray
    noise: float
    is_exponential: bool
    exponents: np.ndarray = field(repr=False)
    inverse_root: np.ndarray | None = field(repr=False, default=None)  # C with C C^H the inverse of J^H J

    @functools.cached_property
    def standard_error(self) -> np.ndarray:
        """Standard error of each sample of the signal, by linearization of the least squares fit at its solution.

        For complex signals that of the modulus of the error; each part has ``1 / sqrt(2)`` of it. nan where the fit is not the
        sum of exponentials, or has no more samples than degrees of freedom.
        """
        shape = self.signal.shape
        if self.inverse_root is None:
            return np.full(shape, math.nan)
        found, total = np.empty(self.signal.size), self.signal.size
        step = max(1, BLOCK // len(self.inverse_root))
        for at in range(0, total, step):
            index = np.stack(np.unravel_index(np.arange(at, min(at + step, total)), shape), axis=1)
            J = _jacobian(index, self.exponents, self.amplitudes, shape)
            found[at : at + step] = np.sqrt((np.abs(J @ self.inverse_root) ** 2).sum(1))
        return (self.noise * found).reshape(shape)

    def interval(self, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Confidence intervals of the samples of a real signal without noise, for Gaussian noise of equal variance.

        The order is taken as known: intervals are too short where the signal is no sum of so many exponentials.
        """
        check("coverage", coverage, SHARE)
        if np.iscomplexobj(self.signal):
            raise ParameterError("coverage", "has intervals for real signals only: use standard_error")
        from scipy.stats import norm

        width = float(norm.ppf((1 + coverage) / 2)) * self.standard_error
        return self.signal - width, self.signal + width

    def numpy(self) -> Exponentials:
        """Itself: its arrays are NumPy arrays on every backend."""
        return self


def fit_exponentials(
    U: np.ndarray,
    s: np.ndarray,
    sides: tuple[int, ...],
    averages: np.ndarray,
    index: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    shape: tuple[int, ...],
) -> Exponentials:
    """The exponentials of a low-rank Hankel matrix with left singular vectors U, refined by least squares on the samples.

    Parameters
    ----------
    U, s : (n1, r) and (r,) arrays
    sides : tuple of int
        Shape of the multi-index of a row of U.
    averages : (n,) array
        The signal by averages over antidiagonals.
    index, values, weights : (m, d), (m,) and (m,) arrays
        Samples.
    shape : tuple of int
        Of the signal.
    """
    real = not np.iscomplexobj(values)
    exponents = esprit(U[:, s > EMPTY * s[0]], sides, shape) if s[0] > 0 else np.zeros((0, len(shape)), complex)
    roots = np.sqrt(weights)
    exponents, amplitudes, misfit = _least_squares(exponents, index, values, roots, shape)
    averages = averages.reshape(shape)
    own = float(np.linalg.norm(roots * (averages[tuple(index.T)] - values)))
    signal, parameters = _evaluate(exponents, amplitudes, shape), exponents.size + len(amplitudes)
    size = float(np.linalg.norm(roots * values))
    fits = misfit <= max(MAX_MISFIT * own, 1e-9 * size) and bool(np.isfinite(signal).all())
    rest = len(values) - parameters
    noise = (misfit if fits else own) / math.sqrt(rest) if rest > 0 else math.nan
    energy = np.abs(amplitudes) * np.sqrt([_energy(2 * e.real, shape) for e in exponents])
    order = np.lexsort([np.round(-exponents[:, 0].imag, 9), -np.round(energy / max(energy.max(initial=0), 1e-300), 6)])
    exponents, amplitudes = exponents[order], amplitudes[order]
    inverse_root = None
    if fits and rest > 0:
        k = np.linalg.qr(roots[:, None] * _jacobian(index, exponents, amplitudes, shape), mode="r")
        size_of = np.abs(np.diagonal(k))
        inverse_root = np.linalg.pinv(k) if size_of.min(initial=0) < 1e-12 * size_of.max(initial=0) else np.linalg.inv(k)
    one_axis = len(shape) == 1
    frequencies = _wrapped(exponents.imag / np.array(shape) / (2 * np.pi))
    dampings = -exponents.real / np.array(shape)
    signal = signal if fits else averages
    return Exponentials(
        signal=signal.real.copy() if real else signal,
        frequencies=frequencies[:, 0] if one_axis else frequencies,
        dampings=dampings[:, 0] if one_axis else dampings,
        amplitudes=amplitudes,
        noise=noise,
        is_exponential=fits,
        exponents=exponents,
        inverse_root=inverse_root,
    )


def esprit(U: np.ndarray, sides: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Exponents (r, d) of the exponentials that span the columns of U, over the length of each axis, by shift invariance.

    ``U_down = U_up P`` for the rows without the first and without the last index of an axis; the eigenvalues of P are the
    poles. The matrices P of all axes have the same eigenvectors, those of a random combination.
    """
    r = U.shape[1]
    grid = U.reshape(*sides, r)
    shifts = []
    for axis, n in enumerate(sides):
        up, down = (np.take(grid, range(*part), axis=axis).reshape(-1, r) for part in ((0, n - 1), (1, n)))
        shifts.append(np.linalg.lstsq(up, down, rcond=None)[0] if n > 1 else np.eye(r))
    if len(shifts) == 1:
        poles = np.linalg.eigvals(shifts[0])[:, None]
    else:
        mix = np.random.default_rng(0).standard_normal(len(shifts))
        T = np.linalg.eig(sum(c * P for c, P in zip(mix, shifts, strict=True)))[1]
        poles = np.stack([np.diagonal(np.linalg.solve(T, P @ T)) for P in shifts], axis=1)
    poles = np.where(np.abs(poles) > 1e-3, poles, 1e-3)
    exponents = np.log(poles.astype(complex)) * np.array(shape)
    return np.minimum(exponents.real, MAX_GROWTH) + 1j * exponents.imag


def _least_squares(
    exponents: np.ndarray, index: np.ndarray, values: np.ndarray, roots: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Exponents and amplitudes after Levenberg-Marquardt steps on the samples, and the norm of the residual."""
    target = roots * values

    def fitted(exponents: np.ndarray) -> tuple[np.ndarray, float]:
        E = roots[:, None] * _columns(index, exponents, shape)
        c = np.linalg.lstsq(E, target, rcond=None)[0]
        return c, float(np.linalg.norm(E @ c - target))

    amplitudes, misfit = fitted(exponents)
    damping = 0.0
    for _ in range(STEPS):
        if not len(exponents) or not misfit > 1e-15 * float(np.linalg.norm(target)):
            break
        J = roots[:, None] * _jacobian(index, exponents, amplitudes, shape)
        residual = target - J[:, : len(amplitudes)] @ amplitudes
        size = np.linalg.norm(J, axis=0) + 1e-300
        u, sv, vh = np.linalg.svd(J / size, full_matrices=False)
        along, before = u.conj().T @ residual, misfit
        for _ in range(TRIES):
            with np.errstate(over="ignore", invalid="ignore"):  # of components without influence; checked below
                step = (vh.conj().T @ (sv / (sv**2 + damping) * along if damping else along / np.maximum(sv, 1e-14))) / size
            moved = exponents + step[len(amplitudes) :].reshape(exponents.shape[::-1]).T
            if np.isfinite(moved).all() and (moved.real < MAX_GROWTH).all():
                c, new = fitted(moved)
                if new < misfit:
                    exponents, amplitudes, misfit, damping = moved, c, new, damping / 10 if damping > 1e-8 else 0.0
                    break
            damping = max(10 * damping, 1e-6)
        if misfit > (1 - 1e-6) * before:
            break
    return exponents, amplitudes, misfit


def _columns(index: np.ndarray, exponents: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """``exp(sum_a e_ka t_a)`` for the relative positions t of the samples, an (m, r) array."""
    return np.exp((index / np.array(shape)) @ exponents.T)


def _jacobian(index: np.ndarray, exponents: np.ndarray, amplitudes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Derivatives of the samples in amplitudes and exponents, an (m, r (1 + d)) array."""
    E = _columns(index, exponents, shape)
    times = index / np.array(shape)
    return np.hstack([E, *(times[:, axis : axis + 1] * E * amplitudes for axis in range(times.shape[1]))])


def _evaluate(exponents: np.ndarray, amplitudes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of the exponentials at all samples, an axis at a time."""
    axes = [np.exp(np.outer(np.arange(n) / n, exponents[:, a])) for a, n in enumerate(shape)]
    if len(axes) == 1:
        return axes[0] @ amplitudes
    letters = "abcdefgh"[: len(axes)]
    text = ",".join(f"{one}r" for one in letters) + ",r->" + letters
    found: Any = np.einsum(text, *axes, amplitudes, optimize=True)
    return np.asarray(found)


def _energy(rates: np.ndarray, shape: tuple[int, ...]) -> float:
    """The mean of ``exp(rate t)`` over the relative positions t of all axes."""
    return math.prod(float(np.exp(rate * np.linspace(0, 1, 64)).mean()) for rate in rates)


def _wrapped(frequencies: np.ndarray) -> np.ndarray:
    return (frequencies + 0.5) % 1 - 0.5
