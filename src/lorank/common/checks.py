"""Checks of parameters.

An :class:`Expected` describes valid values as text and as a predicate. Dataclasses derive from :class:`Checked` and declare
their fields with :func:`parameter`; functions check their arguments with :func:`check`:

>>> check("factor", 0.5, POSITIVE)
>>> check("factor", -1, POSITIVE)
Traceback (most recent call last):
    ...
lorank.common.checks.ParameterError: factor must be positive and finite, got -1
"""

from __future__ import annotations

import difflib
import functools
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np


class ParameterError(ValueError):
    """A parameter with an invalid value.

    Parameters
    ----------
    name : str
        Name of the parameter.
    text : str
        What is wrong, following the name: ``"must be positive, got -1"``.
    owner : str, optional
        Name of the class that the parameter belongs to, put in front of the message.

    Attributes
    ----------
    name, text, owner
        As passed.

    Examples
    --------
    >>> error = ParameterError("rank", "must be 1 or more, got 0")
    >>> error.name, str(error)
    ('rank', 'rank must be 1 or more, got 0')
    """

    def __init__(self, name: str, text: str, owner: str | None = None) -> None:
        super().__init__(name, text, owner)  # all of them, so that the error can be pickled
        self.name, self.text, self.owner = name, text, owner

    def __str__(self) -> str:
        return f"{'' if self.owner is None else self.owner + ': '}{self.name} {self.text}"


@dataclass(frozen=True)
class Expected:
    """Valid values of a parameter.

    Attributes
    ----------
    text : str
        Description, following "must".
    holds : callable
        Whether a value is valid. It takes any object and raises nothing.
    names : tuple of str
        Valid names, for suggestions in messages.
    """

    text: str
    holds: Callable[[Any], bool]
    names: tuple[str, ...] = ()

    def refuse(self, name: str, value: Any, owner: str | None = None) -> ParameterError:
        """The error for a parameter with another value."""
        return ParameterError(name, f"must {self.text}, got {shown(value)}{did_you_mean(value, self.names)}", owner)


def _number(value: Any) -> float:
    """The value as a float; nan if it is no real number (bool and str are none)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except (OverflowError, ValueError, TypeError):  # an integer beyond the range of floats
        return math.nan


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(whole(1).holds(n) for n in value)


def _is_float_type(dtype: Any) -> bool:
    try:
        return dtype is not None and np.dtype(dtype) in (np.float32, np.float64, np.complex64, np.complex128)
    except (TypeError, ValueError):
        return False


NUMBER = Expected("be a finite number", lambda value: math.isfinite(_number(value)))
POSITIVE = Expected("be positive and finite", lambda value: 0 < _number(value) < math.inf)
POSITIVE_OR_INFINITE = Expected("be positive", lambda value: _number(value) > 0)
NOT_NEGATIVE = Expected("be a finite number, 0 or more", lambda value: 0 <= _number(value) < math.inf)
NOT_NEGATIVE_OR_INFINITE = Expected("be 0 or more", lambda value: _number(value) >= 0)
SHARE = Expected("lie between 0 and 1", lambda value: 0 < _number(value) < 1)
SHAPE = Expected("be a pair of positive integers (n1, n2)", lambda value: _is_shape(value))
FLOAT_TYPE = Expected("be float32, float64, complex64 or complex128", lambda value: _is_float_type(value))
PATH = Expected("be a path", lambda value: isinstance(value, (str, os.PathLike)) and value != "")
YES_OR_NO = Expected("be True or False", lambda value: isinstance(value, (bool, np.bool_)))
FUNCTION = Expected("be a function", lambda value: callable(value) and not isinstance(value, type))


def between(low: float, high: float, *, closed: bool = False, closed_above: bool = False) -> Expected:
    """A number in an interval, open by default."""
    if closed:
        return Expected(f"be a number from {low:g} to {high:g}", lambda value: low <= _number(value) <= high)
    if closed_above:
        return Expected(f"lie between {low:g} (excluded) and {high:g}", lambda value: low < _number(value) <= high)
    return Expected(f"lie between {low:g} and {high:g}", lambda value: low < _number(value) < high)


def whole(at_least: int, *, infinite: bool = False) -> Expected:
    """An integer, ``at_least`` or more; with ``infinite``, also the float inf."""

    def holds(value: Any) -> bool:
        if infinite and isinstance(value, float) and value == math.inf:
            return True
        return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least

    return Expected(f"be a whole number, {at_least} or more{' (or inf)' if infinite else ''}", holds)


def one_of(choices: Iterable[str]) -> Expected:
    """One of these strings."""
    names = tuple(choices)
    return Expected(f"be one of {', '.join(map(repr, names))}", lambda value: isinstance(value, str) and value in names, names)


def instance(kind: type | tuple[type, ...], what: str) -> Expected:
    """An instance of a class; ``what`` describes it, with an example."""
    return Expected(f"be {what}", lambda value: isinstance(value, kind))


def with_methods(*names: str, what: str) -> Expected:
    """An object (not a class) with these methods; ``what`` describes it, with an example."""

    def holds(value: Any) -> bool:
        return not isinstance(value, (type, str)) and all(callable(getattr(value, name, None)) for name in names)

    return Expected(f"be {what}", holds)


def optional(expected: Expected) -> Expected:
    """The same, or None."""
    return Expected(f"{expected.text}, or None", lambda value: value is None or expected.holds(value), expected.names)


def or_word(expected: Expected, *words: str) -> Expected:
    """The same, or one of these words, such as "auto"."""

    def holds(value: Any) -> bool:
        return value in words if isinstance(value, str) else expected.holds(value)

    return Expected(f"{expected.text}, or {one_of(words).text.removeprefix('be ')}", holds, words)


def check(name: str, value: Any, expected: Expected) -> None:
    """Raise a ParameterError if the value of a parameter is not as expected."""
    if not expected.holds(value):
        raise expected.refuse(name, value)


def check_parameters(owner: Any, **expected: Expected) -> None:
    """Check attributes of an object; raises a ParameterError for the first invalid one."""
    for name, one in expected.items():
        if not one.holds(value := getattr(owner, name)):
            raise one.refuse(name, value, type(owner).__name__)


def parameter(default: Any = MISSING, expected: Expected | None = None, *, factory: Any = MISSING, repr: bool = True) -> Any:
    """A field of a :class:`Checked` dataclass: its default (or a function that makes it), and its valid values."""
    return field(default=default, default_factory=factory, repr=repr, metadata={"expected": expected})


class Checked:
    """Base of dataclasses whose fields are checked when an object is made.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Damping(Checked):
    ...     factor: float = parameter(0.5, SHARE)
    >>> Damping(2.0)
    Traceback (most recent call last):
        ...
    lorank.common.checks.ParameterError: Damping: factor must lie between 0 and 1, got 2.0
    """

    def __post_init__(self) -> None:
        check_parameters(self, **_expected_values(type(self)))  # type: ignore[arg-type]


@functools.cache
def _expected_values(kind: type) -> dict[str, Expected]:
    """Valid values of the fields of a class; a field with another default keeps those of the base class."""
    declared = [vars(base).get("__dataclass_fields__", {}).values() for base in reversed(kind.__mro__)]
    found = {one.name: one.metadata.get("expected") for fields in declared for one in fields if "expected" in one.metadata}
    return {name: one for name, one in found.items() if one is not None}


def counted(count: int, thing: str, things: str | None = None) -> str:
    """A count with its noun, for messages.

    Examples
    --------
    >>> counted(1, "observation"), counted(25_000, "observation"), counted(0, "entry", "entries")
    ('1 observation', '25,000 observations', '0 entries')
    """
    return f"{int(count):,} {thing if count == 1 else things or thing + 's'}"


def did_you_mean(word: Any, names: Iterable[str], at_most: int = 1) -> str:
    """Similar names, as the end of a message about an unknown name; empty if there are none.

    Examples
    --------
    >>> did_you_mean("PRGD", ["rgd", "prgd"])
    ". Did you mean 'prgd'?"
    >>> did_you_mean("nothing like it", ["rgd", "prgd"])
    ''
    """
    if not isinstance(word, str) or not word:
        return ""
    names = list(names)
    near = [name for name in names if name.casefold() == word.casefold()]
    if not near:
        plain = {name.casefold(): name for name in names}
        near = [plain[found] for found in difflib.get_close_matches(word.casefold(), plain, at_most, 0.65)]
    return f". Did you mean {' or '.join(map(repr, near[:at_most]))}?" if near else ""


def shown(value: Any) -> str:
    """Short text of a value for messages, with a hint if it is a class instead of an object."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself: write {value.__name__}(...)"
    shape = getattr(value, "shape", None)
    if shape is not None and shape != ():
        return f"an array of shape {tuple(shape)}" if isinstance(shape, tuple) else type(value).__name__
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
