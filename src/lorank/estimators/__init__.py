"""scikit-learn estimators: :class:`MatrixCompletion` for ratings, :class:`ImplicitFactorization` and :class:`EASE` for clicks.

scikit-learn is an extra, ``lorank[sklearn]``; importing :mod:`lorank` does not import this.
"""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError('lorank.estimators needs scikit-learn: pip install "lorank[sklearn]"', name="sklearn") from None

from . import persistence  # noqa: F401  (registers the formats of model files)
from .ease import EASE
from .implicit_factorization import ImplicitFactorization
from .matrix_completion import FoldIn, MatrixCompletion

__all__ = ["EASE", "FoldIn", "ImplicitFactorization", "MatrixCompletion"]
