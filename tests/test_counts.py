"""The counts of tools/counts.py, and what they promise of the package."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections import Counter
from pathlib import Path

TOOLS = Path(__file__).parents[1] / "tools"
TORCH = ("_C", "_cuda_getCurrentRawStream", "_version")  # PyTorch has no public names for these


def load_counts():
    spec = importlib.util.spec_from_file_location("counts", TOOLS / "counts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(TOOLS))
counts = load_counts()
sys.path.remove(str(TOOLS))

SOURCE = """
from .other import _hidden, shown
from lorank import _kernels

class Own:
    def __init__(self, other):
        self._own = other._foreign
        self._inherited.append(getattr(other, "name"))

    def __eq__(self, other):
        return isinstance(other, Own) and self._own == other._own and hasattr(other, "x")

pair._replace(a=1)
"""


def test_each_kind_is_counted_once_for_each_place():
    found = sorted(counts.places(ast.parse(SOURCE)))
    assert found == [("getattr", 8), ("getattr", 11), ("isinstance", 11), ("private", 2), ("private", 7)]


def test_rooms_add_up(tmp_path):
    (tmp_path / "solvers").mkdir()
    (tmp_path / "solvers" / "a.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "b.py").write_text("x = 1\n", encoding="utf-8")
    found = counts.count(tmp_path)
    assert found["solvers"] == Counter(files=1, lines=SOURCE.count("\n"), getattr=2, isinstance=1, private=2)
    assert found["lorank"] == Counter(files=1, lines=1)


def test_interfaces_have_their_members():
    sizes = {name: counts.members(counts.SOURCES / path, classes) for name, (path, classes) in counts.PROTOCOLS.items()}
    assert all(sizes.values())
    assert sizes["Metric"] == 2


def test_no_module_uses_private_names_of_another():
    """Protected attributes of a base class are used through ``self`` only."""
    reaches = {}
    for path in counts.SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf-8").splitlines()
        lines = [text[line - 1] for kind, line in counts.places(ast.parse("\n".join(text))) if kind == "private"]
        if lines := [line.strip() for line in lines if not any(name in line for name in TORCH)]:
            reaches[path.name] = lines
    assert reaches == {}
