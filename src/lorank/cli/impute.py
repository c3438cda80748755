"""``lorank impute``: fill missing values of a table."""
# No "from __future__ import annotations" here: typer evaluates the annotations, which name local variables.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ..common.blas_threads import one_blas_thread
from ..common.checks import counted
from .errors import UsageError, cli_errors, print_error
from .options import MODEL as FIT
from .options import OUTPUT, check_device, check_word, flag, integer_or_word, number_or_word, option
from .output import MODEL, PAGE, TABLE, check_output_path, print_json, progress

if TYPE_CHECKING:
    import typer

MAX_SHOWN = 8  # columns
REFINES = ("auto", "trees", "none")


def register(app: "typer.Typer") -> None:
    """Add the command to a typer application."""
    import typer

    @app.command()
    def impute(
        files: Annotated[list[Path], typer.Argument(metavar="FILE", help="A table: CSV, TSV or Parquet.")],
        out: Annotated[
            Path, option("-o", "--out", panel=OUTPUT, help="Write the completed table: .csv, .tsv (also .gz) or .parquet.")
        ],
        time: Annotated[
            str | None, option("--time", help="The rows are a time series: column of times, or 'rows' for their order.")
        ] = None,
        missing: Annotated[
            list[str] | None,
            option(
                "--missing",
                metavar="TEXT",
                help="A further code for missing values, such as -999; may be repeated.",
            ),
        ] = None,
        header: Annotated[
            bool | None,
            option(
                "--header/--no-header",
                metavar="",
                show_default=False,
                help="Whether the first line of a text file is a header; by default detected.",
            ),
        ] = None,
        refine: Annotated[
            str,
            option(
                "--refine", panel=FIT, words=REFINES, help="Nonlinear model of the residuals: auto, trees (slower) or none."
            ),
        ] = "auto",
        rank: Annotated[
            str, option("--rank", panel=FIT, help="Rank of a low-rank model, or auto: the default model.")
        ] = "auto",
        regularization: Annotated[
            str, option("--regularization", panel=FIT, help="Regularization of a low-rank model: a number, learned or auto.")
        ] = "auto",
        seed: Annotated[int, option("--seed", min=0, metavar="<int>", panel=FIT, help="Random seed.")] = 0,
        device: Annotated[str | None, option("--device", panel=FIT, help="Fit with PyTorch on this device, e.g. cuda.")] = None,
        model: Annotated[Path | None, option("--model", panel=OUTPUT, help="Write the model to this file.")] = None,
        report: Annotated[Path | None, option("--report", panel=OUTPUT, help="Write an HTML report to this file.")] = None,
        as_json: Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")] = False,
    ) -> None:
        """Fill missing values of a table: numbers, integers and categories. Files may be larger than memory."""
        with cli_errors():
            if len(files) > 1:
                raise UsageError(f"impute takes one file, got {len(files)}: join them first")
            codes = tuple(missing or ())
            run_impute(files[0], out, rank, regularization, model, seed, as_json, device, time, refine, report, codes, header)


@one_blas_thread
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
    report: Path | None = None,
    missing: tuple[str, ...] = (),
    header: bool | None = None,
) -> None:
    """Read, impute, write."""
    from ..io.missing_codes import MissingCodes

    check_output_path(out, (*TABLE, ".csv.gz", ".tsv.gz", ".tab", ".txt"), "a table")
    check_output_path(model, MODEL, "a model", "--model")
    check_output_path(report, PAGE, "a report", "--report")
    check_word(refine, REFINES, "--refine")
    check_device(device)
    gaps = MissingCodes.of(missing)
    options = (
        integer_or_word(rank, ("auto",), "--rank"),
        number_or_word(regularization, ("auto", "learned"), "--regularization"),
    )
    chosen = options == ("auto", "auto") and device is None
    if not chosen and (time is not None or refine != "auto"):
        raise UsageError("--time and --refine need the default model: leave out --rank, --regularization and --device")
    if report is not None and (time is not None or not chosen):
        raise UsageError("--report needs the default model: leave out --time, --rank, --regularization and --device")
    if chosen and time is None:
        summary = _by_blocks(file, out, refine, model, seed, report, gaps, header)
    else:
        summary = _at_once(file, out, options, model, seed, device, time, refine, gaps, header)
    if as_json:
        print_json(summary)
    else:
        print(
            f"{counted(summary['gaps'], 'missing value')} of {counted(summary['cells'], 'cell')} filled at rank "
            f"{summary['rank']}: {out}"
        )
        if summary["left_alone"]:
            print(f"not imputed: {', '.join(summary['left_alone'])}")
        if not summary["gaps"] and 3 <= len(summary["left_alone"]) + summary["columns"] <= 4:
            print(f"no missing values: if each line is one observation (row, column, value), use lorank complete {file}")


def _by_blocks(
    file: Path, out: Path, refine: str, model: Path | None, seed: int, report: Path | None, missing: Any, header: bool | None
) -> dict[str, Any]:
    """Fit to a sample of the rows; read, impute and write the file in blocks."""
    from ..io import open_table
    from ..io.archive import FileError
    from ..report.table_page import columns_of, write_table_page
    from ..tables import TableImputer

    imputer = TableImputer(refine=refine, random_state=seed)
    with progress("reading"):
        table = open_table(file, missing, header=header)
        sample = table.sample(imputer.fit_rows, np.random.default_rng(seed))
    _print_layout(file, table)
    if table.rows < 2:
        raise FileError(f"{file} has one row: missing values are predicted from other rows")
    for column in sample:
        if column.dtype.is_numeric():
            _warn_about_codes(file, column.name, column.cast(float).to_numpy())
    with progress("fitting"):
        imputer.fit(sample)
    used = [column.name for column in imputer.columns_ if column.width]
    if not used:
        name, cell = next(((c.name, c.drop_nulls()[0]) for c in sample if len(c.drop_nulls())), ("", ""))
        reason = f": {cell!r} in column {name!r} is no number; write numbers alone, with a decimal point" if cell else ""
        raise FileError(f"{file} has no column of numbers or categories{reason}")
    gaps, drawn = 0, columns_of(imputer) if report is not None else []
    with progress("filling"), table.writing(out) as write:
        for block in table.blocks():
            typed = table.typed(block)
            filled = imputer.transform(typed)
            before, after = (sum(frame.select(used).null_count().row(0)) for frame in (typed, filled))
            gaps += before - after
            for column in drawn:
                column.add(typed.get_column(column.name), filled.get_column(column.name))
            write(block, filled)
    if report is not None:
        write_table_page(report, file.name, drawn, imputer.rank_)
    if model is not None:
        imputer.feature_names_in_ = np.array(table.names, object)
        imputer.save(model)
    return _summary(table.rows, len(used), gaps, imputer, out, [n for n in table.names if n not in used], model)


def _at_once(
    file: Path,
    out: Path,
    options: Any,
    model: Path | None,
    seed: int,
    device: str | None,
    time: str | None,
    refine: str,
    missing: Any,
    header: bool | None,
) -> dict[str, Any]:
    """Time series and low-rank models: numeric columns, all rows in memory."""
    from ..io import read_table
    from ..io.archive import FileError
    from ..tables import TableImputer

    table = read_table(file, missing, header=header)
    _print_layout(file, table)
    if len(table.values) < 2:
        raise FileError(f"{file} has one row: missing values are predicted from other rows")
    for name, values in zip(table.numbers, table.values.T, strict=True):
        _warn_about_codes(file, name, values)
    numbers, imputer = table.values, None  # type: np.ndarray, Any
    if time is not None:
        numbers, when = table.with_times(time)
        imputer = TableImputer(time=when, refine=refine, random_state=seed)
    else:
        rank, regularization = options
        imputer = TableImputer(method="low-rank", rank=rank, regularization=regularization, random_state=seed, device=device)
    with progress("fitting"):
        filled = imputer.fit_transform(numbers)[:, : table.values.shape[1]]
    table.write(out, filled)
    if model is not None:
        names = [*table.numbers, *(["time"] if numbers.shape[1] > len(table.numbers) else [])]
        imputer.feature_names_in_ = np.array(names, object)
        imputer.save(model)
    left = [name for name in table.names if name not in table.numbers]
    return _summary(len(filled), len(table.numbers), int(np.isnan(table.values).sum()), imputer, out, left, model)


def _print_layout(file: Path, table: Any) -> None:
    """Print the header and the types of a text file, to standard error."""
    if table.kinds:
        header = "the first line is a header" if table.layout.header else "no header"
        kinds = [f"{name!r} {'text' if table.kinds[name] == 'text' else 'numbers'}" for name in table.names[:MAX_SHOWN]]
        more = f" and {counted(len(table.names) - MAX_SHOWN, 'other')}" if len(table.names) > MAX_SHOWN else ""
        print_error(f"{file}: {header}; {', '.join(kinds)}{more}")


def _warn_about_codes(file: Path, name: str, values: np.ndarray) -> None:
    """Warn about numbers that look like codes for missing values."""
    from ..io.missing_codes import SuspectedCodes

    seen = SuspectedCodes(f"{file}, column {name!r}", "pass --missing {}")
    seen.add(values)
    seen.warn()


def _summary(
    rows: int, columns: int, gaps: int, imputer: Any, out: Path, left: list[str], model: Path | None
) -> dict[str, Any]:
    found = {"rows": rows, "columns": columns, "cells": rows * columns, "gaps": gaps, "rank": imputer.rank_, "out": str(out)}
    return found | {"left_alone": left, "model": None if model is None else str(model)}
