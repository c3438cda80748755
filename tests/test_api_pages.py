"""Pages of the reference: defaults of dataclasses are shown, internal members are not."""

from __future__ import annotations

import importlib.util
import inspect
import typing
from pathlib import Path

import pytest

import lorank as lr

PATH = Path(__file__).parents[1] / "docs" / "_ext" / "api_pages.py"


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("api_pages", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "kind", [lr.solvers.RGD, lr.solvers.RCG, lr.plans.Auto, lr.phase.AutoPhase], ids=lambda one: one.__name__
)
def test_defaults_are_shown(pages, kind):
    signature = str(inspect.signature(kind))
    assert "<factory>" in signature
    shown, _ = pages.show_defaults(None, "class", kind.__name__, kind, None, signature, None)
    assert "<factory>" not in shown
    assert all(name in shown for name in inspect.signature(kind).parameters)


def test_a_default_stands_behind_its_own_field(pages):
    shown, _ = pages.show_defaults(None, "class", "RGD", lr.solvers.RGD, None, str(inspect.signature(lr.solvers.RGD)), None)
    solver = lr.solvers.RGD()
    assert f"= {solver.metric!r}" in shown
    assert shown.index("metric") < shown.index(repr(solver.metric))


def test_internal_members_are_hidden(pages):
    def hidden(name):
        return pages.skip_borrowed(None, "class", name, inspect.getattr_static(lr.Completion, name), False, None)

    assert {"als_pays", "solve_blocks", "blocks", "frame_constant", "rescaled"} <= pages.internal_members()
    assert hidden("als_pays")
    assert hidden("solve_blocks")
    for name in ("gradient", "to", "from_dense"):
        assert not hidden(name)


@pytest.mark.parametrize("name", ["MatrixCompletion", "ImplicitFactorization", "TableImputer"])
def test_words_of_parameters_are_literal_types(name):
    """A type checker knows the valid words; all of them are valid when the estimator checks its parameters."""
    pytest.importorskip("sklearn")
    kind, found = getattr(lr, name), 0
    for parameter, hint in typing.get_type_hints(kind.__init__).items():
        choices = [one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is typing.Literal]
        for word in (word for one in choices for word in typing.get_args(one)):
            assert kind.parameters[parameter].holds(word), (parameter, word)
            found += 1
        if parameter in kind.parameters and isinstance(inspect.signature(kind).parameters[parameter].default, str):
            assert choices or parameter == "confidence", parameter
    assert found >= 3
