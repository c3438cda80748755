"""``lorank complete --columns`` and ``lorank predict`` for tables with three or more columns of keys."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..common.blas_threads import one_blas_thread
from ..common.checks import counted, did_you_mean
from ..io.archive import FileError
from ..report.comparison import format_table
from .errors import INTERRUPTED, Outcome, UsageError, print_error, print_note
from .models import FITTING, FitOptions, summarize
from .options import integer_or_word
from .output import progress, table_writer
from .sources import ENDINGS, check_formats, find_data_files, label_of

MAX_PRINTED = 50  # predictions: more go to a file
MAX_FILLED = 100_000_000  # combinations in a filled table
BLOCK = 1 << 20  # combinations that are predicted at once


def is_tensor_model(model: Any) -> bool:
    """Whether a model is a TensorImputer."""
    from ..tables import TensorImputer

    return isinstance(model, TensorImputer)


def key_names(text: str) -> list[str]:
    """The names of ``--columns``."""
    names = [name.strip() for name in text.split(",")]
    if len(names) < 3 or not all(names):
        raise UsageError(f"--columns must name three or more columns of keys, as in sensor,day,hour: got {text!r}")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--columns names {name!r} twice")
    return names


def read_entries(
    paths: list[str], names: Sequence[str], value: str | None, header: bool | None, with_values: bool = True
) -> tuple[dict[str, np.ndarray], str, np.ndarray]:
    """Keys by name, the name of the column of values, and the values; ones without values."""
    from ..io.header import VALUE_NAMES, plain_name
    from ..io.observation_files import TableSource, find_files, schema_of

    files = find_files([str(file) for file in find_data_files(paths)], ENDINGS)
    check_formats(files)
    there = list(schema_of(files[0], header))
    for name in [*names, *([value] if value else [])]:
        if name not in there:
            known = ", ".join(map(repr, there))
            raise FileError(f"{files[0]} has no column {name!r}: its columns are {known}{did_you_mean(name, there)}")
    left = [name for name in there if name not in names]
    if with_values and value is None:
        usual = [name for name in left if plain_name(name) in VALUE_NAMES]
        if len(left) != 1 and len(usual) != 1:
            raise FileError(
                f"{files[0]}: which column holds the values? Pass --value NAME, one of {', '.join(map(repr, left))}"
            )
        value = (usual if len(usual) == 1 else left)[0]
    if with_values and value in names:
        raise UsageError(f"--value {value} is a column of keys, too")
    keys: dict[str, np.ndarray] = {}
    values = np.zeros(0)
    with progress("reading"):
        for at in range(0, len(names), 2):  # two columns at a time
            pair = (names[at], names[at + 1] if at + 1 < len(names) else names[0])
            found = TableSource(files, (*pair, value if with_values and not at else None, None), header).read()
            keys |= {name: one.to_numpy() for name, one in zip(pair, (found.rows, found.cols), strict=True)}
            values = values if at else found.values
    return {name: keys[name] for name in names}, str(value), values


@one_blas_thread
def complete(
    paths: list[str],
    names: list[str],
    value: str | None,
    header: bool | None,
    options: FitOptions,
    out: Path | None,
    filled: Path | None,
) -> Outcome:
    """Fit a TensorImputer; write it, and the table of all combinations."""
    from ..io.delimited_text import polars
    from ..tables import TensorImputer

    rank = integer_or_word(options.rank, ("auto",), "--rank")
    begin = time.perf_counter()
    keys, value, values = read_entries(paths, names, value, header)
    sizes = {name: len(np.unique(ids)) for name, ids in keys.items()}
    if filled is not None and (count := math.prod(sizes.values())) > MAX_FILLED:
        raise UsageError(f"--filled: {count:,} combinations are too many: predict those that you need with lorank predict")
    print_note(f"{label_of(paths)}: keys from {', '.join(map(repr, names))}, values from {value!r}")
    model = TensorImputer(rank, random_state=options.seed)
    with progress(FITTING):
        model.fit_entries(polars().DataFrame(keys), values)
    summary = summarize(model) | {"file": label_of(paths), "seconds": time.perf_counter() - begin}
    text = " x ".join(f"{n:,} ({name})" for name, n in zip(names, model.shape_, strict=True))
    share = 100 * len(np.unique(_flat(model, keys))) / math.prod(model.shape_)
    lines = [f"{text}, {counted(len(values), 'observation')} ({share:.3g}%)", _describe(model, names)]
    if len(model.heldout_[0]):
        held, guess, _ = model.heldout_
        rmse, alone = np.sqrt(np.mean((held - guess) ** 2)), np.sqrt(np.mean((held - model.mean_) ** 2))
        lines.append(f"on held-out values: RMSE {rmse:.4g} (the mean alone: RMSE {alone:.4g})")
        summary["heldout"] = {"observations": len(held), "rmse": float(rmse), "rmse_of_the_mean": float(alone)}
    if out is not None:
        model.save(out)
        summary["model"] = str(out)
        lines.append(f"model: {out}")
    if filled is not None:
        count = _write_filled(filled, model, keys, names, value, values)
        summary["filled"] = str(filled)
        lines.append(f"{counted(count, 'missing combination')} filled: {filled}")
    if out is None and filled is None:
        lines.append("nothing was saved: use -o model.lorank or --filled filled.csv")
    if model.status_ == "interrupted":
        print_error("interrupted: the model is the best so far")
    return Outcome(summary, "\n".join(lines), INTERRUPTED if model.status_ == "interrupted" else 0)


def _describe(model: Any, names: Sequence[str]) -> str:
    if model.method_ == "unfolding":
        return f"matrix factorization of rank {model.rank_[0]}: {names[model.mode_]} against the combinations of the others"
    return "Tucker model of rank " + " x ".join(map(str, model.rank_))


def _flat(model: Any, keys: dict[str, np.ndarray]) -> np.ndarray:
    """Numbers of the combinations in the order of the filled table."""
    from ..io.ratings import positions_of

    parts = [positions_of(part, ids) for part, ids in zip(keys.values(), model.ids_, strict=True)]
    return np.ravel_multi_index(parts, model.shape_)


def _write_filled(
    path: Path, model: Any, keys: dict[str, np.ndarray], names: Sequence[str], value: str, values: np.ndarray
) -> int:
    """Write all combinations with observed values and predictions; the number of predictions."""
    from ..estimators.frames import unique_names

    observed, place = np.unique(_flat(model, keys), return_inverse=True)
    means = np.bincount(place, values) / np.bincount(place)
    size, missing = math.prod(model.shape_), 0
    own = unique_names((*names, value), ("observed",))[0]
    with table_writer(path) as write, progress("filling") as update:
        for first in range(0, size, BLOCK):
            flat = np.arange(first, min(first + BLOCK, size))
            begin, end = np.searchsorted(observed, [first, first + BLOCK])
            there = np.zeros(len(flat), bool)
            there[observed[begin:end] - first] = True
            index = np.column_stack(np.unravel_index(flat, model.shape_))
            found = np.empty(len(flat))
            found[there] = means[begin:end]
            found[~there] = model.predict_index(index[~there])[0]
            ids = {name: own_ids[index[:, k]] for k, (name, own_ids) in enumerate(zip(names, model.ids_, strict=True))}
            write(ids | {value: found, own: there})
            missing += int((~there).sum())
            update(f"{flat[-1] + 1:,} of {size:,}")
    return missing


@one_blas_thread
def predict(model: Any, paths: list[str], header: bool | None, out: Path | None, interval: float | None) -> Outcome:
    """Predict at the keys in a table."""
    from ..estimators.frames import unique_names
    from ..io.delimited_text import polars
    from ..io.ratings import positions_of

    if interval is not None and not 0 < interval < 1:
        raise UsageError(f"--interval must lie between 0 and 1 (0.9 is 90 %), got {interval:g}")
    if model.ids_ is None or model.names_ is None:
        raise FileError("this is a model of an array, without names of columns: use it in Python with lorank.load")
    keys, _, _ = read_entries(paths, model.names_, None, header, with_values=False)
    count = len(next(iter(keys.values())))
    if out is None and count > MAX_PRINTED:
        raise UsageError(f"-o is needed for more than {MAX_PRINTED} predictions, as in -o predictions.csv")
    places = [positions_of(part, ids) for part, ids in zip(keys.values(), model.ids_, strict=True)]
    known = np.all([at < len(ids) for at, ids in zip(places, model.ids_, strict=True)], axis=0)
    if not known.any():
        raise FileError(f"{label_of(paths)}: the model knows all ids of none of {counted(count, 'line')}")
    own = unique_names(list(keys), ("prediction", "low", "high", "known"))
    made: dict[str, Any] = dict(keys)
    index = np.column_stack(places)
    made[own[0]], half = model.predict_index(index, interval)
    if interval is not None:
        made |= {own[1]: made[own[0]] - half, own[2]: made[own[0]] + half}
    made[own[3]] = known
    with table_writer(out) as write:
        write(made)
    unknown = int((~known).sum())
    if out is None:
        rows = polars().DataFrame(made).to_dicts()
        lines = [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in one.values()] for one in rows]
        return Outcome({"predictions": rows, "unknown": unknown}, format_table(list(made), lines))
    more = f", {unknown:,} with unknown ids" if unknown else ""
    summary = {"predictions": count, "unknown": unknown, "out": str(out)}
    return Outcome(summary, f"{counted(count, 'prediction')} in {out}{more}")
