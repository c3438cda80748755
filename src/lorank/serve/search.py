"""The users or the items of a model: found by their ids, and searched by what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

LONGEST = 300  # characters of a title that are shown


class Side:
    """Users, or items.

    Parameters
    ----------
    ids : (n,) array
        Whole numbers or text, in rising order.
    counts : (n,) array
        Observations of each.
    titles : mapping from text to text, optional
        What ids, written as text, are called.
    """

    def __init__(self, ids: np.ndarray, counts: np.ndarray, titles: Mapping[str, str] | None = None) -> None:
        self.ids, self.counts, self.titles = ids, counts, titles or {}

    def __len__(self) -> int:
        return len(self.ids)

    def place(self, text: str) -> int | None:
        """Where an id stands, given as text; None where there is none."""
        wanted: Any = text
        if self.ids.dtype.kind in "iu":
            if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
                return None
            wanted = int(text)
            if not -(2**63) <= wanted < 2**63:
                return None
        at = int(np.searchsorted(self.ids, wanted)) if len(self.ids) else 0
        return at if at < len(self.ids) and self.ids[at] == wanted else None

    def shown(self, place: int) -> dict[str, Any]:
        """One of them, for JSON: the id as text, so that large numbers survive browsers."""
        name = str(self.ids[place])
        found: dict[str, Any] = {"id": name, "count": int(self.counts[place])}
        if name in self.titles:
            found["title"] = self.titles[name][:LONGEST]
        return found

    def search(self, text: str, limit: int) -> list[int]:
        """Places whose id or title holds the text in any case: the id itself, what begins with it, others; busiest first."""
        exact, wanted = self.place(text.strip()), text.strip().casefold()
        first: list[int] = []
        later: list[int] = []
        for place, name in zip(self._order, self._names, strict=True):
            if name.startswith(wanted) or "\n" + wanted in name:
                first.append(place)
                if len(first) >= limit:
                    break
            elif len(later) < limit and wanted in name:
                later.append(place)
        found = [] if exact is None else [exact]
        return (found + [place for place in first + later if place != exact])[:limit]

    @cached_property
    def _order(self) -> list[int]:
        order: list[int] = np.argsort(-np.asarray(self.counts, float), kind="stable").tolist()
        return order

    @cached_property
    def _names(self) -> list[str]:
        """What is searched: the id, and in a second line the title; busiest first."""
        names = [str(one) for one in self.ids[self._order].tolist()]
        return [(f"{name}\n{self.titles[name]}" if name in self.titles else name).casefold() for name in names]
