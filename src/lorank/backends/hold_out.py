"""Random hold-out by a hash of seed and row-major position, the same for every backend."""

from __future__ import annotations

from .observations import Array

_GOLDEN, _FIRST, _SECOND = (c - 2**64 for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def held_out(positions: Array, seed: int, share: float) -> Array:
    """Flags of about a ``share`` of the positions: one of each 1/share consecutive ones, chosen by a hash.

    Parameters
    ----------
    positions : (m,) int64 array
        0, 1, 2, ... in the row-major order of all observations.
    seed : int
    share : float
        Between 0 and 1/2, or 1 for all.
    """
    length = 1 if share >= 1 else max(2, round(1 / share))
    return positions % length == (_hash(positions // length + (seed * 0x9E3779B9) % 2**31) >> 33) % length


def _hash(x: Array) -> Array:
    """Splitmix64 of each number, by signed arithmetic with wraparound."""
    x = x * _GOLDEN
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return _shifted(x ^ _shifted(x, 31), 1)  # nonnegative


def _shifted(x: Array, bits: int) -> Array:
    """Logical right shift."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
