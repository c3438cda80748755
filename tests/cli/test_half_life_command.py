"""lorank complete --time --half-life; columns whose names the output wants, too."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import run

pytest.importorskip("polars")
pytest.importorskip("typer")
pytest.importorskip("sklearn")

import polars

import lorank as lr


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """Seconds since 1970, dates and text in three columns, as CSV and Parquet."""
    rng = np.random.default_rng(0)
    X = rng.integers(1, 6, (30, 20))
    pairs = np.argwhere(rng.random(X.shape) < 0.5)
    seconds = 1_600_000_000 + rng.integers(0, 10**8, len(pairs))
    frame = polars.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "rating": X[pairs[:, 0], pairs[:, 1]]})
    frame = frame.with_columns(seconds=polars.Series(seconds), date=polars.from_epoch(polars.Series(seconds)))
    frame = frame.with_columns(days=(polars.col("seconds") - 1_600_000_000) // 86400)
    frame = frame.with_columns(text=polars.col("date").dt.to_string("%Y-%m-%d %H:%M:%S"))
    folder = tmp_path_factory.mktemp("ratings")
    frame.write_csv(folder / "r.csv")
    frame.write_parquet(folder / "r.parquet")
    return folder


def complete(*arguments):
    strength = "0.1" if "--implicit" in arguments else "learned"
    return run("complete", *arguments, "--rank", "1", "--regularization", strength)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_times_of_all_kinds_give_the_same_model(ratings, ending, tmp_path):
    found = []
    for column in ("seconds", "date", "text"):
        out = tmp_path / f"{column}.lorank"
        said = complete(ratings / f"r.{ending}", "--time", column, "--half-life", "90d", "-o", out, "--json")
        assert said.exit_code == 0, said.output
        assert json.loads(said.stdout)["half_life"] == 90 * 86400
        found.append(lr.load(out))
    for model in found[1:]:
        np.testing.assert_allclose(model.col_bias_, found[0].col_bias_, rtol=1e-6)
    plain = tmp_path / "plain.lorank"
    complete(ratings / f"r.{ending}", "-o", plain)
    assert np.abs(lr.load(plain).mean_ - found[0].mean_) > 1e-6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--half-life", "90d"], "--half-life needs --time"),
        (["--time", "seconds"], "--time goes with --half-life"),
        (["--time", "seconds", "--half-life", "-3"], "--half-life must be positive"),
        (["--time", "seconds", "--half-life", "soon"], "--half-life soon is no duration"),
        (["--time", "when", "--half-life", "90d"], "has no column 'when'"),
        (["--time", "date", "--half-life", "90"], "--half-life 90.0 of what"),
        (["--time", "seconds", "--half-life", "90d", "--exposure", "item"], "do not go together"),
        (["--time", "seconds", "--half-life", "auto", "--implicit"], "--half-life auto is for ratings"),
        (["--half-life", "90d", "--implicit"], "--half-life needs --time"),
        (["--time", "seconds", "--half-life", "90d", "--implicit", "--memory", "1GB"], "leave out --memory, or --half-life"),
        (["--time", "seconds", "--half-life", "90d", "--memory", "1GB"], "--time needs the ratings in memory"),
    ],
)
def test_what_cannot_be(ratings, options, words):
    said = complete(ratings / "r.csv", *options)
    assert said.exit_code == (1 if "when" in options else 2)
    assert words in " ".join(said.output.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--time", "date", "--half-life", "90d"], "half-life: 90 days"),
        (["--time", "date", "--half-life", "36h"], "half-life: 1.5 days"),
        (["--time", "seconds", "--half-life", "1d"], "half-life: 86,400, which is 1 day if times are seconds since 1970"),
        (["--time", "days", "--half-life", "30"], "half-life: 30 in units of the times"),
    ],
)
def test_a_half_life_has_a_unit(ratings, options, words, tmp_path):
    out = tmp_path / "m.lorank"
    assert words in complete(ratings / "r.csv", *options, "-o", out).stdout.splitlines()
    assert words.removeprefix("half-life: ") in run("inspect", out).stdout


def test_auto_says_what_it_found_in_days(tmp_path):
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((20, 15)) < 0.9)
    days = rng.integers(0, 1000, len(pairs))
    values = np.where(days < 850, 1.0, 5.0) + 0.1 * rng.standard_normal(len(days))  # all change their minds
    frame = polars.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "rating": values})
    dates = polars.Series(np.datetime64("2020-01-01") + days.astype("timedelta64[D]"))
    frame.with_columns(when=dates).write_csv(tmp_path / "r.csv")
    said = complete(tmp_path / "r.csv", "--time", "when", "--half-life", "auto", "--json")
    seconds = json.loads(said.stdout)["half_life"]
    said = complete(tmp_path / "r.csv", "--time", "when", "--half-life", "auto")
    assert f"half-life: {seconds / 86400:.3g} days" in said.stdout.splitlines()


def test_a_column_that_holds_no_times(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating,when\n1,1,3,2024-01-01\n1,2,4,soon\n2,1,5,2024-01-03\n")
    said = complete(tmp_path / "r.csv", "--time", "when", "--half-life", "90d")
    assert said.exit_code in (1, 2)
    assert "column 'when': times must be all numbers, or all dates" in " ".join(said.output.split())


def test_columns_called_as_the_output(tmp_path):
    frame = polars.DataFrame({"known": [1, 1, 2, 2, 3], "prediction": [1, 2, 1, 3, 3], "rating": [1.0, 2, 3, 4, 5]})
    frame.write_csv(tmp_path / "r.csv")
    names = ["--row", "known", "--col", "prediction"]
    assert complete(tmp_path / "r.csv", *names, "--value", "rating", "-o", tmp_path / "m.lorank").exit_code == 0
    pairs = [str(tmp_path / "m.lorank"), str(tmp_path / "r.csv")]
    said = run("predict", *pairs, "-o", tmp_path / "p.csv", *names)
    assert said.exit_code == 0, said.output
    found = polars.read_csv(tmp_path / "p.csv")
    assert found.columns == ["known", "prediction", "prediction_", "known_"]
    assert found["prediction"].to_list() == [1, 2, 1, 3, 3]
    said = run("recommend", pairs[0], "--all", "-n", "1", "-o", tmp_path / "all.csv")
    assert said.exit_code == 0, said.output
    assert polars.read_csv(tmp_path / "all.csv").columns == ["known", "place", "prediction", "prediction_"]


@pytest.mark.parametrize("value", [None, "rating"])
def test_what_was_taken_long_ago_counts_for_less(ratings, tmp_path, value):
    frame = polars.read_csv(ratings / "r.csv")
    options = ["--implicit", "--time", "text", "--half-life", "300d", *([] if value is None else ["--value", value])]
    said = complete(ratings / "r.csv", *options, "-o", tmp_path / "m.lorank", "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["half_life"], found["pairs"], found["shape"]) == (300 * 86400, len(frame), [30, 20])
    model = lr.ImplicitFactorization(1, 0.1, half_life="300d")
    model.fit(frame.select("user", "item", *([] if value is None else [value])), times=frame["text"].to_list())
    for one, other in ((model, 1), (lr.ImplicitFactorization(1, 0.1).fit(frame.select("user", "item")), None)):
        same = np.allclose(one.user_factors_, lr.load(tmp_path / "m.lorank").user_factors_, rtol=1e-3, atol=1e-5)
        assert same == (other is not None)
