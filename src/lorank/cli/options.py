"""Options of the commands: declarations that several commands share, help pages, and conversion of text to values."""
# No "from __future__ import annotations" here: typer evaluates the annotations.

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..common.checks import did_you_mean
from .errors import UsageError, cli_errors, join_or, set_verbosity
from .output import show

COLUMNS, MODEL, OUTPUT, LARGE = "Columns", "Model", "Output", "Large data"  # panels of the help page
LOSSES = ("squares", "robust", "huber", "absolute", "cauchy", "tukey", "logistic", "ordinal", "poisson")
DUPLICATES = ("error", "mean", "last", "sum")
SYNONYMS = {  # names that people try, and the option
    "--row": ("--user", "--users", "--userid", "--user-id", "--id", "--customer"),
    "--col": ("--item", "--items", "--itemid", "--item-id", "--column", "--movie", "--product"),
    "--columns": ("--keys", "--key", "--modes", "--axes"),
    "--value": ("--rating", "--ratings", "--stars", "--score", "--values", "--target"),
    "--out": ("--output", "--model", "--save", "--to"),
    "-n": ("--top", "--number", "--count", "--length", "-k"),
    "--order-by": ("--by", "--order", "--sort"),
    "--include-seen": ("--seen", "--all-items"),
    "--max-memory": ("--memory",),
    "--partitions-dir": ("--folder", "--partitions"),
    "--regularization": ("--lambda", "--alpha", "--reg", "--penalty"),
    "--rank": ("--factors", "--components", "--dimensions", "--k"),
    "--device": ("--gpu", "--cuda"),
    "--time": ("--timestamp", "--date", "--times"),
    "--report": ("--html", "--page"),
}


class Command(TyperCommand):
    """A command whose help page has plain names of arguments, and which knows what wrong options may mean."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for parameter in self.params:
            if parameter.param_type_name == "argument":  # without this, its type in Python is shown: <list[Path]>
                setattr(parameter, "display_type_rich", lambda ctx: "")  # noqa: B010

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def get_help_option(self, ctx: Any) -> Any:
        found = super().get_help_option(ctx)
        if found is not None:
            found.metavar = ""
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # of click, or of the copy of it that recent versions of typer hold
            own = {name for parameter in self.params for name in parameter.opts}
            tried = getattr(error, "option_name", "")
            meant = [name for name, words in SYNONYMS.items() if tried in words and name in own]
            if meant:
                error.possibilities = meant  # type: ignore[attr-defined]
            raise


class Group(TyperGroup):
    """The application, whose help page shows no types of flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)
        for parameter in found:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # type: ignore[attr-defined]
        return found


def option(*names: str, panel: str | None = None, words: tuple[str, ...] = (), **more: Any) -> Any:
    """An option in a panel of the help page; ``words`` are its shell completions."""
    complete = None if not words else lambda incomplete: [one for one in words if one.startswith(incomplete)]
    return typer.Option(*names, rich_help_panel=panel, autocompletion=complete, **more)


def flag(*names: str, panel: str | None = None, **more: Any) -> Any:
    """An option without a value."""
    return option(*names, panel=panel, metavar="", show_default=False, **more)


Row = Annotated[str | None, option("--row", panel=COLUMNS, metavar="COLUMN", help="Column of row ids, such as users.")]
Col = Annotated[str | None, option("--col", panel=COLUMNS, metavar="COLUMN", help="Column of column ids, such as items.")]
Value = Annotated[str | None, option("--value", panel=COLUMNS, metavar="COLUMN", help="Column of values, such as ratings.")]
Header = Annotated[
    bool | None,
    flag("--header/--no-header", panel=COLUMNS, help="Whether the first line of text files is a header; by default detected."),
]
Rank = Annotated[str, option("--rank", panel=MODEL, metavar="N", help="Number of factors, or auto.")]
Regularization = Annotated[
    str, option("--regularization", panel=MODEL, metavar="X", help="Regularization: a number, learned or auto.")
]
LossName = Annotated[
    str,
    option(
        "--loss",
        panel=MODEL,
        metavar="NAME",
        words=LOSSES,
        help="squares, robust (excludes outliers), huber, absolute, cauchy, tukey, logistic (binary), ordinal (stars) or "
        "poisson (counts).",
    ),
]
Nonnegative = Annotated[bool, flag("--nonnegative", panel=MODEL, help="Nonnegative factors.")]
RowFeatures = Annotated[
    Path | None,
    option("--row-features", panel=MODEL, metavar="FILE", help="Table of row features, with the row ids in a column."),
]
ColFeatures = Annotated[
    Path | None, option("--col-features", panel=MODEL, metavar="FILE", help="Table of column features, with the column ids.")
]
Implicit = Annotated[
    bool,
    flag("--implicit", panel=MODEL, help="Implicit feedback (clicks, purchases): each line counts once, or --value times."),
]
Seed = Annotated[int, option("--seed", min=0, metavar="N", panel=MODEL, help="Random seed.")]
Device = Annotated[
    str | None, option("--device", panel=MODEL, metavar="NAME", help="Fit with PyTorch on this device, e.g. cuda.")
]
MaxMemory = Annotated[
    str | None,
    option(
        "--max-memory", panel=LARGE, metavar="SIZE", help="Read the files in blocks and limit memory for factors, e.g. to 2GB."
    ),
]
Cluster = Annotated[
    str | None,
    option(
        "--cluster", panel=LARGE, metavar="ADDRESS", help="Compute with Dask: address of the scheduler (tcp://...), or local."
    ),
]
PartitionsDir = Annotated[
    Path | None,
    option("--partitions-dir", panel=LARGE, metavar="FOLDER", help="Keep the partitions in this folder, for later runs."),
]
Duplicates = Annotated[
    str,
    option(
        "--duplicates",
        panel=LARGE,
        metavar="NAME",
        words=DUPLICATES,
        help="Treatment of repeated pairs in partitions: error, mean, last or sum.",
    ),
]
Report = Annotated[
    Path | None, option("--report", panel=OUTPUT, metavar="FILE", help="Write an HTML report to this .html file.")
]
Json = Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")]
Quiet = Annotated[
    bool, flag("--quiet", "-q", panel=OUTPUT, callback=lambda on: set_verbosity(-1, on), help="Print results and errors only.")
]
Verbose = Annotated[
    bool, flag("--verbose", panel=OUTPUT, callback=lambda on: set_verbosity(1, on), help="Also print tracebacks of errors.")
]


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of a file of ratings, and whether it has a header."""

    row: Row = None
    col: Col = None
    value: Value = None
    header: Header = None

    @property
    def names(self) -> tuple[str | None, str | None, str | None]:
        return self.row, self.col, self.value


def command(function: Callable[..., Any]) -> Callable[..., None]:
    """A command from a function that returns an Outcome, or None if it prints by itself.

    A parameter whose type is a dataclass stands for the options that are the annotated fields of the class. ``--json`` (with an
    Outcome), ``--quiet`` and ``--verbose`` are added, the outcome is printed, and errors are lines with an exit code.
    """
    hints, groups = typing.get_type_hints(function, include_extras=True), {}
    parameters: dict[str, tuple[Any, Any]] = {}  # annotation and default
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(hints[name]):
            own = typing.get_type_hints(hints[name], include_extras=True)
            found = [one for one in dataclasses.fields(hints[name]) if typing.get_origin(own[one.name]) is Annotated]
            groups[name] = [one.name for one in found]
            parameters |= {one.name: (own[one.name], one.default) for one in found}
        else:
            parameters[name] = hints[name], parameter.default
    shared = {"as_json": Json, "quiet": Quiet, "verbose": Verbose}
    parameters |= {
        name: (hint, False) for name, hint in shared.items() if name != "as_json" or hints["return"] is not type(None)
    }

    @functools.wraps(function)
    def run(**given: Any) -> None:
        flags = {name: given.pop(name, False) for name in shared}
        with cli_errors():
            for name, own in groups.items():
                given[name] = hints[name](**{one: given.pop(one) for one in own})
            outcome = function(**given)
            if outcome is not None:
                show(outcome, flags["as_json"])

    del run.__wrapped__
    made = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=h) for n, (h, d) in parameters.items()]
    run.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    run.__annotations__ = {name: hint for name, (hint, _) in parameters.items()}
    return run


# -- text to values ----------------------------------------------------------------------------------------------------
def decode_argument(text: str) -> str:
    """An argument as UTF-8 text, also where the locale has another encoding."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def check_word(text: str, words: Sequence[str], name: str) -> str:
    """The text, if it is one of the words."""
    if text not in words:
        raise UsageError(f"{name} must be {join_or(words)}, got {text!r}{did_you_mean(text, words)}")
    return text


def integer_or_word(text: str, words: tuple[str, ...], name: str) -> Any:
    """A nonnegative integer, or one of the words."""
    if text in words:
        return text
    if not text.isdigit():
        raise UsageError(f"{name} must be a whole number or {join_or(words)}, got {text!r}{did_you_mean(text, words)}")
    return int(text)


def number_or_word(text: str, words: tuple[str, ...], name: str) -> Any:
    """A number, or one of the words."""
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name} must be a number or {join_or(words)}, got {text!r}{did_you_mean(text, words)}") from None


def check_device(device: str | None) -> None:
    """Raise a UsageError for a device that this machine does not have; the message lists the available ones."""
    from ..backends import device_backend

    if device is None:
        return
    try:
        device_backend(device)
    except ValueError as error:
        try:
            import torch
        except ImportError:
            raise UsageError(f"--device {device}: {error}. Without --device, PyTorch is not needed") from None
        there = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count() if torch.cuda.is_available() else 0))]
        hint = "" if len(there) > 1 else " (PyTorch finds no GPU: run lorank doctor)"
        raise UsageError(f"--device must be {join_or(there)} on this machine, got {device!r}{hint}") from None
