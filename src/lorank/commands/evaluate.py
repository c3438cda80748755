"""``lorank evaluate``: is a model worth it? Recommendations against held-out items, with baselines beside them."""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from .common import busy, for_people, show_json, table

if TYPE_CHECKING:
    import typer

SHOWN = (("NDCG", "ndcg"), ("recall", "recall"), ("precision", "precision"), ("MAP", "map"), ("hit rate", "hit_rate"))
OF_ALL = (("coverage", "coverage"), ("novelty", "novelty"))


def register(app: "typer.Typer") -> None:
    """Add the command to a typer application."""
    import typer

    @app.command()
    def evaluate(
        file: Annotated[Path, typer.Argument(help="Ratings, as for complete.")],
        row: Annotated[str | None, typer.Option("--row", help="The column with rows (users, say).")] = None,
        col: Annotated[str | None, typer.Option("--col", help="The column with columns (movies, say).")] = None,
        value: Annotated[str | None, typer.Option("--value", help="The column with values (ratings, say).")] = None,
        when: Annotated[str | None, typer.Option("--time", help="A column with times: hold out each row's latest.")] = None,
        positive: Annotated[
            float | None, typer.Option(help="Values from here on count as liked; by default the median of all.")
        ] = None,
        holdout: Annotated[float, typer.Option(help="The share of each row's values that is held out.")] = 0.2,
        n: Annotated[int, typer.Option("-n", help="How many recommendations count.")] = 10,
        seed: Annotated[int, typer.Option(help="Same seed, same split.")] = 0,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        """Fit to a part of the ratings, recommend, and compare with what was held out; popularity and item means beside it."""
        with for_people():
            run_evaluate(file, (row, col, value, when), positive, holdout, n, seed, as_json)


def run_evaluate(
    file: Path,
    columns: tuple[str | None, str | None, str | None, str | None],
    positive: float | None,
    holdout: float,
    n: int,
    seed: int,
    as_json: bool,
) -> None:
    """Read, split, fit, recommend, and print the table."""
    from ..datafiles import read_ratings
    from ..evaluation import Held, compare, leave_last_out, leave_some_out

    with busy("reading"):
        data = read_ratings(file, *columns)
    if data.times is None:
        out = leave_some_out(data.rows, holdout, seed=seed)
    else:
        out = leave_last_out(data.rows, data.times, holdout, seed=seed)
    shape = len(data.row_ids), len(data.col_ids)
    liked = float(np.median(data.values)) if positive is None else float(positive)
    wanted = out & (data.values >= liked)
    if not wanted.any():
        raise ValueError(
            f"{file}: none of the {int(out.sum()):,} held-out values is {liked:g} or more: lower --positive, or raise --holdout"
        )
    held = Held.from_pairs(data.rows[wanted], data.cols[wanted], shape[0])
    begin = time.perf_counter()
    with busy("fitting"):
        models, errors = fitted_models(data, ~out, shape, seed)
    counts = np.bincount(data.cols[~out], minlength=shape[1])
    with busy("recommending"):
        scores = {name: one[0] for name, one in compare(models, held, counts, shape[0], n).items()}
    if as_json:
        show_json(
            {
                "file": str(file),
                "n": n,
                "positive": liked,
                "held_out": int(wanted.sum()),
                "seconds": time.perf_counter() - begin,
                "models": {name: asdict(one) | {"rmse": errors.get(name)} for name, one in scores.items()},
            }
        )
        return
    users = next(iter(scores.values())).users
    print(f"{int(wanted.sum()):,} held-out values of {liked:g} or more, of {users:,} rows; lists of {n}")
    head = ["", *(f"{title}@{n}" for title, _ in SHOWN), *(title for title, _ in OF_ALL), "RMSE"]
    lines = []
    for name, one in scores.items():
        numbers = [f"{getattr(one, key):.4f}" for _, key in SHOWN] + [f"{one.coverage:.1%}", f"{one.novelty:.1f} bits"]
        lines.append([name, *numbers, f"{errors[name]:.4f}" if name in errors else "-"])
    table(head, lines)


class ByRating:
    """The same model, the largest predictions first."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def recommend(self, rows: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        found: tuple[np.ndarray, np.ndarray] = self.model.recommend(rows, n, by="rating")
        return found


def fitted_models(data: Any, kept: np.ndarray, shape: tuple[int, int], seed: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Models fitted to the values that were kept, by name, and their errors on the others."""
    from ..estimators import MatrixCompletion
    from ..evaluation import ItemMean, Popularity

    rows, cols, values = data.rows[kept], data.cols[kept], data.values[kept]
    model = MatrixCompletion(shape=shape, random_state=seed).fit(np.column_stack([rows, cols]), values)
    means = ItemMean(rows, cols, values, shape[1])
    models = {
        "MatrixCompletion": model,
        "the same by rating": ByRating(model),
        "popularity": Popularity(rows, cols, shape[1]),
        "item means": means,
    }
    truth, i, j = data.values[~kept], data.rows[~kept], data.cols[~kept]
    guesses = {"MatrixCompletion": model.model_.predict(i, j), "item means": means.predict(j)}
    return models, {name: float(np.sqrt(np.mean((guess - truth) ** 2))) for name, guess in guesses.items()}
