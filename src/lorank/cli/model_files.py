"""Model files, as the commands see them: what one holds, and the ids in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import did_you_mean
from .output import TABLE, show_json

SHEETS = (".xlsx", ".xls", ".ods")
SEARCHED = 5000  # ids that are compared with one that is none: more would take seconds


def load_model(path: Path) -> Any:
    """A model from a file, of whatever kind."""
    from .. import estimators  # noqa: F401  (registers the formats of model files)
    from ..io.archive import FileError, load_model
    from ..io.format_hints import refuse_elsewhere

    refuse_elsewhere(path)
    try:
        return load_model(path)
    except FileError:
        refuse_tables(path)
        raise


def refuse_tables(path: Path) -> None:
    """A FileError where a table stands for a model."""
    from ..io.archive import FileError

    if path.is_file() and path.suffix.lower() in (*TABLE, ".txt", ".gz", *SHEETS):
        raise FileError(
            f"{path} is no model: lorank complete makes one, and it comes first, as in lorank predict model.lorank pairs.csv"
        ) from None


def load_ratings(path: Path) -> Any:
    """A MatrixCompletion from a file."""
    return as_ratings(load_model(path), path)


def as_ratings(model: Any, path: Path) -> Any:
    """The model of a file, where it is one of ratings."""
    from ..estimators.matrix_completion import MatrixCompletion
    from ..io.archive import FileError

    if not isinstance(model, MatrixCompletion):
        taken = type(model).__name__ == "ImplicitFactorization"
        hint = "lorank recommend and serve take it" if taken else "it is for lorank.load in Python"
        raise FileError(f"{path} is a model of {'what was taken' if taken else 'a table'}, not of ratings: {hint}")
    return model


def summarize(model: Any) -> dict[str, Any]:
    """A fitted MatrixCompletion in numbers."""
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
        "intervals": bool(len(model.calibration_)),
        "diagnosis": model.diagnosis_.to_dict(),
        "curve": [vars(c) for c in model.curve_],
    }
    if model.heldout_ is not None and len(model.heldout_[0]):  # none, where Ctrl-C came before
        truth, guess, _ = model.heldout_
        centred = model.loss_ is None and not model.nonnegative  # else the model's mean is not that of the values
        summary["heldout"] = {
            "observations": len(truth),
            "rmse": float(np.sqrt(np.mean((truth - guess) ** 2))),
            "mae": float(np.mean(np.abs(truth - guess))),
            "rmse_of_the_mean": float(np.sqrt(np.mean((truth - (model.mean_ if centred else truth.mean())) ** 2))),
        }
    return summary


def run_inspect(path: Path, as_json: bool) -> None:
    """What a model file holds."""
    from ..estimators.matrix_completion import MatrixCompletion
    from ..io.archive import written_by

    model = load_model(path)
    if isinstance(model, MatrixCompletion):
        summary = summarize(model)
        summary["some_rows"] = ids_of(model, "rows")[:5]
        summary["labels"] = model.labels_
    elif type(model).__name__ == "ImplicitFactorization":
        summary = {
            "class": "ImplicitFactorization",
            "shape": [len(model.user_ids_), len(model.item_ids_)],
            "pairs": len(model._counts),
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
        show_json(summary)
        return
    for key, content in summary.items():
        if content is not None and key not in ("curve", "diagnosis"):
            print(f"{key:>16}  {', '.join(map(str, content)) if isinstance(content, (list, np.ndarray)) else content}")


def ids_of(model: Any, side: str) -> np.ndarray:
    """What a model's rows or columns are called; numbers from 0 on, where nothing else."""
    return np.arange(model.model_.shape[side == "cols"]) if model.ids_ is None else np.asarray(model.ids_[side])


def as_known(model: Any, side: str, ids: np.ndarray) -> np.ndarray:
    """Ids from a file or a shell as the model has them: numbers or text; indices, where it has none."""
    from ..io.ratings import alike, places

    return places(ids, ids_of(model, side)) if model.ids_ is None else alike(ids, ids_of(model, side))


def near_ids(asked: str, known: np.ndarray) -> str:
    """The end of a message about an id that is none: others in other letters, or nearly the same."""
    if known.dtype.kind != "U":
        return ""
    folded = asked.strip().casefold()
    same = known[np.char.lower(known) == folded]
    if len(same):
        return did_you_mean(asked, same.tolist(), at_most=3)
    alike = known[np.char.startswith(np.char.lower(known), folded[:1])]
    some = [*alike[:SEARCHED].tolist(), *known[: max(SEARCHED - len(alike), 0)].tolist()]
    return did_you_mean(asked, dict.fromkeys(some), at_most=3)
