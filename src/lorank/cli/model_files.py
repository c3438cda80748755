"""Model files: loading for the commands, ``lorank inspect``, and suggestions for unknown ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import did_you_mean
from ..io.archive import FileError
from .errors import Outcome
from .models import Estimator, ImplicitFeedback, Ratings, summarize
from .output import TABLE

MAX_COMPARED = 5000  # ids compared with an unknown one: more would take seconds


def load_model(path: Path) -> Any:
    """The model in a file."""
    from .. import estimators  # noqa: F401  (without scikit-learn, an error that names the extra)
    from ..io.archive import load_model
    from ..io.format_hints import check_is_local

    check_is_local(path)
    try:
        return load_model(path)
    except FileError:
        check_not_table(path)
        raise


def load_estimator(path: Path) -> Estimator:
    """The model in a file as an estimator of the commands."""
    return estimator_of(load_model(path), path)


def estimator_of(model: Any, path: Path) -> Estimator:
    """A model as an estimator of the commands."""
    from ..estimators import EASE, ImplicitFactorization, MatrixCompletion
    from ..tables import TensorImputer

    if isinstance(model, TensorImputer):
        raise FileError(f"{path} is a model of a tensor, not of ratings: use lorank predict")
    if isinstance(model, MatrixCompletion):
        return Ratings(model=model)
    if isinstance(model, (ImplicitFactorization, EASE)):
        return ImplicitFeedback(model=model)
    raise FileError(f"{path} is a model of a table, not of ratings: use it in Python with lorank.load")


def check_not_table(path: Path) -> None:
    """Raise a FileError if the path of a model is a table."""
    if path.is_file() and path.suffix.lower() in (*TABLE, ".txt", ".gz", ".xlsx", ".xls", ".ods"):
        raise FileError(
            f"{path} is not a model: lorank complete writes models. The model comes first, as in lorank predict model.lorank "
            "pairs.csv"
        ) from None


def inspect(path: Path) -> Outcome:
    """The content of a model file."""
    from ..estimators import EASE, ImplicitFactorization, MatrixCompletion
    from ..io.archive import written_by

    model = load_model(path)
    summary = summarize(model) | {"lorank": written_by(path)}
    if isinstance(model, (MatrixCompletion, ImplicitFactorization, EASE)):
        summary["some_rows"] = load_estimator(path).ids[0][:5]
        summary["labels"] = getattr(model.state_, "labels", None)
    shown = [(key, one) for key, one in summary.items() if one is not None and key not in ("curve", "diagnosis")]
    texts = [(key, ", ".join(map(str, one)) if isinstance(one, (list, np.ndarray)) else one) for key, one in shown]
    return Outcome(summary, "\n".join(f"{key:>16}  {text}" for key, text in texts))


def near_ids(asked: str, known: np.ndarray) -> str:
    """Similar ids, as the end of a message about an unknown one."""
    if known.dtype.kind != "U":
        return ""
    folded = asked.strip().casefold()
    same = known[np.char.lower(known) == folded]
    if len(same):
        return did_you_mean(asked, same.tolist(), at_most=3)
    alike = known[np.char.startswith(np.char.lower(known), folded[:1])]
    some = [*alike[:MAX_COMPARED].tolist(), *known[: max(MAX_COMPARED - len(alike), 0)].tolist()]
    return did_you_mean(asked, dict.fromkeys(some), at_most=3)
