"""A user's pair of functions: do they take what they are given, belong together, and see all of the matrix?"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.checks import ParameterError, counted
from .dot_test import dot_test
from .problem import MatrixProblem

NAMED = 5  # rows and columns that a warning names


def check_function(name: str, function: Any, arguments: tuple[str, ...], gives: str) -> None:
    """A ValueError for what cannot be called with so many arguments, with what is expected and what was given.

    Parameters
    ----------
    name : str
    function : object
    arguments : tuple of str
        What they are called in messages.
    gives : str
        What it returns, in words.
    """
    wanted = f"{name}({', '.join(arguments)}), which gives {gives}"
    if not callable(function):
        raise ParameterError(name, f"must be a function, {wanted}: got {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some that are written in C do not say
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        own = getattr(function, "__name__", type(function).__name__)
        own = "a lambda" if own == "<lambda>" else own
        raise ParameterError(name, f"must be a function {wanted}: got {own}{signature}") from None


def check_pair(problem: MatrixProblem, rank: int, sides: tuple[str, str], stacklevel: int) -> None:
    """The dot test, as a ValueError; and a warning with the rows and columns that no measurement touches.

    Parameters
    ----------
    problem : Problem
    rank : int
        Of the dot test.
    sides : pair of str
        What a row and a column are called: where both are called the same, they are the same, and are named once.
    stacklevel : int
        Of the warning.
    """
    try:
        dot_test(problem, rank=rank)
    except AssertionError as error:
        raise ValueError(str(error)) from None
    found = untouched(problem)
    said = [_listed(side, places) for side, places in zip(sides, found, strict=True) if len(places)]
    if said:
        text = " and ".join(dict.fromkeys(said))
        warnings.warn(
            f"no measurement touches {text}: what is found there says nothing. Leave out what is not measured, or measure it; "
            "if it is, forward and adjoint lose it",
            UserWarning,
            stacklevel=stacklevel,
        )


def untouched(problem: MatrixProblem) -> tuple[np.ndarray, np.ndarray]:
    """The rows and the columns of X that no measurement depends on: where ``A* p`` is zero for a random p.

    By its products with a thin random array from either side, since it may be a LinearOperator.
    """
    backend, rng = problem.backend, np.random.default_rng(0)
    p = backend.random_normal(rng, (problem.m,), problem.dtype)
    v, u = (backend.random_normal(rng, (n, 2), problem.dtype) for n in reversed(problem.shape))
    products: tuple[Callable[[Any], Any], ...] = problem.products(p)
    sizes = [np.abs(backend.to_numpy(times(a))).max(axis=1) for times, a in zip(products, (v, u), strict=True)]
    rounding = 1000 * np.finfo(problem.dtype).eps
    rows, cols = (np.flatnonzero(size <= rounding * size.max()) for size in sizes)
    return rows, cols


def _listed(side: str, places: np.ndarray) -> str:
    plural = side if len(places) == 1 else {"entry": "entries"}.get(side, f"{side}s")
    more = f" and {counted(len(places) - NAMED, 'other')}" if len(places) > NAMED else ""
    return f"{plural} {', '.join(map(str, places[:NAMED]))}{more}"
