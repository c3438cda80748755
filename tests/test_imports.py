"""Imports point down: every import statement of the package against the order of the rooms in tools/rooms.py."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("sklearn", "torch", "polars", "matplotlib", "plotly", "typer", "rich", "scipy", "pandas", "joblib")


def load_rooms():
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "tools" / "rooms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rooms = load_rooms()


def test_every_module_is_in_a_room_and_every_room_has_one():
    """A new room is put into LAYERS in tools/rooms.py, in the lowest layer that is above all that it imports."""
    found = {rooms.room_of(module) for module in rooms.modules()}
    listed = [room for layer in rooms.LAYERS for room in layer]
    assert len(listed) == len(set(listed))
    assert found - set(listed) == set(), "rooms without a layer"
    assert set(listed) - found == set(), "layers without a room"


@pytest.mark.parametrize("kind", ["run", "types"])
def test_imports_point_down(kind):
    """Also those inside functions, and those that only a type checker needs."""
    wrong = [
        f"{room} (layer {rooms.layer_of(room)}) -> {other} (layer {rooms.layer_of(other)}): {', '.join(places)}"
        for room, others in rooms.graph(kind).items()
        for other, places in others.items()
        if not rooms.may_import(room, other)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_circles_among_modules():
    assert rooms.cycles(inside_functions=False) == []
    for knot in rooms.cycles(inside_functions=True):  # a class and its files may know each other, inside of one room
        assert len({rooms.room_of(module) for module in knot}) == 1, knot


def test_the_check_itself_sees_imports_of_every_form(tmp_path):
    path = tmp_path / "made_up.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "import lorank.io.archive\n"
        "from .. import solvers\n"
        "from ..problems import Completion, problem\n"
        "from lorank.geometry.point import FixedRank\n"
        "if TYPE_CHECKING:\n    from ..loop.stopping import Rule\n"
        "def late():\n    from ..starts import Spectral\n",
        encoding="utf-8",
    )
    found = rooms.imports("metrics.made_up", path)
    assert [(target, at_import) for target, _, at_import in found["run"]] == [
        ("io.archive", True),
        ("solvers", True),
        ("problems", True),
        ("problems.problem", True),
        ("geometry.point", True),
        ("starts", False),
    ]
    assert [target for target, _, _ in found["types"]] == ["loop.stopping"]


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("lorank", (*HEAVY, "lorank.experiments", "lorank.paper", "lorank.report", "lorank.estimators", "lorank.cli")),
        ("lorank.estimators", ("torch", "polars", "matplotlib", "plotly", "typer", "lorank.experiments", "lorank.paper")),
        ("lorank.cli.app", ("torch", "polars", "matplotlib", "plotly", "sklearn", "lorank.experiments", "lorank.paper")),
    ],
)
def test_what_an_import_does_not_bring_along(imported, absent):
    pytest.importorskip("sklearn" if "estimators" in imported else "numpy")
    pytest.importorskip("typer" if "cli" in imported else "numpy")
    code = f"import sys, {imported}; print([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_drawing_of_the_rooms_is_up_to_date():
    text = rooms.PAGE.read_text(encoding="utf-8")
    assert rooms.page_with(text) == text, "run: python tools/rooms.py --write"


def test_names_on_the_way_of_the_data_exist():
    """Every dotted name in the plain text blocks of the page whose first part is a room."""
    pytest.importorskip("sklearn")
    blocks = re.findall(r"^```text\n(.*?)^```", rooms.PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = {name for block in blocks for name in re.findall(r"(?<![\w./])[a-z_]+(?:\.\w+)+", block)}
    names = {name for name in names if rooms.layer_of(name.partition(".")[0]) >= 0 and not name.endswith(".py")}
    assert len(names) > 15
    for name in names:
        parts = name.split(".")
        thing = importlib.import_module(f"lorank.{parts[0]}")
        for k, part in enumerate(parts[1:], 1):
            if not hasattr(thing, part):
                importlib.import_module(f"lorank.{'.'.join(parts[: k + 1])}")
            thing = getattr(thing, part)
