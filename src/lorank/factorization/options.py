"""Checks of the options that estimators with a factor model share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.checks import NOT_NEGATIVE, SHARE, ParameterError, check, one_of, shown, whole


def check_rank(rank: Any, top: int) -> int | str:
    if isinstance(rank, str) and rank == "auto":
        return rank
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 0:
        raise ParameterError("rank", f"must be a whole number from 0 on, or 'auto': got {rank!r}")
    if rank > top:
        raise ParameterError("rank", f"must be at most {top}, the smaller side of the matrix: got {rank}")
    return int(rank)


def check_regularization(regularization: Any) -> float | str:
    if isinstance(regularization, str):
        return check_choice(regularization, ("auto", "learned"), "regularization")
    if not NOT_NEGATIVE.holds(regularization):
        raise ParameterError(
            "regularization", f"must be a number, 0 or more, or 'auto' or 'learned': got {shown(regularization)}"
        )
    return float(regularization)


def check_choice(value: Any, choices: tuple[str, ...], name: str) -> str:
    check(name, value, one_of(choices))
    return str(value)


def check_fit_options(estimator: Any) -> None:
    """Check holdout, cv, tol and max_iter of an estimator."""
    check("holdout", estimator.holdout, SHARE)
    check("cv", estimator.cv, whole(1))
    check("tol", estimator.tol, NOT_NEGATIVE)
    check("max_iter", estimator.max_iter, whole(1))
