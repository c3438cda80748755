"""Array backends and sparse-observation kernels: NumPy, C++ and PyTorch.

A backend is a subclass of :class:`Backend` (:mod:`lorank.backends.protocol`) and a call of :func:`register_backend`.
"""

from .entrywise import entrywise, reduced, total
from .observations import Array, HostEntries, Observations, Vector
from .protocol import Arrays, Backend
from .registry import as_owned, backend_of, device_backend, get_backend, register_backend

__all__ = [
    "Array",
    "Arrays",
    "Backend",
    "HostEntries",
    "Observations",
    "Vector",
    "as_owned",
    "backend_of",
    "device_backend",
    "entrywise",
    "get_backend",
    "reduced",
    "register_backend",
    "total",
]
