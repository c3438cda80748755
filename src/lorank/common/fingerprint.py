"""Fingerprints of objects: text that depends on the class and all parameters."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def fingerprint(a: Any) -> str:
    """Class and parameters of an object as text, recursively.

    Two solvers of the same class with the same parameters have the same fingerprint, also in another process.

    Examples
    --------
    >>> from lorank.loop.steps import Polyak
    >>> fingerprint(Polyak(longest=5.0)) == fingerprint(Polyak(longest=7.0)), fingerprint(Polyak()) == fingerprint(Polyak())
    (False, True)
    """
    if a is None or isinstance(a, (bool, int, float, complex, str, bytes)):
        return repr(a)
    if isinstance(a, np.generic):
        return repr(a.item())
    if isinstance(a, np.ndarray):
        return f"array({a.dtype}, {a.shape}, {hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()})"
    if isinstance(a, (tuple, list)):
        return f"[{', '.join(map(fingerprint, a))}]"
    if isinstance(a, (dict, set, frozenset)):
        pairs = a.items() if isinstance(a, dict) else ((one, None) for one in a)
        return "{" + ", ".join(sorted(f"{fingerprint(key)}: {fingerprint(value)}" for key, value in pairs)) + "}"
    if callable(a) and hasattr(a, "__qualname__"):  # functions and classes
        return f"{a.__module__}.{a.__qualname__}"
    names = [f.name for f in fields(a)] if is_dataclass(a) else sorted(getattr(a, "__dict__", {}))
    inside = ", ".join(f"{name}={fingerprint(getattr(a, name))}" for name in names)
    return f"{type(a).__module__}.{type(a).__qualname__}({inside})"
