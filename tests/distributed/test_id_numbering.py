"""Numbering of ids: integers of any width, dense or sparse, against sorting; strings."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.distributed.id_numbering import IdCollector
from lorank.io.archive import FileError

SPREADS = [
    (np.int8, -128, 127),
    (np.uint8, 0, 255),
    (np.int32, -5, 3000),
    (np.int64, 2**62, 2**62 + 900),
    (np.uint32, 7, 2**32 - 1),
]
SPREADS += [(np.int64, -(2**62), 2**62), (np.uint64, 2**64 - 500, 2**64 - 1), (np.uint64, 0, 2**64 - 1)]


@pytest.mark.parametrize(("kind", "low", "high"), SPREADS)
def test_numbers_are_those_of_sorting(kind, low, high):
    rng = np.random.default_rng(0)
    pieces = [rng.integers(low, high, size, dtype=kind, endpoint=True) for size in (700, 1, 400)]
    collector = IdCollector("rows")
    for piece in pieces:
        collector.add(piece, "here")
    numbers, counts = collector.finish()
    ids, at, seen = np.unique(np.concatenate(pieces), return_inverse=True, return_counts=True)
    assert numbers.ids.dtype == kind
    np.testing.assert_array_equal(numbers.ids, ids)
    np.testing.assert_array_equal(counts, seen)
    np.testing.assert_array_equal(np.concatenate([numbers.of(piece) for piece in pieces]), at)


def test_ids_that_differ_only_in_trailing_nul_characters_are_refused():
    pl = pytest.importorskip("polars")
    collector = IdCollector("rows")
    collector.add(pl.Series(["a", "b", "a\0"]), "a file")
    with pytest.raises(FileError, match="NUL"):
        collector.finish()
