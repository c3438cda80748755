"""``lorank predict`` and ``recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from . import sources as large
from . import taken
from .model_files import as_known, as_ratings, ids_of, load_model, load_ratings, near_ids
from .output import TABLE, Misuse, all_files, busy, check_place, say_columns, show_json, table

ORDERED = {
    "taste": "first what {} would take and like; --by rating puts the largest predictions first",
    "rating": "the largest predictions first; --by taste puts first what {} would take and like",
}


def run_predict(
    model: Path, files: list[str], out: Path, names: tuple[str | None, str | None], interval: float | None, as_json: bool
) -> None:
    """Predict at the pairs of files."""
    check_place(out, TABLE, "a table of predictions")
    if interval is not None and not 0 < interval < 1:
        raise Misuse(f"--interval must lie between 0 and 1 (0.9 is 90 %), got {interval:g}")
    fitted = load_ratings(model)
    several = all_files(files) != [Path(files[0])]
    if several or large.wants_partitions(files, large.Where()) or out.suffix.lower() == ".parquet":
        count, unknown = large.predict(fitted, files, out, names, interval)
    else:
        with busy("predicting"):
            count, unknown = _predict_at_once(fitted, Path(files[0]), out, names, interval)
    if as_json:
        show_json({"predictions": count, "unknown": unknown, "out": str(out)})
    else:
        said = f"{counted(count, 'prediction')} in {out}"
        print(said + (f", {unknown:,} of rows or columns never observed" if unknown else ""))


def _predict_at_once(
    fitted: Any, file: Path, out: Path, names: tuple[str | None, str | None], interval: float | None
) -> tuple[int, int]:
    from ..io import read_pairs
    from .tables_out import BlockWriter

    row, col = labelled(fitted, names, _columns(file))
    rows, cols, found = read_pairs(file, row, col)
    if _are_ids(fitted, found.row, found.col):
        line = f"{found.row},{found.col}"
        raise ValueError(f"{file}: its first line, {line!r}, looks like a pair. Put one with names above it, such as user,item")
    say_columns(file, found)
    if not len(rows):
        raise ValueError(f"{file} has no pairs to predict at")
    made = predictions(fitted, (rows, cols), (found.row, found.col), interval)
    with BlockWriter(out) as writer:
        writer.add(made)
    return len(rows), not_known(made)


def labelled(fitted: Any, names: tuple[str | None, str | None], there: list[str]) -> tuple[str | None, str | None]:
    """The columns asked for, or those that the model was fitted with, where the file has them."""
    labels = fitted.labels_ or {}
    row, col = (
        name or (labels.get(side) if labels.get(side) in there else None)
        for name, side in zip(names, ("row", "col"), strict=True)
    )
    return row, col


def predictions(fitted: Any, ids: tuple[Any, Any], names: tuple[str, str], interval: float | None) -> dict[str, Any]:
    """Columns of a table: the pairs as they were, what is predicted there, and whether both were ever observed."""
    from ..estimators.frames import beside
    from ..io.delimited_text import polars

    rows, cols = ids
    pairs = polars().DataFrame({"row": as_known(fitted, "rows", rows), "col": as_known(fitted, "cols", cols)})
    own = beside(names, ("prediction", "low", "high", "known"))
    columns = {names[0]: rows, names[1]: cols, own[0]: fitted.predict(pairs)}
    if interval is not None:
        columns[own[1]], columns[own[2]] = fitted.predict_interval(pairs, interval)
    return columns | {own[3]: fitted.known(pairs)}


def not_known(made: dict[str, Any]) -> int:
    """How many of such predictions, whose last column says so, are of what was never observed."""
    return int((~list(made.values())[-1]).sum())


def _are_ids(fitted: Any, row: str, col: str) -> bool:
    """Whether what should be names of columns are ids of the model, both."""
    return all(
        as_known(fitted, side, np.array([one]))[0] in ids_of(fitted, side) for side, one in (("rows", row), ("cols", col))
    )


def _columns(file: Path) -> list[str]:
    """The names of a file's columns, where it has some."""
    from ..distributed.sources import schema_of
    from ..io.delimited_text import head
    from ..io.ratings import TEXT

    if file.suffix.lower() == ".parquet" and file.exists():
        return list(schema_of(file))
    return head(file)[1] if any(s.lower() in TEXT for s in file.suffixes) else []


def run_recommend(model: Path, row: str, n: int, by: str, seen: bool, as_json: bool) -> None:
    """The best columns of a row."""
    loaded = load_model(model)
    if taken.is_implicit(loaded):
        taken.by_taste(by)
        taken.recommend(loaded, row, n, seen, as_json)
        return
    fitted = as_ratings(loaded, model)
    asked = as_known(fitted, "rows", np.array([row]))
    known = ids_of(fitted, "rows")
    if asked[0] not in known:
        hint = near_ids(row, known) or f": lorank inspect {model} shows some that are"
        raise ValueError(f"{row!r} is no row of the model{hint}")
    best, scores = fitted.recommend(asked, n, exclude_seen=not seen, by=by)
    keep = ~np.isnan(scores[0])
    ids, values = best[0][keep], scores[0][keep]
    if as_json:
        found = [{"col": c, "prediction": v} for c, v in zip(ids, values, strict=True)]
        show_json({"row": row, "by": by, "recommendations": found})
        return
    labels = fitted.labels_ or {}
    if not len(ids):
        print(f"nothing is left to recommend: {row} has had all of it; --seen shows that as well")
        return
    table(
        ["", labels.get("col", "col"), "prediction"],
        [[k + 1, c, f"{v:.3f}"] for k, (c, v) in enumerate(zip(ids, values, strict=True))],
    )
    print(f"({ORDERED[by].format(row)})")


def run_recommend_all(model: Path, out: Path, n: int, by: str | None, seen: bool, ratings: Path | None, as_json: bool) -> None:
    """The best columns of all rows, to a file."""
    check_place(out, TABLE, "a table of recommendations")
    fitted = load_model(model)
    if taken.is_implicit(fitted):
        taken.by_taste(by)
        count = taken.recommend_all(fitted, out, n, seen, ratings)
    else:
        count = large.recommend_all(as_ratings(fitted, model), out, n, by, seen, ratings)
    if as_json:
        show_json({"rows": count, "out": str(out)})
    else:
        print(f"recommendations for {counted(count, 'row')} in {out}")
