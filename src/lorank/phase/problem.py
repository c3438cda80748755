"""Phase retrieval: magnitudes of linear measurements of a signal."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..backends import Array, Backend, backend_of, get_backend
from ..common.checks import ParameterError, counted, shown, whole
from ..geometry import FixedRank
from ..problems.input_checks import FLOATS, check_function, check_operator_scale, finite_array, functions_of_numpy
from ..problems.problem import MatrixProblem
from ..problems.testing import check_pair
from .gradient import DiagonalForm, PhaseGradient
from .gram import GramOperator, RoughGram, gram_operator
from .linear_maps import DiffractionMap, FunctionMap, LinearMap, MatrixMap
from .phase_images import Images
from .rough_map import RoughMap, rough_map
from .start import spectral_signal

EXACT_UP_TO = 64  # unknowns: below that all of G costs no more than the probes
PROBES = 16
ONE_THREAD = 1 << 18  # entries of A: a product with fewer takes less time than threads need to meet
MOST_PROBES = 64  # where there are no more unknowns than that

RowNorms = Literal["auto", "exact"] | int


class PhaseRetrieval(MatrixProblem):
    """Magnitudes ``y = |A x|^2`` of a signal x, as measurements ``<a_i a_i^H, X>`` of ``X = x x^H``.

    X is kept as Hermitian and positive semidefinite, one factor for both sides. An iteration makes two products with A, and
    the gradient ``G = A^H diag(A X - y) A`` is never formed. ``result.signal`` is x, up to a global phase.

    Parameters
    ----------
    A : (m, n) array
        Real or complex.
    y : (m,) array
        Intensities, not negative. Amplitudes ``|A x|`` are squared first: ``y**2``.
    row_norms : {"auto", "exact"} or int
        How metrics with row weights (PRGD) get the row norms of G: exactly, which costs m n^2 operations for an array and
        L^2 Fourier transforms for L masks, or from so many random probes, batched with the product that is made anyway.
        ``"auto"`` is exact for small arrays and for up to 16 masks, and takes 16 probes otherwise.
    seed : int
        For the probes.
    backend : str or backend, optional

    Raises
    ------
    ValueError
        Where A and y do not belong together, or an intensity is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.standard_normal((240, 30)), rng.standard_normal(30)
    >>> result = lr.solve(lr.PhaseRetrieval(A, (A @ x) ** 2), rank=1)
    >>> lr.phase.phase_distance(result.signal, x) < 1e-5
    True
    """

    isotropic = True
    blas_threads = None
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
        """Diffraction patterns ``y_l = |F (D_l x)|^2`` behind masks D_l, F the discrete Fourier transform; no A is stored.

        Parameters
        ----------
        masks : (L, n) or (L, h, w) array
            Real or complex; a signal of length n or an image of h x w pixels lies behind them.
        y : array of the shape of ``masks``, or flat
            Intensities, the zero frequency first, as ``numpy.fft`` has it.
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
        """A user's own A: ``apply`` maps the columns of an (n, k) array by A, ``adjoint`` those of an (m, k) array by A^H.

        They are given arrays of the kind that y is: NumPy's, or tensors on its device. With ``check`` a pair that does not
        pass the dot test is refused, and a warning names entries of the signal that no measurement touches.
        """
        check_function("apply", apply, ("v",), "A v for an (n, k) array v")
        check_function("adjoint", adjoint, ("w",), "A^H w for an (m, k) array w")
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n, the length of the signal, must be a positive integer: got {n!r}")
        with contextlib.suppress(TypeError):  # a name may stand for a type
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
            raise ParameterError(
                "y", "is complex: phase retrieval takes intensities |A x|^2, which are real: if this is A x, give abs(y)**2"
            )
        if len(y) != linear_map.m:
            raise ValueError(f"A makes {counted(linear_map.m, 'measurement')} and y has {len(y):,}: there must be one for each")
        if (y < 0).any():
            k = backend_of(y).first(y < 0)
            raise ValueError(
                f"y[{k}] = {y[k]:.3g} is negative, and |A x|^2 cannot be: if noise did this, clip with numpy.maximum(y, 0); "
                "if these are A x or amplitudes with a sign, give abs(y)**2"
            )
        self.linear_map, self.signal_shape = linear_map, tuple(int(k) for k in signal_shape)
        real = np.result_type(np.zeros(0, linear_map.dtype).real, backend_of(y).dtype(y))
        self._dtype = np.result_type(linear_map.dtype, real)
        n, complex_ = linear_map.n, self._dtype.kind == "c"
        # The mean of |a^H z|^4 over unit vectors z. For Gaussian A that makes 3 m (real) or 2 m (complex).
        with np.errstate(over="ignore"):
            operator_scale = linear_map.fourth_power() * (2 / (n * (n + 1)) if complex_ else 3 / (n * (n + 2)))
        if operator_scale == 0:
            raise ValueError("A is zero: nothing is measured")
        if not math.isfinite(operator_scale):
            raise ValueError("A gives nan, inf or numbers whose fourth powers overflow: divide A by c, and y by c^2")
        super().__init__(backend.asarray(y, real), (n, n), operator_scale=operator_scale, backend=backend)
        self._probing = self._checked_number(row_norms), seed
        if isinstance(linear_map, MatrixMap) and linear_map.m * n <= ONE_THREAD:
            self.blas_threads = 1

    def _moved(self, backend: Backend) -> PhaseRetrieval:
        twin, linear_map = copy.copy(self), self.linear_map.to(backend)
        for name in ("probes", "probe_image", "gram_operator", "rough_map", "rough_gram"):
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

    def with_row_norms(self, row_norms: RowNorms, seed: int = 0) -> PhaseRetrieval:
        """The same problem with row norms found in another way; A is shared."""
        twin = copy.copy(self)
        for name in ("probes", "probe_image"):
            vars(twin).pop(name, None)
        twin._probing = self._checked_number(row_norms), seed
        return twin

    def _checked_number(self, row_norms: RowNorms) -> int | None:
        """How many probes; None for exact norms."""
        n, possible = self.shape[0], not isinstance(self.linear_map, FunctionMap)
        if not isinstance(row_norms, str) and not whole(1).holds(row_norms):
            raise ParameterError("row_norms", f"must be 'auto', 'exact' or a number of probes, got {shown(row_norms)}")
        if row_norms == "exact":
            if not possible:
                raise ValueError("row_norms='exact' needs A as an array or as masks: give a number of probes instead")
            return None
        if row_norms == "auto":
            if possible and (
                len(self.linear_map.masks) <= PROBES if isinstance(self.linear_map, DiffractionMap) else n <= EXACT_UP_TO
            ):
                return None
            row_norms = PROBES
        if isinstance(row_norms, bool) or not isinstance(row_norms, (int, np.integer)) or row_norms < 1:
            raise ParameterError("row_norms", f"must be 'auto', 'exact' or a number of probes, got {row_norms!r}")
        if row_norms > max(n, MOST_PROBES):
            raise ValueError(
                f"row_norms={row_norms:,} probes for {n:,} unknowns: n of them cost as much as exact norms "
                f"(row_norms='exact'), and {PROBES} are mostly enough"
            )
        return int(row_norms)

    @functools.cached_property
    def probes(self) -> Array | None:
        """Probes with entries of modulus 1, for which ``E |(G z)_i|^2`` is row i's squared norm; None for exact norms."""
        number, seed = self._probing
        if number is None:
            return None
        rng = np.random.default_rng(seed)
        choices = np.array([1, 1j, -1, -1j] if self._dtype.kind == "c" else [1, -1])
        return self.backend.asarray(rng.choice(choices, (self.shape[0], number)).astype(self._dtype))

    @functools.cached_property
    def probe_image(self) -> Array | None:
        """A times the probes: the same ones in every iteration, so that this is computed once."""
        return None if self.probes is None else self.linear_map.apply(self.probes)

    @property
    def dtype(self) -> Any:
        """Of X and x; the measurements are real."""
        return self._dtype

    def check_scale(self) -> None:
        super().check_scale()
        check_operator_scale(self.max_abs, self.operator_scale, self.dtype)

    def dof(self, rank: int) -> int:
        """Real unknowns of a semidefinite matrix of that rank: n at rank 1, and 2 n - 1 where x is complex."""
        n = self.shape[0]
        return 2 * n * rank - rank**2 if self.dtype.kind == "c" else n * rank - rank * (rank - 1) // 2

    # -- the model ---------------------------------------------------------------------------------------------------
    def forward(self, left: Array, right: Array) -> Array:
        """``A (left right^H)``: complex numbers where A is complex, though real in value for Hermitian matrices."""
        if right is not left:
            left, right = self.backend.asarrays(left, right)
        image = self.linear_map.apply(left)
        return (image * (image if right is left else self.linear_map.apply(right)).conj()).sum(1)

    def adjoint(self, p: Array) -> Any:
        """``A^H diag(p) A`` as a LinearOperator."""
        return DiagonalForm(self, p)

    def times(self, d: Array, v: Array) -> Array:
        """``A^H diag(d) A v``."""
        return self.linear_map.adjoint(d[:, None] * self.linear_map.apply(v))

    def gradient(self, X: FixedRank) -> PhaseGradient:
        return PhaseGradient(self, X)

    @functools.cached_property
    def gram_operator(self) -> GramOperator:
        """The normal equations of A."""
        return gram_operator(self.linear_map, self.backend)

    @functools.cached_property
    def rough_map(self) -> RoughMap:
        """A with normalised columns, in single precision where it is an array of double precision."""
        return rough_map(self.linear_map, self.backend)

    @functools.cached_property
    def rough_gram(self) -> RoughGram | None:
        """The inverse of ``B^H B`` for the B of :attr:`rough_map`; None where there is no B in main memory."""
        gram = None if self.rough_map.B is None else RoughGram(self.rough_map.B)
        return gram if gram is not None and gram.usable else None

    def rank_one_point(self, rng: np.random.Generator) -> FixedRank:
        """The spectral start with bounded weights."""
        rough = self.rough_map
        x = rough.signal(spectral_signal(rough, self.y, self.backend, rng))
        return self._point(x, self.backend.norm(x))

    def _point(self, x: Array, size: float) -> FixedRank:
        x = self.backend.astype(x, self.dtype)
        U = x / size if size > 0 else self.backend.eye(self.shape[0], self.dtype, 1)
        s = self.backend.asarray(np.array([size**2], np.zeros(0, self.dtype).real.dtype))
        return FixedRank(U, s, U, self.backend)

    def gradient_of_signal(self, x: Array, image: Array, residual: Array | None = None) -> PhaseGradient:
        """The gradient at ``x x^H`` for an (n, 1) array x, whose image ``A x`` is known and need not be computed again, and
        perhaps ``|A x|^2 - y``.
        """
        size = self.backend.norm(x)
        X = self._point(x, size)
        G = PhaseGradient(self, X, Images(self.linear_map, self.backend, X.U, image / (size or 1.0)))
        if residual is not None:
            vars(G)["residual"] = residual
        return G

    def project_feasible(self, X: FixedRank) -> FixedRank:
        """The best approximation to X that is Hermitian and positive semidefinite."""
        if X.hermitian:
            return X
        basis = self.backend.orthonormalize(self.backend.concat([X.U, X.V]))
        left, right = self.backend.gram(basis, X.U), self.backend.gram(basis, X.V)
        core = (left * self.backend.small(X.s)) @ right.conj().T
        values, vectors = self.backend.eigh((core + core.conj().T) / 2)
        s, (U,) = values[: X.rank], self.backend.asarrays(self.backend.product(basis, vectors[:, : X.rank]))
        return FixedRank(U, (s * (s > 0)).astype(X.real_dtype), U, X.backend)

    def signal(self, X: FixedRank) -> Array:
        """The x of ``X = x x^H``, in the shape of a signal or image; of the leading singular pair where X has more of them."""
        return X.backend.astype(math.sqrt(float(X.s[0])) * X.U[:, 0], self.dtype).reshape(self.signal_shape)

    def check_rank(self, rank: Any) -> int:
        rank = super().check_rank(rank)
        if rank > 1:
            warnings.warn(
                f"phase retrieval looks for one signal, X of rank 1: at rank {rank}, result.signal is its leading part alone",
                stacklevel=3,
            )
        return rank


def phase_distance(x: Any, truth: Any) -> float:
    """``min |x - c truth| / |truth|`` over all c of modulus 1: the distance up to a global phase (or sign).

    Parameters
    ----------
    x, truth : (n,) arrays

    Returns
    -------
    float

    Raises
    ------
    ValueError
        Where the two differ in length.

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
        raise ValueError(f"x and truth must be alike in length: got {x.size:,} and {counted(truth.size, 'entry', 'entries')}")
    size = float(np.linalg.norm(truth))
    if size == 0:
        raise ValueError("the true signal is zero: no distance is relative to it")
    overlap = np.vdot(truth, x)
    c = overlap / abs(overlap) if overlap != 0 else 1.0
    return float(np.linalg.norm(x - c * truth)) / size
