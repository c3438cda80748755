"""The problem of phase retrieval: recover a signal from magnitudes of linear measurements."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..backends import Array, Backend, backend_of, get_backend
from ..common.checks import ParameterError, counted, shown, whole
from ..geometry import SEMIDEFINITE, FixedRank
from ..problems.gradient import ProductOperator
from ..problems.input_checks import FLOATS, check_function, finite_array, functions_of_numpy
from ..problems.problem import MatrixProblem
from ..problems.sensing import GivenOperator
from ..problems.testing import check_pair
from .gradient import Images, PhaseGradient
from .gram import GramOperator, SinglePrecisionGram, gram_operator
from .linear_maps import DiffractionMap, FunctionMap, LinearMap, MatrixMap, SinglePrecisionMap, single_precision_map
from .start import spectral_signal

EXACT_MAX_UNKNOWNS = 64  # up to which exact row norms of G cost no more than probes
PROBES = 16  # default number
ONE_THREAD_MAX_ENTRIES = 1 << 18  # of A, up to which one BLAS thread is fastest
NOISE_BELOW = 0.25  # residuals of wrong signals were 0.26 to 0.6, for real x and 3 to 5 measurements per unknown
MAX_PROBES = 64  # for problems with fewer unknowns

RowNorms = Literal["auto", "exact"] | int


@dataclass(frozen=True, eq=False)
class Signal:
    """The signal x of ``X = x x^H``, up to a global phase.

    Parameters
    ----------
    signal : array
        In the shape of the signal or image.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(40, oversampling=3)
    >>> result = lr.solve(problem, rank=1)
    >>> result.signal is result.estimate.signal, result.signal.shape
    (True, (40,))
    """

    signal: Array

    def numpy(self) -> Signal:
        """The same as a NumPy array."""
        return Signal(backend_of(self.signal).to_numpy(self.signal))


class PhaseRetrieval(GivenOperator):
    """Magnitudes ``y = |A x|^2`` of a signal x, as measurements ``<a_i a_i^H, X>`` of ``X = x x^H``.

    X is Hermitian positive semidefinite, with one factor for both sides. An iteration makes two products with A, and the
    gradient ``G = A^H diag(A X - y) A`` is never formed. ``result.signal`` is x, up to a global phase.

    Parameters
    ----------
    A : (m, n) array
        Real or complex.
    y : (m,) array
        Intensities, not negative. Amplitudes ``|A x|`` are squared first: ``y**2``.
    row_norms : {"auto", "exact"} or int
        Row norms of G for metrics with row weights (PRGD): ``"exact"``, which costs m n^2 operations for an array and L^2
        Fourier transforms for L masks, or a number of random probes, batched with the product of the gradient. ``"auto"``,
        the default, is exact for small arrays and for up to 16 masks, and uses 16 probes otherwise.
    seed : int
        Seed of the probes.
    backend : str or backend, optional
        Array backend; by default that of A and y.

    Raises
    ------
    ValueError
        If the shapes of A and y do not match, or an intensity is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.standard_normal((240, 30)), rng.standard_normal(30)
    >>> result = lr.solve(lr.PhaseRetrieval(A, (A @ x) ** 2))  # of rank 1
    >>> lr.phase.phase_distance(result.signal, x) < 1e-5
    True
    """

    manifold = SEMIDEFINITE
    default_rank = 1
    isotropic = True
    signal_shape: tuple[int, ...]

    def __init__(
        self,
        A: Any,
        y: Any,
        *,
        row_norms: RowNorms = "auto",
        seed: int = 0,
        backend: str | Backend | None = None,
    ) -> None:
        backend = get_backend(backend, A, y)
        A = finite_array(A, "A")
        if A.ndim != 2:
            raise ParameterError("A", f"must be an (m, n) array, one measurement a row: got shape {tuple(A.shape)}")
        y = finite_array(y, "y")
        # In the precision of y where that is higher, once: BLAS would convert A in every product.
        real = np.zeros(0, backend_of(y).dtype(y)).real.dtype
        linear_map = MatrixMap(backend.asarray(A, np.result_type(backend_of(A).dtype(A), real)), backend)
        self._set_up(linear_map, y, (A.shape[1],), row_norms, seed, backend)

    @classmethod
    def coded_diffraction(
        cls,
        masks: Any,
        y: Any,
        *,
        row_norms: RowNorms = "auto",
        seed: int = 0,
        backend: str | Backend | None = None,
    ) -> PhaseRetrieval:
        """Coded diffraction patterns ``y_l = |F (D_l x)|^2`` with masks D_l and the discrete Fourier transform F.

        Parameters
        ----------
        masks : (L, n) or (L, h, w) array
            Real or complex masks for a signal of length n or an image of h x w pixels.
        y : array of the shape of ``masks``, or flat
            Intensities, the zero frequency first as in ``numpy.fft``.
        """
        backend = get_backend(backend, masks, y)
        masks = finite_array(masks, "masks")
        shape = tuple(masks.shape)
        if masks.ndim not in (2, 3):
            raise ParameterError("masks", f"must be an (L, n) array for signals or (L, h, w) for images, got shape {shape}")
        y = finite_array(y, "y")
        if math.prod(y.shape) != math.prod(shape):
            raise ParameterError(
                "y", f"has shape {tuple(y.shape)} and masks {shape}: there is one intensity for each mask and frequency"
            )
        if y.ndim > 1 and tuple(y.shape) != shape:
            raise ParameterError("y", f"must have the shape of masks, {shape}, or be flat: got {tuple(y.shape)}")
        self = cls.__new__(cls)
        self._set_up(DiffractionMap(backend.asarray(masks), backend), y.ravel(), shape[1:], row_norms, seed, backend)
        return self

    @classmethod
    def from_functions(
        cls,
        apply: Callable[[Array], Array],
        adjoint: Callable[[Array], Array],
        y: Any,
        n: int,
        *,
        dtype: Any = np.complex128,
        check: bool = False,
        row_norms: RowNorms = "auto",
        seed: int = 0,
        backend: str | Backend | None = None,
    ) -> PhaseRetrieval:
        """A user-defined A: ``apply`` maps the columns of an (n, k) array by A, ``adjoint`` those of an (m, k) array by A^H.

        Their arguments are arrays of the type of y: NumPy arrays, or tensors on its device. With ``check``, a pair that fails
        the dot test is refused, and a warning lists entries of the signal that are not measured.
        """
        check_function("apply", apply, ("v",), "A v for an (n, k) array v")
        check_function("adjoint", adjoint, ("w",), "A^H w for an (m, k) array w")
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n, the length of the signal, must be a positive integer: got {n!r}")
        with contextlib.suppress(TypeError):  # a name of a type
            dtype = np.dtype(dtype)
        if dtype not in FLOATS:
            raise ParameterError("dtype", f"must be float32, float64, complex64 or complex128, got {dtype!r}")
        backend = get_backend(backend, y)
        y = finite_array(y, "y")
        self = cls.__new__(cls)
        of_numpy = functions_of_numpy(y, backend)
        linear_map = FunctionMap(apply, adjoint, math.prod(y.shape), int(n), dtype, backend, of_numpy)
        self._set_up(linear_map, y, (int(n),), row_norms, seed, backend)
        if check:
            check_pair(self, 1, ("entry", "entry"), stacklevel=3)
        return self

    def _set_up(
        self, linear_map: LinearMap, y: Any, signal_shape: tuple[int, ...], row_norms: RowNorms, seed: int, backend: Any
    ) -> None:
        y = finite_array(y, "y")
        if y.ndim != 1:
            raise ParameterError("y", f"must be one-dimensional, got shape {tuple(y.shape)}")
        if backend_of(y).is_complex(y):
            raise ParameterError("y", "is complex, and intensities |A x|^2 are real: pass abs(y)**2 if this is A x")
        if len(y) != linear_map.m:
            raise ValueError(f"A has {counted(linear_map.m, 'row')} and y {counted(len(y), 'measurement')}: they must match")
        if (y < 0).any():
            k = backend_of(y).first_true(y < 0)
            raise ValueError(
                f"y[{k}] = {y[k]:.3g} is negative, and |A x|^2 cannot be: for noisy data, clip with numpy.maximum(y, 0); "
                "for A x or signed amplitudes, pass abs(y)**2"
            )
        self.linear_map, self.signal_shape = linear_map, tuple(int(k) for k in signal_shape)
        real = np.result_type(np.zeros(0, linear_map.dtype).real, backend_of(y).dtype(y))
        self._dtype = np.result_type(linear_map.dtype, real)
        n, complex_ = linear_map.n, self._dtype.kind == "c"
        # The mean of |a^H z|^4 over unit vectors z: 3 m (real) or 2 m (complex) for Gaussian A.
        with np.errstate(over="ignore"):
            operator_scale = linear_map.fourth_power() * (2 / (n * (n + 1)) if complex_ else 3 / (n * (n + 2)))
        if operator_scale == 0:
            raise ValueError("A is zero")
        if not math.isfinite(operator_scale):
            raise ValueError("A has nan, inf or entries whose fourth powers overflow: divide A by a constant c, and y by c^2")
        super().__init__(backend.asarray(y, real), (n, n), operator_scale=operator_scale, backend=backend)
        self._probing = self._checked_number(row_norms), seed
        if isinstance(linear_map, MatrixMap) and linear_map.m * n <= ONE_THREAD_MAX_ENTRIES:
            self.blas_threads = 1

    def _moved(self, backend: Backend) -> PhaseRetrieval:
        twin, linear_map = copy.copy(self), self.linear_map.to(backend)
        for name in ("probes", "probe_image", "gram_operator", "single_precision_map", "single_precision_gram"):
            vars(twin).pop(name, None)
        twin.linear_map = linear_map
        MatrixProblem.__init__(
            twin,
            backend.asarray(self.backend.to_numpy(self.y)),
            self.shape,
            operator_scale=self.operator_scale,
            backend=backend,
        )
        return twin

    def with_intensities(self, y: Array) -> PhaseRetrieval:
        """The same problem with other measurements; A is shared."""
        twin = copy.copy(self)
        MatrixProblem.__init__(twin, y, self.shape, operator_scale=self.operator_scale, backend=self.backend)
        return twin

    def with_row_norms(self, row_norms: RowNorms, seed: int = 0) -> PhaseRetrieval:
        """The same problem with another choice of ``row_norms``; A is shared."""
        twin = copy.copy(self)
        for name in ("probes", "probe_image"):
            vars(twin).pop(name, None)
        twin._probing = self._checked_number(row_norms), seed
        return twin

    def _checked_number(self, row_norms: RowNorms) -> int | None:
        """Number of probes; None for exact norms."""
        n, linear_map = self.shape[0], self.linear_map
        if isinstance(row_norms, str) and row_norms == "exact":
            if isinstance(linear_map, FunctionMap):
                raise ValueError("row_norms='exact' needs A as an array or as masks: give a number of probes instead")
            return None
        if isinstance(row_norms, str) and row_norms == "auto":
            few_masks = isinstance(linear_map, DiffractionMap) and len(linear_map.masks) <= PROBES
            few_unknowns = isinstance(linear_map, MatrixMap) and n <= EXACT_MAX_UNKNOWNS
            return None if few_masks or few_unknowns else PROBES
        if not whole(1).holds(row_norms):
            raise ParameterError("row_norms", f"must be 'auto', 'exact' or a number of probes, got {shown(row_norms)}")
        if row_norms > max(n, MAX_PROBES):
            raise ValueError(
                f"row_norms={row_norms:,} probes for {n:,} unknowns: n probes cost as much as exact norms "
                f"(row_norms='exact'), and {PROBES} are usually enough"
            )
        return int(row_norms)

    @functools.cached_property
    def probes(self) -> Array | None:
        """Random z of entries of modulus 1: ``E |(G z)_i|^2`` is the squared norm of row i. None for exact norms."""
        number, seed = self._probing
        if number is None:
            return None
        rng = np.random.default_rng(seed)
        choices = np.array([1, 1j, -1, -1j] if self._dtype.kind == "c" else [1, -1])
        return self.backend.asarray(rng.choice(choices, (self.shape[0], number)).astype(self._dtype))

    @functools.cached_property
    def probe_image(self) -> Array | None:
        """A times the probes, which are the same in all iterations."""
        return None if self.probes is None else self.linear_map.apply(self.probes)

    @property
    def dtype(self) -> Any:
        """Data type of X and x; the measurements are real."""
        return self._dtype

    def noise_is_testable(self, rank: int, residual: float) -> bool:
        """With three measurements per degree of freedom, and a relative residual below :data:`NOISE_BELOW`."""
        return self.m >= 3 * self.dof(rank) and residual < NOISE_BELOW

    # -- the model ---------------------------------------------------------------------------------------------------
    def forward(self, left: Array, right: Array) -> Array:
        """``A (left right^H)``, complex if A is, with zero imaginary part for Hermitian matrices."""
        if right is not left:
            left, right = self.backend.asarrays(left, right)
        image = self.linear_map.apply(left)
        return (image * (image if right is left else self.linear_map.apply(right)).conj()).sum(1)

    def adjoint(self, p: Array) -> Any:
        """``A^H diag(p) A`` as a LinearOperator."""
        return ProductOperator(self.shape, self.dtype, lambda v: self.times(p, v), lambda u: self.times(p.conj(), u))

    def times(self, d: Array, v: Array) -> Array:
        """``A^H diag(d) A v``."""
        return self.linear_map.adjoint(d[:, None] * self.linear_map.apply(v))

    def gradient(self, X: FixedRank) -> PhaseGradient:
        return PhaseGradient(self, X)

    @functools.cached_property
    def gram_operator(self) -> GramOperator:
        """Solver of the normal equations of A."""
        return gram_operator(self.linear_map, self.backend)

    @functools.cached_property
    def single_precision_map(self) -> SinglePrecisionMap:
        """A with normalized columns, in single precision where it is an array of double precision."""
        return single_precision_map(self.linear_map, self.backend)

    @functools.cached_property
    def single_precision_gram(self) -> SinglePrecisionGram | None:
        """The inverse of ``B^H B`` for the B of :attr:`single_precision_map`; None where B is not in main memory."""
        gram = None if self.single_precision_map.B is None else SinglePrecisionGram(self.single_precision_map.B)
        return gram if gram is not None and gram.usable else None

    def rank_one_point(self, rng: np.random.Generator) -> FixedRank:
        """Spectral initialization with bounded weights."""
        rough = self.single_precision_map
        x = rough.signal(spectral_signal(rough, self.y, self.backend, rng))
        return self._point(x, self.backend.norm(x))

    def _point(self, x: Array, size: float) -> FixedRank:
        x = self.backend.astype(x, self.dtype)
        U = x / size if size > 0 else self.backend.eye(self.shape[0], self.dtype, 1)
        s = self.backend.asarray(np.array([size**2], np.zeros(0, self.dtype).real.dtype))
        return FixedRank(U, s, U, self.backend)

    def gradient_of_signal(self, x: Array, image: Array, residual: Array | None = None) -> PhaseGradient:
        """The gradient at ``x x^H`` for an (n, 1) array x with a known image ``A x`` and, optionally, a known residual."""
        size = self.backend.norm(x)
        X = self._point(x, size)
        G = PhaseGradient(self, X, Images(self.linear_map, self.backend, X.U, image / (size or 1.0)))
        if residual is not None:
            vars(G)["residual"] = residual
        return G

    def signal(self, X: FixedRank) -> Array:
        """The x of ``X = x x^H`` in the shape of the signal or image; that of the leading singular pair for higher ranks."""
        return X.backend.astype(math.sqrt(float(X.s[0])) * X.U[:, 0], self.dtype).reshape(self.signal_shape)

    def estimate(self, X: FixedRank) -> Signal:
        """The signal of a point, as an attribute ``signal``."""
        return Signal(self.signal(X))

    def check_rank(self, rank: Any) -> int:
        rank = super().check_rank(rank)
        if rank > 1:
            warnings.warn(
                f"phase retrieval of one signal has rank 1, got rank {rank}: result.signal is the leading component",
                stacklevel=3,
            )
        return rank


def phase_distance(x: Any, truth: Any) -> float:
    """Relative distance of two signals up to a global phase or sign: ``min |x - c truth| / |truth|`` over c of modulus 1.

    Parameters
    ----------
    x, truth : (n,) arrays
        The recovered and the true signal.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the two differ in length, or the true signal is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> x = np.array([1.0, 2.0j])
    >>> lr.phase.phase_distance(-1j * x, x) < 1e-12
    True
    """
    x, truth = (np.ravel(backend_of(a).to_numpy(a)) for a in (finite_array(x, "x"), finite_array(truth, "truth")))
    if x.shape != truth.shape:
        raise ValueError(f"x and truth must have the same length: got {x.size:,} and {counted(truth.size, 'entry', 'entries')}")
    size = float(np.linalg.norm(truth))
    if size == 0:
        raise ValueError("truth is zero: relative distances are undefined")
    overlap = np.vdot(truth, x)
    c = overlap / abs(overlap) if overlap != 0 else 1.0
    return float(np.linalg.norm(x - c * truth)) / size
