"""Single time series with gaps: TableImputer against a Kalman smoother and STL of statsmodels, in the same run.

    python benchmarks/series.py --data FOLDER [--seeds 2] [--out docs/benchmarks/series.csv]

FOLDER is the folder csv of Rdatasets (https://github.com/vincentarelbundock/Rdatasets); without it only made series are run.
Without statsmodels there are no peers but linear interpolation. lorank is run twice: with the period found, and with the period
given, as the peers have it.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

from common import RESULTS, versions, write_csv
from lorank import TableImputer

MAX_ROWS = 480  # the last ones of a series
SHARE = 0.15  # of the rows that are hidden
WITHIN = 1.05  # of the better peer's error
# Name and period (0: none). No choice in lorank was made on these series.
REAL = {
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


def read(folder: Path, name: str) -> np.ndarray:
    with (folder / f"{name}.csv").open(newline="") as file:
        values = [row["value"] for row in csv.DictReader(file)]
    return np.array([np.nan if value in ("", "NA") else float(value) for value in values])[-MAX_ROWS:]


def made(seed: int) -> dict[str, tuple[np.ndarray, int]]:
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


def gaps(y: np.ndarray, kind: str, seed: int) -> np.ndarray:
    """The rows to hide: single ones, or runs of n / 16 rows, between 3 and 24; never the first or the last."""
    n, rng = len(y), np.random.default_rng([seed, kind == "blocks"])
    hidden, length = np.zeros(n, bool), max(3, min(n // 16, 24)) if kind == "blocks" else 1
    while hidden.sum() < SHARE * n:
        at = int(rng.integers(1, n - length))
        hidden[at : at + length] = True
    return hidden & ~np.isnan(y)


# -- peers -------------------------------------------------------------------------------------------------------------
def line(y: np.ndarray, period: int) -> np.ndarray:
    known = np.flatnonzero(~np.isnan(y))
    return np.interp(np.arange(len(y)), known, y[known])


def kalman(y: np.ndarray, period: int) -> np.ndarray:
    """Local linear trend and season, by maximum likelihood; four harmonics for seasons of more than 24 rows."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    season = {"freq_seasonal": [{"period": period, "harmonics": 4}]} if period > 24 else {"seasonal": period} if period else {}
    mean, scale = np.nanmean(y), np.nanstd(y)
    model = UnobservedComponents((y - mean) / scale, level="lltrend", **season)
    states = model.fit(disp=False, maxiter=100).smoothed_state
    return mean + scale * (states.T @ np.squeeze(model.ssm["design"]))


def stl(y: np.ndarray, period: int) -> np.ndarray:
    """The season of the interpolated series, and interpolation of the rest."""
    if not period:
        return line(y, 0)
    from statsmodels.tsa.seasonal import STL

    season = STL(line(y, 0), period=period, robust=True).fit().seasonal
    return season + line(y - season, 0)


def peers() -> dict:
    try:
        import statsmodels
    except ImportError:
        print("without statsmodels: no Kalman smoother and no STL")
        return {"line": line}
    print(f"statsmodels {statsmodels.__version__}")
    return {"line": line, "kalman": kalman, "stl": stl}


# -- runs --------------------------------------------------------------------------------------------------------------
def run(y: np.ndarray, period: int, hidden: np.ndarray, others: dict) -> dict:
    """Errors in standard deviations of the series; coverage and mean width of 90 % intervals with the period found."""
    table, scale, row = np.where(hidden, np.nan, y)[:, None], np.nanstd(y), {}

    def error(filled: np.ndarray) -> float:
        return round(float(np.sqrt(np.mean((filled - y)[hidden] ** 2)) / scale), 4)

    for name, known in (("lorank", "auto"), ("lorank, period given", period)):
        imputer = TableImputer(time=True, period=known).fit(table)
        row[name] = error(imputer.transform(table)[:, 0])
        if known == "auto":
            low, high = (end[hidden, 0] for end in imputer.predict_interval(table))
            inside = (low <= y[hidden]) & (y[hidden] <= high)
            row |= {"period found": imputer.period_, "coverage": round(float(inside.mean()), 3)}
            row["width"] = round(float(np.mean(high - low) / scale), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return row | {name: error(fill(table[:, 0], period)) for name, fill in others.items()}


def summary(rows: list[dict], which: str) -> str:
    """Shares of the cases in which lorank is within 5 % of the better peer, and the median of the ratios."""
    ratios = {kind: [] for kind in ("points", "blocks")}
    for row in rows:
        ratios[row["gaps"]].append(row[which] / max(min(row["kalman"], row["stl"]), 1e-4))
    every = np.concatenate([np.array(found) for found in ratios.values()])
    parts = [f"{kind} {100 * np.mean(np.array(found) <= WITHIN):.0f} %" for kind, found in ratios.items()]
    share = f"within 5 % in {100 * np.mean(every <= WITHIN):.0f} % of {len(every)} cases"
    return f"{which}: {share} ({', '.join(parts)}), median ratio {np.median(every):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "series.csv")
    options = parser.parse_args()
    print(versions())
    others, rows = peers(), []
    real = {name: (read(options.data, name), period) for name, period in REAL.items()} if options.data else {}
    for seed in range(10, 10 + options.seeds):
        for name, (y, period) in {**real, **made(seed)}.items():
            for kind in ("points", "blocks"):
                found = run(y, period, gaps(y, kind, seed), others)
                rows.append({"series": name, "rows": len(y), "period": period, "gaps": kind, "seed": seed} | found)
                print(rows[-1], flush=True)
                write_csv(rows, options.out)
    if "kalman" in others:
        print("\n".join(summary(rows, which) for which in ("lorank", "lorank, period given")))
    print(f"coverage {np.mean([row['coverage'] for row in rows]):.3f}, width {np.mean([row['width'] for row in rows]):.3f}")


if __name__ == "__main__":
    main()
