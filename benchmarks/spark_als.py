"""Spark's ALS against lorank on the same Parquet files.

    python benchmarks/spark_als.py make [--m 2_000_000] --folder F          ratings with noise and exact data, as Parquet
    python benchmarks/spark_als.py lorank --folder F [--results FILE]       in partitions; --workers: a Dask worker a core
    python benchmarks/spark_als.py spark --folder F [--results FILE]        with an interpreter that has pyspark, and Java
    python benchmarks/spark_als.py compare --results FILE                   ratios of the two: seconds to the same error, memory

Exact data of rank 10, and ratings: rank-8 tastes with offsets and noise 0.8, rounded to half stars. Seconds and the RMSE on
held-out entries, Spark's after several numbers of sweeps. Spark runs on ``local[2]`` with its checkpoint directory set; its
regularisation is the best of three on a tenth of the training ratings, found outside the clock, and so is a first sweep.
Both clocks begin with reading the files. Memory is the largest resident set, Java's for Spark, and that of all workers in sum.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np


def make(args):
    import polars as pl

    rng = np.random.default_rng(0)
    n1, n2, each = args.m // 50, args.m // 500, 55
    width = n2 // each
    for name, rank in (("exact", 10), ("ratings", 8)):
        left, right = rng.standard_normal((n1, rank)), rng.standard_normal((n2, rank))
        rows = np.repeat(np.arange(n1), each)
        cols = (rng.integers(0, width, (n1, each)) + np.arange(each) * width).ravel()
        values = np.einsum("ij,ij->i", left[rows], right[cols])
        if name == "ratings":
            values = 3.4 + 0.25 * values + (0.4 * rng.standard_normal(n1))[rows] + (0.4 * rng.standard_normal(n2))[cols]
            values = np.clip(np.round(2 * (values + 0.8 * rng.standard_normal(len(values)))) / 2, 0.5, 5)
        frame = pl.DataFrame(
            {"user": rows.astype(np.int32), "item": cols.astype(np.int32), "rating": values.astype(np.float32)}
        )
        held = rng.random(len(rows)) < 0.1
        place = Path(args.folder) / name
        (place / "train").mkdir(parents=True, exist_ok=True)
        for k, part in enumerate(np.array_split(rng.permutation(np.flatnonzero(~held)), 4)):
            frame[part].write_parquet(place / "train" / f"part-{k}.parquet")
        frame.filter(held).write_parquet(place / "test.parquet")
        print(f"{name}: {len(frame):,} observations, {n1:,} x {n2:,}", flush=True)


def keep(args, **found):
    print(json.dumps(found), flush=True)
    if args.results:
        with open(args.results, "a") as file:
            file.write(json.dumps(found) + "\n")


def run_lorank(args):
    import polars as pl

    import lorank as lr

    for name in ("exact", "ratings"):
        test = pl.read_parquet(Path(args.folder) / name / "test.parquet")
        truth = test["rating"].to_numpy().astype(float)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as place:
            options = {"folder": Path(place) / "parts"} | ({"cluster": "local"} if args.workers else {})
            problem = lr.distributed.from_parquet(str(Path(args.folder) / name / "train"), "user", "item", "rating", **options)
            read = time.perf_counter() - began
            at = [np.searchsorted(ids, test[c].to_numpy()) for ids, c in ((problem.row_ids, "user"), (problem.col_ids, "item"))]
            if name == "exact":
                guess = lr.solve(problem, 10, tol=1e-4).numpy().X.entries(*at)
            else:
                model = lr.MatrixCompletion(8, "learned", bounds=(0.5, 5.0)).fit(problem)
                guess = np.clip(model.model_.predict(*at), 0.5, 5)
        seconds = time.perf_counter() - began
        rmse = float(np.sqrt(np.mean((guess - truth) ** 2)))
        memory = _peak() + (sum(problem.observations.graph.engine.client.run(_peak).values()) if args.workers else 0)
        how = "workers" if args.workers else "mapped"
        figures = {"seconds": seconds, "reading": read, "rmse": rmse, "size": float(np.std(truth)), "mib": memory}
        keep(args, who="lorank", data=name, how=how, **figures)


def _peak(pid="self"):
    """The largest resident set of a process so far, in MiB."""
    words = Path(f"/proc/{pid}/status").read_text().split()
    return int(words[words.index("VmHWM:") + 1]) / 1024


def run_spark(args):
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]").config("spark.driver.memory", args.memory).config("spark.ui.enabled", "false")
    ).config("spark.ui.showConsoleProgress", "false")
    spark = session.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    judge = RegressionEvaluator(metricName="rmse", labelCol="rating", predictionCol="prediction")
    with tempfile.TemporaryDirectory() as checkpoints:
        spark.sparkContext.setCheckpointDir(checkpoints)
        _als(ALS, 10, 1e-9, 1).fit(spark.read.parquet(str(Path(args.folder) / "exact" / "train")))  # Java compiles as it runs
        for name, rank in (("exact", 10), ("ratings", 8)):
            test = spark.read.parquet(str(Path(args.folder) / name / "test.parquet"))
            strength = 1e-9
            if name == "ratings":
                train, some = spark.read.parquet(str(Path(args.folder) / name / "train")).randomSplit([0.9, 0.1], seed=1)
                errors = {s: judge.evaluate(_als(ALS, rank, s, 8).fit(train).transform(some)) for s in (0.03, 0.06, 0.12)}
                strength = min(errors, key=errors.get)
            for sweeps in args.sweeps:
                began = time.perf_counter()
                train = spark.read.parquet(str(Path(args.folder) / name / "train"))
                model = _als(ALS, rank, strength, sweeps).fit(train)
                rmse = judge.evaluate(model.transform(test))
                seconds = time.perf_counter() - began
                keep(
                    args, who="spark", data=name, sweeps=sweeps, seconds=seconds, rmse=rmse, strength=strength, mib=_java(spark)
                )
    spark.stop()


def compare(args):
    """For each kind of data: Spark's seconds to an error as small as lorank's (or its best one, said so), over lorank's."""
    found = [json.loads(line) for line in Path(args.results).read_text().splitlines()]
    for name in ("exact", "ratings"):
        ours = [one for one in found if one["who"] == "lorank" and one["data"] == name]
        theirs = sorted((one for one in found if one["who"] == "spark" and one["data"] == name), key=lambda one: one["seconds"])
        if not ours or not theirs:
            print(f"{name}: {'lorank' if not ours else 'Spark'} has no figures yet")
            continue
        for own in ours:
            label = f"{name}, {own.get('how', 'mapped')}"
            print(f"{label}: lorank {own['seconds']:.1f} s, RMSE {own['rmse']:.4g}, {own['mib']:.0f} MiB")
            goal = own["rmse"] * (1.05 if name == "exact" else 1.002)
            for one in theirs:
                print(
                    f"    Spark, {one['sweeps']} sweeps: {one['seconds']:.1f} s, RMSE {one['rmse']:.4g}, {one['mib']:.0f} MiB, "
                    f"{one['seconds'] / own['seconds']:.1f} x the time, {one['mib'] / own['mib']:.1f} x the memory"
                )
            there = [one for one in theirs if one["rmse"] <= goal]
            best = there[0] if there else min(theirs, key=lambda one: one["rmse"])
            least = "" if there else f"more than, being at {best['rmse']:.4g} then, "
            print(f"    to an RMSE of {goal:.4g}: Spark takes {least}{best['seconds'] / own['seconds']:.1f} x the time")


def _als(ALS, rank, strength, sweeps):
    options = {
        "userCol": "user",
        "itemCol": "item",
        "ratingCol": "rating",
        "coldStartStrategy": "drop",
        "checkpointInterval": 5,
    }
    return ALS(rank=rank, regParam=strength, maxIter=sweeps, seed=0, **options)


def _java(spark):
    """The largest resident set of Java so far."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    return _peak(pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "lorank", "spark", "compare"])
    parser.add_argument("--m", type=int, default=2_000_000)
    parser.add_argument("--folder")
    parser.add_argument("--workers", action="store_true", help="lorank: a Dask worker on each core instead of one process")
    parser.add_argument("--sweeps", type=int, nargs="*", default=[5, 10, 20], help="Spark: a run of each")
    parser.add_argument("--memory", default="6g", help="of Java")
    parser.add_argument("--results")
    args = parser.parse_args()
    needed = "results" if args.what == "compare" else "folder"
    if getattr(args, needed) is None:
        parser.error(f"{args.what} needs --{needed}")
    print(f"{os.cpu_count()} cores, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}", flush=True)
    {"make": make, "lorank": run_lorank, "spark": run_spark, "compare": compare}[args.what](args)


if __name__ == "__main__":
    main()
