"""Train-test splits by user: random or latest observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.checks import SHARE, ParameterError, check, counted, shown, whole


def leave_some_out(users: Any, share: float = 0.2, *, keep: int = 1, seed: int = 0) -> np.ndarray:
    """Hold out a random share of each user's observations.

    Parameters
    ----------
    users : (m,) integer array
        User of each observation.
    share : float
        Share of each user's observations, rounded down or up at random so that it holds on average.
    keep : int
        Minimum number of observations that each user keeps.
    seed : int

    Returns
    -------
    (m,) array of bool
        True where an observation is held out.

    Raises
    ------
    ValueError
        For invalid users or parameters.

    Examples
    --------
    >>> from lorank.evaluation import leave_some_out
    >>> leave_some_out([0, 0, 0, 0, 1], share=0.25).sum() >= 1
    np.True_
    """
    users = _check(users, share, keep, seed)
    rng = np.random.default_rng(seed)
    return _last(users, rng.random(len(users)), share, keep, rng)


def leave_last_out(users: Any, times: Any, share: float = 0.2, *, keep: int = 1, seed: int = 0) -> np.ndarray:
    """Hold out each user's latest observations.

    Parameters
    ----------
    users : (m,) integer array
        User of each observation.
    times : (m,) array
        Time of each observation. Among equal times, the observation that comes later in the data is the later one.
    share : float
        Share of each user's observations, rounded down or up at random so that it holds on average.
    keep : int
        Minimum number of observations that each user keeps.
    seed : int
        Of the rounding.

    Returns
    -------
    (m,) array of bool
        True where an observation is held out.

    Raises
    ------
    ValueError
        For invalid users, times or parameters.

    Examples
    --------
    >>> from lorank.evaluation import leave_last_out
    >>> leave_last_out([0, 0, 0, 0], [3, 1, 4, 2], share=0.5).tolist()
    [True, False, True, False]
    """
    users = _check(users, share, keep, seed)
    when = np.asarray(times)
    if when.shape != users.shape or when.dtype.kind not in "iufM":
        raise ParameterError(
            "times", f"must be one number or date for each of {counted(len(users), 'observation')}, got {shown(times)}"
        )
    if when.dtype.kind == "M":
        when = when.astype(np.int64)
    if not np.isfinite(when).all():
        raise ValueError(f"times[{int(np.flatnonzero(~np.isfinite(when))[0])}] is not finite")
    return _last(users, when, share, keep, np.random.default_rng(seed))


def _last(users: np.ndarray, key: np.ndarray, share: float, keep: int, rng: np.random.Generator) -> np.ndarray:
    """Flags of each user's last observations in the order of a key."""
    order = np.lexsort((key, users))
    counts = np.bincount(users)
    wanted = np.floor(counts * share + rng.random(len(counts))).astype(np.int64)
    wanted = np.minimum(wanted, np.maximum(counts - keep, 0))
    from_end = np.repeat(np.cumsum(counts), counts) - np.arange(len(users))  # 1 for a user's last
    held = np.zeros(len(users), bool)
    held[order] = from_end <= np.repeat(wanted, counts)
    return held


def _check(users: Any, share: float, keep: int, seed: int) -> np.ndarray:
    """The users as integers; checks all parameters."""
    check("share", share, SHARE)
    check("keep", keep, whole(0))
    check("seed", seed, whole(0))
    found = np.asarray(users) if not isinstance(users, (str, bytes)) else np.empty(0, object)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found) or int(found.min()) < 0:
        raise ParameterError("users", f"must be whole numbers from 0 on, one for each observation: got {shown(users)}")
    if int(found.max()) > 1000 + 100 * len(found):
        raise ParameterError("users", f"reach {found.max():,}: map ids to 0 .. n-1 first, e.g. with numpy.unique")
    return found.astype(np.int64)
