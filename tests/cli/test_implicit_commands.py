"""``lorank complete --implicit`` and recommendations of its models."""

from __future__ import annotations

import json

import numpy as np
import pytest

import lorank as lr
from command_line import done, refused, run
from lorank.cli import sources
from lorank.estimators import implicit_factorization, implicit_state
from lorank.factorization import implicit

pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Clicks in three Parquet files: a pair is there as often as it was clicked."""
    path = tmp_path_factory.mktemp("taken")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, (50, 1))
    users, items = np.nonzero(rng.random((50, 30)) < np.where(kind == np.arange(30) % 2, 0.5, 0.05))
    clicks = np.repeat(np.arange(len(users)), rng.integers(1, 4, len(users)))
    clicks = rng.permutation(clicks)
    table = pl.DataFrame({"user": [f"u{k:02d}" for k in users[clicks]], "item": items[clicks] + 100})
    (path / "clicks").mkdir()
    for k, some in enumerate(np.array_split(np.arange(len(table)), 3)):
        table[some.tolist()].write_parquet(path / "clicks" / f"part-{k}.parquet")
    table.write_csv(path / "clicks.csv")
    counted = table.group_by("user", "item").len("times")
    counted.write_csv(path / "counted.csv")
    said = done("complete", "--implicit", path / "clicks" / "*.parquet", "--rank", 3, "--partitions-dir", path / "parts",
                "-o", path / "m.lorank", "--json")  # fmt: skip
    return path, table, json.loads(said.stdout)


def test_it_is_the_model_of_the_same_pairs_in_memory(place):
    path, table, said = place
    twin = lr.ImplicitFactorization(rank=3).fit(table)
    model = lr.load(path / "m.lorank")
    np.testing.assert_array_equal(model.user_ids_, twin.user_ids_)
    np.testing.assert_array_equal(model.state_.training.counts, twin.state_.training.counts)
    np.testing.assert_allclose(
        model.user_factors_ @ model.item_factors_.T, twin.user_factors_ @ twin.item_factors_.T, atol=1e-4
    )
    assert said["pairs"] == len(twin.state_.training.counts)
    assert said["class"] == "ImplicitFactorization"
    assert said["passes"] > 0


@pytest.mark.parametrize("source", ["clicks.csv", "counted.csv", "parts"])
def test_other_sources_are_the_same(place, source):
    path = place[0]
    options = ("--value", "times") if source == "counted.csv" else ()
    said = json.loads(done("complete", "--implicit", path / source, "--rank", 3, *options, "--json").stdout)
    assert said["pairs"] == place[2]["pairs"]
    assert said["regularization"] == pytest.approx(place[2]["regularization"])
    assert said["zeros"] == pytest.approx(place[2]["zeros"])


@pytest.mark.parametrize("remembers", [True, False])
def test_lists_for_everybody(place, tmp_path, monkeypatch, remembers):
    path, model = place[0], lr.load(place[0] / "m.lorank")
    file, options = path / "m.lorank", ()
    if not remembers:
        monkeypatch.setattr(implicit_state, "MAX_STORED", 10)
        file, options = tmp_path / "big.lorank", ("--ratings", path / "parts")
        done("complete", "--implicit", path / "parts", "--rank", 3, "-o", file)
        assert "in partitions" in refused("recommend", file, "--all", "-o", tmp_path / "x.csv")
        assert not (tmp_path / "x.csv").exists()
    monkeypatch.setattr(sources, "ROWS", 7)
    done("recommend", file, "--all", "-n", 4, "-o", tmp_path / "top.csv", *options)
    found = pl.read_csv(tmp_path / "top.csv")
    expected = model.recommend(model.user_ids_, 4)
    assert found["user"].to_list() == np.repeat(model.user_ids_, 4).tolist()
    assert found["item"].to_list() == expected.items.ravel().tolist()
    assert found["place"].to_list() == [1, 2, 3, 4] * len(model.user_ids_)
    np.testing.assert_allclose(found["score"].to_numpy(), expected.scores.ravel(), rtol=1e-5, atol=1e-6)


def test_one_user_and_what_is_said(place):
    path, model = place[0], lr.load(place[0] / "m.lorank")
    said = json.loads(done("recommend", path / "m.lorank", "--row", "u03", "-n", 2, "--json").stdout)
    assert [one["col"] for one in said["recommendations"]] == model.recommend(["u03"], 2).items[0].tolist()
    assert "score" in done("recommend", path / "m.lorank", "--row", "u03").stdout
    told = done("complete", "--implicit", path / "clicks.csv", "--rank", 2, "--regularization", "0.02")
    assert "users and 30 items" in told.stdout


def test_what_is_refused(place, tmp_path):
    path = place[0]
    assert "--order-by rating is for" in refused("recommend", path / "m.lorank", "--row", "u03", "--order-by", "rating", code=2)
    assert "--loss is for ratings" in refused("complete", "--implicit", path / "clicks.csv", "--loss", "huber", code=2)
    assert "user 'nobody' is not in the model" in refused("recommend", path / "m.lorank", "--row", "nobody")
    assert "holds partitions already" in refused(
        "complete", "--implicit", path / "clicks.csv", "--partitions-dir", path / "parts", code=2
    )
    (tmp_path / "none.csv").write_text("user,item,times\nann,7,0\nbob,8,2\n")
    assert "smallest value" in refused("complete", "--implicit", tmp_path / "none.csv", "--value", "times")
    assert "model of implicit feedback" in refused("predict", path / "m.lorank", path / "clicks.csv", "-o", tmp_path / "p.csv")


def test_ctrl_c_while_settings_are_selected_keeps_a_model(place, tmp_path, monkeypatch):
    monkeypatch.setattr(implicit_factorization, "select_implicit", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    result = run("complete", "--implicit", place[0] / "clicks.csv", "--rank", 3, "-o", tmp_path / "m.lorank")
    assert (result.exit_code, str(tmp_path / "m.lorank") in result.stderr) == (130, True), result.output
    monkeypatch.undo()
    done("recommend", tmp_path / "m.lorank", "--row", "u03")
    assert lr.ImplicitFactorization(rank=2).fit(place[1]).status_ == "done"


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_ctrl_c_in_the_fit_keeps_a_model(place, tmp_path, monkeypatch, at):
    """Also in the first iteration."""
    original, calls = implicit.half_sweep, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(implicit, "half_sweep", interrupted)
    options = ("--rank", 3, "--regularization", 0.1, "-o", tmp_path / "m.lorank")
    result = run("complete", "--implicit", place[0] / "clicks.csv", *options)
    assert (result.exit_code, str(tmp_path / "m.lorank") in result.stderr) == (130, True), result.output
    monkeypatch.undo()
    done("recommend", tmp_path / "m.lorank", "--row", "u03")
