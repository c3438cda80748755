"""The API reference: a page for each room and one for each public name, made from the ``__all__`` of the modules.

``GROUPS`` orders the names of ``lorank`` itself; a name that it does not know stands in the last
group, so that none is missing.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from pathlib import Path

ROOMS = {  # by module, with the title of its page
    "solvers": "Solvers",
    "plans": "Default solver",
    "robust": "Completion with outliers",
    "phase": "Phase retrieval",
    "tensors": "Tensor completion",
    "metrics": "Metrics: weights on rows and columns",
    "loop.steps": "Step rules",
    "starts": "Initialization",
    "loop.stopping": "Stopping rules",
    "loop.callbacks": "Callbacks",
    "losses": "Losses",
    "datasets": "Data sets",
    "distributed": "Observations larger than memory",
    "evaluation": "Ranking metrics and splits",
    "problems.testing": "Checks for custom models",
}
GROUPS = {
    "Problems": [
        "Completion",
        "TensorCompletion",
        "HankelCompletion",
        "PauliTomography",
        "Sensing",
        "PhaseRetrieval",
        "CountTable",
        "Problem",
    ],
    "Solve and results": [
        "solve",
        "compare",
        "diagnose",
        "Result",
        "Status",
        "History",
        "FixedRank",
        "Tucker",
        "TensorTrain",
        "Outliers",
        "ConvergenceWarning",
        "OutlierWarning",
        "ParameterError",
    ],
    "Estimators": [
        "MatrixCompletion",
        "EASE",
        "ImplicitFactorization",
        "TableImputer",
        "TensorImputer",
        "load",
    ],
}
LAST = "Other names"
OTHER = {  # not imported by name: results, and arguments of custom functions and classes
    "Further results": [
        "report.Comparison",
        "report.Run",
        "evaluation.diagnosis.Diagnosis",
        "loop.result.RankTrial",
        "problems.exponentials.Exponentials",
        "problems.quantum_state.QuantumState",
        "estimators.ratings_state.FoldIn",
        "estimators.recommendation.Recommendations",
        "estimators.recommendation.Explanation",
    ],
    "Experiments": ["experiments.run", "experiments.Benchmark", "experiments.Results"],
    "Base classes and arguments of custom parts": [
        "problems.Gradient",
        "loop.solver.Solver",
        "loop.state.State",
        "common.timer.Timer",
        "geometry.Weights",
        "geometry.DiagonalWeight",
        "geometry.Tangent",
        "geometry.Manifold",
        "backends.Arrays",
        "backends.Observations",
        "backends.Backend",
        "backends.register_backend",
    ],
}


def names_of(module) -> list[str]:
    """Its public classes and functions that are not lorank's own as well."""
    top = importlib.import_module("lorank")
    found = []
    for name in module.__all__:
        thing = getattr(module, name)
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and (module is top or name not in top.__all__):
            found.append(name)
    return found


def tables_of(module) -> str:
    """Its public dictionaries of names."""
    parts = []
    for name in module.__all__:
        table = getattr(module, name)
        if isinstance(table, dict):
            known = ", ".join(f'``"{key}"``' for key in table)
            parts.append(f".. py:data:: {name}\n\n   Names: {known}.\n")
    return "```{eval-rst}\n" + "\n".join(parts) + "```\n" if parts else ""


def listing(module: str, names: list[str]) -> str:
    lines = "\n".join(f"   {name}" for name in names)
    return f"```{{eval-rst}}\n.. currentmodule:: {module}\n\n.. autosummary::\n   :toctree: generated/\n\n{lines}\n```\n"


def write(path: Path, text: str) -> None:
    """Only where it changed: Sphinx reads again what is newer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def make_pages(app, config) -> None:
    folder = Path(app.srcdir) / "api"
    top = importlib.import_module("lorank")
    known, all_names = {name for names in GROUPS.values() for name in names}, names_of(top)
    rest = [name for name in all_names if name not in known]
    groups = {title: [name for name in names if name in all_names] for title, names in GROUPS.items()}
    if rest:
        groups[LAST] = rest
    parts = [
        "# Reference\n\nProblems, `solve` and the estimators are names of `lorank` itself (`import lorank as lr`). The modules "
        "have the parts of which algorithms are composed. Every public name has an executed example and a link to its "
        "source; names of the paper have its symbol ([From the paper to the code](/notation.md)). "
        "[Contributing](/project/contributing.md) describes how public names may change.\n"
    ]
    parts += [f"## {title}\n\n{listing('lorank', names)}" for title, names in groups.items()]
    parts += [f"## {title}\n\n{listing('lorank', names)}" for title, names in OTHER.items()]
    rooms = "\n".join(room for room in ROOMS)
    parts.append(f"## Modules\n\n```{{toctree}}\n:maxdepth: 1\n\n{rooms}\n```\n")
    write(folder / "index.md", "\n".join(parts))
    pages = {f"lorank.{name}" for name in all_names}
    for room in ROOMS:
        module = importlib.import_module(f"lorank.{room}")
        pages |= {f"{module.__name__}.{name}" for name in names_of(module)}
        summary = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
        also = [n for n in module.__all__ if n in top.__all__ and inspect.isclass(getattr(module, n))]
        more = "Also in `lorank` itself: " + ", ".join(f"{{py:obj}}`lorank.{n}`" for n in also) + "." if also else ""
        body = f"# {ROOMS[room]}\n\n`lorank.{room}`. {summary}\n\n{listing(module.__name__, names_of(module))}\n"
        body += f"{tables_of(module)}\n{more}\n"
        write(folder / f"{room}.md", body)
    for page in (folder / "generated").glob("*.rst"):  # of names that are no longer public, left by an earlier build
        if page.stem not in pages:
            page.unlink()


def internal_members() -> set[str]:
    """Members of the optional protocols of problems: solvers use them, and users do not."""
    capabilities = importlib.import_module("lorank.problems.capabilities")
    protocols = [one for one in vars(capabilities).values() if inspect.isclass(one) and getattr(one, "_is_protocol", False)]
    own = [one for one in protocols if one.__module__ == capabilities.__name__]
    return {
        name for one in own for name in (*vars(one), *getattr(one, "__annotations__", {})) if not name.startswith("_")
    } - USED


USED = {"observations", "signal", "unweighted", "estimate"}  # members of protocols that are also for users


def skip_borrowed(app, what, name, thing, skip, options) -> bool | None:
    """Whether a member is scikit-learn's, whose texts lead to pages of its own, or internal."""
    func = getattr(thing, "fget", None) or getattr(thing, "__func__", getattr(thing, "func", thing))
    module = getattr(func, "__module__", "") or ""
    if module.startswith("sklearn.") or (name in internal_members() and module.startswith(("lorank.p", "lorank.tensors"))):
        return True
    return None


def show_defaults(app, what, name, thing, options, signature, returns):
    """Signatures of dataclasses with the defaults that a factory makes, instead of ``<factory>``."""
    if signature is None or "<factory>" not in signature or not dataclasses.is_dataclass(thing):
        return None
    for field in dataclasses.fields(thing):
        if field.init and field.default_factory is not dataclasses.MISSING:
            start = signature.index(f"{field.name}")
            shown = repr(field.default_factory())
            signature = signature[:start] + signature[start:].replace("<factory>", shown, 1)
    return signature, returns


def setup(app):
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("autodoc-process-signature", show_defaults)
    app.connect("config-inited", make_pages)  # before autosummary looks for what to generate
    return {"parallel_read_safe": True, "parallel_write_safe": True}
