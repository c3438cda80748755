"""Public time series for benchmarks/series.py; none is stored here.

    python benchmarks/series_data.py FOLDER    # files below in FOLDER to FOLDER/series.npz (pip install rdata)

- M1.rda, M3.rda: data/ of github.com/robjhyndman/Mcomp (forecasting competitions: yearly, quarterly, monthly and other series)
- nn5.rda: data/ of github.com/robjhyndman/tscompdata (daily cash withdrawals)
- Hourly-train1.csv: folder "219 - manblue0" of github.com/Mcompetitions/M4-methods (hourly loads)
- csv/: the folder csv of github.com/vincentarelbundock/Rdatasets

Options of lorank are settled on ``development``; ``test`` series are run once they stand. The series of competitions are drawn
at random: all of M1 and every second one of NN5 and M4 are for development; M3 and the other halves are for tests.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

MAX_ROWS = 480  # the last ones of a series
MIN_ROWS = 36
PERIODS = {"YEARLY": 0, "QUARTERLY": 4, "MONTHLY": 12, "OTHER": 0}
# Name in Rdatasets and period (0: none).
RDATASETS = {
    "AER/ArgentinaCPI": 4,
    "AER/BondYield": 12,
    "AER/MotorCycles": 0,
    "AER/MotorCycles2": 0,
    "CardioDataSets/cv_mortality_ts": 52,
    "DAAG/measles": 0,
    "MASS/drivers": 12,
    "MedDataSets/fdeaths_ts": 12,
    "crimedatasets/wmurders_ts": 0,
    "datasets/JohnsonJohnson": 4,
    "datasets/lh": 0,
    "datasets/lynx": 0,
    "datasets/nhtemp": 0,
    "datasets/sunspot.year": 0,
    "forecast/gas": 12,
    "forecast/woolyrnq": 4,
    "fpp2/a10": 12,
    "fpp2/ausbeer": 4,
    "fpp2/auscafe": 12,
    "fpp2/austourists": 4,
    "fpp2/euretail": 4,
    "fpp2/marathon": 0,
    "fpp2/oil": 0,
    "fpp2/qauselec": 4,
    "quantreg/gasprice": 52,
    "timeSeriesDataSets/USgas_ts": 12,
    "timeSeriesDataSets/beer_ts": 12,
    "timeSeriesDataSets/bricksq_ts": 4,
    "timeSeriesDataSets/nail_ts": 0,
}
# How many series are drawn of each kind.
DEVELOPMENT = {"M1 MONTHLY": 16, "M1 QUARTERLY": 10, "M1 YEARLY": 4, "NN5": 4, "M4 HOURLY": 4}
TEST = {"M3 MONTHLY": 24, "M3 QUARTERLY": 16, "M3 YEARLY": 6, "M3 OTHER": 8, "NN5": 8, "M4 HOURLY": 6}
Series = dict[str, tuple[np.ndarray, int]]  # values and period


def load(folder: Path, group: str) -> Series:
    """The ``"development"`` or ``"test"`` series of ``folder/series.npz``."""
    with np.load(folder / "series.npz") as found:
        names = [key.split("|") for key in found if key.startswith(group)]
        return {name: (found[f"{group}|{name}|{period}"], int(period)) for _, name, period in names}


def made(seed: int) -> Series:
    """Trend and season, season that changes, multiplicative season, and a second-order autoregression."""
    rng, found = np.random.default_rng(seed), {}
    for n, period in ((96, 12), (144, 7), (240, 12), (400, 7)):
        t = np.arange(n)
        season = rng.standard_normal(period)
        season -= season.mean()
        found[f"trend and season, {n}"] = 0.03 * t + season[t % period] + 0.3 * rng.standard_normal(n), period
        moves = np.cumsum(0.15 * rng.standard_normal((n // period + 1, period)), axis=0)
        level = np.cumsum(0.2 * rng.standard_normal(n))
        changing = level + season[t % period] + moves[t // period, t % period] + 0.2 * rng.standard_normal(n)
        found[f"changing season, {n}"] = changing, period
        found[f"multiplicative, {n}"] = np.exp(0.01 * t + 0.2 * season[t % period] + 0.05 * rng.standard_normal(n)), period
        cycle, noise = np.zeros(n), rng.standard_normal(n)
        for k in range(2, n):
            cycle[k] = 1.6 * cycle[k - 1] - 0.8 * cycle[k - 2] + noise[k]
        found[f"autoregression, {n}"] = cycle, 0
    return found


def _competitions(folder: Path) -> dict[str, Series]:
    """All long enough series by kind, with the values that were to be forecast."""
    import rdata

    found: dict[str, Series] = {}
    for competition in ("M1", "M3"):
        for name, series in rdata.read_rda(folder / f"{competition}.rda")[competition].items():
            kind = str(series["period"][0]).upper()
            y = np.concatenate([series["x"].to_numpy(float), series["xx"].to_numpy(float)])
            found.setdefault(f"{competition} {kind}", {})[f"{competition}/{name}"] = y, PERIODS[kind]
    for name, values in rdata.read_rda(folder / "nn5.rda")["nn5"].items():
        found.setdefault("NN5", {})[f"NN5/{name}"] = values.to_numpy(float), 7
    with (folder / "Hourly-train1.csv").open(newline="") as file:
        for name, *texts in list(csv.reader(file))[1:]:
            found.setdefault("M4 HOURLY", {})[f"M4/{name}"] = np.array([float(text) for text in texts if text]), 24
    return {kind: {name: (y, p) for name, (y, p) in some.items() if len(y) >= MIN_ROWS} for kind, some in found.items()}


def _read(path: Path) -> np.ndarray:
    with path.open(newline="") as file:
        values = [row["value"] for row in csv.DictReader(file)]
    return np.array([np.nan if value in ("", "NA") else float(value) for value in values])


def main(folder: Path) -> None:
    every, arrays = _competitions(folder), {}
    for group, number in (("development", DEVELOPMENT), ("test", TEST)):
        rng, some = np.random.default_rng(0), {}
        for kind, count in number.items():
            names = list(every[kind])
            if kind in ("NN5", "M4 HOURLY"):
                names = names[1::2] if group == "development" else names[::2]
            some |= {str(name): every[kind][name] for name in rng.choice(names, count, replace=False)}
        if group == "development":
            some |= {name: (_read(folder / "csv" / f"{name}.csv"), period) for name, period in RDATASETS.items()}
        arrays |= {f"{group}|{name}|{period}": y[-MAX_ROWS:] for name, (y, period) in some.items()}
    np.savez_compressed(folder / "series.npz", **arrays)
    print({key: len(y) for key, y in arrays.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
