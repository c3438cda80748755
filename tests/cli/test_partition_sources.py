"""The commands on partitions: many files, folders, memory limits, workers, tables written in blocks."""

from __future__ import annotations

import dataclasses
import importlib.util
import json

import numpy as np
import pytest

import lorank as lr
from command_line import done, refused
from lorank.cli import model_files
from lorank.cli import sources as cli_sources
from lorank.io import observation_files as sources

pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Ratings in three Parquet files, with text for rows, and the same in one CSV file."""
    path = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    truth = 3 + 0.8 * rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + 0.5 * rng.standard_normal((60, 1))
    rows, cols = np.nonzero(rng.random((60, 40)) < 0.5)
    values = np.round(np.clip(truth[rows, cols], 1, 5) * 2) / 2
    table = pl.DataFrame({"user": [f"u{i:02d}" for i in rows], "movie": cols + 100, "rating": values})
    table = table.sample(fraction=1.0, shuffle=True, seed=0)
    (path / "ratings").mkdir()
    for k in range(3):
        table[k * 400 : (k + 1) * 400 if k < 2 else None].write_parquet(path / "ratings" / f"part-{k}.parquet")
    table.write_csv(path / "ratings.csv")
    done("complete", path / "ratings" / "*.parquet", "-o", path / "m.lorank", "--rank", 2, "--partitions-dir", path / "parts")
    return path


def test_many_files_are_one_model(place):
    """The same as of one file in memory; held-out ratings are others, so that the rank is given."""
    said = json.loads(done("complete", place / "ratings.csv", "--rank", 2, "-o", place / "one.lorank", "--json").stdout)
    model, twin = lr.load(place / "m.lorank"), lr.load(place / "one.lorank")
    pairs = pl.read_csv(place / "ratings.csv").select("user", "movie")
    np.testing.assert_array_equal(model.ids_["rows"], twin.ids_["rows"])
    np.testing.assert_array_equal(model.ids_["cols"], twin.ids_["cols"])
    assert model.state_.labels == twin.state_.labels
    assert np.sqrt(np.mean((model.predict(pairs) - twin.predict(pairs)) ** 2)) < 0.3 * said["heldout"]["rmse"]
    assert model.bounds == twin.bounds


def test_what_is_said(place, tmp_path):
    options = ("--rank", 2, "--max-memory", "500MB", "--json")
    found = json.loads(done("complete", place / "ratings.csv", *options, "-o", tmp_path / "m.lorank").stdout)
    assert found["workers"] == 1
    assert found["passes"] > 10
    assert found["bytes_passed_over"] == found["passes"] * found["observations"] * 8
    assert (tmp_path / "m.lorank").exists()
    text = done("complete", place / "parts", "--rank", 2).stdout
    assert "passes" in text
    assert "on held-out values" in text


def test_reopened_partitions_keep_their_column_names(place, tmp_path):
    problem = lr.distributed.from_partitions(place / "parts")
    assert problem.column_names == ("user", "movie", "rating")
    lr.distributed.save_partitions(problem, tmp_path / "again")
    assert lr.distributed.from_partitions(tmp_path / "again").column_names == problem.column_names
    model = lr.MatrixCompletion(rank=1, regularization=1.0).fit(problem)
    assert model.state_.labels == {"row": "user", "col": "movie", "value": "rating"}
    pairs = pl.read_csv(place / "ratings.csv")
    np.testing.assert_array_equal(model.predict(pairs), model.predict(pairs.select("user", "movie")))
    done("complete", place / "parts", "--rank", 1, "-o", tmp_path / "m.lorank")
    assert lr.load(tmp_path / "m.lorank").state_.labels == model.state_.labels


def test_partitions_of_arrays_have_no_column_names(tmp_path):
    problem, _ = lr.datasets.random_completion(30, 20, 2, oversampling=5)
    lr.distributed.save_partitions(problem, tmp_path / "parts")
    assert lr.distributed.from_partitions(tmp_path / "parts").column_names is None


def test_progress_shows_passes_bytes_and_workers(place):
    problem = lr.distributed.from_partitions(place / "parts")
    said = []
    progress = cli_sources.PassCounter(problem, said.append)
    lr.solve(problem, 2, stop=lr.stopping.Iterations(2), max_iter=2)
    assert "passes" in said[-1]
    assert " read" in said[-1]
    assert progress.summary()["passes"] == problem.observations.graph.passes - progress.begin


def test_diagnose(place):
    found = json.loads(done("diagnose", place / "ratings", "--rank", 2, "--json").stdout)
    twin = json.loads(done("diagnose", place / "ratings.csv", "--rank", 2, "--json").stdout)
    assert found == twin


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_predictions_in_blocks(place, tmp_path, ending, monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_SIZE", 100)
    out = tmp_path / f"p{ending}"
    done("predict", place / "m.lorank", place / "ratings" / "*.parquet", "-o", out, "--interval", 0.9)
    found = pl.read_csv(out) if ending == ".csv" else pl.concat([pl.read_parquet(f) for f in sorted(out.iterdir())])
    done("predict", place / "m.lorank", place / "ratings.csv", "-o", tmp_path / "one.csv", "--interval", 0.9)
    twin = pl.read_csv(tmp_path / "one.csv")
    assert found.columns == twin.columns
    found, twin = found.sort("user", "movie"), twin.sort("user", "movie")
    np.testing.assert_allclose(found["prediction"].to_numpy(), twin["prediction"].to_numpy())
    np.testing.assert_allclose(found["high"].to_numpy(), twin["high"].to_numpy())
    assert found["known"].all()


@pytest.mark.parametrize("remembers", [True, False])
def test_recommendations_for_all_rows(place, tmp_path, monkeypatch, remembers):
    """Blocks of rows, with what was seen left out: from the model, or from the partitions."""
    monkeypatch.setattr(cli_sources, "ROWS", 13)
    model = lr.load(place / "m.lorank")
    if not remembers:
        model.state_ = dataclasses.replace(model.state_, training=None)
        monkeypatch.setattr(model_files, "load_model", lambda path: model)
    more = () if remembers else ("--ratings", place / "parts")
    done("recommend", place / "m.lorank", "--all", "-o", tmp_path / "top.parquet", "-n", 4, "--order-by", "rating", *more)
    table = pl.concat([pl.read_parquet(f) for f in sorted((tmp_path / "top.parquet").iterdir())])
    assert len(list((tmp_path / "top.parquet").iterdir())) > 2
    twin = lr.load(place / "m.lorank")
    cols, scores = twin.recommend(twin.ids_["rows"], 4, by="rating")
    there = np.isfinite(scores)
    np.testing.assert_array_equal(table["movie"].to_numpy(), cols[there])
    np.testing.assert_allclose(table["prediction"].to_numpy(), scores[there])
    np.testing.assert_array_equal(table["user"].to_numpy(), twin.ids_["rows"][np.repeat(np.arange(60), there.sum(1))])
    assert table["place"].to_list()[:4] == [1, 2, 3, 4]


def test_which_files_are_large(place, monkeypatch):
    def partitioned(*path, **options):
        source = cli_sources.choose_source(list(map(str, path)), (None,) * 3, cli_sources.PartitionOptions(**options))
        return isinstance(source, cli_sources.Partitions)

    assert not partitioned(place / "ratings.csv")
    assert not partitioned(place / "ratings" / "part-0.parquet")
    assert not partitioned("missing.csv")
    assert not partitioned(place / "ratings")  # several files, small together
    assert not partitioned(place / "ratings" / "*.parquet")
    assert partitioned(place / "parts")
    assert partitioned(place / "ratings.csv", max_memory="1GB")
    monkeypatch.setattr(cli_sources, "physical_memory", lambda: 100_000)
    assert partitioned(place / "ratings.csv")
    assert partitioned(place / "ratings" / "part-0.parquet")
    monkeypatch.setattr(cli_sources, "physical_memory", lambda: 2 * cli_sources.BYTES_IN_MEMORY * 500)
    assert not partitioned(place / "ratings" / "part-0.parquet")
    assert partitioned(place / "ratings")  # each would fit, and all of them not


def test_several_small_files_are_read_in_memory(place, tmp_path):
    """What partitions have not, they have; and the model is that of one file with all of it."""
    files = sorted((place / "ratings").iterdir())
    said = json.loads(done("complete", *files, "--rank", 2, "-o", tmp_path / "m.lorank", "--json").stdout)
    assert "partitions" not in said
    assert said["file"] == f"{files[0]} and 2 others"
    done("complete", place / "ratings.csv", "--rank", 2, "-o", tmp_path / "one.lorank")
    model, twin = lr.load(tmp_path / "m.lorank"), lr.load(tmp_path / "one.lorank")
    pairs = pl.read_csv(place / "ratings.csv").select("user", "movie")
    np.testing.assert_array_equal(model.predict(pairs), twin.predict(pairs))
    done("complete", place / "ratings", "--rank", 1, "--loss", "robust")
    pl.DataFrame({"user": [1], "movie": [2], "rating": [3.0]}).write_parquet(tmp_path / "numbers.parquet")
    assert "different schemas" in refused("complete", files[0], tmp_path / "numbers.parquet")
    (tmp_path / "empty.csv").write_text("user,movie,rating\n")
    assert "empty.csv has no observations" in refused("diagnose", place / "ratings.csv", tmp_path / "empty.csv")


def test_what_says_how_files_are_read_is_refused_with_partitions(place, tmp_path):
    options = {
        "--row": "user",
        "--col": "movie",
        "--value": "rating",
        "--partitions-dir": tmp_path / "new",
        "--duplicates": "mean",
    }
    for option, value in options.items():
        assert f"{option} {value} is for files" in refused("complete", place / "parts", option, value, code=2)
        assert f"{option} {value} is for files" in refused("complete", place / "parts", "--implicit", option, value, code=2)
    assert "--row user is for files" in refused("diagnose", place / "parts", "--row", "user", code=2)


def test_partitions_of_other_rows_are_refused_though_they_are_as_many(place, tmp_path):
    table = pl.read_csv(place / "ratings.csv").with_columns(pl.col("movie") + 1)
    table.write_parquet(tmp_path / "r.parquet")
    done("complete", tmp_path / "r.parquet", "-o", tmp_path / "m.lorank", "--rank", 1, "--partitions-dir", tmp_path / "others")
    options = ("--all", "-o", tmp_path / "t.csv", "--ratings", tmp_path / "others")
    assert "101 instead of 100" in refused("recommend", place / "m.lorank", *options)
    done("complete", place / "ratings.csv", "--implicit", "--rank", 2, "-o", tmp_path / "taken.lorank")
    assert "has other columns than the model" in refused("recommend", tmp_path / "taken.lorank", *options)


def test_bad_input(place, tmp_path, monkeypatch):
    from lorank.distributed import client

    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    assert "2GB" in refused("complete", place / "ratings", "--max-memory", "much", code=2)
    assert "--max-memory" in refused("complete", place / "ratings", "--max-memory", "1kB", code=2)
    assert "no files" in refused("complete", tmp_path / "*.parquet")
    if importlib.util.find_spec("dask"):  # tests/distributed may hide the package distributed
        assert "no Dask scheduler" in refused("complete", place / "parts", "--cluster", "tcp://127.0.0.1:1")
    assert "holds partitions already" in refused("complete", place / "ratings", "--partitions-dir", place / "parts", code=2)
    assert "--report" in refused("complete", place / "parts", "--report", tmp_path / "r.html", code=2)
    assert "no folder" in refused("complete", place / "parts", "-o", tmp_path / "no" / "m.lorank", code=2)
    assert "no column 'who'" in refused("complete", place / "ratings", "--row", "who")
    (tmp_path / "mixed").mkdir()
    for name in ("a.csv", "b.parquet"):
        (tmp_path / "mixed" / name).write_text("user,item,rating\n1,2,3\n")
    assert "different kinds" in refused("complete", tmp_path / "mixed")
    assert "--all" in refused("recommend", place / "m.lorank", code=2)
    assert "--all" in refused("recommend", place / "m.lorank", "--all", code=2)
    assert ".parquet" in refused("recommend", place / "m.lorank", "--all", "-o", tmp_path / "top.xyz", code=2)
    (tmp_path / "taken.parquet").mkdir()
    assert "exists" in refused("recommend", place / "m.lorank", "--all", "-o", tmp_path / "taken.parquet")
    other = lr.datasets.random_completion(20, 10, 1, oversampling=3)[0]
    lr.distributed.save_partitions(other, tmp_path / "other", n_partitions=2)
    answer = refused("recommend", place / "m.lorank", "--all", "-o", tmp_path / "t.csv", "--ratings", tmp_path / "other")
    assert "was fitted to" in answer


def test_factors_that_do_not_fit(place):
    problem = lr.distributed.from_partitions(place / "parts", max_memory="60MB")
    problem.backend.max_memory = 20_000  # as if rows were many
    with pytest.raises(MemoryError, match="max_memory"):
        lr.MatrixCompletion(8, "learned").fit(problem)
    assert lr.MatrixCompletion().fit(problem).rank_ < 4


def test_the_names_of_the_fit_say_which_column_is_which(tmp_path):
    """Whatever their order in the file of pairs, and however the predictions are written."""
    lines = [f"{k % 6},{100 + k % 7},{1 + k % 4}" for k in range(42)]
    (tmp_path / "r.csv").write_text("who,what,v\n" + "\n".join(lines) + "\n")
    (tmp_path / "p.csv").write_text("what,who\n103,2\n")
    done("complete", tmp_path / "r.csv", "-o", tmp_path / "m.lorank", "--rank", 1)
    done("predict", tmp_path / "m.lorank", tmp_path / "p.csv", "-o", tmp_path / "o.parquet")
    found = pl.concat([pl.read_parquet(f) for f in sorted((tmp_path / "o.parquet").iterdir())])
    assert found["known"].to_list() == [True]
    assert found["who"].to_list() == [2]
