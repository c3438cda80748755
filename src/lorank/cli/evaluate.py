"""``lorank evaluate``: is a model worth it? Recommendations against held-out items, with baselines beside them."""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ..common.checks import counted
from .options import COLUMNS, OUTPUT, flag, option
from .output import PAGE, Misuse, busy, check_place, for_people, only_one, say_columns, show_json, table, tell

if TYPE_CHECKING:
    import typer


def register(app: "typer.Typer") -> None:
    """Add the command to a typer application."""
    import typer

    @app.command()
    def evaluate(
        files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Ratings, as for complete.")],
        row: Annotated[str | None, option("--row", panel=COLUMNS, help="The column that says which row: users, say.")] = None,
        col: Annotated[
            str | None, option("--col", panel=COLUMNS, help="The column that says which column: movies, say.")
        ] = None,
        value: Annotated[str | None, option("--value", panel=COLUMNS, help="The column with values: ratings, say.")] = None,
        when: Annotated[
            str | None, option("--time", panel=COLUMNS, help="The column with times: each row's latest are held out.")
        ] = None,
        positive: Annotated[
            float | None, option("--positive", help="Values from here on count as liked; by default the median of all.")
        ] = None,
        holdout: Annotated[float, option("--holdout", help="The share of each row's values that is held out.")] = 0.2,
        implicit: Annotated[
            bool, flag("--implicit", help="Who took what, not ratings: each line counts once, or --value times.")
        ] = False,
        n: Annotated[int, option("-n", help="How many recommendations count.")] = 10,
        seed: Annotated[int, option("--seed", min=0, metavar="<int>", help="Same seed, same split.")] = 0,
        report: Annotated[
            Path | None, option("--report", panel=OUTPUT, help="Where a page about it goes, an HTML file.")
        ] = None,
        as_json: Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")] = False,
    ) -> None:
        """Fit to a part of the ratings, recommend, and compare with what was held out; popularity and item means beside it."""
        with for_people():
            if implicit and positive is not None:
                raise Misuse("--positive is for ratings: leave it out with --implicit, where all that was taken counts")
            file, columns = only_one(files, "evaluate"), (row, col, value, when)
            run_evaluate(file, columns, positive, holdout, n, seed, as_json, report, implicit)


def run_evaluate(
    file: Path,
    columns: tuple[str | None, str | None, str | None, str | None],
    positive: float | None,
    holdout: float,
    n: int,
    seed: int,
    as_json: bool,
    report: Path | None = None,
    implicit: bool = False,
) -> None:
    """Read, split, fit, recommend, and print the table."""
    from ..estimators import MatrixCompletion
    from ..evaluation import leave_last_out, leave_some_out
    from ..io import read_ratings
    from ..report.ranking_page import write_ranking_page
    from .evaluate_taken import rank_taken
    from .ranking import rank_models

    check_place(report, PAGE, "a report", "--report")
    if not 0 < holdout < 1 or n < 1:
        wrong = f"-n must be 1 or more, got {n}" if n < 1 else f"--holdout must lie between 0 and 1, got {holdout:g}"
        raise Misuse(wrong)
    if implicit:
        found = rank_taken(file, columns, holdout, n, seed)
    else:
        with busy("reading"):
            data = read_ratings(file, *columns)
        say_columns(file, data.columns)
        repeated = len(data.rows) - len(np.unique(data.rows * len(data.col_ids) + data.cols))
        if repeated:
            said = counted(repeated, "line repeats", "lines repeat")
            tell(f"note: {said} a pair of row and column: what is held out is known from there. Keep one line of each pair")
        if data.times is None:
            out = leave_some_out(data.rows, holdout, seed=seed)
        else:
            out = leave_last_out(data.rows, data.times, holdout, seed=seed)
        found = rank_models(data, out, MatrixCompletion(random_state=seed), positive, n)
    if report is not None:
        write_ranking_page(report, found, title=f"{file.name}: recommendations")
    if as_json:
        summary = {"file": str(file), "n": n, "positive": found.positive, "held_out": found.held_out, "seconds": found.seconds}
        models = {name: asdict(one) | {"rmse": found.errors.get(name)} for name, one in found.scores.items()}
        show_json(summary | {"models": models} | ({} if report is None else {"report": str(report)}))
        return
    values, rows = counted(found.held_out, "held-out value"), counted(found.users, "row")
    print(f"{values} of {found.positive:g} or more, of {rows}; lists of {n}")
    table(found.head, found.lines)
    if report is not None:
        print(f"report: {report}")
