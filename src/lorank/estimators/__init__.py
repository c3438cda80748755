"""The scikit-learn face: :class:`MatrixCompletion` for index pairs, :class:`ImplicitFactorization` for what people took,
:class:`TableImputer` and :class:`LowRankImputer` for tables with gaps.

scikit-learn is an extra, ``lorank[sklearn]``; importing :mod:`lorank` does not import this.
"""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError('lorank.estimators needs scikit-learn: pip install "lorank[sklearn]"', name="sklearn") from None

from . import files, table_files  # noqa: F401  (register the formats of model files)
from .completion import FoldIn, MatrixCompletion
from .implicit import ImplicitFactorization
from .imputer import LowRankImputer
from .table_imputer import TableImputer

__all__ = ["FoldIn", "ImplicitFactorization", "LowRankImputer", "MatrixCompletion", "TableImputer"]
