"""lorank: recover a low-rank matrix from a few of its entries or from indirect measurements.

>>> import lorank as lr
>>> problem, truth = lr.datasets.random_completion(300, 200, rank=3, oversampling=6, seed=1)
>>> result = lr.solve(problem, rank=3)
>>> result.converged
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .common import interrupts as _interrupts  # noqa: F401  (first: Ctrl-C may come while the others are imported)

# isort: split
from . import backends as _backends  # noqa: F401  (before NumPy: the runtime of its threads reads its settings once)

# isort: split
from . import datasets, distributed, evaluation, losses, metrics, phase, plans, problems, robust, solvers, starts, tensors
from .common.checks import ParameterError
from .common.version import __version__ as __version__
from .geometry import FixedRank, TensorTrain, Tucker
from .loop import callbacks, steps, stopping
from .loop.result import ConvergenceWarning, History, Outliers, OutlierWarning, Result, Status
from .phase import PhaseRetrieval
from .plans import solve
from .problems import Completion, CountTable, HankelCompletion, PauliTomography, Problem, Sensing, testing
from .tensors import TensorCompletion

if TYPE_CHECKING:
    from . import experiments
    from .estimators import EASE, ImplicitFactorization, MatrixCompletion
    from .evaluation.diagnosis import diagnose
    from .io.archive import load_model as load
    from .report import compare
    from .tables import TableImputer, TensorImputer

# Imported when first asked for: scikit-learn is an extra, and slow to import.
_LATER = {
    "EASE": ("estimators", "EASE"),
    "ImplicitFactorization": ("estimators", "ImplicitFactorization"),
    "MatrixCompletion": ("estimators", "MatrixCompletion"),
    "TableImputer": ("tables", "TableImputer"),
    "TensorImputer": ("tables", "TensorImputer"),
    "compare": ("report", "compare"),
    "diagnose": ("evaluation.diagnosis", "diagnose"),
    "experiments": ("experiments", ""),
    "load": ("io.archive", "load_model"),
}


if not TYPE_CHECKING:  # a type checker sees the imports above

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        module, attribute = _LATER[name]
        try:
            found = importlib.import_module(f".{module}", __name__)
            value = getattr(found, attribute) if attribute else found
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("sklearn", "joblib"):
                raise
            raise ImportError(f'lorank.{name} needs scikit-learn: pip install "lorank[sklearn]"') from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "EASE",
    "Completion",
    "ConvergenceWarning",
    "CountTable",
    "FixedRank",
    "HankelCompletion",
    "History",
    "ImplicitFactorization",
    "MatrixCompletion",
    "OutlierWarning",
    "Outliers",
    "ParameterError",
    "PauliTomography",
    "PhaseRetrieval",
    "Problem",
    "Result",
    "Sensing",
    "Status",
    "TableImputer",
    "TensorCompletion",
    "TensorImputer",
    "TensorTrain",
    "Tucker",
    "callbacks",
    "compare",
    "datasets",
    "diagnose",
    "distributed",
    "evaluation",
    "experiments",
    "load",
    "losses",
    "metrics",
    "phase",
    "plans",
    "problems",
    "robust",
    "solve",
    "solvers",
    "starts",
    "steps",
    "stopping",
    "tensors",
    "testing",
]
