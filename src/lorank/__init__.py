"""lorank: recover a low-rank matrix from a few of its entries or from indirect measurements.

>>> import lorank as lr
>>> problem, truth = lr.datasets.random_completion(300, 200, rank=3, oversampling=6, seed=1)
>>> result = lr.solve(problem, rank=3)
>>> result.converged
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import (
    _kernel_threads,  # noqa: F401  (first: the runtime of its threads reads its settings once)
    callbacks,
    datafits,
    datasets,
    distributed,  # registers the backend "partitions"
    evaluation,
    metrics,
    solvers,
    starts,
    steps,
    stopping,
    testing,
)
from ._version import __version__ as __version__
from .geometry import FixedRank
from .operators import Completion, CountTable, Gradient, PhaseRetrieval, Problem, Sensing, phase_distance
from .result import ConvergenceWarning, History, Outliers, OutlierWarning, Result, Status
from .solvers import IHT, IRLS, NIHT, RCG, RGD, Auto, Fisher, GaussNewton, MessagePassing, Robust, Safeguard, SignalCG, solve

if TYPE_CHECKING:
    from .diagnosis import diagnose
    from .estimators import ImplicitFactorization, LowRankImputer, MatrixCompletion, TableImputer
    from .files import load_model as load

# Imported when first asked for: scikit-learn is an extra, and slow to import.
_LATER = {
    "ImplicitFactorization": ("estimators", "ImplicitFactorization"),
    "LowRankImputer": ("estimators", "LowRankImputer"),
    "MatrixCompletion": ("estimators", "MatrixCompletion"),
    "TableImputer": ("estimators", "TableImputer"),
    "diagnose": ("diagnosis", "diagnose"),
    "load": ("files", "load_model"),
}


if not TYPE_CHECKING:  # a type checker sees the imports above

    def __getattr__(name: str) -> Any:
        if name == "Annealing":
            return solvers.Annealing  # which warns: the former name of IRLS
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        module, attribute = _LATER[name]
        try:
            if name == "load":  # estimators register the formats of their files
                importlib.import_module(".estimators", __name__)
            value = getattr(importlib.import_module(f".{module}", __name__), attribute)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("sklearn", "joblib"):
                raise
            raise ImportError(f'lorank.{name} needs scikit-learn: pip install "lorank[sklearn]"') from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "IHT",
    "IRLS",
    "NIHT",
    "RCG",
    "RGD",
    "Auto",
    "Completion",
    "ConvergenceWarning",
    "CountTable",
    "Fisher",
    "FixedRank",
    "GaussNewton",
    "Gradient",
    "History",
    "ImplicitFactorization",
    "LowRankImputer",
    "MatrixCompletion",
    "MessagePassing",
    "OutlierWarning",
    "Outliers",
    "PhaseRetrieval",
    "Problem",
    "Result",
    "Robust",
    "Safeguard",
    "Sensing",
    "SignalCG",
    "Status",
    "TableImputer",
    "callbacks",
    "datafits",
    "datasets",
    "diagnose",
    "distributed",
    "evaluation",
    "load",
    "metrics",
    "phase_distance",
    "solve",
    "solvers",
    "starts",
    "steps",
    "stopping",
    "testing",
]
