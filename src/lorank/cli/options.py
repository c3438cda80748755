"""Options of the commands: groups of the help page, conversion of text to values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common.checks import did_you_mean
from .errors import UsageError

COLUMNS, MODEL, OUTPUT, LARGE = "Columns", "Model", "Output", "Large data"  # panels of the help page


def option(*names: str, panel: str | None = None, words: tuple[str, ...] = (), **more: Any) -> Any:
    """An option in a panel of the help page; ``words`` are its shell completions."""
    import typer

    complete = None if not words else lambda incomplete: [one for one in words if one.startswith(incomplete)]
    return typer.Option(*names, rich_help_panel=panel, autocompletion=complete, **more)


def flag(*names: str, panel: str | None = None, **more: Any) -> Any:
    """An option without a value."""
    return option(*names, panel=panel, metavar="", **more)


def decode_argument(text: str) -> str:
    """An argument as UTF-8 text, also where the locale has another encoding."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def check_word(text: str, words: Sequence[str], name: str) -> str:
    """The text, if it is one of the words."""
    if text not in words:
        raise UsageError(f"{name} must be {join_or(words)}, got {text!r}{did_you_mean(text, words)}")
    return text


def integer_or_word(text: str, words: tuple[str, ...], name: str) -> int | str:
    """A nonnegative integer, or one of the words."""
    if text in words:
        return text
    if not text.isdigit():
        raise UsageError(f"{name} must be a whole number or {join_or(words)}, got {text!r}{did_you_mean(text, words)}")
    return int(text)


def number_or_word(text: str, words: tuple[str, ...], name: str) -> float | str:
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


def join_or(words: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
