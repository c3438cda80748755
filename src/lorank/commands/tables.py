"""``lorank impute``."""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from .common import busy, for_people, number_or, show_json, whole_or

if TYPE_CHECKING:
    import typer


def register(app: "typer.Typer") -> None:
    """Add the command to a typer application."""
    import typer

    @app.command()
    def impute(
        file: Annotated[Path, typer.Argument(help="A table: CSV, TSV or Parquet.")],
        out: Annotated[Path, typer.Option("-o", "--out", help="Where the filled table goes.")],
        time: Annotated[
            str | None, typer.Option(help="Rows follow each other in time: the column of their times, or rows.")
        ] = None,
        refine: Annotated[str, typer.Option(help="What lines leave over: auto, trees (slower) or none.")] = "auto",
        rank: Annotated[str, typer.Option(help="Factors of a low-rank model, or auto: whatever model is best.")] = "auto",
        regularization: Annotated[str, typer.Option(help="Of a low-rank model: a strength, learned or auto.")] = "auto",
        model: Annotated[Path | None, typer.Option("--model", help="Where the model goes, for new rows.")] = None,
        seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
        device: Annotated[str | None, typer.Option(help="Fit there with PyTorch: cuda, for example.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        """Fill the gaps of a table of numbers; columns of text stay as they are."""
        with for_people():
            run_impute(file, out, rank, regularization, model, seed, as_json, device, time, refine)


def run_impute(
    file: Path,
    out: Path,
    rank: str,
    regularization: str,
    model: Path | None,
    seed: int,
    as_json: bool,
    device: str | None = None,
    time: str | None = None,
    refine: str = "auto",
) -> None:
    """Read, fill, write."""
    from ..datafiles import read_table
    from ..estimators import LowRankImputer, TableImputer

    options = whole_or(rank, ("auto",), "rank"), number_or(regularization, ("auto", "learned"), "regularization")
    table = read_table(file)
    numbers, imputer = table.values, None  # type: np.ndarray, Any
    if options == ("auto", "auto") and device is None:
        when: Any = None
        if time is not None:
            numbers, when = table.with_times(time)
        imputer = TableImputer(time=when, refine=refine, random_state=seed)
    elif time is not None or refine != "auto":
        raise ValueError("--time and --refine go with the default model: leave out --rank, --regularization and --device")
    else:
        imputer = LowRankImputer(*options, random_state=seed, device=device)
    with busy("fitting"):
        filled = imputer.fit_transform(numbers)[:, : table.values.shape[1]]
    table.write(out, filled)
    if model is not None:
        names = [*table.numbers, *(["time"] if numbers.shape[1] > len(table.numbers) else [])]
        imputer.feature_names_in_ = np.array(names, object)
        imputer.save(model)
    gaps = int(np.isnan(table.values).sum())
    left = [name for name in table.names if name not in table.numbers]
    if as_json:
        summary = {"rows": len(filled), "columns": len(table.numbers), "gaps": gaps, "rank": imputer.rank_, "out": str(out)}
        show_json(summary | {"left_alone": left, "model": None if model is None else str(model)})
    else:
        print(f"{gaps:,} gaps of {filled.size:,} cells filled at rank {imputer.rank_}: {out}")
        if left:
            print(f"left as they are: {', '.join(left)}")
