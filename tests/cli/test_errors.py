"""Messages of the commands: columns that are read, suggestions, options of parameters, and Ctrl-C."""

from __future__ import annotations

import csv
import importlib
import json
import zipfile

import numpy as np
import pytest

from command_line import done, refused, run

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("sklearn")

import polars as pl
import typer

import lorank as lr
from lorank.cli.errors import OPTIONS, cli_errors
from lorank.cli.model_files import near_ids
from lorank.io.archive import FileError

QUICK = ("--rank", "1", "--regularization", "learned")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Ratings with a column too many, and a model of them."""
    path = tmp_path_factory.mktemp("messages")
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.6)
    names = ["Anna", "ben", *(f"user {k}" for k in range(28))]
    stars = np.clip(np.round(3 + np.outer(rng.standard_normal(30), rng.standard_normal(20))[rows, cols]), 1, 5)
    table = pl.DataFrame({"user": [names[i] for i in rows], "film": cols, "stars": stars, "note": ["x"] * len(rows)})
    table.write_csv(path / "r.csv")
    done("complete", path / "r.csv", *QUICK, "-o", path / "m.lorank")
    return path


def test_the_columns_are_said(place, tmp_path):
    """On stderr, so that JSON stays alone."""
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,film\nAnna,3\n")
    for arguments in (
        ("complete", place / "r.csv", *QUICK, "--json"),
        ("diagnose", place / "r.csv", "--json"),
        ("diagnose", place / "r.csv", "--max-memory", "1GB", "--json"),
        ("predict", place / "m.lorank", pairs, "-o", tmp_path / "p.csv", "--json"),
        ("predict", place / "m.lorank", pairs, "-o", tmp_path / "p.parquet", "--json"),
    ):
        found = done(*arguments)
        json.loads(found.stdout)
        line = next(line for line in found.stderr.splitlines() if "rows from" in line)
        assert "'user'" in line
        assert "'film'" in line
        assert ("'stars'" in line) == (arguments[0] != "predict")


def test_a_model_that_is_not_saved_is_said_so(place, tmp_path):
    assert "not saved" in done("complete", place / "r.csv", *QUICK).stdout
    assert "not saved" not in done("complete", place / "r.csv", *QUICK, "-o", tmp_path / "m.lorank").stdout


def test_several_files_are_one(place, tmp_path):
    """As the shell gives them where a pattern is not quoted."""
    table = pl.read_csv(place / "r.csv")
    table[:200].write_csv(tmp_path / "a.csv")
    table[200:].write_csv(tmp_path / "b.csv", separator=";")
    found = done("diagnose", tmp_path / "a.csv", tmp_path / "b.csv", "--rank", 1, "--json")
    assert json.loads(found.stdout) == json.loads(done("diagnose", place / "r.csv", "--rank", 1, "--json").stdout)
    done("predict", place / "m.lorank", tmp_path / "a.csv", tmp_path / "b.csv", "-o", tmp_path / "p.csv")
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(table)


def test_predictions_as_their_ending_says(place, tmp_path):
    done("predict", place / "m.lorank", place / "r.csv", "-o", tmp_path / "p.tsv")
    done("predict", place / "m.lorank", place / "r.csv", "-o", tmp_path / "p.csv")
    assert pl.read_csv(tmp_path / "p.tsv", separator="\t").equals(pl.read_csv(tmp_path / "p.csv"))


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
def test_a_file_without_pairs_is_refused(place, tmp_path, out):
    (tmp_path / "none.csv").write_text("user,film\n")
    result = run("predict", place / "m.lorank", tmp_path / "none.csv", "-o", tmp_path / out)
    assert (result.exit_code, "no pairs" in result.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["none.csv"]


def test_a_row_that_is_near(place):
    for asked in ("anna", "ANNA", "Ana"):
        result = run("recommend", place / "m.lorank", "--row", asked)
        assert (result.exit_code, "Did you mean 'Anna'" in result.stderr) == (1, True)
    assert "lorank inspect" in run("recommend", place / "m.lorank", "--row", "zzz").stderr


def test_near_ids_among_many():
    many = np.sort(np.array([f"id{k:06d}" for k in range(50_000)] + ["Zoë"]))
    assert "'Zoë'" in near_ids("zoë", many)
    assert "'Zoë'" in near_ids("Zoe", many)
    assert near_ids("7", np.arange(5)) == ""


def test_recommendations_say_their_order(place):
    for by in ("affinity", "rating"):
        said = done("recommend", place / "m.lorank", "--row", "ben", "--order-by", by, "-n", 3).stdout
        assert f"--order-by {'rating' if by == 'affinity' else 'affinity'}" in said
        assert json.loads(done("recommend", place / "m.lorank", "--row", "ben", "--order-by", by, "--json").stdout)["by"] == by


def test_a_brackets_name_is_a_file(place, tmp_path):
    table = pl.read_csv(place / "r.csv")
    table.write_csv(tmp_path / "t[1].csv")
    table.write_parquet(tmp_path / "t[1].parquet")
    expected = json.loads(done("diagnose", place / "r.csv", "--json").stdout)
    for name in ("t[1].csv", "t[1].parquet"):
        assert json.loads(done("diagnose", tmp_path / name, "--json").stdout) == expected
        done("predict", place / "m.lorank", tmp_path / name, "-o", tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xlsx", b"PK\x03\x04 and more", "save the sheet as CSV"),
        ("a.csv", b"PK\x03\x04 and more", "save the sheet as CSV"),
        ("a.csv", "user,item,rating\n1,é,3\n".encode("latin-1"), "UTF-8"),
        ("a.csv", "user,item,rating\n1,2,3\n".encode("utf-16"), "UTF-16"),
        ("a.csv", b"PAR1 and more", ".parquet"),
        ("a.csv", b"user;item;rating\n1;2;3,5\n", "decimal point"),
        ("a.csv", b'user,item,rating\n1,2,"3,5"\n', "decimal point"),
        ("a.dat", b"1::2::3\n2::2::4\n", "sed"),
        ("a.txt", b"1 2 3\n2 2 4\n", "tr -s"),
    ],
)
def test_files_of_another_kind_say_what_to_do(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    for command in (("diagnose",), ("impute", "-o", tmp_path / "o.csv")):
        if command[0] == "impute" and b'"3,5"' in content:
            continue  # one cell of three is text there: any table may have such a column
        result = run(*command, tmp_path / name)
        assert (result.exit_code, said in result.stderr) == (1, True), result.output
        assert "Traceback" not in result.output


def test_semicolons_bars_and_points(tmp_path):
    for separator in ";|":
        (tmp_path / "a.csv").write_text("user,item,rating\n1,2,3.5\n1,3,2\n2,2,1\n2,3,1\n".replace(",", separator))
        assert json.loads(done("diagnose", tmp_path / "a.csv", "--json").stdout)["observations"] == 4


def test_nothing_to_hold_out_is_said(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,rating\n1,2,3\n2,2,4\n3,1,5\n")
    result = run("evaluate", tmp_path / "a.csv")
    assert (result.exit_code, "no row has two values" in result.stderr) == (1, True), result.output


def test_a_zip_archive_is_no_text(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv", "w") as archive:
        archive.writestr("x", "y")
    assert run("diagnose", tmp_path / "a.csv").exit_code == 1


@pytest.mark.parametrize(("name", "option"), OPTIONS.items())
def test_a_parameter_is_reported_as_its_option(name, option, capsys):
    with pytest.raises(typer.Exit) as left, cli_errors():
        raise lr.ParameterError(name, "must be positive, got -1", "MatrixCompletion")
    assert left.value.exit_code == 2
    assert capsys.readouterr().err == f"lorank: {option} must be positive, got -1\n"


def test_other_parameters_and_names_of_files_stay(capsys):
    for error in (lr.ParameterError("values", "must be numbers"), FileError("data/time=2024/rank.csv does not exist")):
        with pytest.raises(typer.Exit) as left, cli_errors():
            raise error
        assert left.value.exit_code == 1
        assert capsys.readouterr().err == f"lorank: {error}\n"


def interrupt(monkeypatch, module, name, at=1):
    room, calls = importlib.import_module(module), []
    original = getattr(room, name)

    def called(*arguments, **options):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(room, name, called)


def test_ctrl_c_in_a_fit_keeps_the_best_model(place, tmp_path, monkeypatch):
    interrupt(monkeypatch, "lorank.factorization.variational", "advance", 2)
    out, page = tmp_path / "m.lorank", tmp_path / "r.html"
    result = run("complete", place / "r.csv", *QUICK, "-o", out, "--report", page)
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert str(out) in result.stderr
    assert np.isfinite(lr.load(out).predict([("Anna", 3)])).all()
    assert not page.exists()


@pytest.mark.parametrize("name", ["lorank.cli.models.Ratings.prepare_ranking", "lorank.cli.driver._write_report"])
def test_ctrl_c_after_the_fit_keeps_the_model(place, tmp_path, monkeypatch, name):
    monkeypatch.setattr(name, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    out, page = tmp_path / "m.lorank", tmp_path / "r.html"
    result = run("complete", place / "r.csv", *QUICK, "-o", out, "--report", page)
    assert (result.exit_code, str(out) in result.stderr) == (130, True), result.output
    assert not page.exists()
    monkeypatch.undo()
    done("recommend", out, "--row", "ben", "-n", 2)


def test_the_ranking_model_can_be_left_out_of_complete(place, tmp_path):
    out = tmp_path / "m.lorank"
    said = done("complete", place / "r.csv", *QUICK, "-o", out, "--no-ranking")
    assert "ranking" not in said.stderr
    assert lr.load(out).state_.ranking is None
    done("predict", out, place / "r.csv", "-o", tmp_path / "p.csv")
    assert "fitting the ranking model" in done("recommend", out, "--row", "ben", "-n", 2).stderr


def test_an_order_that_was_not_selected_is_refused_with_those_there_are(place):
    there = lr.load(place / "m.lorank").state_.ranking.orders
    for order in {"affinity", "similarity", "popularity"} - set(there):
        said = refused("recommend", place / "m.lorank", "--row", "ben", "--order-by", order, code=2)
        assert f"--order-by must be one of 'auto', {', '.join(map(repr, there))}" in said
    assert set(there) < {"affinity", "similarity", "popularity"}


def test_rank_0_is_explained(tmp_path):
    rng = np.random.default_rng(0)
    pairs, path = np.argwhere(rng.random((40, 30)) < 0.3), tmp_path / "noise.csv"
    lines = [f"u{i},i{j},{v:.3f}" for (i, j), v in zip(pairs, rng.standard_normal(len(pairs)), strict=True)]
    path.write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    assert "rank 0 (biases only), " in done("complete", path).stdout


def test_hours_get_the_advice_to_take_logarithms(tmp_path):
    rng = np.random.default_rng(0)
    pairs, path = np.argwhere(rng.random((80, 50)) < 0.5), tmp_path / "hours.csv"
    lines = [f"u{i},i{j},{v:.3f}" for (i, j), v in zip(pairs, rng.lognormal(1, 2, len(pairs)), strict=True)]
    path.write_text("user,game,hours\n" + "\n".join(lines) + "\n")
    said = done("complete", path, *QUICK).stderr
    assert "log1p" in said
    assert "--loss robust" not in said


def test_quiet_and_verbose(place, tmp_path):
    fit = ("complete", place / "r.csv", *QUICK, "-o", tmp_path / "m.lorank")
    assert done(*fit, "--quiet").stderr == ""
    assert done(*fit).stderr != ""
    for options, expected in (((), False), (("--verbose",), True)):
        said = refused("complete", tmp_path / "none.csv", *options)
        assert ("Traceback" in said) == expected
        assert said.splitlines()[-1].startswith("lorank: ")


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("lorank.io", "read_ratings", ("complete", "r.csv", "-o", "{out}")),
        ("lorank.factorization.variational", "advance", ("evaluate", "r.csv")),
        ("lorank.estimators.matrix_completion.MatrixCompletion", "predict", ("predict", "m.lorank", "r.csv", "-o", "{out}")),
        ("lorank.cli.models.Ratings", "recommend", ("recommend", "m.lorank", "--all", "-o", "{out}")),
        ("lorank.tables.imputer.TableImputer", "transform", ("impute", "r.csv", "-o", "{out}")),
    ],
)
def test_ctrl_c_elsewhere_leaves_what_was_there(place, tmp_path, monkeypatch, module, name, arguments):
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.iterdir())
    out = tmp_path / ("o.lorank" if arguments[0] == "complete" else "o.csv")
    out.write_text("before")
    if module.rpartition(".")[2][0].isupper():
        room = getattr(importlib.import_module(module.rpartition(".")[0]), module.rpartition(".")[2])
        monkeypatch.setattr(room, name, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    else:
        interrupt(monkeypatch, module, name)
    result = run(*(str(out) if one == "{out}" else one for one in arguments))
    assert (result.exit_code, "interrupted" in result.stderr) == (130, True), result.output
    assert "Traceback" not in result.output
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert sorted(path.name for path in place.iterdir()) == before


def test_one_is_one(place, tmp_path):
    """Not "1 observations"."""
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,3\n")
    assert "1 x 1, 1 observation (" in done("diagnose", tmp_path / "r.csv").stdout
    (tmp_path / "t.csv").write_text("a,b\n1,2\n2,4\n3,\n4,8\n")
    assert done("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv").stdout.startswith("1 missing value of 8 cells filled")
    (tmp_path / "p.csv").write_text("user,film\nAnna,3\n")
    assert done("predict", place / "m.lorank", tmp_path / "p.csv", "-o", tmp_path / "o.csv").stdout.startswith(
        "1 prediction in"
    )
    (tmp_path / "short.csv").write_text("user,item,rating\na,x,3\nb\n")
    assert "line 3: 1 field where the first line has 3" in refused("diagnose", tmp_path / "short.csv")
