"""``lorank complete --columns`` and ``lorank predict`` on tables with three columns of keys."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from command_line import done, refused

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("sklearn")

import polars as pl

import lorank as lr

SHAPE = (8, 7, 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A long table as CSV and Parquet, and a model."""
    path = tmp_path_factory.mktemp("tensors")
    rng = np.random.default_rng(0)
    X = 20 + np.einsum("i,j,k->ijk", *(rng.standard_normal(n) for n in SHAPE)) + 0.05 * rng.standard_normal(SHAPE)
    index = np.argwhere(rng.random(SHAPE) < 0.6)
    frame = pl.DataFrame(
        {
            "day": [f"2024-05-{1 + j:02d}" for j in index[:, 1]],
            "hour": index[:, 2],
            "level": X[tuple(index.T)],
            "sensor": [f"s{i}" for i in index[:, 0]],
        }
    )
    frame.write_csv(path / "data.csv")
    frame.write_parquet(path / "data.parquet")
    np.save(path / "truth.npy", X)
    done("complete", path / "data.csv", "--columns", "sensor,day,hour", "--rank", "1", "-o", path / "m.lorank")
    return path


def key(row):
    return int(row["sensor"][1:]), int(row["day"][-2:]) - 1, int(row["hour"])


def test_the_filled_table_has_every_combination_once(folder, tmp_path):
    out = tmp_path / "filled.csv"
    options = ("--columns", "sensor,day,hour", "--value", "level", "--rank", "1")
    said = done("complete", folder / "data.csv", *options, "--filled", out).stdout
    assert "8 (sensor) x 7 (day) x 6 (hour)" in said
    assert "Tucker model of rank 1 x 1 x 1" in said
    X = np.load(folder / "truth.npy")
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["sensor", "day", "hour", "level", "observed"]
    assert sorted(map(key, rows)) == sorted(np.ndindex(SHAPE))
    given = {(r["sensor"], r["day"], int(r["hour"])): r["level"] for r in pl.read_csv(folder / "data.csv").to_dicts()}
    for row in rows:
        if row["observed"] == "true":
            assert float(row["level"]) == pytest.approx(given[row["sensor"], row["day"], int(row["hour"])])
    missing = [row for row in rows if row["observed"] == "false"]
    assert len(missing) == X.size - len(given)
    assert f"{len(missing)} missing combinations filled" in said
    error = np.array([float(row["level"]) - X[key(row)] for row in missing])
    assert np.sqrt(np.mean(error**2)) < 0.3 * X.std()


def test_files_and_arrays_give_the_same_model(folder, tmp_path):
    for name in ("data.parquet", "data.csv"):
        said = json.loads(
            done(
                "complete", folder / name, "--columns", "sensor,day,hour", "--rank", "1", "-o", tmp_path / "m.lorank", "--json"
            ).stdout
        )
        model = lr.load(tmp_path / "m.lorank")
        frame = pl.read_csv(folder / "data.csv")
        twin = lr.TensorImputer(rank=1).fit_entries(frame[["sensor", "day", "hour"]], frame["level"].to_numpy())
        asked = frame[["hour", "sensor", "day"]]  # columns are found by their names
        assert model.predict(asked) == pytest.approx(twin.predict(asked), rel=1e-12)
        assert (said["class"], said["shape"], said["names"]) == ("TensorImputer", [8, 7, 6], ["sensor", "day", "hour"])
        assert said["heldout"]["rmse"] < 0.3 * said["heldout"]["rmse_of_the_mean"]


def test_predictions_at_asked_combinations(folder, tmp_path):
    asked = tmp_path / "asked.csv"
    asked.write_text("hour,sensor,day,note\n0,s1,2024-05-02,a\n5,s7,2024-05-07,b\n0,nobody,2024-05-02,c\n")
    found = json.loads(done("predict", folder / "m.lorank", asked, "--interval", "0.9", "--json").stdout)
    X = np.load(folder / "truth.npy")
    rows = found["predictions"]
    assert [row["known"] for row in rows] == [True, True, False]
    assert found["unknown"] == 1
    for row, at in zip(rows, [(1, 1, 0), (7, 6, 5)], strict=False):
        assert row["low"] < row["prediction"] < row["high"]
        assert abs(row["prediction"] - X[at]) < X.std()
    said = done("predict", folder / "m.lorank", asked, "-o", tmp_path / "out.csv").stdout
    assert "3 predictions" in said
    assert "1 with unknown ids" in said
    written = pl.read_csv(tmp_path / "out.csv")
    assert written["prediction"].to_list() == pytest.approx([row["prediction"] for row in rows], rel=1e-9)
    assert "TensorImputer" in done("inspect", folder / "m.lorank").stdout


def test_four_columns_of_keys(tmp_path):
    rng = np.random.default_rng(1)
    index = np.argwhere(rng.random((6, 5, 4, 3)) < 0.5)
    values = index.sum(1) + 0.1 * rng.standard_normal(len(index))
    pl.DataFrame({**{n: index[:, k] for k, n in enumerate("abcd")}, "y": values}).write_csv(tmp_path / "t.csv")
    said = done("complete", tmp_path / "t.csv", "--columns", "d,a,c,b", "--rank", "1", "--filled", tmp_path / "f.parquet")
    assert "3 (d) x 6 (a) x 4 (c) x 5 (b)" in said.stdout
    filled = pl.read_parquet(tmp_path / "f.parquet" / "*.parquet")
    error = filled["y"].to_numpy() - filled[["a", "b", "c", "d"]].to_numpy().sum(1)
    assert np.sqrt(np.mean(error**2)) < 0.5


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (("--columns", "sensor,day"), "--columns must name three or more", 2),
        (("--columns", "sensor,day,day"), "--columns names 'day' twice", 2),
        (("--columns", "sensor,day,hours"), "no column 'hours'.*Did you mean 'hour'", 1),
        (("--columns", "sensor,day,hour", "--value", "levl"), "no column 'levl'.*Did you mean 'level'", 1),
        (("--columns", "sensor,day,hour", "--value", "day"), "--value day is a column of keys, too", 2),
        (("--columns", "sensor,day,hour", "--loss", "huber"), "without --loss", 2),
        (("--columns", "sensor,day,hour", "--row", "day"), "without --row", 2),
        (("--columns", "sensor,day,hour", "--max-memory", "1GB"), "without --max-memory", 2),
        (("--columns", "sensor,day,hour", "--rank", "x"), "--rank must be a whole number or auto", 2),
        (("--filled", "f.csv"), "--filled needs --columns", 2),
        (("--columns", "sensor,day,hour", "--filled", "f.txt"), "--filled f.txt: the extension", 2),
        (("--keys", "sensor,day,hour"), "--columns", 2),
    ],
)
def test_wrong_options_are_refused(folder, options, words, code):
    import re

    assert re.search(words, " ".join(refused("complete", folder / "data.csv", *options, code=code).split()))


def test_wrong_files_are_refused(folder, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("sensor,day,hour,level\ns0,a,1,2.5\ns0,a,2,much\n")
    assert "line 3, column 'level': 'much'" in " ".join(refused("complete", bad, "--columns", "sensor,day,hour").split())
    bad.write_text("sensor,day,hour,u,v\ns0,a,1,2.5,1\n")
    assert "Pass --value NAME, one of 'u', 'v'" in " ".join(refused("complete", bad, "--columns", "sensor,day,hour").split())
    bad.write_text("sensor,day\ns0,2024-05-02\n")
    assert "no column 'hour'" in refused("predict", folder / "m.lorank", bad)
    bad.write_text("sensor,day,hour\nx,2024-05-02,1\n")
    assert "knows all ids of none of 1 line" in " ".join(refused("predict", folder / "m.lorank", bad).split())
    assert "use lorank predict" in " ".join(refused("recommend", folder / "m.lorank", "--row", "s1").split())
    assert "columns ['sensor'" in " ".join(refused("predict", folder / "m.lorank", bad, "--row", "day", code=2).split())
    path = lr.TensorImputer(rank=1).fit(np.load(folder / "truth.npy")).save(tmp_path / "array.lorank")
    assert "model of an array" in refused("predict", path, bad)
