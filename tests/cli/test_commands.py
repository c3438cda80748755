"""The commands for files, on small ones."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess

import numpy as np
import pytest

from command_line import refused, run

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("sklearn")
pytest.importorskip("plotly")


import lorank as lr
from machine import CHROMIUM

pytestmark = pytest.mark.filterwarnings("error::lorank.ConvergenceWarning")


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ratings with text and number ids, a model, and a report."""
    path = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    truth = 3 + 0.8 * rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + 0.5 * rng.standard_normal((60, 1))
    rows, cols = np.nonzero(rng.random((60, 40)) < 0.5)
    lines = [f"u{i},{100 + j},{round(float(np.clip(truth[i, j], 1, 5)) * 2) / 2}" for i, j in zip(rows, cols, strict=True)]
    (path / "ratings.csv").write_text("user,movie,rating\n" + "\n".join(lines) + "\n")
    done = run("complete", path / "ratings.csv", "-o", path / "m.lorank", "--report", path / "r.html", "--json")
    assert done.exit_code == 0, done.output
    (path / "summary.json").write_text(done.stdout)
    return path


@pytest.mark.needs("torch")
def test_a_device_by_name(folder, tmp_path):
    options = ("complete", folder / "ratings.csv", "--rank", "2", "--regularization", "learned")
    heldout = [json.loads(run(*options, "--json", *more).stdout)["heldout"]["rmse"] for more in ((), ("--device", "cpu"))]
    assert heldout[1] == pytest.approx(heldout[0], rel=1e-8)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n2,4\n3,\n4,8\n")
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--device", "cpu")
    assert done.exit_code == 0, done.output
    for command in (options, ("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv")):
        for wrong in ("gpu", "cuda:99", "mps"):
            said = refused(*command, "--device", wrong, code=2)
            assert re.search(f"--device must be cpu(, cuda:.*)?( or cuda:.*)? on this machine, got '{wrong}'", said)


def test_complete_says_how_well(folder):
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["shape"] == [60, 40]
    assert summary["rank"] >= 1
    assert summary["heldout"]["rmse"] < 0.7 * summary["heldout"]["rmse_of_the_mean"]
    assert summary["bounds"] == [1.0, 5.0]
    assert summary["diagnosis"]["components"] == 1
    assert len(summary["curve"]) > 2
    done = run("complete", folder / "ratings.csv", "--rank", "2", "--regularization", "learned")
    assert done.exit_code == 0, done.output
    assert "on held-out values: RMSE" in done.stdout
    assert "rank 2, regularization learned" in done.stdout


def test_predict_is_what_the_model_predicts(folder, tmp_path):
    (tmp_path / "pairs.csv").write_text("movie,user\n100,u3\n117,u59\n100,nobody\n")
    done = run(
        "predict", folder / "m.lorank", tmp_path / "pairs.csv", "-o", tmp_path / "out.csv", "--interval", "0.8", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"predictions": 3, "unknown": 1, "out": str(tmp_path / "out.csv")}
    out = read(tmp_path / "out.csv")
    model = lr.load(folder / "m.lorank")
    assert float(out[0]["prediction"]) == pytest.approx(model.predict([("u3", 100)])[0])
    assert float(out[0]["low"]) < float(out[0]["prediction"]) < float(out[0]["high"])
    assert [line["known"] for line in out] == ["true", "true", "false"]
    assert "never observed" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "pairs.csv"]


def test_a_few_predictions_are_printed(folder, tmp_path):
    (tmp_path / "pairs.csv").write_text("movie,user\n100,u3\n117,nobody\n")
    done = run("predict", folder / "m.lorank", tmp_path / "pairs.csv", "--interval", "0.8")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].split() == ["user", "movie", "prediction", "low", "high", "known"]
    assert len(done.stdout.splitlines()) == 3
    found = json.loads(run("predict", folder / "m.lorank", tmp_path / "pairs.csv", "--json").stdout)["predictions"]
    assert found[0]["prediction"] == pytest.approx(lr.load(folder / "m.lorank").predict([("u3", 100)])[0])
    assert "-o" in refused("predict", folder / "m.lorank", folder / "ratings.csv", code=2)


def test_pairs_of_which_none_is_known_are_refused(folder, tmp_path):
    """Columns of other things are read without an error otherwise, and every prediction is the mean."""
    (tmp_path / "pairs.csv").write_text("movie,user\n7,nobody\n100,someone\n9,u3\n")
    said = refused("predict", folder / "m.lorank", tmp_path / "pairs.csv", "-o", tmp_path / "out.csv")
    assert "'user'" in said
    assert "'movie'" in said
    assert os.listdir(tmp_path) == ["pairs.csv"]


def test_diagnose_and_complete_judge_alike(folder):
    """A model that predicts far better than the mean is not called too large for its ratings before it is fitted."""
    fitted = json.loads((folder / "summary.json").read_text())["diagnosis"]
    found = json.loads(run("diagnose", folder / "ratings.csv", "--json").stdout)
    assert found["oversampling"] >= 2
    assert found["verdict"].split()[0] == fitted["verdict"].split()[0]
    same = json.loads(run("diagnose", folder / "ratings.csv", "--rank", fitted["rank"], "--json").stdout)
    assert same == fitted


def test_evaluate_takes_the_options_of_complete(folder, tmp_path):
    rows = sorted({line["user"] for line in read(folder / "ratings.csv")})
    (tmp_path / "users.csv").write_text("user,age\n" + "".join(f"{u},{20 + k % 40}\n" for k, u in enumerate([*rows, "new"])))
    scores = []
    for options in (
        ("--rank", "1", "--regularization", "learned"),
        ("--rank", "1", "--regularization", "learned", "--row-features", tmp_path / "users.csv"),
        ("--rank", "2", "--loss", "huber", "--regularization", "0.1"),
        ("--rank", "2", "--loss", "ordinal", "--regularization", "0.1"),
    ):
        done = run("evaluate", folder / "ratings.csv", *options, "--json")
        assert done.exit_code == 0, done.output
        scores.append(json.loads(done.stdout)["models"])
    assert len({found["MatrixCompletion"]["rmse"] for found in scores}) == 4
    assert all(found["MatrixCompletion"]["rmse"] < found["item means"]["rmse"] for found in scores)
    assert len({found["popularity"]["ndcg"] for found in scores}) == 1  # the same split


def test_features_of_rows_and_columns(folder, tmp_path):
    rows = [*sorted({line["user"] for line in read(folder / "ratings.csv")}), "stranger"]
    (tmp_path / "users.csv").write_text(
        "user,age,job\n" + "".join(f"{u},{20 + k % 40},{'ab'[k % 2]}\n" for k, u in enumerate(rows))
    )
    command = ("complete", folder / "ratings.csv", "--rank", "1", "--regularization", "learned", "-o", tmp_path / "m.lorank")
    done = run(*command, "--row-features", tmp_path / "users.csv", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["shape"] == [61, 40]
    model = lr.load(tmp_path / "m.lorank")
    assert 1 <= model.predict([("stranger", 100)])[0] <= 5
    assert not model.known([("stranger", 100)])[0]
    best = json.loads(run("recommend", tmp_path / "m.lorank", "--row", "stranger", "-n", "3", "--json").stdout)
    assert len(best["recommendations"]) == 3
    (tmp_path / "few.csv").write_text("user,age\nu0,3\n")
    wrong = run(*command, "--row-features", tmp_path / "few.csv")
    assert (wrong.exit_code, "no line for row" in wrong.stderr) == (1, True)
    (tmp_path / "nameless.csv").write_text("who,age\nu0,3\n")
    wrong = run(*command, "--row-features", tmp_path / "nameless.csv")
    assert (wrong.exit_code, "no column 'user' with ids" in wrong.stderr) == (1, True)


def test_recommend_leaves_out_what_was_seen(folder):
    done = run("recommend", folder / "m.lorank", "--row", "u5", "-n", "4", "--json")
    assert done.exit_code == 0, done.output
    best = json.loads(done.stdout)["recommendations"]
    seen = {int(line["movie"]) for line in read(folder / "ratings.csv") if line["user"] == "u5"}
    assert len(best) == 4
    assert not seen & {one["col"] for one in best}
    by_rating = json.loads(run("recommend", folder / "m.lorank", "--row", "u5", "--order-by", "rating", "--json").stdout)[
        "recommendations"
    ]
    assert [one["prediction"] for one in by_rating] == sorted((one["prediction"] for one in by_rating), reverse=True)
    assert "movie" in run("recommend", folder / "m.lorank", "--row", "u5").stdout
    wrong = run("recommend", folder / "m.lorank", "--row", "u99")
    assert (wrong.exit_code, "is not in the model" in wrong.stderr) == (1, True)


def test_diagnose_and_inspect(folder):
    done = run("diagnose", folder / "ratings.csv", "--rank", "2", "--json")
    assert json.loads(done.stdout)["shape"] == [60, 40]
    assert "60 x 40" in run("diagnose", folder / "ratings.csv", "--rank", "2").stdout
    told = json.loads(run("inspect", folder / "m.lorank", "--json").stdout)
    assert (told["shape"], told["some_rows"][0]) == ([60, 40], "u0")
    assert "MatrixCompletion" in run("inspect", folder / "m.lorank").stdout


def test_impute_fills_and_keeps_text(tmp_path):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((80, 1)) @ rng.standard_normal((1, 5)) + 0.05 * rng.standard_normal((80, 5))
    gaps = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    lines = [",".join([f"n{i}", *("" if np.isnan(x) else repr(float(x)) for x in row)]) for i, row in enumerate(gaps)]
    (tmp_path / "t.csv").write_text("name,a,b,c,d,e\n" + "\n".join(lines) + "\n")
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--model", tmp_path / "i.lorank", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["gaps"], told["left_alone"]) == (int(np.isnan(gaps).sum()), ["name"])
    out = read(tmp_path / "o.csv")
    filled = np.array([[float(line[c]) for c in "abcde"] for line in out])
    assert [line["name"] for line in out] == [f"n{i}" for i in range(80)]
    np.testing.assert_array_equal(filled[~np.isnan(gaps)], whole[~np.isnan(gaps)])
    assert np.sqrt(np.mean((filled - whole)[np.isnan(gaps)] ** 2)) < 0.3
    assert "TableImputer" in run("inspect", tmp_path / "i.lorank").stdout
    wrong = run("recommend", tmp_path / "i.lorank", "--row", "1")
    assert (wrong.exit_code, "of a table" in wrong.stderr) == (1, True)
    low = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--rank", "1", "--model", tmp_path / "l.lorank")
    assert low.exit_code == 0, low.output
    assert "low-rank" in run("inspect", tmp_path / "l.lorank").stdout
    both = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--rank", "1", "--ordered")
    assert (both.exit_code, "--time and --refine" in both.stderr) == (2, True)


def test_impute_reads_dates(tmp_path):
    days = [f"2024-{1 + i // 28:02d}-{1 + i % 28:02d}" for i in range(120)]
    lines = [f"{day},{'' if 40 <= i < 44 else i},{i % 7}" for i, day in enumerate(days)]
    (tmp_path / "t.csv").write_text("day,a,b\n" + "\n".join(lines) + "\n")
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--time", "day")
    assert done.exit_code == 0, done.output
    out = read(tmp_path / "o.csv")
    assert [line["day"] for line in out] == days
    np.testing.assert_allclose([float(line["a"]) for line in out], np.arange(120.0), atol=2.0)
    wrong = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--time", "month")
    assert (wrong.exit_code, "no column 'month'" in wrong.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["complete", "bad.csv", "-o", "m.lorank"], 1, "line 3, column 'rating': 'x' is not a number"),
        (["complete", "none.csv"], 1, "none.csv does not exist"),
        (["complete", "good.csv", "none.csv"], 1, "none.csv does not exist"),
        (["complete", "good.csv", "--row", "User"], 1, "Did you mean 'user'"),
        (["complete", "good.csv", "--rank", "many"], 2, "--rank must be a whole number or auto"),
        (["complete", "good.csv", "--rank", "Auto"], 2, "Did you mean 'auto'"),
        (["complete", "good.csv", "--regularization", "much"], 2, "--regularization must be a number"),
        (["complete", "good.csv", "--loss", "hubber"], 2, "Did you mean 'huber'"),
        (["complete", "good.csv", "-o", "no/where"], 2, "no folder"),
        (["complete", "good.csv", "-o", "m.xlsx"], 2, ".lorank"),
        (["complete", "good.csv", "-o", "m.csv"], 2, ".lorank"),
        (["complete", "good.csv", "-o", "m.txt"], 2, "m.lorank"),
        (["complete", "good.csv", "-o", "m"], 2, "m.lorank"),
        (["impute", "good.csv", "-o", "o.csv", "--model", "m.txt"], 2, "--model m.txt"),
        (["impute", "good.csv", "-o", "o.csv", "--time", "user", "--ordered"], 2, "--time"),
        (["recommend", "m.lorank", "--user", "1"], 2, "--row"),
        (["evaluate", "good.csv", "--loss", "hubber"], 2, "Did you mean 'huber'"),
        (["complete", "good.csv", "--report", "r.pdf"], 2, ".html"),
        (["complete", "good.csv", "--max-memory", "1GB", "--report", "r.html"], 2, "--report needs the ratings in memory"),
        (["complete", "good.csv", "good.csv"], 1, "good.csv"),
        (["complete", "good.csv", "good.csv", "--implicit"], 1, "good.csv"),
        (["complete", "good.csv", "--duplicates", "first"], 2, "--duplicates must be"),
        (["predict", "bad.csv", "bad.csv", "-o", "o.csv"], 1, "model.lorank"),
        (["predict", "m.lorank", "good.csv", "-o", "o.xlsx"], 2, ".csv, .tsv or .parquet"),
        (["recommend", "m.lorank", "--row", "1", "--order-by", "stars"], 2, "--order-by must be"),
        (["recommend", "m.lorank", "--all", "-o", "o.xlsx"], 2, ".csv, .tsv or .parquet"),
        (["recommend", "m.lorank"], 2, "--row ID, or --all"),
        (["impute", "none.csv", "-o", "o.csv"], 1, "does not exist"),
        (["impute", "good.csv", "-o", "o.xlsx"], 2, "o.csv"),
        (["impute", "good.csv", "-o", "o.csv", "--refine", "tree"], 2, "Did you mean 'trees'"),
        (["impute", "good.csv", "bad.csv", "-o", "o.csv"], 2, "impute takes one file"),
        (["evaluate", "good.csv", "bad.csv"], 2, "evaluate takes one file"),
        (["inspect", "good.csv"], 1, "good.csv is not a model"),
        (["diagnose", "bad.csv"], 1, "line 3"),
        (["diagnose", "good.csv", "--rank", "0"], 2, "--rank must be"),
        (["complete"], 2, "Missing argument"),
    ],
)
def test_what_goes_wrong_is_said_and_leaves_nothing(tmp_path, monkeypatch, arguments, code, said):
    """Code 1: a file or its data are refused; 2: an option."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("user,item,rating\n1,2,3\n1,3,x\n")
    (tmp_path / "good.csv").write_text("user,item,rating\n1,2,3\n1,3,2\n2,2,1\n2,3,1\n")
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", "good.csv"]


def test_the_report_is_one_file_that_needs_nothing_else(folder):
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "prefers-color-scheme: dark" in page
    head = page.partition("<script>")[0]
    assert "src=" not in head
    assert "href=" not in head.replace('href="data:,"', "")
    for text in (
        "Held-out error by rank",
        "Calibration of prediction intervals",
        "Singular values",
        "Recommendations",
        "NDCG@10",
        "popularity",
        "item means",
        "Diagnostics",
        "Settings and versions",
    ):
        assert text in head
    data = json.loads(head.partition('id="plots">')[2].partition("</script>")[0])
    assert {"values", "rows", "choice", "convergence", "spectrum", "coverage"} <= set(data)
    assert [one["name"] for one in data["ranking"]["data"]][::2] == ["MatrixCompletion", "popularity"]
    assert all(one["y"] == sorted(one["y"]) for one in data["lengths"]["data"])  # longer lists recall more


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1280, 500])
def test_the_report_draws_in_a_browser(folder, width, tmp_path):
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", f"--window-size={width},2000"]
    command = [CHROMIUM, *options, "--virtual-time-budget=10000", "--dump-dom", f"file://{folder / 'r.html'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert 'data-drawn="' in done.stdout, done.stderr[-2000:]
    assert done.stdout.count("main-svg") >= 8


def test_a_missing_package_is_named_with_its_remedy(folder, monkeypatch):
    import sys

    for name in [m for m in sys.modules if m.startswith("lorank.estimators")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    done = run("complete", folder / "ratings.csv")
    assert done.exit_code == 1
    assert 'this needs sklearn.base: pip install "lorank[files]"' in done.stderr


def test_titles_cannot_carry_markup(folder):
    from lorank.report.model_page import build_page

    model = lr.MatrixCompletion(rank=1, regularization="learned")
    pairs = np.argwhere(np.ones((6, 5)))
    values = np.arange(30.0)
    page = build_page(model.fit(pairs, values), pairs[:, 0], pairs[:, 1], values, "<script>alert(1)</script>")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_evaluate_shows_a_model_beside_baselines(folder, tmp_path):
    done = run("evaluate", folder / "ratings.csv", "-n", 5, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found["models"]) >= {"MatrixCompletion", "popularity", "item means"}
    assert all(0 <= one["ndcg"] <= 1 and one["n"] == 5 for one in found["models"].values())
    assert found["models"]["MatrixCompletion"]["rmse"] < found["models"]["item means"]["rmse"]
    lines = run("evaluate", folder / "ratings.csv", "-n", 5).stdout.splitlines()
    assert "NDCG@5" in lines[1]
    assert len(lines) == 2 + len(found["models"])
    rows = (folder / "ratings.csv").read_text().splitlines()
    (tmp_path / "timed.csv").write_text("\n".join(["user,movie,rating,when", *(f"{r},{k}" for k, r in enumerate(rows[1:]))]))
    done = run("evaluate", tmp_path / "timed.csv", "--time", "when", "--positive", 3.5, "--json")
    assert json.loads(done.stdout)["positive"] == 3.5


def test_evaluate_writes_a_page(folder, tmp_path):
    done = run("evaluate", folder / "ratings.csv", "--report", tmp_path / "e.html", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["report"] == str(tmp_path / "e.html")
    page = (tmp_path / "e.html").read_text(encoding="utf-8")
    for name, one in found["models"].items():
        assert f'</i>{name}</td><td class="number">{one["ndcg"]:.4f}</td>' in page
    assert f"{found['held_out']:,} held-out values" in page
    assert "src=" not in page.partition("<script>")[0]
    assert sorted(os.listdir(tmp_path)) == ["e.html"]


def test_the_verdict_on_recommendations():
    from lorank.evaluation import RankingScores
    from lorank.report.ranking_page import Ranking

    def verdict(own, popular):
        scores = {
            name: RankingScores(10, 5, 0, 0, ndcg, 0, 0, 0, 0) for name, ndcg in (("model", own), ("popularity", popular))
        }
        return Ranking(10, 3.0, 7, scores, {}, {}, 0.0).verdict

    assert "50%" in verdict(0.3, 0.2)
    assert "popularity" in verdict(0.2, 0.3)
    assert "popularity" in verdict(0.2, 0.201)
    assert "0.2000" in verdict(0.2, 0.0)


def test_a_report_without_anything_to_recommend(tmp_path):
    """One value a row: nothing can be held out."""
    lines = [f"{i},{i % 3},{1 + i % 4}" for i in range(24)]
    (tmp_path / "r.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    done = run("complete", tmp_path / "r.csv", "--report", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "<h2>Recommendations" not in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--report", "no/where.html"), 2, "no folder"),
        (("--positive", 99), 2, "none of the"),
        (("--time", "when"), 1, "no column 'when'"),
        (("--time", "rating", "--value", "rating"), 1, "asked for twice"),
        (("--holdout", 1.5), 2, "--holdout must lie between 0 and 1"),
        (("-n", 0), 2, "-n must be"),
    ],
)
def test_evaluate_says_what_is_wrong(folder, options, code, said):
    done = run("evaluate", folder / "ratings.csv", *options)
    assert done.exit_code == code
    assert said in done.stderr


@pytest.mark.parametrize("loss", ["huber", "ordinal", "logistic", "poisson"])
def test_complete_with_a_loss(folder, tmp_path, loss):
    source = folder / "ratings.csv"
    if loss in ("logistic", "poisson"):
        lines = [line.split(",") for line in source.read_text().splitlines()]
        cut = [f"{u},{m},{int(float(r) >= 3.5) if loss == 'logistic' else int(float(r))}" for u, m, r in lines[1:]]
        source = tmp_path / "other.csv"
        source.write_text("user,movie,rating\n" + "\n".join(cut) + "\n")
    options = ["--rank", "1", "--regularization", "learned", "--loss", loss]
    done = run("complete", source, "-o", tmp_path / "m.lorank", "--report", tmp_path / "r.html", *options, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["loss"]["name"] == loss
    model = lr.load(tmp_path / "m.lorank")
    assert model.loss_.name == loss
    said = run("complete", source, *options)
    assert f"loss {loss}" in said.output
    shown = json.loads(run("inspect", tmp_path / "m.lorank", "--json").stdout)
    assert shown["loss"]["name"] == loss
    assert run("predict", tmp_path / "m.lorank", source, "-o", tmp_path / "p.csv").exit_code == 0
    predicted = [float(line["prediction"]) for line in read(tmp_path / "p.csv")]
    assert all(0 <= p <= (1 if loss == "logistic" else 6) for p in predicted)


def test_outliers_are_found_and_counted(tmp_path):
    rng = np.random.default_rng(0)
    place, kind = np.divmod(np.arange(1200), 30)
    value = np.outer(rng.standard_normal(40), rng.standard_normal(30)).ravel() + 0.05 * rng.standard_normal(1200)
    value[::25] += 30
    source = tmp_path / "values.csv"
    source.write_text("row,col,value\n" + "".join(f"{p},{k},{v}\n" for p, k, v in zip(place, kind, value, strict=True)))
    options = ["--rank", "1", "--regularization", "learned", "--loss", "robust"]
    done = run("complete", source, *options, "--json")
    assert done.exit_code == 0, done.output
    count = json.loads(done.stdout)["outliers"]
    assert 48 <= count <= 51  # noise has a far one now and then
    assert f"{count} observations excluded as outliers" in run("complete", source, *options).output
    done = run("complete", source, *options, "--max-memory", "1GB")
    assert done.exit_code == 2
    assert "--loss robust needs the ratings in memory" in done.output


def test_counts_with_exposures(tmp_path):
    rng = np.random.default_rng(0)
    place, kind = np.divmod(np.arange(600), 20)
    hours = rng.uniform(0.5, 20, 600).round(2)
    rate = np.exp(np.outer(rng.standard_normal(30), rng.standard_normal(20)).ravel() * 0.5)
    count = rng.poisson(rate * hours)
    source = tmp_path / "counts.csv"
    lines = [f"{p},{k},{c},{h},-1" for p, k, c, h in zip(place, kind, count, hours, strict=True)]
    source.write_text("place,kind,count,hours,less\n" + "\n".join(lines) + "\n")
    columns = ["--row", "place", "--col", "kind", "--value", "count", "--rank", "1", "--regularization", "learned"]
    done = run("complete", source, *columns, "--loss", "poisson", "--exposure", "hours", "-o", tmp_path / "m.lorank")
    assert done.exit_code == 0, done.output
    model = lr.load(tmp_path / "m.lorank")
    assert model.loss_.rates
    rates = model.predict(np.column_stack([place, kind]))  # for an exposure of one hour
    assert np.corrcoef(np.log(rates), np.log(rate))[0, 1] > 0.9
    for options, code, words in (
        (("--exposure", "hours"), 2, "--exposure is for counts: add --loss poisson"),
        (("--exposure", "days", "--loss", "poisson"), 1, "days"),
        (("--exposure", "less", "--loss", "poisson"), 1, "less of observation 1 is -1: exposures are positive numbers"),
    ):
        done = run("complete", source, *columns, *options)
        assert done.exit_code == code
        assert words in done.output
        assert "Traceback" not in done.output


def test_a_loss_that_does_not_fit_is_one_line(folder):
    for loss, code, words in (
        ("logistic", 1, "two classes"),
        ("poisson", 1, "whole number"),
        ("none", 2, "--loss must be"),
    ):
        done = run("complete", folder / "ratings.csv", "--loss", loss)
        assert done.exit_code == code
        assert words in done.output
        assert "Traceback" not in done.output


def test_a_first_line_that_is_data_is_refused(tmp_path):
    lines = [f"anna{k % 4},film {k % 5},{1 + k % 3}" for k in range(20)]
    headless, named, pairs = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "pairs.csv"
    headless.write_text("\n".join(lines) + "\n")
    result = run("complete", headless)
    assert result.exit_code == 1
    assert "'anna0,film 0,1'" in " ".join(result.output.split())
    named.write_text("user,film,stars\n" + "\n".join(lines) + "\n")
    result = run("complete", named, "-o", tmp_path / "m.lorank", "--rank", "1")
    assert result.exit_code == 0, result.output
    pairs.write_text("anna1,film 2\nanna2,film 3\n")
    result = run("predict", tmp_path / "m.lorank", pairs, "-o", tmp_path / "p.csv")
    assert result.exit_code == 1
    assert "'anna1,film 2'" in " ".join(result.output.split())


def amounts(path, shift):
    rng = np.random.default_rng(0)
    X = 3 * rng.random((40, 2)) @ rng.random((2, 30)) + 0.05 * rng.random((40, 30)) + shift
    rows, cols = np.nonzero(rng.random(X.shape) < 0.6)
    lines = [f"u{i},m{j},{X[i, j]:.3f}" for i, j in zip(rows, cols, strict=True)]
    path.write_text("user,movie,amount\n" + "\n".join(lines) + "\n")
    return path


def test_complete_writes_a_model_of_parts(tmp_path):
    file, model = amounts(tmp_path / "amounts.csv", 0.0), tmp_path / "m.lorank"
    done = run("complete", file, "--nonnegative", "--rank", "3", "-o", model, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["rank"] == 3
    assert said["heldout"]["rmse"] < 0.3 * said["heldout"]["rmse_of_the_mean"] < 0.5  # that of the values, not 0
    found = lr.load(model)
    assert found.nonnegative
    assert (found.row_factors_ >= 0).all()
    assert (found.col_factors_ >= 0).all()
    done = run("inspect", model)
    assert done.exit_code == 0, done.output


def test_negative_amounts_are_refused_with_the_remedy(tmp_path):
    done = run("complete", amounts(tmp_path / "amounts.csv", -1.0), "--nonnegative")
    assert done.exit_code == 1
    assert "not negative" in done.stderr
    assert "shift them" in done.stderr


def test_it_is_for_ratings(tmp_path):
    done = run("complete", amounts(tmp_path / "amounts.csv", 0.0), "--nonnegative", "--implicit")
    assert done.exit_code == 2
    assert "--nonnegative is for ratings" in done.stderr
