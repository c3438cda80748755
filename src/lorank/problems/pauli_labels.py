"""Labels of Pauli matrices, and expectations from counts of measured bit strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..common.checks import ParameterError, counted, shown

MAX_QUBITS = 24
LETTERS = "IXYZ"


class PauliMasks(NamedTuple):
    """Pauli matrices as bit masks: bit k of ``flips`` is set for X and Y at qubit k, that of ``signs`` for Y and Z."""

    flips: np.ndarray
    signs: np.ndarray
    qubits: int


def parse_labels(labels: Any, name: str = "labels", letters: str = LETTERS) -> PauliMasks:
    """Masks of labels such as ``"XIZ"``; the last letter belongs to qubit 0, as in Qiskit."""
    if isinstance(labels, str) or not isinstance(labels, (Sequence, np.ndarray)) or not len(labels):
        raise ParameterError(name, f"must be a list of labels such as ['XIZ', 'ZZI'], got {shown(labels)}")
    for k, label in enumerate(labels):
        if not isinstance(label, str) or not label or len(label) != len(labels[0]):
            raise ParameterError(
                name, f"[{k}] must be a string with one letter per qubit, like {labels[0]!r}: got {shown(label)}"
            )
    qubits = len(labels[0])
    if qubits > MAX_QUBITS:
        raise ParameterError(name, f"have {qubits} qubits: at most {MAX_QUBITS} are supported")
    codes = np.array(labels, dtype=f"<U{qubits}").view(np.uint32).reshape(len(labels), qubits)
    wrong = np.argwhere(~np.isin(codes, [ord(letter) for letter in letters]))
    if len(wrong):
        k, at = wrong[0]
        raise ParameterError(name, f"[{k}] = {labels[k]!r} has the letter {labels[k][at]!r}: use {', '.join(letters)}")
    bits = 1 << np.arange(qubits - 1, -1, -1, dtype=np.int64)
    flips = np.isin(codes, [ord("X"), ord("Y")]) @ bits
    signs = np.isin(codes, [ord("Y"), ord("Z")]) @ bits
    return PauliMasks(flips, signs, qubits)


def label_of(flip: int, sign: int, qubits: int) -> str:
    """The label of a Pauli matrix."""
    return "".join("IZXY"[2 * (flip >> k & 1) + (sign >> k & 1)] for k in range(qubits - 1, -1, -1))


def expectations_of_counts(settings: Any, counts: Any) -> tuple[PauliMasks, np.ndarray, np.ndarray]:
    """Expectations and numbers of shots of all Pauli matrices that the settings determine.

    A setting such as ``"XZY"`` measures each qubit in the basis of its letter. It determines the 2^q - 1 Pauli matrices with
    these letters or I; matrices that several settings determine are averaged over all their shots.
    """
    masks = parse_labels(settings, "settings", "XYZ")
    if isinstance(counts, Mapping) or not isinstance(counts, Sequence) or len(counts) != len(settings):
        raise ParameterError("counts", f"must be a list of dictionaries, one for each of the {len(settings)} settings")
    qubits, size = masks.qubits, 1 << masks.qubits
    subsets = np.arange(1, size, dtype=np.int64)
    keys, sums, shots = [], [], []
    for k, one in enumerate(counts):
        histogram = _histogram(one, qubits, k)
        parities = histogram.copy()
        for bit in range(qubits):
            pairs = parities.reshape(-1, 2, 1 << bit)
            parities = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        keys.append((masks.flips[k] & subsets) * size + (masks.signs[k] & subsets))
        sums.append(parities[1:])
        shots.append(np.full(size - 1, histogram.sum()))
    distinct, place = np.unique(np.concatenate(keys), return_inverse=True)
    total, number = (np.bincount(place, np.concatenate(a), len(distinct)) for a in (sums, shots))
    return PauliMasks(distinct // size, distinct % size, qubits), total / number, number


def _histogram(counts: Any, qubits: int, k: int) -> np.ndarray:
    if not isinstance(counts, Mapping):
        raise ParameterError("counts", f"[{k}] must be a dictionary of bit strings and counts, got {shown(counts)}")
    found = np.zeros(1 << qubits)
    for bits, number in counts.items():
        if not isinstance(bits, str) or len(bits) != qubits or set(bits) - {"0", "1"}:
            wanted = f"a bit string of {counted(qubits, 'digit')}, one per letter of its setting"
            raise ParameterError("counts", f"[{k}] has the key {shown(bits)}: it must be {wanted}")
        whole = isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)
        if not whole or not 0 <= number < float("inf") or number != int(number):
            raise ParameterError("counts", f"[{k}][{bits!r}] must be a count, 0 or more: got {shown(number)}")
        found[int(bits, 2)] += number
    if not found.any():
        raise ParameterError("counts", f"[{k}] has no shots: leave the setting out")
    return found
