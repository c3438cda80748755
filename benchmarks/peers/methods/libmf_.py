"""LIBMF: parallel stochastic gradients, in float32."""

from __future__ import annotations

import importlib.metadata

import numpy as np
from data import Data

from . import sweeps

GRID = [{"eta": eta, "lambda": lam} for eta in (0.03, 0.1) for lam in (0.0, 1e-4)]


def version() -> str:
    return f"libmf {importlib.metadata.version('libmf')}"


def run(data: Data, setting: dict, threads: int, tolerances: list[float], budget: float, repeats: int) -> dict:
    from libmf import mf

    triples = np.column_stack([data.rows, data.cols, data.values]).astype(np.float32)

    def fit(count: int) -> tuple[np.ndarray, np.ndarray]:
        lam = setting.get("lambda", 0.0)
        model = mf.MF(
            fun=0,
            k=data.rank,
            nr_threads=threads,
            nr_iters=count,
            eta=setting.get("eta", 0.1),
            lambda_p1=0,
            lambda_q1=0,
            lambda_p2=lam,
            lambda_q2=lam,
            quiet=True,
        )
        model.fit(triples)
        return _filled(model.p_factors(), data.shape[0], data.rank), _filled(model.q_factors(), data.shape[1], data.rank)

    return sweeps.search(fit, data, tolerances, budget, repeats, first=16)


def _filled(factor: np.ndarray, n: int, rank: int) -> np.ndarray:
    """LIBMF knows only the rows up to the last one it saw."""
    out = np.zeros((n, rank))
    factor = np.asarray(factor, float).reshape(-1, rank)
    out[: len(factor)] = factor
    return out
