"""Where the arrays live and who passes over the observations.

A backend supplies the short list of operations that the rest of the package is written in (:mod:`lorank.backends.base`). A new
one is one new file and a call of :func:`register_backend`.
"""

from .entrywise import entrywise, reduced, total
from .protocol import Array, Arrays, Backend, HostEntries, Observations, Vector
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
