"""Model files: loading for the commands, ``lorank inspect``, and lookup of ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import did_you_mean
from .estimators import Estimator, ImplicitEstimator, RatingsEstimator
from .output import TABLE, print_json

SHEETS = (".xlsx", ".xls", ".ods")
MAX_COMPARED = 5000  # ids compared with an unknown one: more would take seconds


def load_model(path: Path) -> Any:
    """The model in a file."""
    from .. import estimators, tables  # noqa: F401  (they register the formats of model files)
    from ..io.archive import FileError, load_model
    from ..io.format_hints import check_is_local

    check_is_local(path)
    try:
        return load_model(path)
    except FileError:
        check_not_table(path)
        raise


def load_estimator(path: Path, *, ratings: bool = False) -> Estimator:
    """The model in a file as an estimator of the commands; with ``ratings``, a MatrixCompletion."""
    from ..estimators import ImplicitFactorization, MatrixCompletion
    from ..io.archive import FileError

    model = load_model(path)
    if isinstance(model, MatrixCompletion):
        return RatingsEstimator(model=model)
    if not isinstance(model, ImplicitFactorization):
        raise FileError(f"{path} is a model of a table, not of ratings: use it in Python with lorank.load")
    if ratings:
        raise FileError(f"{path} is a model of implicit feedback, not of ratings: use lorank recommend or lorank serve")
    return ImplicitEstimator(model=model)


def check_not_table(path: Path) -> None:
    """Raise a FileError if the path of a model is a table."""
    from ..io.archive import FileError

    if path.is_file() and path.suffix.lower() in (*TABLE, ".txt", ".gz", *SHEETS):
        raise FileError(
            f"{path} is no model: lorank complete writes models. The model comes first, as in lorank predict model.lorank "
            "pairs.csv"
        ) from None


def summarize_ratings(model: Any) -> dict[str, Any]:
    """Numbers of a fitted MatrixCompletion."""
    from ..common.version import __version__

    summary: dict[str, Any] = {
        "lorank": __version__,
        "class": "MatrixCompletion",
        "shape": list(model.model_.shape),
        "observations": model.diagnosis_.observations,
        "rank": model.rank_,
        "regularization": model.regularization_,
        "sweeps": model.n_iter_,
        "loss": "squares" if model.loss_ is None else model.loss_.parameters(),
        "bounds": list(model.bounds) if model.bounds else None,
        "intervals": bool(len(model.state_.calibration)),
        "diagnosis": model.diagnosis_.to_dict(),
        "curve": [vars(c) for c in model.curve_],
    }
    if model.heldout_ is not None and len(model.heldout_[0]):  # empty after an early Ctrl-C
        truth, guess, _ = model.heldout_
        centred = model.loss_ is None and not model.nonnegative  # else mean_ is not the mean of the values
        summary["heldout"] = {
            "observations": len(truth),
            "rmse": float(np.sqrt(np.mean((truth - guess) ** 2))),
            "mae": float(np.mean(np.abs(truth - guess))),
            "rmse_of_the_mean": float(np.sqrt(np.mean((truth - (model.mean_ if centred else truth.mean())) ** 2))),
        }
    return summary


def inspect(path: Path, as_json: bool) -> None:
    """Print the content of a model file."""
    from ..estimators import ImplicitFactorization, MatrixCompletion
    from ..io.archive import written_by

    model = load_model(path)
    if isinstance(model, MatrixCompletion):
        summary = summarize_ratings(model) | {"some_rows": ids_of(model, "rows")[:5], "labels": model.state_.labels}
    elif isinstance(model, ImplicitFactorization):
        summary = {
            "class": "ImplicitFactorization",
            "shape": [len(model.user_ids_), len(model.item_ids_)],
            "pairs": int(model.state_.user_counts.sum()),
            "rank": model.item_factors_.shape[1],
            "regularization": model.regularization_,
            "zeros": model.zeros_,
            "sweeps": model.n_iter_,
            "some_rows": model.user_ids_[:5],
        }
    else:
        names = getattr(model, "feature_names_in_", None)
        summary = {"class": type(model).__name__, "method": model.method, "columns": len(model.means_), "rank": model.rank_}
        summary["names"] = names
    summary = {"lorank": written_by(path)} | {key: content for key, content in summary.items() if key != "lorank"}
    if as_json:
        print_json(summary)
        return
    for key, content in summary.items():
        if content is not None and key not in ("curve", "diagnosis"):
            print(f"{key:>16}  {', '.join(map(str, content)) if isinstance(content, (list, np.ndarray)) else content}")


def ids_of(model: Any, side: str) -> np.ndarray:
    """Ids of the rows or columns of a MatrixCompletion; indices if it has none."""
    return np.arange(model.model_.shape[side == "cols"]) if model.ids_ is None else np.asarray(model.ids_[side])


def as_known(model: Any, side: str, ids: np.ndarray) -> np.ndarray:
    """Ids from a file or the command line in the type of the model's ids; indices if it has none."""
    from ..io.ratings import as_type_of, positions_of

    return positions_of(ids, ids_of(model, side)) if model.ids_ is None else as_type_of(ids, ids_of(model, side))


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
