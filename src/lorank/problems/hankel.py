"""Hankel completion: missing samples of sums of damped exponentials, with all products by fast Fourier transforms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from ..backends import Array, Backend, Vector, backend_of, get_backend
from ..common.checks import ParameterError, counted, shown
from ..geometry import FixedRank, Tangent
from ..losses import Loss, Objective, resolve_loss
from .exponentials import Exponentials, fit_exponentials
from .gradient import Gradient, ProductOperator
from .input_checks import finite_array, plain_array, weight_array
from .problem import MatrixProblem

BLOCK_BYTES = 1 << 24  # of transforms that are in memory at a time
LIMIT = 1 << 40  # samples of a signal
MIN_OVERSAMPLING = 6.0  # samples per degree of freedom for the noise test
ROUNDING = 32 * float(np.finfo(float).eps)  # of squared norms, relative


class HankelMap:
    """The Hankel matrix ``H(x)_ij = x_(i + j)`` of a signal, and its adjoint, by fast Fourier transforms.

    For a signal with several axes, i and j are multi-indices: a block Hankel matrix with Hankel blocks. With n samples along an
    axis, i runs over ``n // 2 + 1`` indices and j over ``n - n // 2``.

    Parameters
    ----------
    n : tuple of int
        Shape of the signal.
    backend : Backend
    """

    def __init__(self, n: tuple[int, ...], backend: Backend) -> None:
        from scipy.fft import next_fast_len

        self.n, self.backend = n, backend
        self.sides = tuple(k // 2 + 1 for k in n), tuple(k - k // 2 for k in n)
        self.shape = math.prod(self.sides[0]), math.prod(self.sides[1])
        self.padded = tuple(next_fast_len(k) for k in n)
        self.axes = tuple(range(1, len(n) + 1))

    @functools.cached_property
    def lengths(self) -> Array:
        """Number of entries of the matrix that are equal to each sample, as a flat array."""
        total = np.ones(1)
        for k, n1, n2 in zip(self.n, *self.sides, strict=True):
            i = np.arange(k)
            total = np.multiply.outer(total, np.minimum(np.minimum(i + 1, k - i), min(n1, n2))).ravel()
        return self.backend.asarray(total)

    def sums(self, left: Array, right: Array) -> Array:
        """The sums of ``left right^H`` over the entries that belong to each sample: the adjoint of H, as a flat array."""
        left, right = self.backend.asarrays(left, right)
        total: Any = None
        for block in self._blocks(left.shape[1]):
            part = (self._transforms(left[:, block], 0) * self._transforms(right[:, block].conj(), 1)).sum(0)
            total = part if total is None else total + part
        found = self._cut(self.backend.inverse_fft(total[None], self.axes), self.n).reshape(-1)
        return found if self.backend.is_complex(left) else found.real

    def products(self, x: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """The functions ``v -> H(x) v`` and ``u -> H(x)^H u`` of thin arrays, for a flat array x."""
        padded = self.backend.zeros((1, *self.padded), complex)
        padded[self._corner(self.n)] = x.reshape(1, *self.n)
        spectrum = self.backend.fft(padded, self.axes)

        def times(v: Array) -> Array:
            return self._correlation(spectrum, self.backend.asarray(v).conj(), 1)

        def adjoint_times(u: Array) -> Array:
            return self._correlation(spectrum, self.backend.asarray(u), 0).conj()

        return times, adjoint_times

    def _correlation(self, spectrum: Array, a: Array, side: int) -> Array:
        """``sum_j x_(i + j) conj(a_j)``: indices do not wrap, since i + j is below the length of the transform."""
        parts = []
        for block in self._blocks(a.shape[1]):
            product = spectrum * self._transforms(a[:, block], side).conj()
            part = self._cut(self.backend.inverse_fft(product, self.axes), self.sides[1 - side])
            part = part.reshape(len(part), -1).T
            parts.append(part if self.backend.is_complex(a) else part.real)
        return self.backend.asarray(parts[0] if len(parts) == 1 else self.backend.concat(parts))

    def _transforms(self, a: Array, side: int) -> Array:
        """The transforms of the columns, one per row of the result."""
        padded = self.backend.zeros((a.shape[1], *self.padded), complex)
        padded[self._corner(self.sides[side])] = a.T.reshape(-1, *self.sides[side])
        return self.backend.fft(padded, self.axes)

    def _blocks(self, width: int) -> Iterator[slice]:
        step = max(1, BLOCK_BYTES // (16 * math.prod(self.padded)))
        return (slice(at, min(at + step, width)) for at in range(0, width, step))

    def _cut(self, a: Array, shape: Sequence[int]) -> Array:
        return a[self._corner(shape)]

    @staticmethod
    def _corner(shape: Sequence[int]) -> tuple[slice, ...]:
        return (slice(None), *(slice(k) for k in shape))


class HankelCompletion(MatrixProblem):
    """Missing samples of a sum of damped exponentials, by completion of the Hankel matrix of the signal.

    A signal ``x_t = sum_k c_k exp((2 pi i f_k - d_k) t)`` of r exponentials has a Hankel matrix ``H(x)_ij = x_(i + j)`` of rank
    r; a real sinusoid counts as two. X approximates that matrix: the objective is the misfit of the averages over its
    antidiagonals to the observed samples, plus the squared distance of X to the Hankel matrices. The matrix is never formed: an
    iteration takes ``O(r n log n)`` operations and memory for a few arrays of n r numbers.

    The result has ``signal``, ``frequencies``, ``dampings``, ``amplitudes``, ``standard_error`` and ``interval()`` of
    :class:`~lorank.problems.exponentials.Exponentials`.

    Parameters
    ----------
    seen : (m,) integer array, or (m, d) for signals with d axes
        Indices of the observed samples, from 0.
    values : (m,) array
        The samples, real or complex. A torch tensor selects its device. The precision is double.
    n : int or tuple of int
        Length of the signal, or its shape.
    weights : (m,) array, optional
        Nonnegative weights of the samples, such as inverse variances.
    loss : str or Loss
        As in :class:`~lorank.Completion`, for real samples; without ``"robust"``.
    backend : {"numpy", "native", "torch", "torch:cuda"}, optional

    Notes
    -----
    A sample in the middle of the signal stands in more entries of the matrix than one at an end, ``w_k`` in number. Its misfit
    has the weight ``w_k n / m``, with which the objective is about ``|X - H(x)|_F^2``.

    Raises
    ------
    ParameterError
        For indices that are repeated or outside of the signal, fewer than two samples, values that are not finite.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> t = np.arange(400)
    >>> x = np.exp(2j * np.pi * 0.123 * t) + 0.5 * np.exp((2j * np.pi * 0.2 - 0.01) * t)
    >>> seen = np.sort(np.random.default_rng(0).permutation(400)[:60])
    >>> result = lr.solve(lr.HankelCompletion(seen, x[seen], 400), rank=2)
    >>> result.frequencies.round(6).tolist(), bool(abs(result.signal - x).max() < 1e-6)
    ([0.123, 0.2], True)
    """

    isotropic = True

    def __init__(
        self,
        seen: Any,
        values: Any,
        n: int | Sequence[int],
        *,
        weights: Any = None,
        loss: str | Loss = "squares",
        backend: str | Backend | None = None,
    ) -> None:
        found, shape = get_backend(backend, values), _signal_shape(n)
        y = finite_array(values, "values")
        index = _indices(seen, shape)
        if y.ndim != 1 or len(y) != len(index):
            number = counted(len(index), "index", "indices")
            raise ParameterError("values", f"must be one number per observed sample: got shape {tuple(y.shape)} for {number}")
        if len(y) < 2:
            raise ParameterError("values", f"must hold two samples or more, got {len(y)}")
        flat = np.ravel_multi_index(tuple(index.T), shape)
        order = np.argsort(flat, kind="stable")
        same = np.flatnonzero(np.diff(flat[order]) == 0)
        if len(same):
            one, two = order[same[0] : same[0] + 2]
            raise ParameterError("seen", f"repeats sample {_shown_index(index[one])}, at positions {one} and {two}")
        self.loss = resolve_loss(loss)
        complex_ = backend_of(y).is_complex(y)
        if complex_ and self.loss is not None:
            raise ParameterError("loss", f"must be 'squares' for complex samples, got {self.loss.name!r}")
        y = found.asarray(y, np.complex128 if complex_ else np.float64)
        if self.loss is not None:
            y, self.loss = self.loss.prepare(y, found)
        self.n, self.seen, self.hankel = shape, index if len(shape) > 1 else index[:, 0], HankelMap(shape, found)
        self._flat, self._at = flat, found.asindex(found.asarray(flat))
        self.weights = None if weights is None else found.asarray(weight_array(weights, len(y)))
        self._lengths = self.hankel.lengths[self._at]
        w = self._lengths * (math.prod(shape) / len(y))
        if self.weights is not None:
            w = w * (self.weights * (len(y) / float(self.weights.sum())))
        objective = Objective(weights=w) if self.loss is None else Objective(self.loss, w)
        self.rank_step = 1 if complex_ else 2  # a real sinusoid has rank 2
        super().__init__(y, self.hankel.shape, operator_scale=1.0, backend=found, objective=objective)

    @classmethod
    def from_series(cls, series: Any, **options: Any) -> HankelCompletion:
        """The problem of a series with nan for missing samples, one- or two-dimensional; options as in the class.

        Examples
        --------
        >>> import numpy as np, lorank as lr
        >>> x = np.cos(2 * np.pi * np.arange(200) / 12)
        >>> gaps = x.copy()
        >>> gaps[50:90] = np.nan
        >>> result = lr.solve(lr.HankelCompletion.from_series(gaps), rank=2)
        >>> bool(abs(result.signal - x).max() < 1e-6)
        True
        """
        a = np.asarray(series)
        if a.dtype.kind not in "biufc" or a.ndim == 0:
            raise ParameterError("series", f"must be an array of numbers with nan for missing samples, got {shown(series)}")
        seen = np.argwhere(~np.isnan(a))
        return cls(seen, a[tuple(seen.T)], a.shape, **options)

    # -- the model -----------------------------------------------------------------------------------------------------
    def forward(self, left: Array, right: Array) -> Array:
        """Averages of ``left right^H`` over the entries that belong to the observed samples."""
        return self.hankel.sums(left, right)[self._at] / self._lengths

    def adjoint(self, p: Array) -> Any:
        return ProductOperator(self.shape, self.dtype, *self.products(p))

    def products(self, p: Vector) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        return self.hankel.products(self.spread(p))

    def normal_products(self, left: Array, right: Array, curvature: Any) -> Any:
        """The same with the distance to the Hankel matrices: ``A* C A Z + Z - H(averages of Z)`` for ``Z = left right^H``."""
        averages = self.hankel.sums(left, right) / self.hankel.lengths
        times, adjoint_times = self.hankel.products(self.spread(curvature * averages[self._at]) - averages)
        product, gram = self.backend.product, self.backend.gram
        return (
            lambda v: times(v) + product(left, gram(right, v)),
            lambda u: adjoint_times(u) + product(right, gram(left, u)),
        )

    def gradient(self, X: FixedRank) -> HankelGradient:
        return HankelGradient(self, X)

    def squared_distance(self, left: Array, right: Array, sums: Array) -> float:
        """The squared distance of ``left right^H`` to the Hankel matrices, 0 below rounding."""
        gram = self.backend.gram
        square = float(np.sum(gram(left, left) * gram(right, right).conj()).real)
        distance = square - self.backend.inner(sums / self.hankel.lengths, sums)
        return distance if distance > ROUNDING * square else 0.0

    def spread(self, p: Vector) -> Array:
        """``p_k / w_k`` at the observed samples and 0 elsewhere: ``A* p`` is its Hankel matrix."""
        found = self.backend.zeros((math.prod(self.n),), self.backend.dtype(p))
        found[self._at] = p / self._lengths
        return found

    # -- what solvers and results use ------------------------------------------------------------------------------------
    def _dof(self, shape: tuple[int, ...], rank: Any) -> int:
        """An exponential has an amplitude, and a frequency with a damping for each axis."""
        return int(rank) * (len(self.n) + 1)

    def objective_root(self, X: FixedRank, learned: Objective | None = None) -> float:
        return self.gradient(X).sample_norm

    def noise_is_testable(self, rank: Any, residual: float) -> bool:
        """With six samples per degree of freedom; with five, residuals of wrong frequencies looked like noise."""
        return self.m >= MIN_OVERSAMPLING * self.dof(rank)

    def split(self, rng: np.random.Generator, share: float) -> tuple[HankelCompletion, HankelCompletion]:
        held = rng.random(self.m) < share
        return self._part(~held), self._part(held)

    def predicted_error(self, X: FixedRank) -> float:
        """The Bayesian information criterion as an error: the exponentials' relative misfit times ``exp(penalty / 2 N)``.

        N is the number of real samples. A component has an amplitude and a phase, and a frequency with a damping for each axis.
        Its frequency is selected among about n, which adds ``2 log n`` to the penalty, as a parameter adds ``log N``.
        """
        found = self.estimate(X)
        is_real = not self.backend.is_complex(self.y)
        components = X.rank / 2 if is_real else X.rank
        N = self.m if is_real else 2 * self.m
        penalty = components * (2 * (1 + len(self.n)) * math.log(N) + 2 * math.log(math.prod(self.n)))
        y, roots = self.backend.to_numpy(self.y), np.sqrt(1.0 if self.weights is None else self.backend.to_numpy(self.weights))
        misfit = np.linalg.norm(roots * (found.signal[tuple(self.seen.reshape(self.m, -1).T)] - y)) / np.linalg.norm(roots * y)
        return float(misfit) * math.exp(penalty / (2 * N))

    def estimate(self, X: FixedRank) -> Exponentials:
        """The exponentials of a point: its shift invariance (ESPRIT), then least squares on the samples."""
        to_numpy, G = self.backend.to_numpy, self.gradient(X)
        weights = np.ones(self.m) if self.weights is None else to_numpy(self.weights)
        if not G.objective.is_quadratic:  # a robust loss: its weights at X
            weights = weights * to_numpy(cast(Any, G.curvature) / self.objective.weights)
        averages = to_numpy(self.hankel.sums(X.U * X.s, X.V) / self.hankel.lengths)
        index = self.seen.reshape(self.m, -1)
        X = X.numpy()
        return fit_exponentials(X.U, X.s, self.hankel.sides[0], averages, index, to_numpy(self.y), weights, self.n)

    def _part(self, flags: np.ndarray) -> HankelCompletion:
        weights = None if self.weights is None else self.backend.to_numpy(self.weights)[flags]
        return self._like(self.seen[flags], self.backend.to_numpy(self.y)[flags], weights, self.backend)

    def _moved(self, backend: Backend) -> HankelCompletion:
        weights = None if self.weights is None else self.backend.to_numpy(self.weights)
        return self._like(self.seen, self.backend.to_numpy(self.y), weights, backend)

    def _like(self, seen: np.ndarray, values: np.ndarray, weights: Any, backend: Backend) -> HankelCompletion:
        loss = "squares" if self.loss is None else self.loss
        return HankelCompletion(seen, values, self.n, weights=weights, loss=loss, backend=backend)

    def _hash_operator(self, found: Any) -> None:
        found.update(f"{self.n}".encode() + np.ascontiguousarray(self._flat, np.int64).tobytes())

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.n))
        return f"HankelCompletion({counted(self.m, 'sample')} of {size}, {self.dtype}, {self.backend.name})"


class HankelGradient(Gradient):
    """``G = A* slope + X - H(averages of X)``: a Hankel matrix plus X, by fast Fourier transforms."""

    problem: HankelCompletion

    @functools.cached_property
    def _sums(self) -> Array:
        return self.problem.hankel.sums(self.X.U * self.X.s, self.X.V)

    @functools.cached_property
    def residual(self) -> Vector:
        problem = self.problem
        return self._sums[problem._at] / problem._lengths - problem.y

    @functools.cached_property
    def sample_norm(self) -> float:
        """``sqrt(2 f)`` of the samples alone, without the distance to the Hankel matrices."""
        return math.sqrt(2 * self.objective.value(self.residual, self.problem.y, self.problem.backend))

    @functools.cached_property
    def residual_norm(self) -> float:
        X = self.X
        return math.sqrt(self.sample_norm**2 + self.problem.squared_distance(X.U * X.s, X.V, self._sums))

    @property
    def dispersion(self) -> float:
        """Standard deviation of a sample of weight 1."""
        problem, rest = self.problem, self.problem.m - self.problem.dof(self.X.rank)
        w = 1.0 if problem.weights is None else problem.weights
        return math.sqrt(problem.backend.inner(self.residual * w, self.residual) / rest) if rest > 0 else math.nan

    @functools.cached_property
    def _hankel_products(self) -> Any:
        problem = self.problem
        return problem.hankel.products(problem.spread(self.dual) - self._sums / problem.hankel.lengths)

    def times(self, v: Array) -> Array:
        X, backend = self.X, self.problem.backend
        return self._hankel_products[0](v) + backend.asarray(backend.product(X.U * X.s, backend.gram(X.V, v)))

    def adjoint_times(self, u: Array) -> Array:
        X, backend = self.X, self.problem.backend
        return self._hankel_products[1](u) + backend.asarray(backend.product(X.V * X.s, backend.gram(X.U, u)))

    def squared_image_norm(self, xi: Tangent) -> float:
        return self.curvature_along(*xi.factors())

    def curvature_along(self, left: Array, right: Array) -> float:
        problem = self.problem
        sums = problem.hankel.sums(left, right)
        image = sums[problem._at] / problem._lengths
        return self.image_curvature(image) + problem.squared_distance(left, right, sums)

    def exact_step(self, left: Array, right: Array) -> float:
        curvature = self.curvature_along(left, right)
        return -self.problem.backend.inner(left, self.times(right)) / curvature if curvature > 0 else 0.0

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, Array]:
        X, problem, backend = self.X, self.problem, self.problem.backend
        h = problem.spread(self.dual) - self._sums / problem.hankel.lengths
        squares = problem.hankel.products(abs(h) ** 2 + 0j)  # sums of |h|^2 over the entries of each row
        found = []
        for side, (own, other) in enumerate(((X.U, X.V), (X.V, X.U))):
            ones = backend.zeros((other.shape[0], 1), float) + 1
            rows = squares[side](ones)[:, 0].real
            mixed = (self._hankel_products[side](other) * (own * X.s).conj()).sum(1).real
            found.append((rows + 2 * mixed + (abs(own * X.s) ** 2).sum(1)).clip(min=0))
        return found[0], found[1]


def _signal_shape(n: Any) -> tuple[int, ...]:
    sides = tuple(n) if isinstance(n, (tuple, list)) else (n,)
    whole = all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) and k >= 2 for k in sides)
    if not sides or not whole or math.prod(map(int, sides)) > LIMIT:
        raise ParameterError("n", f"must be the length of the signal, 2 or more, or its shape: got {shown(n)}")
    return tuple(int(k) for k in sides)


def _indices(seen: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The indices as an (m, d) array."""
    a = plain_array(seen, "seen")
    a = backend_of(a).to_numpy(a)
    if a.ndim == 1 and len(shape) == 1:
        a = a[:, None]
    if a.ndim != 2 or a.shape[1] != len(shape):
        wanted = "(m,)" if len(shape) == 1 else f"(m, {len(shape)})"
        raise ParameterError("seen", f"must be an {wanted} array of indices, got shape {a.shape}")
    if a.size and a.dtype.kind not in "iu":
        raise ParameterError("seen", f"must be integers, the indices of the observed samples, got {a.dtype}")
    a = a.astype(np.int64)
    outside = np.flatnonzero(((a < 0) | (a >= np.array(shape))).any(1))
    if len(outside):
        size = " x ".join(map(str, shape))
        raise ParameterError("seen", f"[{outside[0]}] = {_shown_index(a[outside[0]])} is outside of a signal of {size} samples")
    return a


def _shown_index(index: np.ndarray) -> str:
    return str(index[0]) if len(index) == 1 else str(tuple(index.tolist()))
