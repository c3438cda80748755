"""PyTorch backend: dense operations, and the making of observations.

Tall arrays are tensors on the device. Small ones are NumPy arrays on the host, where an operation on a few numbers takes less
time than a launch on a GPU. Linear combinations of tall arrays are evaluated lazily (:mod:`.lazy_arrays`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..numpy_backend import NumpyBackend
from ..observations import Array
from ..orthonormal import first_pass, second_pass
from ..protocol import Backend
from ..tensor_observations import TorchTensorObservations
from .basis import TorchBasis
from .lazy_arrays import GramCache, LazyArray, evaluate
from .observations import TorchObservations, block_passes

DTYPES = {
    np.dtype(name): getattr(torch, name)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128")
}
NAMES = {kind: dtype for dtype, kind in DTYPES.items()}
FROM_HOST = 1 << 17  # up to so many random numbers come from NumPy's generator: all backends then start from the same ones

# Bytes for each observation, besides its value, while observations are sorted: row and column indices (16), sort keys before
# and after (16), the permutation (8), and the memory of the sort itself (16).
SORTING_BYTES = 56
_NUMPY = NumpyBackend()


def find_device(name: str) -> torch.device:
    """Device by name; raises ValueError where it is missing."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"unknown device {name!r}: choose 'cpu', 'cuda' or 'cuda:0', 'cuda:1', ...") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise ValueError(f"device {name!r} is not supported: choose 'cpu' or 'cuda'")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not there:
        raise ValueError(f"device {name!r} is not available: PyTorch {torch.__version__} finds no GPU; use device='cpu'")
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= there:
        raise ValueError(
            f"device {name!r} is not available: PyTorch finds {there} GPU{'s' if there > 1 else ''}, cuda:0 being the first"
        )
    return torch.device("cuda", index)


class TorchBackend(Backend):
    """PyTorch on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.grams = device, GramCache()
        self.in_main_memory = device.type == "cpu"
        self._generator: torch.Generator | None = None
        self.name = "torch" if device.type == "cpu" else f"torch:{device}"

    def __reduce__(self) -> Any:
        from .. import device_backend

        return device_backend, (str(self.device),)

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchBackend:
        """Backend for the same device with its own cache, for another thread."""
        return TorchBackend(self.device)

    # -- making arrays ---------------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        kind = None if dtype is None else DTYPES[np.dtype(dtype)]
        if isinstance(a, LazyArray):
            a = a.tensor()
        if not isinstance(a, torch.Tensor):
            a = np.ascontiguousarray(a)
            a = torch.from_numpy(a if a.flags.writeable and min(a.strides, default=0) >= 0 else a.copy())
        return a.detach().to(self.device, kind).contiguous().resolve_conj() if self._foreign(a, kind) else a

    def _foreign(self, a: Array, kind: Any) -> bool:
        """The tensor must be converted. Others keep their identity, by which Hermitian points are recognized."""
        same = a.device == self.device and (kind is None or a.dtype == kind)
        return not (same and a.is_contiguous() and not a.is_conj() and not a.requires_grad)

    def asmatrix(self, matrix: Any) -> Any:
        return self.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)

    def asindex(self, a: Array) -> Array:
        if isinstance(a, np.ndarray) and a.dtype.kind == "u":
            a = a.astype(np.int64)
        a = self.asarray(a)
        return a if a.dtype in (torch.int32, torch.int64) else a.long()

    def dtype(self, a: Array) -> np.dtype:
        return NAMES[a.dtype] if isinstance(a, (torch.Tensor, LazyArray)) else np.asarray(a).dtype

    def astype(self, a: Array, dtype: Any) -> Array:
        return a.to(DTYPES[np.dtype(dtype)])

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return torch.zeros(shape, dtype=DTYPES[np.dtype(dtype)], device=self.device)

    def eye(self, n: int, dtype: Any, width: int | None = None) -> Array:
        return torch.eye(n, n if width is None else width, dtype=DTYPES[np.dtype(dtype)], device=self.device)

    def copy(self, a: Array) -> Array:
        return a.clone(memory_format=torch.contiguous_format)

    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Up to :data:`FROM_HOST` numbers as NumPy has them; more are drawn on the device, seeded by ``rng``."""
        if self.device.type == "cpu" or int(np.prod(shape)) <= FROM_HOST:
            return self.asarray(_NUMPY.random_normal(rng, shape, dtype))
        kind = DTYPES[np.dtype(dtype)]
        if self._generator is None:
            self._generator = torch.Generator(self.device)
        self._generator.manual_seed(int(rng.integers(2**62)))
        a = torch.randn(shape, dtype=kind, device=self.device, generator=self._generator)
        return a * 2**0.5 if kind.is_complex else a  # those of torch have unit variance

    def detached(self, a: Array) -> Array:
        return a.detach()

    def to_numpy(self, a: Array) -> np.ndarray:
        return a.detach().resolve_conj().cpu().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)

    def small(self, a: Array) -> np.ndarray:
        """The NumPy array that the singular values were made from, where unchanged."""
        known = getattr(a, "host", None)
        return known[1] if known is not None and known[0] == a._version else self.to_numpy(a)

    def values(self, s: Array) -> Array:
        if isinstance(s, torch.Tensor):
            return s
        tensor = self.asarray(s)
        tensor.host = tensor._version, s
        return tensor

    # -- entries and indices ---------------------------------------------------------------------------------------
    def all_finite(self, a: Array) -> bool:
        return math.isfinite(abs(a.sum().item())) or bool(torch.isfinite(a).all())  # the sum alone may overflow

    def max_abs(self, a: Array) -> float:
        return float(abs(a).max())

    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        """By sorting: ``torch.quantile`` refuses more than 16 million entries."""
        a = a.sort().values
        places = [(len(a) - 1) * q / 100 for q in at]
        around = [int(k) for k in places] + [min(int(k) + 1, len(a) - 1) for k in places]
        found = torch.stack([a[k] for k in around]).tolist()
        return [x + (k - int(k)) * (y - x) for k, x, y in zip(places, found, found[len(places) :], strict=False)]

    def flatnonzero(self, flags: Array) -> Array:
        return flags.nonzero()[:, 0]

    def top_k(self, block: Array, n: int, hidden: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        if len(hidden[0]):
            block[tuple(torch.from_numpy(np.ascontiguousarray(a, np.int64)).to(block.device) for a in hidden)] = -torch.inf
        value, found = torch.topk(block, min(n + 1, block.shape[1]), dim=1, sorted=False)
        found = found.sort(dim=1).values  # increasing, so that a stable sort keeps the smaller column first
        value, order = torch.gather(block, 1, found).sort(dim=1, descending=True, stable=True)
        found = torch.gather(found, 1, order)
        if value.shape[1] > n:
            tied = torch.nonzero((value[:, n] == value[:, n - 1]) & torch.isfinite(value[:, n]))[:, 0]
            for part in tied.split(max(1, (1 << 26) // block.shape[1])):  # topk chooses arbitrarily among equal entries
                found[part, :n] = block[part].sort(dim=1, descending=True, stable=True).indices[:, :n]
        return found[:, :n].cpu().numpy(), value[:, :n].double().cpu().numpy()

    def squared_norms(self, matrix: Any, axis: int) -> Array:
        return (abs(matrix).double() ** 2).sum(axis)

    def fft(self, a: Array, axes: tuple[int, ...]) -> Array:
        return torch.fft.fftn(a, dim=axes)

    def inverse_fft(self, a: Array, axes: tuple[int, ...], *, adjoint: bool = False) -> Array:
        return torch.fft.ifftn(a, dim=axes, norm="forward" if adjoint else "backward")

    def hermitian_eigen(self, a: Array) -> tuple[Array, Array]:
        values, vectors = torch.linalg.eigh(a)
        return values.clamp(min=0.0), vectors

    def tanh(self, a: Array) -> Array:
        return torch.tanh(a)

    def bessel_ratio(self, a: Array) -> Array:
        return torch.special.i1e(a) / torch.special.i0e(a)

    # -- tall arrays -----------------------------------------------------------------------------------------------
    def product(self, u: Array, a: Array) -> Array:
        return LazyArray.of(u).times(a)

    def minus(self, y: Array, u: Array, a: Array) -> Array:
        return LazyArray.of(y) + LazyArray.of(u).times(-a)

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        return LazyArray.of(u).times(a) + LazyArray.of(v).times(b)

    def asarrays(self, *arrays: Array) -> tuple[Array, ...]:
        return tuple(evaluate([LazyArray.of(a) for a in arrays]))

    def prepare_grams(self, *sides: Sequence[Array]) -> None:
        pairs: list[tuple[LazyArray, LazyArray]] = []
        for side in sides:
            tensors = {id(t): t for a in side for t in (a.tensors if isinstance(a, LazyArray) else (a,))}.values()
            whole = LazyArray(tuple(tensors), None, (0, 0))
            pairs.append((whole, whole))
        self.grams.require(pairs)

    def gram(self, a: Array, b: Array) -> Array:
        known = None if isinstance(a, LazyArray) or isinstance(b, LazyArray) else self.grams.find(a, b)
        product = self.grams.product(LazyArray.of(a), LazyArray.of(b)) if known is None else known
        return product.astype(self.dtype(b), copy=False)

    def project_out(self, basis: Array, y: Array) -> tuple[Array, Array]:
        (y,) = self.asarrays(y)
        first = basis.mH @ y
        y = torch.addmm(y, basis, first, alpha=-1)
        second = basis.mH @ y
        return y.addmm_(basis, second, alpha=-1), self.to_numpy(first.add_(second))

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        return torch.cat(self.asarrays(*blocks) if axis == 1 else list(blocks), dim=axis)

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        step = 1 << (16 if self.device.type == "cpu" else 22)
        parts = [
            (left[rows[k : k + step]] * right[cols[k : k + step]].conj()).sum(1) for k in range(0, max(len(rows), 1), step)
        ]
        return torch.cat(parts)

    def norm(self, a: Array) -> float:
        return self.norms([a])[0]

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        combined = [a for a in arrays if isinstance(a, LazyArray) and len(a.tensors) > 1]
        if combined:
            self.grams.require([(a, a) for a in combined])
        return _floats([self._square(a) if isinstance(a, LazyArray) and len(a.tensors) > 1 else _norm(a) for a in arrays])

    def _square(self, a: LazyArray) -> float:
        return math.sqrt(max(float(self.grams.product(a, a).trace().real), 0.0))

    def inner(self, a: Array, b: Array) -> float:
        return self.inners([(a, b)])[0]

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        pairs = [
            (LazyArray.of(a), LazyArray.of(b)) if isinstance(a, LazyArray) or isinstance(b, LazyArray) else (a, b)
            for a, b in pairs
        ]
        combined = [(a, b) for a, b in pairs if isinstance(a, LazyArray)]
        if len(combined) > 1:
            self.grams.require(combined)
        return _floats([self._inner(a, b) for a, b in pairs])

    def _inner(self, a: Array, b: Array) -> Any:
        return float(self.grams.product(a, b).trace().real) if isinstance(a, LazyArray) else _inner(a, b)

    def row_squares(self, a: Array) -> Array:
        return (abs(a) ** 2).sum(1)

    def qr(self, a: Array) -> tuple[Array, Array]:
        """By two Gram/Cholesky passes where that is accurate, else by Householder reflections."""
        (a,) = self.asarrays(a)
        extended = self.extend_basis(a[:, :0], a)
        if extended is not None:
            return extended
        if not self.all_finite(a):
            k = min(a.shape)
            return torch.full_like(a[:, :k], torch.nan), np.full((k, a.shape[1]), np.nan, self.dtype(a))
        q, r = torch.linalg.qr(a)
        return q, self.to_numpy(r)

    def qrs(self, arrays: Sequence[Array]) -> list[tuple[Array, Array]]:
        arrays = self.asarrays(*arrays)
        found = self.extend_bases([(a[:, :0], a) for a in arrays])
        return [self.qr(a) for a in arrays] if found is None else found

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, Array] | None:
        found = self.extend_bases([(u, y)])
        return None if found is None else (self.asarrays(found[0][0])[0], found[0][1])

    def basis(self, n: int, width: int, dtype: Any) -> TorchBasis:
        return TorchBasis(self)

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]] | None:
        """The factors q are lazy combinations of u and of a first, nearly orthonormal q."""
        if any(y.shape[0] < y.shape[1] for _, y in pairs):
            return None
        ys = [LazyArray.of(y) for _, y in pairs]
        found = self._extend(pairs, ys)
        if found is None and any(len(y.tensors) > 1 for y in ys):  # the terms may cancel: evaluate first
            evaluate(ys)
            found = self._extend(pairs, ys)
        return found

    def _extend(self, pairs: Sequence[tuple[Array, Array]], ys: Sequence[LazyArray]) -> list[tuple[Array, Array]] | None:
        self.grams.require([(y, y) for y in ys])
        squares = [self.grams.product(y, y) for y in ys]
        firsts = [first_pass(g) for g in squares]
        if any(f is None for f in firsts):
            return None
        ks, inverses = zip(*(f for f in firsts if f is not None), strict=True)
        qs = [LazyArray.of(q) for q in evaluate([y.times(inverse) for y, inverse in zip(ys, inverses, strict=True)])]
        us = [LazyArray.of(u) for u, _ in pairs]
        self.grams.require([(a, q) for u, q in zip(us, qs, strict=True) for a in (u, q) if a.shape[1]])
        found = []
        for u, (_, y), q, k in zip(us, pairs, qs, ks, strict=True):
            measured = self.grams.product(q, q)
            overlap = self.grams.product(u, q) if u.shape[1] else np.zeros((0, len(k)))
            second = second_pass(measured - overlap.conj().T @ overlap)  # Gram matrix of q minus its projection on u
            if second is None:
                return None
            factor, inverse = second
            if isinstance(y, LazyArray):
                y.replace_terms(q.tensors, k)
            orthonormal = q.times(inverse)
            if u.shape[1]:
                orthonormal = orthonormal + u.times(-overlap @ inverse)
            found.append((orthonormal, (factor @ k).astype(self.dtype(q), copy=False)))
        return found

    def orthonormalize(self, y: Array) -> Array:
        return self.qr(y)[0]

    # -- small arrays ----------------------------------------------------------------------------------------------
    def inverses(self, stack: Array) -> Array:
        return torch.linalg.inv(stack)

    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        fused = block_passes(stack)
        solve = super().block_solver(stack) if fused is None else fused.block_solver(stack)
        return lambda a: solve(evaluate([LazyArray.of(a)])[0])

    # -- observations ----------------------------------------------------------------------------------------------
    def check_memory(self, m: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        needed = m * (SORTING_BYTES + 3 * np.dtype(dtype).itemsize) + 16 * sum(shape)
        self.check_bytes(needed, f"{m:,} observations of a {shape[0]} x {shape[1]} matrix while they are sorted")

    def check_bytes(self, needed: int, what: str) -> None:
        free = free_bytes(self.device)
        if free is not None and needed > free:
            raise MemoryError(
                f"{what}: about {needed / 1e9:.1f} GB are needed on {self.device}, and {free / 1e9:.1f} GB are free: use "
                "single precision, a smaller rank or fewer observations, or leave out device to compute in main memory"
            )

    def row_major_order(self, rows: Array, cols: Array, shape: tuple[int, int]) -> Array:
        return _sorted_keys(self.asindex(rows), self.asindex(cols), shape[1])[1]

    def sorted_pattern(
        self, rows: Array, cols: Array, values: Array, shape: tuple[int, int]
    ) -> tuple[Array, Array, Array, Array]:
        keys, order = _sorted_keys(rows, cols, shape[1])
        # The keys of row i are i n2 and above.
        starts = torch.arange(shape[0] + 1, device=self.device, dtype=torch.int64).mul_(shape[1])
        indptr = torch.searchsorted(keys, starts)
        return indptr, keys.remainder_(shape[1]).to(torch.int32), values[order], order

    def repetitions(self, indptr: Array, indices: Array) -> Array:
        flags = indices[1:] == indices[:-1]
        inner = indptr[(indptr > 0) & (indptr < len(indices))]
        flags[inner - 1] = False  # a pair across the end of a row
        return self.flatnonzero(flags)

    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> TorchObservations:
        indptr, indices, values = self.asarray(indptr, np.int64), self.asarray(indices, np.int32), self.asarray(values)
        return TorchObservations(indptr, indices, values, n2)

    def make_tensor_observations(self, indices: np.ndarray, shape: Sequence[int]) -> TorchTensorObservations:
        return TorchTensorObservations(indices, shape, self.device)


def free_bytes(device: torch.device) -> int | None:
    """Bytes that can be allocated on a GPU, including the reserve of torch; None for the CPU."""
    if device.type != "cuda":
        return None
    free = torch.cuda.mem_get_info(device)[0]
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def _floats(found: Sequence[Any]) -> list[float]:
    """Numbers as floats; those on the device in one transfer."""
    there = [x for x in found if isinstance(x, torch.Tensor)]
    fetched = iter((torch.stack(there) if len(there) > 1 else there[0].reshape(1)).tolist() if there else ())
    return [next(fetched) if isinstance(x, torch.Tensor) else x for x in found]


def _norm(a: Array) -> Any:
    if isinstance(a, np.ndarray):
        return _NUMPY.norm(a)
    a = a.tensor() if isinstance(a, LazyArray) else a
    return torch.linalg.vector_norm(a, dtype=torch.complex128 if a.is_complex() else torch.float64)


def _inner(a: Array, b: Array) -> Any:
    if isinstance(a, np.ndarray):
        return _NUMPY.inner(a, b)
    if a.dtype == b.dtype == torch.float64:
        return torch.dot(a.reshape(-1), b.reshape(-1))
    if a.is_complex() or b.is_complex():
        a, b = a.to(torch.complex128), b.to(torch.complex128)
        return torch.vdot(a.reshape(-1), b.reshape(-1)).real
    return torch.sum(a * b, dtype=torch.float64)


def _sorted_keys(rows: Array, cols: Array, n2: int) -> tuple[Array, Array]:
    """Sorted row-major positions of the observations in the matrix, and the permutation."""
    keys = rows.long() * n2
    keys += cols
    return torch.sort(keys, stable=True)
