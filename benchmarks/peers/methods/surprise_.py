"""Surprise's SVD: stochastic gradients, one sample at a time."""

from __future__ import annotations

import importlib.metadata

import numpy as np
from data import Data

from . import sweeps

GRID = [{"rate": rate, "reg": reg} for rate in (0.01, 0.03) for reg in (0.0, 1e-4)]


def version() -> str:
    return f"scikit-surprise {importlib.metadata.version('scikit-surprise')}"


def run(data: Data, setting: dict, threads: int, tolerances: list[float], budget: float, repeats: int) -> dict:
    import pandas as pd
    from surprise import SVD, Dataset, Reader

    frame = pd.DataFrame({"row": data.rows, "col": data.cols, "value": data.values})
    reader = Reader(rating_scale=(float(data.values.min()), float(data.values.max())))
    training = Dataset.load_from_df(frame, reader).build_full_trainset()  # not timed
    left_order = [training.to_raw_uid(k) for k in range(training.n_users)]
    right_order = [training.to_raw_iid(k) for k in range(training.n_items)]

    def fit(count: int) -> tuple[np.ndarray, np.ndarray]:
        model = SVD(
            n_factors=data.rank,
            n_epochs=count,
            biased=False,
            lr_all=setting.get("rate", 0.02),
            reg_all=setting.get("reg", 0.0),
            random_state=1,
            init_std_dev=0.3,
            init_mean=0.5,
        )
        model.fit(training)
        left, right = np.zeros((data.shape[0], data.rank)), np.zeros((data.shape[1], data.rank))
        left[left_order], right[right_order] = model.pu, model.qi
        return left, right

    return sweeps.search(fit, data, tolerances, budget, repeats, first=16)
