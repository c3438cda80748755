"""Made-up runs, in the form in which `lorank reproduce` stores them."""

from __future__ import annotations

import json
import math
from pathlib import Path

from lorank.experiments import store
from lorank.experiments.tables import Tables, stored, tables
from lorank.paper import EXPERIMENTS

COMMON = {
    "scale": "quick",
    "threads": 1,
    "date": "2026-01-02",
    "lorank": "0.1.0",
    "numpy": "2.0.0",
    "scipy": "1.14.0",
    "python": "3.12.0",
    "machine": "a made-up machine",
    "setting": "RGD(RowColumn(Median()), Constant(0.5))",
}
SIZED = {"rank": 10, "oversampling": 5.0}


def run(experiment, method, iterations, *, seed=0, seconds=None, reached=True, capped=False, **more) -> dict:
    """A row of the results."""
    status = "recovered" if reached else "time" if capped else "diverged"
    seconds = 0.1 * iterations if seconds is None else seconds
    measured = {"iterations": iterations, "seconds": seconds, "error": 9e-5, "residual": 8e-5, "start": 0.0}
    row = {"experiment": experiment, "method": method, "seed": seed, **COMMON, **measured}
    row |= {"reached": reached, "capped": capped, "status": status, **more}
    if "n1" in row:
        row.setdefault("n2", row["n1"])
    return row


def runs(experiment, method, iterations, *, tests=5, **more) -> list[dict]:
    """Rows of several tests whose mean is ``iterations``: they differ a little."""
    spread = [0.02 * (seed - (tests - 1) / 2) for seed in range(tests)]
    return [run(experiment, method, iterations * (1 + off), seed=seed, **more) for seed, off in enumerate(spread)]


def trace(experiment, method, residuals, *, seed=0, errors=None, rmse=None, pace=0.01, **params) -> list[dict]:
    """The trace of a run."""
    steps = range(len(residuals))
    columns = {"iteration": list(steps), "seconds": [pace * t for t in steps], "residual": list(residuals)}
    columns |= {name: list(values) for name, values in (("error", errors), ("heldout_rmse", rmse)) if values is not None}
    return [{"experiment": experiment, "method": method, "seed": seed, **params, "trace": columns}]


def write(out: Path, results=(), traces=(), tuning=()) -> Path:
    """Files of runs in a folder; a trace goes to its run, or stands alone."""
    (out / "runs").mkdir(parents=True, exist_ok=True)
    scale = next(iter(results), COMMON)["scale"]
    files: dict[str, dict[str, dict]] = {}
    for kind, rows in (("run", [*results, *traces]), ("tuning", tuning)):
        for row in rows:
            params = {name: row[name] for name in store.PARAMETERS if row.get(name) is not None}
            method, seed = row["method"], row.get("seed") if kind == "run" else None
            name = store.key(kind, params, method, seed)
            record = files.setdefault(row["experiment"], {}).setdefault(name, {"key": name, "kind": kind, "candidates": []})
            if kind == "tuning":
                record["candidates"].append({"seed": None, "reached": False, "chosen": False, **row})
            record |= {**row, "params": params, "seed": seed}
    for experiment, records in files.items():
        lines = [{"schema": store.SCHEMA, "experiment": experiment, "scale": scale}, *records.values()]
        text = "".join(json.dumps(store._plain(line)) + "\n" for line in lines)
        (out / "runs" / f"{experiment}.jsonl").write_text(text, encoding="utf-8")
    return out


def load(out: Path) -> Tables:
    return tables(stored(out, list(EXPERIMENTS)))


# -- every experiment at once ------------------------------------------------------------------------------------------
def everything(out: Path) -> Path:
    """Tables of all nine experiments, some points capped, some thinned, some failed."""
    results = [*_size(), *_oversampling(), *_noise(), *_sensing(), *_success()]
    traces = []
    for found, way in (_movielens(), _phase("real"), _phase("complex"), _theorem()):
        results += found
        traces += way
    return write(out, results, traces, _tuning())


def _size():
    rows = []
    for rank, oversampling, sizes in ((10, 5.0, (1000, 2000, 5000, 10_000, 20_000)), (50, 6.0, (2000, 5000, 10_000))):
        for n in sizes:
            where = {
                "n1": n,
                "n2": n,
                "rank": rank,
                "oversampling": oversampling,
                "m": int(oversampling * rank * (2 * n - rank)),
            }
            work = where["m"] * 2e-8
            tests = 5 if rank == 10 else 2
            for method, iterations, cost in (
                ("prgd", 50 + n / 1000, 1.1),
                ("rgd", 90 + n / 35, 1),
                ("shampoo", 80 + n / 80, 1.1),
                ("niht", 120 + n / 25, 3),
                ("auto", 13, 2),
            ):
                capped = method == "niht" and n >= 10_000 and rank == 50
                rows += runs(
                    "completion-size",
                    method,
                    iterations,
                    tests=tests,
                    seconds=cost * work * iterations,
                    reached=not capped,
                    capped=capped,
                    **where,
                )
    return rows


def _oversampling():
    rows = []
    for oversampling in range(3, 16, 2):
        where = {"n1": 10_000, "n2": 10_000, "rank": 10, "oversampling": float(oversampling), "m": 10_000}
        for method, iterations in (("prgd", 40 + 120 / oversampling), ("rgd", 60 + 2100 / oversampling**1.2), ("auto", 12)):
            rows += runs("completion-oversampling", method, iterations, seconds=0.01 * iterations * oversampling, **where)
        lost = oversampling == 3
        rows += runs(
            "completion-oversampling", "niht", 4000 / oversampling, reached=not lost, capped=lost, seconds=40.0, **where
        )
        fails = oversampling < 5
        rows += runs("completion-oversampling", "shampoo", 900 / oversampling, reached=not fails, **where)
    return rows


def _noise():
    rows = []
    for noise in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1):
        where = {"n1": 10_000, "n2": 10_000, "rank": 10, "oversampling": 5.0, "m": 999_500, "noise": noise}
        for method, iterations, floor in (
            ("prgd", 60, 0),
            ("rgd", 300 + 1000 * noise, 4e-5),
            ("shampoo", 200, 0),
            ("niht", 400, 0),
        ):
            rows += runs("completion-noise", method, iterations, error=0.6 * noise + floor, **where)
    return rows


def _movielens():
    results, traces = [], []
    for rank in (5, 10):
        where = {"n1": 6040, "n2": 3952, "rank": rank, "m": 1_000_209}
        for k, method in enumerate(("prgd", "rgd", "shampoo", "niht")):
            fit = [0.17 - 0.004 * rank + 0.15 / (1 + t / (4 + 5 * k)) for t in range(201)]
            rmse = [0.85 + 0.4 / (1 + t / (3 + 3 * k)) + 4e-4 * t / (1 + k) for t in range(201)]
            results.append(run("movielens", method, 200, residual=fit[-1], heldout_rmse=rmse[-1], status="done", **where))
            traces += trace("movielens", method, fit, rmse=rmse, **where)
    return results, traces


def _sensing():
    rows = []
    for oversampling in (1.2, 1.4, 1.6, 1.8, 2.0):
        where = {"n1": 150, "n2": 150, "rank": 10, "oversampling": oversampling, "m": int(2900 * oversampling)}
        for method, iterations in (
            ("adaptive-prgd", 300),
            ("prgd", 180),
            ("adaptive-rgd", 310),
            ("niht", 700),
            ("shampoo", 420),
            ("rcg", 50),
            ("rgd-relaxed", 120),
        ):
            rows += runs("sensing-oversampling", method, iterations / (oversampling - 0.9), **where)
    return rows


def _success():
    rows = []
    for rank in (2, 4, 6, 8, 10, 12):
        for m in range(100, 1001, 100):
            for method, shift in (("adaptive-rgd", 0.1), ("prgd", 0.0), ("adaptive-prgd", 0.0), ("rcg", -0.2)):
                ratio = m / (rank * (100 - rank)) - 1.25 - shift
                hits = round(10 * min(max(0.5 + 2 * ratio, 0), 1))
                where = {"n1": 50, "n2": 50, "rank": rank, "m": m}
                rows += [
                    run("sensing-success", method, 100, seed=seed, reached=seed < hits, capped=seed >= hits, **where)
                    for seed in range(10)
                ]
    return rows


def _phase(field):
    results, traces = [], []
    where = {"n1": 128, "n2": 128, "rank": 1, "oversampling": 6.0, "m": 768, "field": field}
    for method, iterations, pace in (
        ("adaptive-prgd", 90, 4e-4),
        ("prgd", 110, 3e-4),
        ("adaptive-rgd", 92, 2e-4),
        ("rgd", 130, 1e-4),
        ("rgd-relaxed", 68, 2e-4),
        ("fisher-rcg", 22, 3e-4),
        ("prgd-probes", 95, 2.2e-4),
    ):
        for seed in range(5):
            steps = iterations + 2 * seed
            way = [0.3 * 10 ** (-8 * t / steps) for t in range(steps + 1)]
            results.append(run(f"phase-{field}", method, steps, seed=seed, seconds=pace * steps, residual=way[-1], **where))
            traces += trace(f"phase-{field}", method, way, seed=seed, pace=pace, **where) if seed < 3 else []
    return results, traces


def _theorem():
    results, traces = [], []
    for m, field in ((2000, ""), (6000, "inside the premise")):
        where = {"n1": 30, "n2": 30, "rank": 2, "oversampling": m / 116, "m": m, "field": field}
        for seed in range(3):
            errors = [0.5 * math.prod(0.5 + 0.1 * math.sin(s + seed) for s in range(t)) for t in range(25)]
            results.append(run("theorem", "prgd", 24, seed=seed, **where))
            traces += trace("theorem", "prgd", [0.9 * error for error in errors], errors=errors, seed=seed, **where)
    return results, traces


def _tuning():
    where = {"n1": 10_000, "n2": 10_000, "rank": 10, "oversampling": 5.0, "m": 999_500, "seed": 1000}
    return [
        {"experiment": "completion-size", "method": "prgd", **where, "candidate": f"RGD(RowColumn(Median()), Constant({step}))"}
        | {"iterations": 60 / step, "seconds": 2.0, "error": 1e-4, "reached": step < 1, "chosen": step == 0.7}
        for step in (0.5, 0.7, 1.0)
    ]
