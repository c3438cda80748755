"""Spark's ALS on one machine, where Java is present. Making the session and the data frame is not timed."""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from data import Data

from . import sweeps

GRID = [{"reg": 1e-9}, {"reg": 1e-7}]


def version() -> str:
    return f"pyspark {importlib.metadata.version('pyspark')}"


def run(data: Data, setting: dict, threads: int, tolerances: list[float], budget: float, repeats: int) -> dict:
    if shutil.which("java") is None:
        raise RuntimeError("Spark needs Java, and there is none here")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    import pandas as pd
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(f"local[{threads}]").config("spark.driver.memory", "6g").config("spark.ui.enabled", "false")
    )
    builder = builder.config("spark.sql.shuffle.partitions", str(threads)).config(
        "spark.sql.execution.arrow.pyspark.enabled", "true"
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    session.sparkContext.setCheckpointDir(folder)  # without, many sweeps make a lineage too deep for Java's stack
    values = pd.DataFrame({"row": data.rows, "col": data.cols, "value": data.values.astype(np.float32)})
    frame = session.createDataFrame(values).coalesce(threads).cache()
    frame.count()

    def fit(count: int) -> tuple[np.ndarray, np.ndarray]:
        als = ALS(
            rank=data.rank,
            maxIter=count,
            regParam=setting.get("reg", 1e-9),
            userCol="row",
            itemCol="col",
            ratingCol="value",
            seed=1,
            numUserBlocks=threads,
            numItemBlocks=threads,
        )
        model = als.fit(frame)
        return _array(model.userFactors, data.shape[0]), _array(model.itemFactors, data.shape[1])

    def _array(factors: object, n: int) -> np.ndarray:
        table = factors.toPandas()  # type: ignore[attr-defined]
        out = np.zeros((n, data.rank))
        out[table["id"].to_numpy()] = np.stack(table["features"].to_numpy())
        return out

    found = sweeps.search(fit, data, tolerances, budget, repeats, first=8)
    return found | {"peak": _java_peak()}


def _java_peak() -> int:
    """Spark lives in a Java process: the peak is that one's."""
    peak = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if text.get("Name", "").strip() == "java":
            peak = max(peak, int(text.get("VmHWM", "0 kB").split()[0]) * 1024)
    return peak
