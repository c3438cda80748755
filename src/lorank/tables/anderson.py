"""Steps of a slow fixed-point iteration, extrapolated from the last few of them (Anderson's acceleration).

Expectation-maximisation creeps where much is missing: each round leaves nearly the same share of what is left to go. A few
rounds show these shares, and the combination of them that would have left least goes most of the way at once.
"""

from __future__ import annotations

import numpy as np

MEMORY = 5  # rounds that are combined
RIDGE = 1e-8  # relative: combinations of rounds that are nearly alike stay small


class Anderson:
    """Where to go on from, given where each round began and ended.

    Parameters
    ----------
    memory : int
        Rounds that are looked back at.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self.memory = memory
        self.ends: list[np.ndarray] = []
        self.steps: list[np.ndarray] = []

    def __call__(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The point to begin the next round from: ``end`` itself after the first round."""
        self.ends = [*self.ends, end][-self.memory :]
        self.steps = [*self.steps, end - begin][-self.memory :]
        if len(self.ends) == 1:
            return end
        moves, turns = np.diff(self.ends, axis=0), np.diff(self.steps, axis=0)
        gram = turns @ turns.T
        gram[np.diag_indices(len(gram))] += RIDGE * np.trace(gram) + np.finfo(float).tiny
        return np.asarray(end - np.linalg.solve(gram, turns @ self.steps[-1]) @ moves)

    def forget(self) -> None:
        """All rounds but the last: it was gone too far."""
        self.ends, self.steps = self.ends[-1:], self.steps[-1:]
