"""The rooms of the house: which module imports which, drawn and checked from the sources.

    python tools/rooms.py            the drawing between the marks in docs/architecture.md, as it should be
    python tools/rooms.py --write    put it there

``LAYERS`` is the order of the rooms, from the bottom up: a module imports from rooms below its own, or from its own room.
The tests (tests/test_imports.py) hold every import statement against it.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "lorank"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: written by tools/rooms.py -->", "<!-- end of rooms -->"

# From the bottom up, with what each room is for. A room is a folder or a module of the package.
LAYERS: list[dict[str, str]] = [
    {
        "_version": "the version",
        "_kernel_threads": "the C++ extension, loaded with threads that do not wait at full speed for long",
        "parameter_checks": "checks of parameters where they enter, with the same words everywhere",
        "blas": "the number of threads that BLAS may use",
        "clock": "the clock of a run, which callbacks stop",
        "identity": "what an object is, by its parameters: for checkpoints",
        "imputation": "models of tables and series with gaps, and their choice on hidden cells",
    },
    {
        "backends": "where arrays live, and the passes over observed entries: protocols, registry, NumPy, C++, PyTorch",
        "files": "archives of arrays and JSON, without pickle, written in one go",
    },
    {
        "geometry": "matrices of rank r: points, tangent vectors, weights, gradient, retraction; the manifold",
        "datafits": "what is compared with the data, and how",
        "top": "the best columns of each row, in blocks",
        "datafiles": "ratings and tables from files",
    },
    {
        "linalg": "truncated SVD",
        "partitions": "observations in blocks of rows, on disk and in other processes: folders, programs, engines",
    },
    {
        "operators": "measurement models, one a file; the problem that a solver sees, and its gradient",
        "result": "what a run returns: result, status, history",
        "evaluation": "how good recommendations are: measures, splits, baselines",
    },
    {
        "distributed": "completion problems read from files, data frames and folders of partitions, and written to partitions",
        "state": "one iterate, as it travels through a run",
        "testing": "checks for measurement models",
        "datasets": "random problems of the paper, and MovieLens",
        "diagnosis": "what the pattern of the observations allows",
    },
    {
        "metrics": "weights on rows and columns: what makes PRGD and Shampoo of RGD",
        "steps": "step rules",
        "stopping": "stopping rules",
        "callbacks": "what is called after each iteration",
        "checkpoint": "a run that was killed goes on where it was",
    },
    {"solvers": "the runner, and one algorithm a file"},
    {"starts": "starting points; some run a solver for a few steps"},
    {"solve": "the front door (`solvers/solve.py`), the default solver (`auto.py`) and the search for a rank"},
    {
        "factor_models": "models of noisy data, and their choice on held-out observations",
        "report": "recorded runs, plots and pages",
    },
    {
        "estimators": "the face to scikit-learn",
        "experiments": "the engine of experiments: points, store, runner, tuning, tables",
    },
    {"serving": "a page and JSON for people to try a model: `lorank serve`"},
    {
        "commands": "`lorank complete` and its kin",
        "paper": "the paper's experiments, claims and page: `lorank reproduce`",
    },
    {"cli": "the command line"},
    {"lorank": "the names that users import"},
]
# Modules that stand in another room than their folder says: the front door of the solvers is above the starts.
ELSEWHERE = {
    "": "lorank",
    "__main__": "cli",
    "solvers": "solve",
    "solvers.solve": "solve",
    "solvers.auto": "solve",
    "solvers.coarse_start": "solve",
    "solvers.noise": "solve",
    "solvers.outlier_doubts": "solve",
    "solvers.rank_search": "solve",
    "solvers.robust": "solve",
    "solvers.robust_start": "solve",
    "solvers.registry": "solve",
    "solvers.auto_phase": "solve",
}
EXTENSIONS = ("_kernels",)  # modules that are not written in Python


def modules() -> dict[str, Path]:
    """All modules of the package by their dotted names without ``lorank``; the package itself is the empty name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """The room that a module is in: its folder, or the module itself."""
    return ELSEWHERE.get(module) or module.partition(".")[0]


def imports(module: str, path: Path) -> dict[str, list[tuple[str, int, bool]]]:
    """What a module imports from the package: names of modules with line numbers, and whether when it is itself imported.

    Under ``"run"`` what is needed to run, under ``"types"`` what only a type checker needs.
    """
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
    """Modules that import each other in a circle, when they are imported or also when their functions run."""
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
    """The rooms as a Mermaid flowchart, one box a layer, and a table of who imports whom."""
    edges = graph()
    lines = ["```mermaid", "flowchart TB"]
    for k in range(len(LAYERS) - 1, -1, -1):
        lines.append(f'  subgraph layer{k}["{k}"]')
        lines += [f"    {room}" for room in LAYERS[k]]
        lines.append("  end")
    for k in range(len(LAYERS) - 1, 0, -1):
        lines.append(f"  layer{k} --> layer{k - 1}")
    lines += ["```", "", "| layer | room | what it is for | imports from |", "|---|---|---|---|"]
    for k in range(len(LAYERS) - 1, -1, -1):
        for room, purpose in LAYERS[k].items():
            below = sorted(edges.get(room, {}), key=lambda other: (-layer_of(other), other))
            lines.append(f"| {k} | `{room}` | {purpose} | {', '.join(f'`{other}`' for other in below) or 'nothing'} |")
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
