"""File formats and encodings: files are read, or refused with the reason and the remedy."""

from __future__ import annotations

import gzip
import json
import zipfile

import numpy as np
import pytest

from command_line import done, refused, run

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("sklearn")

import polars as pl

from lorank.io import open_table, read_ratings
from lorank.io import text_columns as columns

LINES = ["user,item,rating", "anna,x,1", "ben,x,5", "anna,y,3", "ben,y,4"]
GOOD = "\n".join(LINES) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("semicolons.csv", GOOD.replace(",", ";")),
        ("tabs.csv", GOOD.replace(",", "\t")),
        ("tabs.tsv", GOOD.replace(",", "\t")),
        ("mark.csv", "\ufeff" + GOOD),
        ("windows.csv", GOOD.replace("\n", "\r\n")),
        ("packed.csv.gz", gzip.compress(GOOD.encode(), mtime=0)),
        ("quotes.csv", GOOD.replace("anna", '"anna"').replace(",x,", ',"x",')),
        ("index.csv", "\n".join(f"{k},{line}" if k else f",{line}" for k, line in enumerate(LINES)) + "\n"),
        ("capitals.CSV", GOOD),
        ("blanks in names.csv", GOOD.replace("user,item,rating", " user , item, rating")),
    ],
)
def test_the_same_ratings(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read_ratings(tmp_path / name)
    assert found.row_ids[found.rows].tolist() == ["anna", "ben", "anna", "ben"]
    assert found.col_ids[found.cols].tolist() == ["x", "x", "y", "y"]
    assert found.values.tolist() == [1, 5, 3, 4]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("r.csv", GOOD.encode("utf-16"), "is text in UTF-16"),
        ("r.csv", GOOD.encode("utf-16-le"), "is text in UTF-16"),
        ("r.csv", GOOD.encode("utf-16-be"), "is text in UTF-16"),
        ("r.csv", GOOD.replace("x", "é").encode("latin-1"), "is not text in UTF-8"),
        ("r.csv", GOOD.replace("x", "\0"), "holds NUL bytes"),
        ("r.csv", "sep=,\n" + GOOD, "sep="),
        ("r.csv", "# made today\n" + GOOD, "comment"),
        ("r.csv", GOOD.replace("user,item", "user,user"), "two columns are called 'user'"),
        ("r.csv", GOOD.replace(",5", ",5 stars"), "line 3, column 'rating': '5 stars' is not a number; write the number alone"),
        ("r.csv", GOOD.replace(",5", ",50%"), "'50%' is not a number; write the number alone"),
        ("r.csv", GOOD.replace(",5", ',"2,5"'), "'2,5' is not a number; numbers need decimal points"),
        ("r.csv", GOOD.replace(",5", ',"1,000.5"'), "'1,000.5' is not a number; write it without commas"),
        ("r.csv", GOOD.replace(",5", ",NULL"), "'NULL' is not a number; leave out lines without a value"),
        ("r.csv", GOOD.replace(",5", ",inf"), "line 3, column 'rating': 'inf' is not a number"),
        ("r.csv", GOOD.replace(",5", ","), "line 3, column 'rating': empty; leave out lines without a value"),
        ("r.csv", GOOD.replace("ben,x", ",x"), "line 3, column 'user': empty"),
        ("r.csv", GOOD + '"ben,x,3\nanna,y,2\n', "line 6: a quotation mark"),
        ("r.csv", "user,a,b,c\nanna,1,2,3\nben,4,,5\n", "lorank impute"),
        ("r.csv", "user,item,rating\n", "has no observations"),
        ("r.csv", "", "is empty"),
        ("r.csv", gzip.compress(GOOD.encode(), mtime=0), ".csv.gz"),
        ("r.csv.gz", GOOD, "is not compressed by gzip"),
        ("r.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-20], "the packed file"),
        ("r.json", "[]", "is JSON: read it in Python with pandas.read_json"),
        ("r.csv", '[{"user": 1}]', "is JSON: read it in Python with pandas.read_json"),
        ("r.lorank", "", "is a model"),
        ("r", GOOD, "unknown kind of file; give it one of the endings .csv"),
    ],
)
def test_ratings_that_cannot_be_read(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    said = " ".join(refused("diagnose", tmp_path / name).split())
    assert words in said
    assert name in said


@pytest.mark.parametrize("place", ["-", "https://example.org/ratings.csv"])
def test_what_is_no_file_on_this_machine(tmp_path, place):
    words = "write it to a file first" if place == "-" else "is an address: download the file first"
    for arguments in (
        ("complete", place),
        ("diagnose", place),
        ("evaluate", place),
        ("evaluate", place, "--implicit"),
        ("impute", place, "-o", tmp_path / "o.csv"),
        ("inspect", place),
        ("recommend", place, "--row", "1"),
        ("predict", place, place, "-o", tmp_path / "o.csv"),
    ):
        assert words in refused(*arguments)


@pytest.mark.parametrize(
    ("written", "words"),
    [("NA", "2 lines with the id 'NA'"), ("NULL", "2 lines with the id 'NULL'"), ("ben ", "blanks, such as 'ben '")],
)
def test_ids_that_look_like_none(tmp_path, written, words):
    """Somebody may be called so: they are read, and it is said."""
    (tmp_path / "r.csv").write_text(GOOD.replace("ben", written))
    with pytest.warns(UserWarning, match=f"column 'user': .*{words}"):
        found = read_ratings(tmp_path / "r.csv")
    assert found.row_ids.tolist() == sorted([written, "anna"])


def test_names_with_blanks_take_the_fast_way(tmp_path, monkeypatch):
    (tmp_path / "r.csv").write_text(GOOD.replace("user,item,rating", "user, item, rating"))
    monkeypatch.setattr(columns, "_columns_by_csv", lambda *a: pytest.fail("read line by line"))
    assert len(read_ratings(tmp_path / "r.csv").values) == 4


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("1.5,,2.5", ["column_1", "column_2", "column_3"]),  # a row with a gap
        ("NA,1,2", ["column_1", "column_2", "column_3"]),
        (",2019,2020", ["", "2019", "2020"]),  # years, and the index as pandas writes it
        ("a,,c", ["a", "", "c"]),
        ("a, b,c", ["a", "b", "c"]),
    ],
)
def test_a_first_line_with_a_gap_is_a_row(tmp_path, first, names):
    """It was taken for names, and lost."""
    (tmp_path / "t.csv").write_text(f"{first}\n1,2,3\n4,5,\n7,8,9\n")
    rows = 4 if names[0] == "column_1" else 3
    assert open_table(tmp_path / "t.csv").names == names
    assert open_table(tmp_path / "t.csv").rows == rows
    assert open_table(tmp_path / "t.csv").read().shape == (rows, 3)


@pytest.mark.parametrize("gap", ["NA", "#N/A", "<NA>", "n.a.", "NULL", "?", "-", "NaN"])
def test_gaps_as_programs_write_them(tmp_path, gap):
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n{gap},4\n3,6\n4,{gap}\n")
    table = open_table(tmp_path / "t.csv")
    assert sum(table.read().null_count().row(0)) == 2
    assert set(table.kinds.values()) == {"whole"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "a,b\n1,2\nmissing,4\n3,6\n",
            "line 3, column 'a': 'missing' is not a number",
        ),
        (
            "a\n" + "\n".join(f"€{k}" for k in range(60)) + "\n",
            "numbers or categories: '€0' in column 'a' is not a number; write",
        ),
        ("a,b\n1,2\n", "has one row"),
        ("sep=;\na;b\n1;2\n", "sep="),
        ('[{"a": 1}, {"a": 2}]', "is JSON"),
    ],
)
def test_tables_that_cannot_be_filled(tmp_path, content, words):
    (tmp_path / "t.csv").write_text(content, encoding="utf-8")
    assert words in " ".join(refused("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv").split())


def test_a_folder_is_no_table(tmp_path):
    (tmp_path / "t.csv").mkdir()
    assert "is a folder: name a file in it" in refused("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv")


def test_times_with_gaps_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("hour,b\n1,2\n,4\n3,6\n4,\n")
    said = refused("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--time", "hour")
    assert "column 'hour' must have a time in every row: row 2" in said


def test_options_have_exit_code_2(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n,4\n3,6\n4,\n")
    for wrong in (("-o", "."), ("-o", tmp_path / "o.csv", "--seed", "-1"), ("-o", tmp_path / "o.csv", "--rank", "x")):
        refused("impute", tmp_path / "t.csv", *wrong, code=2)
    (tmp_path / "r.csv").write_text(GOOD)
    for command in ("complete", "evaluate"):
        refused(command, tmp_path / "r.csv", "--seed", "-1", code=2)
    refused("demo", "ratings", "--seed", "-1", code=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((12, 8)) < 0.7)
    pl.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "rating": rng.integers(1, 6, len(pairs))}).write_csv(
        folder / "r.csv"
    )
    done("complete", folder / "r.csv", "--rank", "1", "--regularization", "learned", "-o", folder / "m.lorank")
    return folder


def test_inspect_says_which_version_wrote_a_model(model, tmp_path):
    """And not which one reads it."""
    import hashlib

    with zipfile.ZipFile(model / "m.lorank") as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "SHA256SUMS"}
    header = json.loads(members["meta.json"]) | {"lorank": "0.1.0"}
    members["meta.json"] = json.dumps(header).encode()
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in members.items())
    with zipfile.ZipFile(tmp_path / "old.lorank", "w") as archive:
        for name, content in (members | {"SHA256SUMS": sums.encode()}).items():
            archive.writestr(name, content)
    assert json.loads(done("inspect", tmp_path / "old.lorank", "--json").stdout)["lorank"] == "0.1.0"
    assert done("inspect", tmp_path / "old.lorank").stdout.split()[:2] == ["lorank", "0.1.0"]


def test_a_table_is_no_model(model):
    for arguments in (("inspect",), ("recommend", "--row", "1"), ("serve",)):
        said = run(arguments[0], model / "r.csv", *arguments[1:])
        assert said.exit_code == 1
        assert "r.csv is not a model" in said.stderr or "lorank[serve]" in said.stderr


@pytest.mark.parametrize(
    "options", [("--implicit", "--rank", "1", "--regularization", "0.1"), ("--max-memory", "1GB", "--rank", "1")]
)
def test_files_in_partitions_are_looked_at_alike(model, tmp_path, options):
    """Tabs in a file called .csv; and what is no such text."""
    text = (model / "r.csv").read_text()
    (tmp_path / "tabs.csv").write_text(text.replace(",", "\t"))
    done("complete", tmp_path / "tabs.csv", *options)
    for content, words in (
        (text.encode("utf-16"), "is text in UTF-16"),
        (("sep=,\n" + text).encode(), "sep="),
        (gzip.compress(text.encode(), mtime=0), "is packed by gzip"),
    ):
        (tmp_path / "odd.csv").write_bytes(content)
        assert words in refused("complete", tmp_path / "odd.csv", *options)


def test_evaluate_says_where_what_is_held_out_is_known(model, tmp_path):
    text = (model / "r.csv").read_text()
    (tmp_path / "r.csv").write_text(text + text.splitlines()[1] + "\n")
    assert "note: 1 line repeats a pair of row and column" in done("evaluate", tmp_path / "r.csv").stderr
    assert "repeat" not in done("evaluate", model / "r.csv").stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_dates_and_text_as_times_hold_out_the_same_ratings(ending, tmp_path):
    rng = np.random.default_rng(0)
    pairs, seconds = np.argwhere(rng.random((12, 10)) < 0.6), 1_600_000_000 + rng.integers(0, 10**8, 120)
    frame = pl.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "rating": rng.integers(1, 6, len(pairs))})
    frame = frame.with_columns(seconds=pl.Series(seconds[: len(pairs)]))
    frame = frame.with_columns(date=pl.from_epoch(pl.col("seconds")))
    frame = frame.with_columns(text=pl.col("date").dt.to_string("%Y-%m-%d %H:%M:%S"))
    file = tmp_path / f"r.{ending}"
    (frame.write_csv if ending == "csv" else frame.write_parquet)(file)
    options = ["--row", "user", "--col", "item", "--value", "rating", "--json"]
    found = [json.loads(done("evaluate", str(file), *options, "--time", name).stdout) for name in ("seconds", "date", "text")]
    for one in found:
        one.pop("seconds")
    assert found[0] == found[1] == found[2]


def test_a_column_that_holds_no_times(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating,when\n1,1,3,2024-01-01\n1,2,4,soon\n2,1,5,2024-01-03\n")
    said = run("evaluate", tmp_path / "r.csv", "--time", "when")
    assert said.exit_code in (1, 2)
    assert "column 'when'" in " ".join(said.output.split())


def test_columns_called_as_the_output(tmp_path):
    frame = pl.DataFrame({"known": [1, 1, 2, 2, 3], "prediction": [1, 2, 1, 3, 3], "rating": [1.0, 2, 3, 4, 5]})
    frame.write_csv(tmp_path / "r.csv")
    names, model = ["--row", "known", "--col", "prediction"], str(tmp_path / "m.lorank")
    fit = ["--value", "rating", "--rank", "1", "--regularization", "learned"]
    done("complete", str(tmp_path / "r.csv"), *names, *fit, "-o", model)
    done("predict", model, str(tmp_path / "r.csv"), "-o", str(tmp_path / "p.csv"), *names)
    found = pl.read_csv(tmp_path / "p.csv")
    assert found.columns == ["known", "prediction", "prediction_", "known_"]
    assert found["prediction"].to_list() == [1, 2, 1, 3, 3]
    done("recommend", model, "--all", "-n", "1", "-o", str(tmp_path / "all.csv"))
    assert pl.read_csv(tmp_path / "all.csv").columns == ["known", "place", "prediction", "prediction_"]
