"""Every public name is documented: what it is, its parameters, what it returns, and an example that runs."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import warnings

import numpy as np
import pytest

import lorank

ROOMS = (
    "datasets",
    "distributed",
    "evaluation",
    "loop.callbacks",
    "loop.steps",
    "loop.stopping",
    "losses",
    "metrics",
    "phase",
    "plans",
    "problems.testing",
    "robust",
    "solvers",
    "starts",
)
OPTIONAL = {"sklearn": "estimators", "typer": "cli", "polars": "io", "matplotlib": "report"}


def public_names() -> dict[str, object]:
    """Every public class and function by the first dotted name that leads to it."""
    found: dict[str, object] = {}
    for module in (lorank, *(importlib.import_module(f"lorank.{room}") for room in ROOMS)):
        for name in module.__all__:
            try:
                thing = getattr(module, name)
            except ImportError:  # scikit-learn is not here
                continue
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing not in found.values():
                found[f"{module.__name__}.{name}"] = thing
    return found


PUBLIC = public_names()


def parameters(thing: object) -> list[str]:
    """The names of the parameters a caller may give."""
    if getattr(thing, "_is_protocol", False) or (inspect.isclass(thing) and issubclass(thing, Warning)):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in inspect.signature(thing).parameters.values() if p.kind not in kinds]


@pytest.mark.parametrize("name", PUBLIC)
def test_it_is_documented(name):
    thing, text = PUBLIC[name], inspect.getdoc(PUBLIC[name]) or ""
    own = thing.__doc__ or ""
    assert own, "no docstring"
    assert len(own.splitlines()[0]) > 10, "no summary"
    assert "Examples\n--------" in text, "no example"
    assert ">>>" in text
    wanted = parameters(thing)
    if wanted:
        title = "Attributes" if "Parameters\n----------" not in text else "Parameters"  # of a result, say
        assert f"{title}\n{'-' * len(title)}" in text, "no parameters"
        section = text.partition(f"{title}\n{'-' * len(title)}")[2]
        missing = [one for one in wanted if not mentions(section, one)]
        assert not missing, f"parameters without a word: {missing}"
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        assert "Returns\n-------" in text, "nothing about what it returns"


def mentions(section: str, parameter: str) -> bool:
    """Whether a line at the margin of the section names the parameter, alone or with others."""
    heads = [line.partition(":")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    return any(parameter in [name.strip() for name in head.split(",")] for head in heads)


def takes_data(name: str, thing: object) -> bool:
    """Whether people hand it their data: functions, measurement models, estimators; not the parts of algorithms."""
    if inspect.isfunction(thing):
        return bool(inspect.signature(thing).parameters)
    return (issubclass(thing, lorank.Problem) and thing is not lorank.Problem) or hasattr(thing, "fit")


def modules_with_examples() -> list[str]:
    names = ["lorank"]
    for info in pkgutil.walk_packages(lorank.__path__, "lorank."):
        path = importlib.util.find_spec(info.name)
        if path is not None and path.origin and path.origin.endswith(".py"):
            with open(path.origin, encoding="utf-8") as file:
                if ">>>" in file.read():
                    names.append(info.name)
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name):
    for package, room in OPTIONAL.items():
        if name.startswith(f"lorank.{room}"):
            pytest.importorskip(package)
    if name.startswith("lorank.backends.torch_"):
        pytest.importorskip("torch")
    if name == "lorank.distributed.completion":
        pytest.importorskip("polars")
    module = importlib.import_module(name)
    with warnings.catch_warnings(), np.printoptions(legacy=False):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "lorank runs on its NumPy backend")
        failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if takes_data(name, thing)])
def test_it_says_what_it_raises(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert text.count("Raises\n------\n") == 1
