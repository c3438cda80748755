"""Size and shape of the package in numbers.

    python tools/counts.py                  one line per room, and the totals
    python tools/counts.py --places NAME    where a count comes from: isinstance, getattr or private

``getattr`` counts calls of ``getattr`` and ``hasattr``. ``private`` counts reaches into other modules: imports, and attributes
of other objects than ``self``, with a leading underscore, that the module does not define. The C++ extension and methods of
named tuples are left out. The members of an interface are its public methods and attributes.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rooms import LAYERS, SOURCES

ALLOWED = {"_replace", "_asdict", "_fields", "_kernels"}  # public methods of named tuples, and the C++ extension
CALLS = {"isinstance": "isinstance", "getattr": "getattr", "hasattr": "getattr"}
# The interfaces that an extension implements, with the classes that define their members.
PROTOCOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Problem": ("problems/problem.py", ("Problem",)),
    "MatrixProblem": ("problems/problem.py", ("MatrixProblem",)),
    "Gradient": ("problems/gradient.py", ("Gradient",)),
    "Manifold": ("geometry/manifold.py", ("Manifold",)),
    "Loss": ("losses/loss.py", ("Loss",)),
    "Metric": ("metrics/protocol.py", ("Metric",)),
    "Solver": ("loop/solver.py", ("Solver",)),
    "Backend": (
        "backends/protocol.py",
        ("Creation", "Reductions", "TallAlgebra", "SmallAlgebra", "Transforms", "ObservationFactory", "Arrays", "Backend"),
    ),
    "Observations": ("backends/observations.py", ("Observations",)),
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in ALLOWED


def defined(tree: ast.Module) -> set[str]:
    """The private names that a module defines: functions, classes, variables, attributes, slots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_private(node.value):
            names.add(node.value)
    return names


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def places(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The kind and the line of everything that is counted."""
    own = defined(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield CALLS[node.func.id], node.lineno
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own and not is_self(node.value):
            yield "private", node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("lorank")):
            yield from (("private", node.lineno) for alias in node.names if is_private(alias.name))


def members(path: Path, classes: tuple[str, ...]) -> int:
    """The number of public members of the classes."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name in classes:
            for item in node.body:
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.add(item.name)
                elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    found.add(item.target.id)
    return sum(not name.startswith("_") for name in found)


def count(sources: Path = SOURCES) -> dict[str, Counter[str]]:
    """For each room the numbers of files, lines, calls and reaches."""
    rooms: dict[str, Counter[str]] = {}
    for path in sorted(sources.rglob("*.py")):
        inside = path.relative_to(sources).parts
        room = rooms.setdefault(inside[0] if len(inside) > 1 else "lorank", Counter())
        text = path.read_text(encoding="utf-8")
        room.update(files=1, lines=len(text.splitlines()))
        room.update(kind for kind, _ in places(ast.parse(text)))
    return rooms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", choices=["isinstance", "getattr", "private"], help="print the lines behind a count")
    wanted = parser.parse_args().places
    if wanted:
        for path in sorted(SOURCES.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for line in sorted(line for kind, line in places(ast.parse(text)) if kind == wanted):
                print(f"{path.relative_to(SOURCES)}:{line}: {text.splitlines()[line - 1].strip()}")
        return
    rooms = count()
    columns = ("files", "lines", "isinstance", "getattr", "private")
    print(f"{'room':14}" + "".join(f"{name:>11}" for name in columns))
    for layer in LAYERS:
        for room in layer:
            print(f"{room:14}" + "".join(f"{rooms[room][name]:11}" for name in columns))
    total = sum(rooms.values(), Counter())
    print(f"{'all':14}" + "".join(f"{total[name]:11}" for name in columns))
    print(f"\n{len(LAYERS)} layers; members of the interfaces:")
    print(", ".join(f"{name} {members(SOURCES / path, classes)}" for name, (path, classes) in PROTOCOLS.items()))


if __name__ == "__main__":
    main()
