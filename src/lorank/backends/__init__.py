"""Where the arrays live and who passes over the observations.

A backend supplies the short list of operations that the rest of the package is written in: a few on tall arrays
(:class:`~lorank.backends.dense.Dense`) and the passes over observed entries
(:class:`~lorank.backends.reference.ReferenceObservations` shows them in plain NumPy). A new backend is one new file.
"""

from __future__ import annotations

import functools
import warnings

from .reference import Reference

__all__ = ["Reference", "get_backend"]


def get_backend(name: str | Reference | None = None) -> Reference:
    """The backend of that name: ``"native"`` (C++), ``"reference"`` (NumPy and SciPy), or the best there is.

    Parameters
    ----------
    name : str, backend or None
        None takes ``"native"`` where the extension was built, else ``"reference"`` with a warning.
    """
    if name is None:
        return _best()
    if isinstance(name, Reference):
        return name
    if name == "reference":
        return _reference()
    if name == "native":
        native = _native()
        if native is None:
            raise ValueError(
                "backend 'native' is not available: lorank was installed without its C++ extension; reinstall it "
                "where a C++17 compiler is found, or use backend='reference'"
            )
        return native
    raise ValueError(f"unknown backend {name!r}: choose 'native' or 'reference'")


@functools.cache
def _reference() -> Reference:
    return Reference()


@functools.cache
def _native() -> Reference | None:
    try:
        from .native import Native
    except ImportError:
        return None
    return Native()


@functools.cache
def _best() -> Reference:
    native = _native()
    if native is not None:
        return native
    warnings.warn(
        "lorank runs on its NumPy/SciPy reference path, several times slower than its C++ kernels: "
        "reinstall it where a C++17 compiler is found",
        RuntimeWarning,
        stacklevel=4,
    )
    return _reference()
