"""``lorank impute``: fill missing values of a table."""
# No "from __future__ import annotations" here: typer evaluates the annotations.

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..common.blas_threads import one_blas_thread
from ..common.checks import counted
from ..io.archive import FileError
from ..io.delimited_text import polars
from .errors import Outcome, UsageError, print_note
from .options import (
    COLUMNS,
    OUTPUT,
    Device,
    Header,
    Report,
    Seed,
    check_device,
    check_word,
    command,
    flag,
    integer_or_word,
    number_or_word,
    option,
)
from .options import MODEL as FIT
from .output import MODEL, PAGE, TABLE, check_output_path, progress

MAX_SHOWN = 8  # columns
REFINES = ("auto", "trees", "none")


@command
def impute(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="A table: CSV, TSV or Parquet.")],
    out: Annotated[
        Path,
        option(
            "-o", "--out", panel=OUTPUT, metavar="FILE", help="Write the completed table: .csv, .tsv (also .gz) or .parquet."
        ),
    ],
    time: Annotated[
        str | None,
        option("--time", panel=COLUMNS, metavar="COLUMN", help="Column of times: the rows are a time series."),
    ] = None,
    ordered: Annotated[
        bool, flag("--ordered", panel=COLUMNS, help="The rows are a time series in the order of the file.")
    ] = False,
    missing: Annotated[
        list[str] | None,
        option(
            "--missing", panel=COLUMNS, metavar="CODE", help="A further code for missing values, such as -999; may be repeated."
        ),
    ] = None,
    header: Header = None,
    refine: Annotated[
        str,
        option(
            "--refine",
            panel=FIT,
            metavar="NAME",
            words=REFINES,
            help="Nonlinear model of the residuals: auto, trees (slower) or none.",
        ),
    ] = "auto",
    rank: Annotated[
        str, option("--rank", panel=FIT, metavar="N", help="Rank of a low-rank model, or auto: the default model.")
    ] = "auto",
    regularization: Annotated[
        str,
        option(
            "--regularization", panel=FIT, metavar="X", help="Regularization of a low-rank model: a number, learned or auto."
        ),
    ] = "auto",
    seed: Seed = 0,
    device: Device = None,
    model: Annotated[
        Path | None, option("--model", panel=OUTPUT, metavar="FILE", help="Write the model to this .lorank file.")
    ] = None,
    use_model: Annotated[
        Path | None,
        option("--use-model", panel=FIT, metavar="FILE", help="Fill with a saved model (--model) instead of fitting one."),
    ] = None,
    report: Report = None,
) -> Outcome:
    """Fill missing values of a table: numbers, integers and categories. Files may be larger than memory."""
    file = files[0]
    if len(files) > 1:
        raise UsageError(f"impute takes one file, got {len(files)}: join them first")
    check_output_path(out, (*TABLE, ".csv.gz", ".tsv.gz", ".tab", ".txt"), "a table")
    check_output_path(model, MODEL, "a model", "--model")
    check_output_path(report, PAGE, "a report", "--report")
    check_word(refine, REFINES, "--refine")
    check_device(device)
    if ordered and time is not None:
        raise UsageError("--ordered is for series without a column of times: leave out --time")
    low_rank: dict[str, Any] = {
        "rank": integer_or_word(rank, ("auto",), "--rank"),
        "regularization": number_or_word(regularization, ("auto", "learned"), "--regularization"),
        "device": device,
    }
    fit_options = {**low_rank, "time": time, "ordered": ordered, "refine": refine, "seed": seed}
    options: dict[str, Any] = {"time": True if ordered else time, "refine": refine}
    if low_rank != {"rank": "auto", "regularization": "auto", "device": None}:
        if time is not None or ordered or refine != "auto":
            raise UsageError("--time and --refine need the default model: leave out --rank, --regularization and --device")
        options = {"method": "low-rank", **low_rank}
    from ..tables import TableImputer

    imputer = TableImputer(random_state=seed, **options)
    if use_model is not None:
        imputer = _load(use_model, fit_options)
    summary = fill(file, out, imputer, model, report, tuple(missing or ()), header)
    gaps, cells = counted(summary["gaps"], "missing value"), counted(summary["cells"], "cell")
    lines = [f"{gaps} of {cells} filled at rank {summary['rank']}: {out}", *_quality(summary.pop("filled"))]
    if summary["left_alone"]:
        lines.append(f"not imputed: {', '.join(summary['left_alone'])}")
    if not summary["gaps"] and 3 <= len(summary["left_alone"]) + summary["columns"] <= 4:
        lines.append(f"no missing values: if each line is one observation (row, column, value), use lorank complete {file}")
    return Outcome(summary, "\n".join(lines))


@one_blas_thread
def fill(
    file: Path,
    out: Path,
    imputer: Any,
    model: Path | None = None,
    report: Path | None = None,
    missing: tuple[str, ...] = (),
    header: bool | None = None,
) -> dict[str, Any]:
    """Fit to a sample of the rows, and fill the file in blocks of rows; time series and low-rank models take all rows at once.

    A fitted imputer is used as it is.

    Parameters
    ----------
    file, out : path
    imputer : TableImputer
        ``time`` is the name of a column, or True.
    model, report : path, optional
        Where to save the imputer and a report.
    missing : tuple of str
        Further codes for missing values.
    header : bool, optional
        Whether the first line of a text file holds names; by default detected.
    """
    from ..io import open_table
    from ..io.missing_codes import MissingCodes
    from ..report.table_page import columns_of, write_table_page

    with progress("reading"):
        table = open_table(file, MissingCodes.of(missing), header=header)
        at_once = imputer.time is not None or imputer.method == "low-rank"
        blocks = [polars().concat(list(table.blocks()))] if at_once else table.blocks()
        sample = table.read() if at_once else table.sample(imputer.fit_rows, np.random.default_rng(imputer.random_state))
        sample = _with_times(file, sample, imputer.time)
    _print_layout(file, table)
    fitted = hasattr(imputer, "columns_")
    if fitted and [column.name for column in imputer.columns_] != table.names:
        own, there = ([*map(repr, names[:MAX_SHOWN])] for names in ([c.name for c in imputer.columns_], table.names))
        raise FileError(f"{file} has the columns {', '.join(there)}, and the model {', '.join(own)}: they must be the same")
    if table.rows < 2 and not fitted:
        raise FileError(f"{file} has one row: missing values are predicted from other rows")
    for column in sample:
        if column.dtype.is_numeric():
            _warn_about_codes(file, column.name, column.cast(float).to_numpy())
    if not fitted:
        with progress("fitting"):
            imputer.fit(sample)
    drawn = [column for column in columns_of(imputer) if column.name != imputer.time]
    used = [column.name for column in drawn]
    if not used:
        name, cell = next(((c.name, c.drop_nulls()[0]) for c in sample if len(c.drop_nulls())), ("", ""))
        reason = f": {cell!r} in column {name!r} is not a number; write numbers alone, with a decimal point" if cell else ""
        raise FileError(f"{file} has no column of numbers or categories{reason}")
    gaps = 0
    with progress("filling"), table.writing(out) as write:
        for block in blocks:
            typed = _as_in_fit(_with_times(file, table.typed(block), imputer.time), imputer)
            filled = imputer.transform(typed)
            before, after = (sum(frame.select(used).null_count().row(0)) for frame in (typed, filled))
            gaps += before - after
            for one in drawn:
                one.add(typed.get_column(one.name), filled.get_column(one.name))
            write(block, filled if imputer.time in (None, True) else filled.with_columns(block.get_column(imputer.time)))
    if report is not None:
        write_table_page(report, file.name, drawn, imputer.rank_)
    if model is not None:
        imputer.feature_names_in_ = np.array(table.names, object)
        imputer.save(model)
    found = {"rows": table.rows, "columns": len(used), "cells": table.rows * len(used), "gaps": gaps, "rank": imputer.rank_}
    left = [name for name in table.names if name not in used]
    with_gaps = [one for one in drawn if one.gaps]
    found |= {"filled": with_gaps, "held_out_errors": {one.name: one.error for one in with_gaps if one.quality}}
    return found | {"out": str(out), "left_alone": left, "model": None if model is None else str(model)}


def _quality(columns: list[Any]) -> list[str]:
    """Held-out errors of the columns with missing values: the largest first, categories last."""
    known = sorted((one for one in columns if one.quality), key=lambda one: (bool(one.levels), -one.error))
    if not known:
        return []
    listed = ", ".join(f"{one.name} {one.quality.split()[0]}{' wrong' * bool(one.levels)}" for one in known[:MAX_SHOWN])
    more = f" and {counted(len(known) - MAX_SHOWN, 'other')}" if len(known) > MAX_SHOWN else ""
    return [f"held-out error / standard deviation: {listed}{more}"]


def _load(path: Path, options: dict[str, Any]) -> Any:
    """A saved TableImputer; a UsageError for options of a fit."""
    from ..tables import TableImputer
    from .model_files import load_model

    defaults = {"rank": "auto", "regularization": "auto", "device": None, "time": None, "ordered": False, "refine": "auto"}
    for name, default in (defaults | {"seed": 0}).items():
        if options[name] != default:
            raise UsageError(f"--{name} is for fitting a model: leave it out with --use-model")
    model = load_model(path)
    if not isinstance(model, TableImputer):
        raise FileError(f"{path} holds a {type(model).__name__}, and impute needs a model of a table")
    return model


def _as_in_fit(table: Any, imputer: Any) -> Any:
    """The table with whole numbers as numbers where the fit had decimals."""
    pl, columns = polars(), imputer.columns_
    names = [c.name for c in columns if c.kind == "number" and table.schema[c.name].is_integer()]
    return table.with_columns(pl.col(names).cast(pl.Float64))


def _with_times(file: Path, table: Any, name: Any) -> Any:
    """The table with text in the column of times read as dates."""
    pl = polars()
    if name in (None, True):
        return table
    if name not in table.columns:
        raise FileError(f"{file} has no column {name!r} for times: choose one of {', '.join(table.columns[:12])}")
    times = table.get_column(name)
    if times.dtype == pl.String:
        try:
            times = times.str.to_datetime()
        except pl.exceptions.PolarsError as error:
            raise FileError(f"{file}, column {name!r} holds no dates: {str(error).splitlines()[0]}") from None
    if times.null_count():
        raise FileError(f"{file}: column {name!r} must have a time in every row: row {times.is_null().arg_true()[0] + 1}")
    return table.with_columns(times)


def _print_layout(file: Path, table: Any) -> None:
    """Print the header and the types of a text file, to standard error."""
    if table.kinds:
        header = "the first line is a header" if table.layout.header else "no header"
        kinds = [f"{name!r} {'text' if table.kinds[name] == 'text' else 'numbers'}" for name in table.names[:MAX_SHOWN]]
        more = f" and {counted(len(table.names) - MAX_SHOWN, 'other')}" if len(table.names) > MAX_SHOWN else ""
        print_note(f"{file}: {header}; {', '.join(kinds)}{more}")


def _warn_about_codes(file: Path, name: str, values: np.ndarray) -> None:
    """Warn about numbers that look like codes for missing values."""
    from ..io.missing_codes import SuspectedCodes

    seen = SuspectedCodes(f"{file}, column {name!r}", "pass --missing {}")
    seen.add(values)
    seen.warn()
