"""What the runs of benchmarks/tables.py say: the page's table, its CSV and its picture."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from common import RESULTS, markdown, write_csv
from tables_data import GAPS, SERIES_GAPS, TEST, TEST_SERIES

METHODS = ("lorank", "mean", "neighbours", "ridge", "trees", "SoftImpute", "copula", "mice forest", "interpolation")
BEGIN, END = "<!-- cells: written by benchmarks/tables.py -->", "<!-- end of cells -->"


def cells() -> list[tuple[str, str]]:
    return [(t, g) for t in TEST for g in GAPS] + [(t, g) for t in TEST_SERIES for g in SERIES_GAPS]


def collect(runs: list[dict]) -> dict[tuple[str, str], dict[str, dict[int, float]]]:
    """Errors by cell, method and seed; runs that were given up or failed are left out."""
    found: dict = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        if run["residual"] is not None and np.isfinite(run["residual"]):
            found[run["table"], run["gaps"]][run["method"]][run["seed"]] = run["residual"]
    return found


def ratios(cell: dict[str, dict[int, float]]) -> dict[str, float]:
    """Lorank's error over each peer's, on the seeds that both have."""
    ours, out = cell.get("lorank", {}), {}
    for method, errors in cell.items():
        both = sorted(set(ours) & set(errors))
        if method != "lorank" and both:
            out[method] = float(np.mean([ours[s] for s in both]) / np.mean([errors[s] for s in both]))
    return out


def report(runs: list[dict]) -> list[str]:
    """Lines for the page; writes docs/benchmarks/tables.csv and the picture."""
    found = collect(runs)
    rows, worst, wins, seeds = [], {}, defaultdict(list), defaultdict(list)
    for name, gaps in cells():
        cell = found.get((name, gaps), {})
        if "lorank" not in cell:
            continue
        row = {"table": name, "gaps": gaps}
        means = {method: np.mean(list(cell[method].values())) for method in METHODS if cell.get(method)}
        compared = ratios(cell)
        for method in METHODS:
            row[method] = f"{means[method]:.3f}" if method in means else "-"
        rival = max(compared, key=compared.get)
        row["seeds"] = len(cell["lorank"])
        row["against the best"] = f"{compared[rival]:.3f} ({rival})"
        worst[name, gaps] = compared[rival]
        for method, ratio in compared.items():
            wins[method].append(ratio)
            seeds[method].append(len(set(cell["lorank"]) & set(cell[method])))
        rows.append(row)
    write_csv(rows, RESULTS / "tables.csv")
    all_ratios = np.array(list(worst.values()))
    lines = [
        f"{len(rows)} cells: lowest error or within 2 % of it in {np.mean(all_ratios <= 1.02):.0%}, "
        f"within 5 % in {np.mean(all_ratios <= 1.05):.0%}; geometric mean of lorank's error over the best peer's: "
        f"{np.exp(np.mean(np.log(all_ratios))):.3f}.",
        "",
        *markdown(
            [
                {
                    "peer": method,
                    "cells": len(wins[method]),
                    "seeds": _by_count(seeds[method]),
                    "lorank better, or within 2 %": f"{np.mean(np.array(wins[method]) <= 1.02):.0%}",
                    "error of lorank over its (geometric mean)": f"{np.exp(np.mean(np.log(wins[method]))):.3f}",
                    "worst cell": f"{np.max(wins[method]):.3f}",
                }
                for method in METHODS
                if wins[method]
            ]
        ),
        "",
        "Cells that are lost by more than 2 %:",
        "",
        *[f"- {n}, {g}: {r['against the best']}" for (n, g), r in zip(worst, rows, strict=True) if worst[n, g] > 1.02],
        "",
        *markdown(rows),
    ]
    _picture(found, RESULTS / "tables.png")
    return [*lines, "", *coverage(runs)]


def coverage(runs: list[dict]) -> list[str]:
    """Shares of hidden cells within intervals at 90 %, all seeds together: by table and gaps, and by column."""
    counts: dict = defaultdict(lambda: np.zeros((2, 1)))
    for run in runs:
        if run["method"] == "lorank" and run.get("cells"):
            counts[run["table"], run["gaps"]] = counts[run["table"], run["gaps"]] + np.array([run["inside"], run["cells"]])
    rows, shares, columns, tables = [], [], [], defaultdict(lambda: np.zeros(2))
    for name, gaps in cells():
        if (name, gaps) not in counts:
            continue
        inside, among = counts[name, gaps]
        own = inside[among >= 100] / among[among >= 100]
        shares.append(inside.sum() / among.sum())
        columns.extend(own)
        tables[name] += inside.sum(), among.sum()
        rows.append({"table": name, "gaps": gaps, "within": f"{shares[-1]:.3f}"})
        rows[-1] |= {"least column": f"{own.min():.2f}", "most": f"{own.max():.2f}"} if len(own) else {}
    if not rows:
        return []
    by_table = {name: inside / among for name, (inside, among) in tables.items()}
    off = [f"{name} {share:.3f}" for name, share in by_table.items() if not 0.88 <= share <= 0.92]
    good, fair = _share_within(shares, 0.88, 0.92), _share_within(columns, 0.80, 0.97)
    return [
        "## Intervals",
        "",
        f"Hidden cells within intervals at 90 %, all seeds together: between 0.88 and 0.92 on {len(by_table) - len(off)} of "
        f"{len(by_table)} tables{' (not on ' + ', '.join(off) + ')' if off else ''}, and in {good:.0%} of {len(rows)} tables "
        f"and kinds of gaps (median {np.median(shares):.3f}). Of the {len(columns)} columns with at least 100 hidden cells, "
        f"{fair:.1%} are between 0.80 and 0.97, and {np.mean(np.array(columns) < 0.8):.1%} below.",
        "",
        *markdown(rows),
    ]


def _by_count(counts: list[int]) -> str:
    """How many seeds the cells of a peer have: "5", or "5 in 90, 1 in 30"."""
    found = sorted(set(counts), reverse=True)
    return str(found[0]) if len(found) == 1 else ", ".join(f"{n} in {counts.count(n)}" for n in found)


def _share_within(values: list[float], low: float, high: float) -> float:
    return float(np.mean((np.array(values) >= low) & (np.array(values) <= high)))


def write(lines: list[str], page: Path = RESULTS / "tables.md") -> None:
    """Put the lines between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
    page.write_text(f"{head}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{tail}", encoding="utf-8")


def _picture(found: dict, path: Path) -> None:
    """Errors of each peer over lorank's, one dot a cell: to the right of 1 lorank is better."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.io.figures import use_style

    use_style()
    fig, ax = plt.subplots(figsize=(9, 4.2))
    shown = [m for m in METHODS[1:] if any(m in ratios(c) for c in found.values())]
    rng = np.random.default_rng(0)
    for y, method in enumerate(shown):
        values = np.array([1 / ratios(c)[method] for c in found.values() if method in ratios(c)])
        values = np.clip(values, 0.5, 5)
        jitter = y + rng.uniform(-0.25, 0.25, len(values))
        ax.scatter(values, jitter, s=12, alpha=0.6, color=np.where(values >= 1 / 1.02, "C0", "C1"))
        ax.plot([np.exp(np.mean(np.log(values)))] * 2, [y - 0.35, y + 0.35], color="0.5", lw=2)
    ax.axvline(1, color="grey", lw=0.8)
    ax.set_xscale("log")
    ax.set_xticks([0.6, 0.8, 1, 1.25, 1.5, 2, 3, 5], ["0.6", "0.8", "1", "1.25", "1.5", "2", "3", "5+"])
    ax.minorticks_off()
    ax.set_yticks(range(len(shown)), shown)
    ax.set_xlabel("error of the peer over lorank's, one dot for each table and kind of gaps (bar: geometric mean)")
    fig.tight_layout()
    fig.savefig(path, dpi=130)
