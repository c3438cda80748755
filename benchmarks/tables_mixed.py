"""Mixed tables with gaps: TableImputer, mode and median, neighbors, iterative ridge, iterative forests.

    python benchmarks/tables_mixed.py --data FOLDER --draw          # which tables are drawn (needs FOLDER/datasets.csv)
    python benchmarks/tables_mixed.py --data FOLDER [--seeds 0 1] [--processes 6] [--seconds 400]
    python benchmarks/tables_mixed.py --report                      # the tables of the page from stored runs

FOLDER has folders csv/PACKAGE of Rdatasets (https://github.com/vincentarelbundock/Rdatasets). ``TABLES`` were drawn at random
among those of 100 to 2,000 rows and 5 to 30 columns; no choice in lorank was made on them. Peers get standardized numbers and
indicators of categories, as is usual. The forests are those of missForest (Stekhoven and Buehlmann 2012).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from common import RESULTS, markdown, versions, write_csv
from lorank import TableImputer
from tables_data import GAPS, hide
from tables_data import TABLES as FORMER

MAX_LEVELS = 12  # categories with more are left out
# Names of the former tables in Rdatasets, where they differ, and tables on which choices were made.
KNOWN = ["Boston", "midwest", "diamonds", "bfi", "Crime", "Mroz", "Computers", "barro", "Baseball", "Caschool", "epi", "cpus"]
KNOWN += [
    "mpg",
    "MASchools",
    "Produc",
    "Gasoline",
    "MCAS",
    "Clothing",
    "Griliches",
    "Housing",
    "RandHIE",
    "Fair",
    "Affairs",
    "iris",
    "mtcars",
]
TABLES = (
    "sampleSelection/Smoke",
    "fivethirtyeight/bachelorette",
    "asaur/ChanningHouse",
    "bayesrules/pulse_of_the_nation",
    "survival/transplant",
    "NeuroDataSets/psych_neurocog_df",
    "wooldridge/kielmc",
    "openintro/sowc_demographics",
    "agridat/streibig.competition",
    "KMsurv/bfeed",
    "MLDataR/care_home_incidents",
    "CardioDataSets/radial_ivus_df",
    "archdata/RBGlass2",
    "tidyr/world_bank_pop",
    "Stat2Data/LeafWidth",
    "HLMdiag/autism",
    "usdatasets/mlb_players_18_tbl_df",
)


def draw(folder: Path, number: int, seed: int = 0) -> list[str]:
    """Tables at random, at most one of a package and of a name."""
    rows = [
        row
        for row in csv.DictReader((folder / "datasets.csv").open(newline=""))
        if 100 <= int(row["Rows"]) <= 2000 and 5 <= int(row["Cols"]) <= 30 and int(row["n_numeric"]) >= 3
    ]
    known = {name.lower() for name in (*KNOWN, *FORMER)}
    rows = [row for row in rows if "(" not in row["Item"] and row["Item"].lower() not in known]
    found: dict[str, str] = {}
    for k in np.random.default_rng(seed).permutation(len(rows)):
        row = rows[k]
        if row["Package"] not in found and row["Item"] not in found.values() and len(found) < number:
            found[row["Package"]] = row["Item"]
    return [f"{package}/{item}" for package, item in found.items()]


def load(folder: Path, name: str) -> pd.DataFrame:
    """Numbers, and texts and truth values as categories; without names and numbers of rows, and constant columns."""
    frame = pd.read_csv(folder / "csv" / f"{name}.csv")
    frame = frame.drop(columns=[column for column in frame if column == "rownames" or frame[column].nunique() < 2])
    kept = {}
    for column, values in frame.items():
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            if not (values.is_unique and pd.api.types.is_integer_dtype(values) and values.is_monotonic_increasing):
                kept[column] = values.astype(float)
        elif values.nunique() <= MAX_LEVELS:
            kept[column] = values.astype(object).where(values.isna(), values.astype(str)).where(values.notna(), None)
    return pd.DataFrame(kept)


def codes(frame: pd.DataFrame) -> tuple[np.ndarray, list[list[str]]]:
    """A table of numbers, with the codes of categories; and the levels of each column, none for numbers."""
    table, levels = np.full(frame.shape, np.nan), []
    for j, (_, values) in enumerate(frame.items()):
        known = values.notna().to_numpy()
        own = sorted(set(values[known])) if values.dtype == object else []
        table[known, j] = [own.index(value) for value in values[known]] if own else values[known]
        levels.append(own)
    return table, levels


# -- methods: of a table of numbers and codes with nan in its gaps, and the levels --------------------------------------------
Levels = list[list[str]]


def simple(table: np.ndarray, levels: Levels) -> np.ndarray:
    """Mode and median."""
    guess = [
        np.argmax(np.bincount(x[~np.isnan(x)].astype(int))) if own else np.nanmedian(x)
        for x, own in zip(table.T, levels, strict=True)
    ]
    return np.where(np.isnan(table), np.array(guess, float), table)


def encoded(fill: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray, Levels], np.ndarray]:
    """An imputer of numbers, for standardized numbers and indicators; the category with the largest one is filled in."""

    def filled(table: np.ndarray, levels: Levels) -> np.ndarray:
        mean, scale = np.nanmean(table, axis=0), np.maximum(np.nanstd(table, axis=0), 1e-12)
        parts = []
        for j, own in enumerate(levels):
            x = table[:, j : j + 1]
            parts.append(np.where(np.isnan(x), np.nan, x == np.arange(len(own))) if own else (x - mean[j]) / scale[j])
        whole, out, at = fill(np.hstack(parts)), table.copy(), 0
        for j, part in enumerate(parts):
            own = whole[:, at : at + part.shape[1]]
            at += part.shape[1]
            guess = own.argmax(axis=1) if levels[j] else own[:, 0] * scale[j] + mean[j]
            out[:, j] = np.where(np.isnan(table[:, j]), guess, table[:, j])
        return out

    return filled


@encoded
def neighbors(table: np.ndarray) -> np.ndarray:
    from sklearn.impute import KNNImputer

    return KNNImputer(keep_empty_features=True).fit_transform(table)


@encoded
def ridge(table: np.ndarray) -> np.ndarray:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return IterativeImputer(random_state=0, keep_empty_features=True).fit_transform(table)


def forests(table: np.ndarray, levels: Levels) -> np.ndarray:
    """Each column by a forest of the others, those with the fewest gaps first, until the changes grow; at most 5 rounds."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    missing, out, last = np.isnan(table), simple(table, levels), np.inf
    scale = np.maximum(np.nanstd(table, axis=0), 1e-12)
    for _ in range(5):
        before = out.copy()
        for j in np.argsort(missing.sum(axis=0)):
            rows = missing[:, j]
            if rows.any():
                kind = RandomForestClassifier if levels[j] else RandomForestRegressor
                forest = kind(n_estimators=50, max_features="sqrt", random_state=0, n_jobs=1)
                others = np.delete(out, j, axis=1)
                out[rows, j] = forest.fit(others[~rows], table[~rows, j]).predict(others[rows])
        change = float(np.mean(np.where(levels_array(levels), out != before, (out - before) / scale)[missing] ** 2))
        if change > last:
            return before
        last = change
    return out


def levels_array(levels: Levels) -> np.ndarray:
    return np.array([bool(own) for own in levels])


def rounded(table: np.ndarray, levels: Levels) -> np.ndarray:
    """TableImputer with its defaults, which rounds numbers of a data frame to the decimals of their column."""
    frame = pd.DataFrame(
        {
            f"c{j}": pd.Series([own[int(v)] if v == v else None for v in x], dtype=object) if own else x
            for j, (x, own) in enumerate(zip(table.T, levels, strict=True))
        }
    )
    return codes_of(TableImputer().fit_transform(frame), levels)


def lorank(table: np.ndarray, levels: Levels) -> np.ndarray:
    """TableImputer on numbers with many decimals, which are not rounded, as those of the other imputers."""
    unit = np.where(levels_array(levels), 1.0, np.pi)
    return rounded(table * unit, levels) / unit


def codes_of(frame: pd.DataFrame, levels: Levels) -> np.ndarray:
    columns = [frame.iloc[:, j].map(own.index) if own else frame.iloc[:, j] for j, own in enumerate(levels)]
    return np.column_stack([np.asarray(column, float) for column in columns])


METHODS = {
    "lorank": lorank,
    "lorank, rounded": rounded,
    "mode and median": simple,
    "neighbors": neighbors,
    "ridge": ridge,
    "forests": forests,
}


# -- runs --------------------------------------------------------------------------------------------------------------
def run(case: tuple) -> dict:
    """Errors of numbers in standard deviations, share of right categories, CPU seconds."""
    folder, name, kind, seed, until, methods = case
    table, levels = codes(load(folder, name))
    hidden, category = hide(table, kind, seed), levels_array(levels)
    row = {
        "table": name,
        "rows": len(table),
        "numbers": int((~category).sum()),
        "categories": int(category.sum()),
        "gaps": kind,
        "seed": seed,
    }
    if time.time() > until:
        return row
    scale = np.maximum(np.nanstd(table, axis=0), 1e-12)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for method in methods:
            fill = METHODS[method]
            start = time.process_time()
            filled = fill(np.where(hidden, np.nan, table), levels)
            row[f"{method}: CPU s"] = round(time.process_time() - start, 3)
            off = (filled - table) / scale
            row[f"{method}: error"] = round(float(np.sqrt(np.mean(off[:, ~category][hidden[:, ~category]] ** 2))), 4)
            right = (filled == table)[:, category][hidden[:, category]]
            row[f"{method}: right"] = round(float(right.mean()), 4) if len(right) else ""
    row["hidden categories"] = int(hidden[:, category].sum())
    return row


def report(rows: list[dict]) -> list[str]:
    """Markdown: medians of ratios, and a line for each table and kind of gaps."""
    cells: dict[tuple, list[dict]] = {}
    for row in rows:
        if "lorank: error" in row:
            cells.setdefault((row["table"], row["gaps"]), []).append(row)

    def mean(some: list[dict], key: str) -> float:
        values = [float(row[key]) for row in some if row[key] != ""]  # no category may be hidden
        return float(np.mean(values)) if values else np.nan

    peers = [method for method in METHODS if not method.startswith("lorank")]
    errors = {m: np.array([mean(some, f"{m}: error") for some in cells.values()]) for m in METHODS}
    right = {m: np.array([mean(some, f"{m}: right") for some in cells.values()]) for m in METHODS}
    seconds = {m: np.sum([float(row.get(f"{m}: CPU s") or 0) for some in cells.values() for row in some]) for m in METHODS}
    best, ours = np.min([errors[m] for m in peers], axis=0), errors["lorank"]
    others = {m: [k for k in METHODS if k != m and not (m.startswith("lorank") and k.startswith("lorank"))] for m in METHODS}
    lowest = {m: np.min([errors[k] for k in others[m]], axis=0) for m in METHODS}
    some = ~np.isnan(right["lorank"])
    highest = {m: np.max([right[k][some] for k in others[m]], axis=0) for m in METHODS}
    summary = [
        {
            "method": m,
            "within 2 % of the best other": f"{np.mean(errors[m] <= 1.02 * lowest[m]):.0%}",
            "lorank's error over its": "" if m == "lorank" else f"{np.exp(np.mean(np.log(ours / errors[m]))):.3f}",
            "right categories": f"{right[m][some].mean():.3f}",
            "at most 0.01 below the best other": f"{np.mean(right[m][some] >= highest[m] - 0.01):.0%}",
            "CPU s": f"{seconds[m]:.1f}",
        }
        for m in METHODS
    ]
    number = np.array([sum(int(row["hidden categories"]) for row in some) for some in cells.values()])
    deviation = np.sqrt(0.25 / np.maximum(number, 1))
    mode = right["mode and median"]
    below = [
        f"{name}, {kind}: {right['lorank'][k]:.3f} and {mode[k]:.3f} of {number[k]}"
        for k, (name, kind) in enumerate(cells)
        if right["lorank"][k] < mode[k] - deviation[k]
    ]
    lines = [
        f"{len(cells)} tables and kinds of gaps: lorank's error is the lowest or within 2 % of it in "
        f"{np.mean(ours <= 1.02 * best):.0%}, within 5 % in {np.mean(ours <= 1.05 * best):.0%}; geometric mean of its ratio to "
        f"the best peer {np.exp(np.mean(np.log(ours / best))):.3f}.",
        "",
        *markdown(summary),
        "",
        f"Categories below the mode by more than one standard deviation (0.5 / sqrt(number)): {'; '.join(below) or 'none'}.",
        "",
    ]
    return lines + markdown(
        [
            {"table": name, "rows": some[0]["rows"], "columns": f"{some[0]['numbers']} + {some[0]['categories']}", "gaps": kind}
            | {
                m: f"{mean(some, f'{m}: error'):.3f}"
                + ("" if np.isnan(mean(some, f"{m}: right")) else f", {mean(some, f'{m}: right'):.3f}")
                for m in METHODS
            }
            for (name, kind), some in cells.items()
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--gaps", nargs="+", default=GAPS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="no run begins after these")
    parser.add_argument("--out", type=Path, default=RESULTS / "tables_mixed.csv")
    options = parser.parse_args()
    if options.report:
        with options.out.open(newline="") as file:
            print("\n".join(report(list(csv.DictReader(file)))))
        return
    if options.draw:
        print("\n".join(draw(options.data, 18)))
        return
    print(versions(), flush=True)
    until, rows = time.time() + options.seconds, []
    cases = [
        (options.data, name, kind, seed, until, options.methods)
        for seed in options.seeds
        for name in options.tables
        for kind in options.gaps
    ]
    with get_context("spawn").Pool(options.processes) as pool:
        for row in pool.imap(run, cases):
            rows.append(row)
            if f"{options.methods[-1]}: error" in row:
                write_csv([found for found in rows if f"{options.methods[-1]}: error" in found], options.out)
    if set(options.methods) == set(METHODS):
        print("\n".join(report(rows)))


if __name__ == "__main__":
    main()
