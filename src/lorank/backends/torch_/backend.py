"""Dense operations on PyTorch tensors.

Tall arrays stay on the device. Small factorisations (Cholesky, SVD of a few columns) are made by NumPy on the host: for such
sizes a transfer there and back takes less time than a solver's launches on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..dense import Array, Dense, first_pass, second_pass
from ..reference import Reference
from .observations import TorchObservations

DTYPES = {
    np.dtype(name): getattr(torch, name)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128")
}
NAMES = {kind: dtype for dtype, kind in DTYPES.items()}
FROM_HOST = 1 << 18  # random numbers: as many come from NumPy's generator, so that all backends start alike
TALL = 1 << 16  # rows from which a Gram matrix is added up in parts
PARTS = 256
ON_HOST = 512  # columns up to which a factorisation is NumPy's

_NUMPY = Dense()


def find_device(name: str) -> torch.device:
    """The device of that name, or a ValueError that says what there is."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"unknown device {name!r}: choose 'cpu', 'cuda' or 'cuda:0', 'cuda:1', ...") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise ValueError(f"device {name!r} is of a kind that lorank does not use: choose 'cpu' or 'cuda'")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not there:
        raise ValueError(f"device {name!r} is not there: PyTorch {torch.__version__} sees no GPU; use device='cpu' or none")
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= there:
        raise ValueError(f"device {name!r} is not there: PyTorch sees {there} GPU{'s' if there > 1 else ''}, cuda:0 being the first")
    return torch.device("cuda", index)


class Torch(Reference):
    """PyTorch on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.name = "torch" if device.type == "cpu" else f"torch:{device}"

    def __reduce__(self) -> Any:
        from .. import torch_backend

        return torch_backend, (str(self.device),)

    # -- making arrays ---------------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        kind = None if dtype is None else DTYPES[np.dtype(dtype)]
        if not isinstance(a, torch.Tensor):
            a = np.ascontiguousarray(a)
            a = torch.from_numpy(a if a.flags.writeable else a.copy())
        return a.detach().to(self.device, kind).contiguous().resolve_conj() if self._foreign(a, kind) else a

    def _foreign(self, a: Array, kind: Any) -> bool:
        """Whether a tensor must be converted: one that need not keeps its identity, by which Hermitian points are known."""
        same = a.device == self.device and (kind is None or a.dtype == kind)
        return not (same and a.is_contiguous() and not a.is_conj() and not a.requires_grad)

    def asindex(self, a: Array) -> Array:
        a = self.asarray(a)
        return a if a.dtype in (torch.int32, torch.int64) else a.long()

    def dtype(self, a: Array) -> np.dtype:
        return NAMES[a.dtype] if isinstance(a, torch.Tensor) else np.asarray(a).dtype

    def astype(self, a: Array, dtype: Any) -> Array:
        return a.to(DTYPES[np.dtype(dtype)])

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return torch.zeros(shape, dtype=DTYPES[np.dtype(dtype)], device=self.device)

    def eye(self, n: int, dtype: Any, width: int | None = None) -> Array:
        return torch.eye(n, n if width is None else width, dtype=DTYPES[np.dtype(dtype)], device=self.device)

    def copy(self, a: Array) -> Array:
        return a.clone(memory_format=torch.contiguous_format)

    def normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """The same numbers as NumPy's up to a quarter of a million; more are drawn on the device, seeded by ``rng``."""
        if self.device.type == "cpu" or int(np.prod(shape)) <= FROM_HOST:
            return self.asarray(_NUMPY.normal(rng, shape, dtype))
        kind = DTYPES[np.dtype(dtype)]
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        a = torch.randn(shape, dtype=kind, device=self.device, generator=generator)
        return a * 2**0.5 if kind.is_complex else a  # torch draws complex numbers of unit variance

    def to_numpy(self, a: Array) -> np.ndarray:
        return a.detach().resolve_conj().cpu().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)

    # -- entries and indices ---------------------------------------------------------------------------------------
    def all_finite(self, a: Array) -> bool:
        return bool(torch.isfinite(a).all())

    def first(self, flags: Array) -> int:
        return int(flags.to(torch.uint8).argmax())

    def count(self, index: Array, n: int) -> Array:
        return torch.bincount(index, minlength=n)

    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        """By sorting: ``torch.quantile`` refuses more than 16 million entries."""
        a = a.sort().values
        places = [(len(a) - 1) * q / 100 for q in at]
        low = torch.stack([a[int(k)] for k in places]).tolist()
        high = torch.stack([a[min(int(k) + 1, len(a) - 1)] for k in places]).tolist()
        return [x + (k - int(k)) * (y - x) for k, x, y in zip(places, low, high, strict=True)]

    def median(self, a: Array) -> float:
        return self.percentiles(a, [50])[0]

    def places(self, flags: Array) -> Array:
        return flags.nonzero()[:, 0]

    def fft(self, a: Array, axes: tuple[int, ...]) -> Array:
        return torch.fft.fftn(a, dim=axes)

    def inverse_fft(self, a: Array, axes: tuple[int, ...], *, adjoint: bool = False) -> Array:
        return torch.fft.ifftn(a, dim=axes, norm="forward" if adjoint else "backward")

    # -- tall arrays -----------------------------------------------------------------------------------------------
    def minus(self, y: Array, u: Array, a: Array, *, overwrite: bool = False) -> Array:
        if overwrite:
            return y.addmm_(u, a, alpha=-1)
        return torch.addmm(y, u, a, alpha=-1)

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        return (u @ a).addmm_(v, b)

    def gram(self, a: Array, b: Array) -> Array:
        n = len(a)
        if self.device.type == "cpu" or n < TALL:
            return a.mH @ b
        # One product would leave most of the GPU idle: its result is a single tile.
        k = n // PARTS
        head = torch.bmm(a[: k * PARTS].unflatten(0, (PARTS, k)).mH, b[: k * PARTS].unflatten(0, (PARTS, k))).sum(0)
        return head if k * PARTS == n else head.addmm_(a[k * PARTS :].mH, b[k * PARTS :])

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        return torch.cat(list(blocks), dim=axis)

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        step = 1 << (16 if self.device.type == "cpu" else 22)
        parts = [
            (left[rows[k : k + step]] * right[cols[k : k + step]].conj()).sum(1) for k in range(0, max(len(rows), 1), step)
        ]
        return torch.cat(parts)

    def norm(self, a: Array) -> float:
        return float(_norm(a))

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        return torch.stack([_norm(a) for a in arrays]).tolist()

    def inner(self, a: Array, b: Array) -> float:
        return float(_inner(a, b))

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        return torch.stack([_inner(a, b) for a, b in pairs]).tolist()

    def qr(self, a: Array) -> tuple[Array, Array]:
        """By two Gram/Cholesky passes where that is safe, by Householder reflections otherwise."""
        extended = self.extend_basis(a[:, :0], a)
        if extended is not None:
            return extended
        if not self.all_finite(a):
            k = min(a.shape)
            return torch.full_like(a[:, :k], torch.nan), torch.full((k, a.shape[1]), torch.nan, dtype=a.dtype, device=a.device)
        q, k = torch.linalg.qr(a)
        return q, k

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, Array] | None:
        found = self.extend_bases([(u, y)])
        return None if found is None else found[0]

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]] | None:
        """The Gram matrices of all pairs travel to the host together, and the small factors back."""
        if any(y.shape[0] < y.shape[1] for _, y in pairs):
            return None
        dtype = pairs[0][1].dtype
        firsts = [first_pass(g) for g in self._fetch([self.gram(y, y) for _, y in pairs])]
        if any(f is None for f in firsts):
            return None
        inverses = self._send([f[1] for f in firsts if f is not None], dtype)
        qs = [y @ inverse for (_, y), inverse in zip(pairs, inverses, strict=True)]
        for k, (u, _) in enumerate(pairs):
            if u.shape[1]:
                qs[k] = self.minus(qs[k], u, self.gram(u, qs[k]), overwrite=True)
        seconds = [second_pass(g) for g in self._fetch([self.gram(q, q) for q in qs])]
        if any(s is None for s in seconds):
            return None
        small = [a for f, s in zip(firsts, seconds, strict=True) if f is not None and s is not None for a in (s[1], s[0] @ f[0])]
        sent = self._send(small, dtype)
        return [(q @ sent[2 * k], sent[2 * k + 1]) for k, q in enumerate(qs)]

    # -- small arrays ----------------------------------------------------------------------------------------------
    def _fetch(self, arrays: Sequence[Array]) -> list[np.ndarray]:
        """Small matrices to the host, in one transfer."""
        if len(arrays) == 1 or self.device.type == "cpu":
            return [self.to_numpy(a) for a in arrays]
        flat = self.to_numpy(torch.cat([a.reshape(-1) for a in arrays]))
        ends = np.cumsum([a.numel() for a in arrays])
        return [part.reshape(a.shape) for part, a in zip(np.split(flat, ends[:-1]), arrays, strict=True)]

    def _send(self, arrays: Sequence[np.ndarray], dtype: Any) -> list[Array]:
        """Small matrices to the device, in one transfer."""
        flat = torch.from_numpy(np.concatenate([a.ravel() for a in arrays]).astype(NAMES[dtype], copy=False)).to(self.device)
        return [part.view(a.shape) for part, a in zip(flat.split([a.size for a in arrays]), arrays, strict=True)]

    def svd(self, a: Array) -> tuple[Array, Array, Array]:
        if min(a.shape) > ON_HOST and self.device.type != "cpu" and self.all_finite(a):
            u, s, vh = torch.linalg.svd(a, full_matrices=False)
            return u, s, vh.mH
        u, s, v = _NUMPY.svd(self.to_numpy(a))
        left, values, right = self._send([u, s, v], a.dtype)
        return left, values.real.contiguous() if a.is_complex() else values, right

    def eigh(self, a: Array) -> tuple[Array, Array]:
        values, vectors = _NUMPY.eigh(self.to_numpy(a))
        return self.asarray(values), self.asarray(vectors)

    def inverse(self, m: Array) -> Array:
        return self.asarray(_NUMPY.inverse(self.to_numpy(m)))

    def add_diagonal(self, m: Array, d: Array) -> Array:
        m.diagonal().add_(d)
        return m

    # -- observations ----------------------------------------------------------------------------------------------
    def require_room(self, m: int, shape: tuple[int, int], dtype: np.dtype) -> None:
        TorchObservations.require_room(self.device, m, shape, np.dtype(dtype).itemsize)

    def row_major_order(self, rows: Array, cols: Array, shape: tuple[int, int]) -> Array:
        return _sorted_keys(self.asindex(rows), self.asindex(cols), shape[1])[1]

    def sorted_pattern(
        self, rows: Array, cols: Array, values: Array, shape: tuple[int, int]
    ) -> tuple[Array, Array, Array, Array]:
        keys, order = _sorted_keys(rows, cols, shape[1])
        # The first key of row i is i n2 or more.
        starts = torch.arange(shape[0] + 1, device=self.device, dtype=torch.int64).mul_(shape[1])
        indptr = torch.searchsorted(keys, starts)
        return indptr, keys.remainder_(shape[1]).to(torch.int32), values[order], order

    def repetitions(self, indptr: Array, indices: Array) -> Array:
        flags = indices[1:] == indices[:-1]
        inner = indptr[(indptr > 0) & (indptr < len(indices))]
        flags[inner - 1] = False  # a pair across the end of a row
        return self.places(flags)

    def observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> TorchObservations:
        indptr, indices, values = self.asarray(indptr, np.int64), self.asarray(indices, np.int32), self.asarray(values)
        return TorchObservations(indptr, indices, values, n2)

    def release(self) -> None:
        """Nothing: torch keeps freed memory for the next run by itself."""


def _norm(a: Array) -> Array:
    return torch.linalg.vector_norm(a, dtype=torch.complex128 if a.is_complex() else torch.float64)


def _inner(a: Array, b: Array) -> Array:
    if a.dtype == b.dtype == torch.float64:
        return torch.dot(a.reshape(-1), b.reshape(-1))
    if a.is_complex() or b.is_complex():
        a, b = a.to(torch.complex128), b.to(torch.complex128)
        return torch.vdot(a.reshape(-1), b.reshape(-1)).real
    return torch.sum(a * b, dtype=torch.float64)


def _sorted_keys(rows: Array, cols: Array, n2: int) -> tuple[Array, Array]:
    """The observations' places in the matrix, row by row, in rising order, and where they stood before."""
    keys = rows.long() * n2
    keys += cols
    return torch.sort(keys, stable=True)
