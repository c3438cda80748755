"""Other imputers, for benchmarks/tables.py: functions of a table with nan in its gaps.

scikit-learn's are given standardised columns, as their texts advise. Packages: gcimpute, miceforest.
SoftImpute is written out here: soft-thresholded SVDs along a path of strengths, the strength chosen by held-out cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd


def _standardised(fill: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    def filled(table: np.ndarray) -> np.ndarray:
        mean, scale = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
        scale[scale == 0] = 1
        return fill((table - mean) / scale) * scale + mean

    return filled


def mean(table: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(table), np.nanmean(table, axis=0), table)


@_standardised
def neighbours(table: np.ndarray) -> np.ndarray:
    from sklearn.impute import KNNImputer

    return KNNImputer().fit_transform(table)


def _iterative(table: np.ndarray, **options: object) -> np.ndarray:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return IterativeImputer(random_state=0, **options).fit_transform(table)


@_standardised
def ridge(table: np.ndarray) -> np.ndarray:
    return _iterative(table)  # BayesianRidge, scikit-learn's default


@_standardised
def trees(table: np.ndarray) -> np.ndarray:
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(n_estimators=50, min_samples_leaf=2, random_state=0, n_jobs=1)
    return _iterative(table, estimator=forest, max_iter=5)


@_standardised
def soft_impute(table: np.ndarray) -> np.ndarray:
    known = ~np.isnan(table)
    rng = np.random.default_rng(0)
    held = known & (rng.random(table.shape) < 0.1)
    strengths, errors = _path(table, known & ~held, held)
    return _path(table, known, None, strengths[: int(np.argmin(errors)) + 1])[0]


def _path(table: np.ndarray, known: np.ndarray, held: np.ndarray | None, strengths: np.ndarray | None = None) -> tuple:
    Z, errors = np.zeros(table.shape), []
    X = np.where(known, table, 0.0)
    if strengths is None:
        strengths = np.linalg.norm(X, 2) * 0.7 ** np.arange(1, 16)
    for strength in strengths:
        for _ in range(60):
            U, s, Vt = np.linalg.svd(np.where(known, X, Z), full_matrices=False)
            new = (U * np.maximum(s - strength, 0)) @ Vt
            moved = np.linalg.norm(new - Z) / max(np.linalg.norm(Z), 1e-9)
            Z = new
            if moved < 1e-3:
                break
        if held is not None:
            errors.append(float(np.mean((Z - table)[held] ** 2)))
    return (strengths, errors) if held is not None else (np.where(known, X, Z), None)


def copula(table: np.ndarray) -> np.ndarray:
    if not hasattr(np, "round_"):  # gcimpute 0.0.4 still calls it, on tables with ordered levels
        setattr(np, "round" + "_", np.round)
    from gcimpute.gaussian_copula import GaussianCopula

    try:
        return np.asarray(GaussianCopula(verbose=0, random_state=0).fit_transform(X=table), float)
    except ValueError:  # it cannot tell the kinds of the columns
        return np.asarray(
            GaussianCopula(verbose=0, random_state=0).fit_transform(X=table, continuous=[*range(table.shape[1])]), float
        )


def mice_forest(table: np.ndarray) -> np.ndarray:
    import miceforest

    frame = pd.DataFrame(table, columns=[f"c{j}" for j in range(table.shape[1])])
    kernel = miceforest.ImputationKernel(frame, num_datasets=3, random_state=0, mean_match_candidates=0)
    kernel.mice(3, num_threads=1, verbose=False)
    return np.mean([kernel.complete_data(k).to_numpy(float) for k in range(3)], axis=0)


def interpolation(table: np.ndarray) -> np.ndarray:
    return pd.DataFrame(table).interpolate(limit_direction="both").to_numpy()


PEERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": mean,
    "neighbours": neighbours,
    "ridge": ridge,
    "trees": trees,
    "SoftImpute": soft_impute,
    "copula": copula,
    "mice forest": mice_forest,
}
SERIES_PEERS = {**PEERS, "interpolation": interpolation}


def quiet(fill: Callable[[np.ndarray], np.ndarray], table: np.ndarray) -> np.ndarray:
    """What a peer fills in, without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return fill(table)
