"""Folders ("rooms") of the package, their layers, and a check of all imports against them.

    python tools/rooms.py            print the drawing for docs/architecture.md
    python tools/rooms.py --write    update it in docs/architecture.md

A module imports from folders in lower layers (``LAYERS``), from its own folder, and along ``SIDEWAYS``. tests/test_imports.py
checks every import statement.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "lorank"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: written by tools/rooms.py -->", "<!-- end of rooms -->"

# From the bottom up, with the purpose of each room. A room is a folder of the package, and a file's folder is its layer.
LAYERS: list[dict[str, str]] = [
    {
        "common": "parameter checks, timer, BLAS threads, fingerprints, version",
        "backends": "array protocol and sparse-observation kernels: NumPy, C++, PyTorch",
        "io": "ratings and tables from files; archives without pickle",
    },
    {
        "geometry": "fixed-rank manifold: points, tangent vectors, weights, gradient, retraction; truncated SVD",
        "losses": "loss functions: squares, robust losses, discrete losses",
    },
    {"problems": "models of completion, sensing, counts, signals and states; gradients; well-observed core; input checks"},
    {
        "metrics": "metrics: canonical, quotient (R3MC), the paper's, Shampoo, counts, blocks",
        "loop": "the loop that runs every solver: state, steps, stopping rules, callbacks, checkpoints, result",
        "solvers": "one algorithm a file: RGD, RCG, IHT, Gauss-Newton, IRLS, ALS and other published methods; their table",
        "starts": "initialization: spectral, staged, continuation; spectrum of the observations",
        "plans": "`solve`, names of solvers, the default solver, rank selection, noise test, files of results",
        "robust": "completion with outliers",
        "phase": "phase retrieval: its model and solvers",
        "tensors": "tensor completion: its model and initial point",
    },
    {
        "evaluation": "ranking metrics, splits, baselines, comparison of recommenders, diagnosis of sampling patterns",
        "factorization": "regularized factor models: ALS, variational, implicit feedback, selection of rank and regularization",
        "estimators": "scikit-learn estimators: MatrixCompletion, ImplicitFactorization, EASE",
        "tables": "imputation of tables, time series and tensors: TableImputer, TensorImputer",
        "distributed": "row blocks on disk, on several devices and on a Dask cluster",
        "datasets": "random problems of every model, MovieLens",
    },
    {
        "report": "comparison of solvers on one problem (`lr.compare`), HTML reports, plots",
        "experiments": "comparisons of solvers over a grid: runner, store, tuning, tables, figures, page: `lorank bench`",
        "paper": "the paper's experiments, claims and page: `lorank reproduce`",
        "serve": "web application for a model: `lorank serve`",
        "cli": "commands",
    },
    {"lorank": "the public names"},
]
# Imports allowed between rooms of one layer; no circle.
SIDEWAYS: dict[str, tuple[str, ...]] = {
    "io": ("common",),
    "backends": ("common",),
    "solvers": ("metrics", "loop"),
    "starts": ("metrics", "loop", "solvers"),
    "plans": ("metrics", "loop", "solvers", "starts"),
    "robust": ("metrics", "loop", "solvers", "starts", "plans"),
    "phase": ("metrics", "loop", "solvers", "plans"),
    "tensors": ("metrics", "loop", "solvers", "plans"),
    "factorization": ("evaluation",),
    "estimators": ("factorization", "evaluation"),
    "tables": ("factorization",),
    "experiments": ("report",),
    "paper": ("report", "experiments"),
    "serve": ("report",),
    "cli": ("report", "serve", "experiments", "paper"),
}
TOP = ("", "__main__")  # above all layers
NAMES = ("foundation", "geometry and losses", "problems", "algorithms", "models", "applications", "public names")


def may_import(room: str, other: str) -> bool:
    """Whether a room may import from another one: from a lower layer, or along SIDEWAYS."""
    return layer_of(other) < layer_of(room) or other in SIDEWAYS.get(room, ())


EXTENSIONS = ("_kernels",)  # modules that are not written in Python


@functools.cache
def modules() -> dict[str, Path]:
    """All modules of the package by their dotted names without ``lorank``; the package itself is the empty name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """The room that a module is in: its folder."""
    return "lorank" if module in TOP else module.partition(".")[0]


@functools.cache
def imports(module: str, path: Path) -> dict[str, list[tuple[str, int, bool]]]:
    """Imports of a module: ``(module, line, at import time)``: ``"run"``, and ``"types"`` for type checkers."""
    known, found = modules(), {"run": [], "types": []}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def visit(node: ast.AST, kind: str, at_import: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            negated = isinstance(node.test, ast.UnaryOp)
            for child in node.body:
                visit(child, kind if negated else "types", at_import)
            for child in node.orelse:
                visit(child, "types" if negated else kind, at_import)
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            at_import = False
        if isinstance(node, ast.ImportFrom):
            for target in targets(node):
                found[kind].append((target, node.lineno, at_import))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "lorank":
                    found[kind].append((alias.name.partition(".")[2], node.lineno, at_import))
        for child in ast.iter_child_nodes(node):
            visit(child, kind, at_import)

    def targets(node: ast.ImportFrom) -> list[str]:
        if node.level:
            parts = package.split(".") if package else []
            base = parts[: len(parts) - (node.level - 1)]
            name = ".".join([*base, *(node.module.split(".") if node.module else [])])
        elif node.module and node.module.partition(".")[0] == "lorank":
            name = node.module.partition(".")[2]
        else:
            return []
        below = [f"{name}.{alias.name}".strip(".") for alias in node.names]
        return [one if one in known else name for one in below if one not in EXTENSIONS]

    visit(tree, "run", True)
    return found


def graph(kind: str = "run") -> dict[str, dict[str, list[str]]]:
    """For each room the rooms that it imports from, each with the places (``module:line``) where it does."""
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, path in modules().items():
        for target, line, _ in imports(module, path)[kind]:
            one, other = room_of(module), room_of(target)
            if one != other:
                edges[one][other].append(f"{module or '__init__'}:{line}")
    return {room: dict(others) for room, others in edges.items()}


def cycles(*, inside_functions: bool) -> list[list[str]]:
    """Circular imports, at import time or also when functions run."""
    edges = {
        module: {target for target, _, at_import in imports(module, path)["run"] if at_import or inside_functions}
        for module, path in modules().items()
    }
    reach: dict[str, set[str]] = {}
    for module in edges:
        seen, todo = set(), [module]
        while todo:
            todo += [target for target in edges.get(todo.pop(), ()) if target not in seen and not seen.add(target)]
        reach[module] = seen
    knots = {
        frozenset(other for other in reach[module] if module in reach[other]) for module in edges if module in reach[module]
    }
    return sorted(sorted(knot) for knot in knots if len(knot) > 1)


def layer_of(room: str) -> int:
    """The number of a room's layer; -1 where it has none."""
    return next((k for k, layer in enumerate(LAYERS) if room in layer), -1)


def drawing() -> str:
    """The layers as a Mermaid flowchart, and a table of the rooms."""
    edges = graph()
    lines = ["```mermaid", "flowchart TB"]
    for k in range(len(LAYERS) - 1, -1, -1):
        lines.append(f'  layer{k}["<b>{NAMES[k]}</b><br>{", ".join(LAYERS[k])}"]')
    for k in range(len(LAYERS) - 1, 0, -1):
        lines.append(f"  layer{k} --> layer{k - 1}")
    lines += ["```", "", "| layer | room | purpose | imports from the same layer |", "|---|---|---|---|"]
    for k in range(len(LAYERS) - 1, -1, -1):
        for room, purpose in LAYERS[k].items():
            beside = sorted(other for other in edges.get(room, {}) if layer_of(other) == k)
            lines.append(f"| {k}, {NAMES[k]} | `{room}` | {purpose} | {', '.join(f'`{other}`' for other in beside)} |")
    return "\n".join(lines)


def page_with(text: str) -> str:
    """The page's text with the drawing between the marks brought up to date."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{drawing()}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(drawing())


if __name__ == "__main__":
    main()
