"""``lorank evaluate --implicit``, on small files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import run
from lorank.cli.evaluate import read_interactions
from lorank.cli.sources import File

pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """Two kinds of people and of things; some pairs several times."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, (60, 1))
    users, items = np.nonzero(rng.random((60, 30)) < np.where(kind == np.arange(30) % 2, 0.6, 0.03))
    lines = rng.permutation(np.repeat(np.arange(len(users)), rng.integers(1, 3, len(users))))
    path = tmp_path_factory.mktemp("taken") / "clicks.csv"
    when = rng.permutation(len(lines))
    pl.DataFrame({"user": [f"u{k}" for k in users[lines]], "item": items[lines] + 100, "when": when}).write_csv(path)
    return path


def test_the_model_finds_more_than_what_is_popular(clicks, tmp_path):
    done = run("evaluate", clicks, "--implicit", "-n", 5, "--json", "--report", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    models = json.loads(done.stdout)["models"]
    assert list(models) == ["ImplicitFactorization", "popularity"]
    assert models["ImplicitFactorization"]["ndcg"] > 1.2 * models["popularity"]["ndcg"]
    assert "ImplicitFactorization" in (tmp_path / "page.html").read_text(encoding="utf-8")
    done = run("evaluate", clicks, "--implicit", "-n", 5)
    assert done.exit_code == 0, done.output
    assert "popularity" in done.stdout


def test_pairs_are_counted_once_and_are_as_late_as_their_last(clicks):
    table = pl.read_csv(clicks).group_by("user", "item").agg(pl.len().alias("n"), pl.col("when").max())
    users, _, counts, times, shape = read_interactions(File([str(clicks)], extra="when"))
    assert len(users) == len(table)
    assert counts.sum() == table["n"].sum() > len(users)
    assert sorted(times.tolist()) == sorted(table["when"].to_list())
    assert shape == (60, 30)
    plain = read_interactions(File([str(clicks)], ("user", "item", None)))
    np.testing.assert_array_equal(plain[2], counts)
    assert plain[3] is None
    by_number = read_interactions(File([str(clicks)], ("user", "item", "when")))  # the column as counts
    assert by_number[2].sum() == pl.read_csv(clicks)["when"].sum()


def test_the_latest_are_held_out_where_times_are_given(clicks):
    done = run("evaluate", clicks, "--implicit", "--time", "when", "--json")
    assert done.exit_code == 0, done.output


def test_what_is_wrong_is_said(clicks, tmp_path):
    (tmp_path / "one.csv").write_text("user,item\na,1\nb,2\n")
    (tmp_path / "below.csv").write_text("user,item,count\na,1,-1\na,2,1\n")
    for arguments, code, said in (
        ((clicks, "--positive", 4), 2, "--positive is for ratings"),
        ((tmp_path / "one.csv",), 1, "no user has two items"),
        ((tmp_path / "below.csv", "--value", "count"), 1, "the least count is -1"),
    ):
        done = run("evaluate", *arguments, "--implicit")
        assert done.exit_code == code
        assert said in done.stderr
