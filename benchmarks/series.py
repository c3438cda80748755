"""Single time series with gaps: TableImputer against a Kalman smoother and STL of statsmodels, in the same run.

    python benchmarks/series.py --data FOLDER [--seeds 20 21] [--processes 6] [--out docs/benchmarks/series.csv]
    python benchmarks/series.py --data FOLDER --group development --seeds 3 --out development.csv

FOLDER has series.npz (series_data.py writes it); without it only made series are run. Without statsmodels the only peer is
linear interpolation. lorank is run twice: with the period found, and with the period given, as the peers have it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import time
import warnings
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from common import RESULTS, versions, write_csv
from lorank import TableImputer
from series_data import load, made

SHARE = 0.15  # of the rows that are hidden
WITHIN = 1.05  # of the better peer's error
QUANTILE = 1.6449  # of intervals at 90 %
OURS = ("lorank", "lorank, period given")


def gaps(y: np.ndarray, kind: str, seed: int) -> np.ndarray:
    """The rows to hide: single ones, or runs of n / 16 rows, between 3 and 24; never the first or the last."""
    n, rng = len(y), np.random.default_rng([seed, kind == "blocks"])
    hidden, length = np.zeros(n, bool), max(3, min(n // 16, 24)) if kind == "blocks" else 1
    while hidden.sum() < SHARE * n:
        at = int(rng.integers(1, n - length))
        hidden[at : at + length] = True
    return hidden & ~np.isnan(y)


# -- methods: of a series with gaps and its period; the filled series, and half the width of intervals or None -------------
def line(y: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray | None]:
    known = np.flatnonzero(~np.isnan(y))
    return np.interp(np.arange(len(y)), known, y[known]), None


def kalman(y: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Local linear trend and season, by maximum likelihood; four harmonics for seasons of more than 24 rows."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    season = {"freq_seasonal": [{"period": period, "harmonics": 4}]} if period > 24 else {"seasonal": period} if period else {}
    mean, scale = np.nanmean(y), np.nanstd(y)
    model = UnobservedComponents((y - mean) / scale, level="lltrend", **season)
    found = model.fit(disp=False, maxiter=100)
    design = np.squeeze(model.ssm["design"])
    variance = np.einsum("i,ijt,j->t", design, found.smoothed_state_cov, design) + float(model.ssm["obs_cov", 0, 0])
    return mean + scale * (found.smoothed_state.T @ design), QUANTILE * scale * np.sqrt(np.maximum(variance, 0))


def stl(y: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The season of the interpolated series, and interpolation of the rest."""
    if not period:
        return line(y, 0)
    from statsmodels.tsa.seasonal import STL

    whole = line(y, 0)[0]
    season = STL(whole, period=period, robust=True).fit().seasonal
    return season + line(y - season, 0)[0], None


PEERS = {"line": line, "kalman": kalman, "stl": stl} if importlib.util.find_spec("statsmodels") else {"line": line}


# -- runs --------------------------------------------------------------------------------------------------------------
def run(case: tuple) -> dict:
    """Errors in standard deviations of the series, CPU seconds, and coverage and mean width of 90 % intervals."""
    name, y, period, kind, seed, with_peers = case
    hidden = gaps(y, kind, seed)
    table, scale = np.where(hidden, np.nan, y)[:, None], np.nanstd(y)
    row = {"series": name, "rows": len(y), "period": period, "gaps": kind, "seed": seed}

    def judge(which: str, filled: np.ndarray, low: np.ndarray | None, high: np.ndarray | None, start: float) -> None:
        row[which] = round(float(np.sqrt(np.mean((filled - y)[hidden] ** 2)) / scale), 4)
        row[f"{which}: CPU s"] = round(time.process_time() - start, 3)
        if low is not None and high is not None:
            row[f"{which}: coverage"] = round(float(np.mean((low <= y)[hidden] & (y <= high)[hidden])), 3)
            row[f"{which}: width"] = round(float(np.mean((high - low)[hidden]) / scale), 3)

    for which, known in zip(OURS, ("auto", period), strict=True):
        start = time.process_time()
        imputer = TableImputer(time=True, period=known).fit(table)
        filled, (low, high) = imputer.transform(table)[:, 0], imputer.predict_interval(table)
        judge(which, filled, low[:, 0], high[:, 0], start)
        if known == "auto":
            row["period found"] = imputer.period_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for which, fill in PEERS.items() if with_peers else ():
            start = time.process_time()
            filled, half = fill(table[:, 0], period)
            judge(which, filled, None if half is None else filled - half, None if half is None else filled + half, start)
    return row


# -- report ------------------------------------------------------------------------------------------------------------
def ratios(rows: list[dict], which: str) -> np.ndarray:
    """Errors relative to those of the better of the Kalman smoother and STL."""
    return np.array([row[which] / max(min(row["kalman"], row["stl"]), 1e-4) for row in rows])


def report(rows: list[dict]) -> list[str]:
    """Markdown: errors by kinds of cases, and the intervals."""
    kinds = {
        "all": lambda row: True,
        "points": lambda row: row["gaps"] == "points",
        "blocks": lambda row: row["gaps"] == "blocks",
        "real": lambda row: "/" in row["series"],
        "generated": lambda row: "/" not in row["series"],
        "with a period": lambda row: row["period"] > 0,
        "without a period": lambda row: row["period"] == 0,
        "less than 100 rows": lambda row: row["rows"] < 100,
        **{
            f"{group}, {some}": lambda row, group=group, some=some: row["series"].startswith(group) and row["gaps"] == some
            for group in ("M3", "NN5", "M4")
            for some in ("points", "blocks")
        },
    }
    heads = ("number", *(f"within 5 %, period {how}" for how in ("found", "given")), *OURS, *PEERS)
    lines = [f"| cases | {' | '.join(heads)} |", f"|{'---|' * (len(heads) + 1)}"]
    for kind, chosen in kinds.items():
        if some := [row for row in rows if chosen(row)]:
            shares = [f"{100 * np.mean(ratios(some, which) <= WITHIN):.0f} %" for which in OURS]
            medians = [f"{np.median([row[which] for row in some]):.3f}" for which in (*OURS, *PEERS)]
            lines.append(f"| {kind} | {len(some)} | {' | '.join(shares + medians)} |")
    heads = "intervals at 90 %", "coverage, points", "coverage, blocks", "mean width", "width relative to Kalman's"
    lines += ["", f"| {' | '.join(heads)} |", f"|{'---|' * 5}"]
    for which in (*OURS, "kalman"):
        inside = [np.mean([row[f"{which}: coverage"] for row in rows if row["gaps"] == kind]) for kind in ("points", "blocks")]
        width = np.array([row[f"{which}: width"] for row in rows])
        relative = np.median(width / np.maximum([row["kalman: width"] for row in rows], 1e-9))
        lines.append(f"| {which} | {100 * inside[0]:.0f} % | {100 * inside[1]:.0f} % | {width.mean():.2f} | {relative:.2f} |")
    seasonal = [row for row in rows if row["period"]]
    found = np.array([row["period found"] == row["period"] for row in seasonal])
    seconds = [f"{which} {np.sum([row[f'{which}: CPU s'] for row in rows]):.1f}" for which in (*OURS, *PEERS)]
    median = [f"{np.median(ratios(rows, which)):.3f}" for which in OURS]
    lines += [
        "",
        f"Median ratios to the better peer: {', '.join(median)}. Kalman is within 5 % of the better peer in "
        f"{100 * np.mean(ratios(rows, 'kalman') <= WITHIN):.0f} %, STL in "
        f"{100 * np.mean(ratios(rows, 'stl') <= WITHIN):.0f} %.",
        f"Period found in {100 * found.mean():.0f} % of {len(found)} cases; within 5 % there in "
        f"{100 * np.mean(ratios(seasonal, 'lorank')[found] <= WITHIN):.0f} %. Periods found where the peers have none: "
        f"{sum(bool(row['period found']) for row in rows if not row['period'])} of {sum(not row['period'] for row in rows)}.",
        f"CPU seconds in all: {', '.join(seconds)}.",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--group", choices=("development", "test"), default="test")
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="every 20th case")
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "series.csv")
    options = parser.parse_args()
    print(versions(), flush=True)
    real, rows = load(options.data, options.group) if options.data else {}, []
    cases = [
        (name, y, period, kind, seed, not options.without_peers)
        for seed in options.seeds
        for name, (y, period) in {**real, **made(seed)}.items()
        for kind in ("points", "blocks")
    ][:: 20 if options.quick else 1]
    with get_context("spawn").Pool(options.processes) as pool:
        for row in pool.imap(run, cases):
            rows.append(row)
            write_csv(rows, options.out)
    if "kalman" in rows[0]:
        print("\n".join(report(rows)))


if __name__ == "__main__":
    main()
