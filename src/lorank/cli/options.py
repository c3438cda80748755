"""Options in groups, as the help shows them."""

from __future__ import annotations

from typing import Any

COLUMNS, MODEL, OUTPUT, LARGE = "Which columns", "The model", "What comes of it", "Many ratings"


def option(*names: str, panel: str | None = None, words: tuple[str, ...] = (), **more: Any) -> Any:
    """An option in a group of the help; its words are offered at Tab."""
    import typer

    complete = None if not words else lambda incomplete: [one for one in words if one.startswith(incomplete)]
    return typer.Option(*names, rich_help_panel=panel, autocompletion=complete, **more)


def flag(*names: str, panel: str | None = None, **more: Any) -> Any:
    """An option without a value."""
    return option(*names, panel=panel, metavar="", **more)
