"""Users or items of a model: lookup by id, and search in ids and titles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

MAX_TITLE = 300  # characters of a title that are shown


class IdIndex:
    """Ids of users or items with their counts and titles.

    Parameters
    ----------
    ids : (n,) array
        Whole numbers or text, sorted.
    counts : (n,) array
        Number of observations of each id.
    titles : mapping from text to text, optional
        Titles by the ids as text.
    """

    def __init__(self, ids: np.ndarray, counts: np.ndarray, titles: Mapping[str, str] | None = None) -> None:
        self.ids, self.counts, self.titles = ids, counts, titles or {}

    def __len__(self) -> int:
        return len(self.ids)

    def position(self, text: str) -> int | None:
        """The position of an id given as text, or None."""
        wanted: Any = text
        if self.ids.dtype.kind in "iu":
            if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
                return None
            wanted = int(text)
            if not -(2**63) <= wanted < 2**63:
                return None
        at = int(np.searchsorted(self.ids, wanted)) if len(self.ids) else 0
        return at if at < len(self.ids) and self.ids[at] == wanted else None

    def entry(self, position: int) -> dict[str, Any]:
        """One id for JSON; as text, since browsers round large integers."""
        name = str(self.ids[position])
        found: dict[str, Any] = {"id": name, "count": int(self.counts[position])}
        if name in self.titles:
            found["title"] = self.titles[name][:MAX_TITLE]
        return found

    def search(self, text: str, limit: int) -> list[int]:
        """Positions whose id or title contains the text, ignoring case.

        The id itself comes first, then prefixes, then other matches; each by decreasing count.
        """
        exact, wanted = self.position(text.strip()), text.strip().casefold()
        first: list[int] = []
        later: list[int] = []
        for position, name in zip(self._order, self._names, strict=True):
            if name.startswith(wanted) or "\n" + wanted in name:
                first.append(position)
                if len(first) >= limit:
                    break
            elif len(later) < limit and wanted in name:
                later.append(position)
        found = [] if exact is None else [exact]
        return (found + [position for position in first + later if position != exact])[:limit]

    @cached_property
    def _order(self) -> list[int]:
        order: list[int] = np.argsort(-np.asarray(self.counts, float), kind="stable").tolist()
        return order

    @cached_property
    def _names(self) -> list[str]:
        """The searched texts in the order of decreasing count: the id, and the title on a second line."""
        names = [str(one) for one in self.ids[self._order].tolist()]
        return [(f"{name}\n{self.titles[name]}" if name in self.titles else name).casefold() for name in names]
