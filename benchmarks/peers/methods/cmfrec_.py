"""cmfrec: alternating least squares with Cholesky solves, in float64."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import scipy.sparse
from data import Data

from . import sweeps

GRID = [{"lambda": 1e-9}, {"lambda": 1e-7}]


def version() -> str:
    return f"cmfrec {importlib.metadata.version('cmfrec')}"


def run(data: Data, setting: dict, threads: int, tolerances: list[float], budget: float, repeats: int) -> dict:
    from cmfrec import CMF

    matrix = scipy.sparse.coo_array((data.values, (data.rows, data.cols)), shape=data.shape)
    matrix = scipy.sparse.coo_matrix(matrix)

    def fit(count: int) -> tuple[np.ndarray, np.ndarray]:
        model = CMF(
            k=data.rank,
            lambda_=setting.get("lambda", 1e-9),
            method="als",
            use_cg=False,
            niter=count,
            user_bias=False,
            item_bias=False,
            center=False,
            use_float=False,
            nthreads=threads,
            random_state=1,
            verbose=False,
            precompute_for_predictions=False,
        )
        model.fit(matrix)
        return model.A_, model.B_

    return sweeps.search(fit, data, tolerances, budget, repeats, first=8)
