"""Files of results: ``Result.save`` and ``lorank.load``, without pickle."""

from __future__ import annotations

import importlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..backends import get_backend
from ..common.checks import ParameterError
from ..geometry import FIXED_RANK, SEMIDEFINITE, TRAIN, TUCKER
from ..io.archive import plain
from ..loop.result import History, Outliers, RankTrial, Result, SolverText, Status, short_name
from ..losses import loss_from
from ..problems.observed_core import Undetermined
from ..starts.normalized import Spectrum

MANIFOLDS: dict[str, Any] = {"fixed-rank": FIXED_RANK, "semidefinite": SEMIDEFINITE, "tucker": TUCKER, "tensor-train": TRAIN}
Stored = tuple[dict[str, Any], dict[str, np.ndarray]]  # metadata for JSON, and arrays


def write_result(result: Result) -> Stored:
    """Metadata and arrays of a result."""
    result = result.numpy()
    kinds = [name for name, manifold in MANIFOLDS.items() if type(manifold) is type(result.X.manifold)]
    if not kinds:
        kind = type(result.X.manifold).__name__
        raise ParameterError("X", f"is a point of {kind}, which has no file format: save its arrays with numpy.savez")
    history, status, outliers = result.history, result.status, result.outliers
    meta = {
        "manifold": kinds[0],
        "status": {"name": str(status), "advice": status.advice, "success": status.success},
        "solver": [repr(result.solver), short_name(result.solver)],
        "notes": [[iteration, note] for iteration, note in history.notes.items()],
        "rank_path": [list(trial) for trial in result.rank_path],
        "loss": None if result.loss is None else result.loss.parameters(),
        "limit": None if outliers is None else outliers.limit,
        "spectrum": None if result.spectrum is None else {"edge": result.spectrum.edge, "fitted": result.spectrum.fitted},
        "parts": None if result.undetermined is None else len(result.undetermined.parts),
        **{name: getattr(result, name) for name in ("n_iter", "seconds", "residual", "noise")},
    }
    arrays = {f"X.{name}": a for name, a in result.X.manifold.arrays(result.X).items()}
    arrays |= {f"history.{name}": a for name, a in history.to_dict().items()}
    if result.estimate is not None:
        meta["estimate"] = _class_name(result.estimate)
        parts = {field.name: getattr(result.estimate, field.name) for field in fields(result.estimate)}
        arrays |= {f"estimate.{name}": value for name, value in parts.items() if np.ndim(value)}
        meta["estimate_numbers"] = {name: value for name, value in parts.items() if value is not None and not np.ndim(value)}
    if outliers is not None:
        arrays |= {"outliers.mask": outliers.mask, "outliers.weights": outliers.weights}
    if result.spectrum is not None:
        arrays["spectrum"] = result.spectrum.values
    if result.undetermined is not None:
        sides = [result.undetermined[:2], *result.undetermined.parts]
        arrays |= {f"undetermined.{k}.{side}": a for k, both in enumerate(sides) for side, a in enumerate(both)}
    return plain(meta), {name: np.asarray(a) for name, a in arrays.items()}


def read_result(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Result:
    """The result of :func:`write_result`."""
    point = {name.removeprefix("X."): a for name, a in arrays.items() if name.startswith("X.")}
    history = History()
    for row in zip(*(arrays[f"history.{name}"].tolist() for name in History.columns), strict=True):
        history.append(*row)
    history.notes = {int(iteration): str(note) for iteration, note in meta["notes"]}
    outliers = undetermined = spectrum = None
    if meta["limit"] is not None:
        outliers = Outliers(arrays["outliers.mask"], arrays["outliers.weights"], float(meta["limit"]))
    if meta["parts"] is not None:
        pairs = [(arrays[f"undetermined.{k}.0"], arrays[f"undetermined.{k}.1"]) for k in range(meta["parts"] + 1)]
        undetermined = Undetermined(*pairs[0], tuple(pairs[1:]))
    if meta["spectrum"] is not None:
        spectrum = Spectrum(arrays["spectrum"], float(meta["spectrum"]["edge"]), int(meta["spectrum"]["fitted"]))
    status = meta["status"]
    return Result(
        X=MANIFOLDS[meta["manifold"]].from_arrays(point, get_backend("numpy")),
        status=Status(status["name"], advice=status["advice"], success=bool(status["success"])),
        n_iter=int(meta["n_iter"]),
        seconds=float(meta["seconds"]),
        residual=float(meta["residual"]),
        history=history,
        solver=SolverText(*map(str, meta["solver"])),
        estimate=_estimate(meta, arrays),
        rank_path=tuple(RankTrial(_rank(r), *more) for r, *more in meta["rank_path"]),
        noise=float(meta["noise"]),
        loss=loss_from(meta["loss"]),
        outliers=outliers,
        undetermined=undetermined,
        spectrum=spectrum,
    )


def _class_name(estimate: Any) -> str:
    kind = type(estimate)
    if not is_dataclass(kind) or kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
        raise ParameterError("estimate", f"is a {kind.__name__}, which has no file format: save its arrays with numpy.savez")
    return f"{kind.__module__}:{kind.__name__}"


def _estimate(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """An estimate of a class of this package from its arrays and numbers; a ValueError for any other class."""
    stored = meta.get("estimate")
    if stored is None:
        return None
    module, _, name = stored.partition(":")
    if module.partition(".")[0] != __name__.partition(".")[0]:
        raise ValueError(f"an estimate of {module}")
    kind = getattr(importlib.import_module(module), name)
    if not (isinstance(kind, type) and is_dataclass(kind) and hasattr(kind, "numpy")):
        raise ValueError(f"an estimate of {stored}")
    values = {name.removeprefix("estimate."): a for name, a in arrays.items() if name.startswith("estimate.")}
    return kind(**values, **meta["estimate_numbers"])


def _rank(stored: Any) -> Any:
    """A rank from JSON, which has no tuples."""
    return tuple(stored) if isinstance(stored, list) else stored
