"""Header detection: names, data, or ambiguous; and the options that decide."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("polars")

from lorank import distributed
from lorank.io import open_table, read_ratings
from lorank.io.archive import FileError
from lorank.io.header import Header, detect_header


def lines(*rows):
    return [row.split(",") for row in rows]


@pytest.mark.parametrize(
    ("first", "sample", "expected"),
    [
        ("user,item,rating", lines("1,2,3"), Header.NAMES),
        ("a,b", lines("1,2", "3,4"), Header.NAMES),
        ("who,what,v", lines("ann,x,3", "ben,y,4"), Header.NAMES),
        ("2019,2020,2021", lines("1,7,3", "2,5,4", "6,2,1"), Header.NAMES),
        ("1990,2000,2010", lines("1.5,7,3", "2,5,4", "6,2,1"), Header.NAMES),
        ("0,1,2", lines("0.3,-1.2,0.7", "1.1,0.2,0.5"), Header.NAMES),
        (",2019,2020", lines("a,1,2"), Header.NAMES),
        ("0,1,2", lines("0,1,5", "1,1,3", "2,0,4"), Header.AMBIGUOUS),
        ("2019,2020", lines("2018,2021", "2020,2019", "2021,2020"), Header.AMBIGUOUS),
        ("1,2,3", lines("1.5,2.5,3.5", "0.5,1.5,2.5"), Header.AMBIGUOUS),
        ("1,2,3", lines("2,2,4", "3,1,5"), Header.DATA),
        ("196,242,3", lines("186,302,3", "22,377,1"), Header.DATA),
        ("1.5,,2.5", lines("1,2,3", "4,5,6"), Header.DATA),
        ("NA,1,2", lines("1,2,3", "4,5,6"), Header.DATA),
        ("alice,film1", lines("alice,film2", "bob,film1"), Header.AMBIGUOUS),
        ("alice,film1", lines("bob,film2", "carl,film3"), Header.ASSUMED),
    ],
)
def test_evidence(first, sample, expected):
    assert detect_header(first.split(","), sample) is expected


def test_an_array_written_by_pandas_keeps_its_rows(tmp_path):
    """DataFrame(array).to_csv(index=False) writes 0,1,2 above the values."""
    pd = pytest.importorskip("pandas")
    values = np.random.default_rng(0).standard_normal((12, 3))
    pd.DataFrame(values).to_csv(tmp_path / "t.csv", index=False)
    table = open_table(tmp_path / "t.csv")
    assert table.names == ["0", "1", "2"]
    np.testing.assert_allclose(table.read().to_numpy(), values)


def test_what_is_ambiguous_is_refused_until_it_is_said(tmp_path):
    file = tmp_path / "r.csv"
    file.write_text("0,1,2\n0,1,5\n1,1,3\n2,0,4\n1,0,2\n")
    with pytest.raises(FileError, match="--no-header"):
        read_ratings(file)
    with pytest.raises(FileError, match="--no-header"):
        distributed.from_csv(str(file), "0", "1", "2")
    assert len(read_ratings(file, header=False).values) == 5
    assert len(read_ratings(file, "0", "1", "2", header=True).values) == 4
    assert distributed.from_csv(str(file), "0", "1", "2", header=True).m == 4
    names = ("column_1", "column_2", "column_3")
    assert distributed.from_csv(str(file), *names, header=False, duplicates="last").m == 4


def test_pairs_without_names_are_not_lost(tmp_path):
    file = tmp_path / "clicks.csv"
    file.write_text("alice,film1\nbob,film2\ncarl,film3\n")
    with pytest.raises(FileError, match="'alice,film1'"):
        read_ratings(file, with_values=False)
    assert len(read_ratings(file, with_values=False, header=False).rows) == 3
    assert len(read_ratings(file, "alice", "film1", with_values=False).rows) == 2


@pytest.mark.parametrize("options", [(), ("--max-memory", "1GB")])
def test_commands_do_not_lose_pairs_without_names(tmp_path, options):
    """Implicit feedback is read from partitions, and pairs to be predicted in blocks: the same rule as in memory."""
    pytest.importorskip("typer")
    pytest.importorskip("sklearn")
    from command_line import done, refused

    clicks = tmp_path / "clicks.csv"
    clicks.write_text("alice,film1\n" + "".join(f"u{k % 9},f{k // 9}\n" for k in range(50)))
    fit = ("complete", clicks, "--implicit", "--rank", 1, "--regularization", 0.1, *options)
    assert "'alice,film1'" in refused(*fit)
    assert "no header" in done(*fit, "--no-header").stderr
    assert "the first line is a header; rows from 'alice'" in done(*fit, "--header").stderr
    ratings, model = tmp_path / "r.csv", tmp_path / "m.lorank"
    ratings.write_text("user,item,rating\n" + "".join(f"u{k % 9},f{k // 9},{k % 5}\n" for k in range(50)))
    done("complete", ratings, "--rank", 1, "--regularization", 1, "-o", model, *options)
    assert "'alice,film1'" in refused("predict", model, clicks)
    done("predict", model, clicks, "--no-header", "-o", tmp_path / "p.csv")
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1 + 51


def test_the_commands_print_and_take_the_decision(tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("sklearn")
    from command_line import done, refused

    file = tmp_path / "r.csv"
    file.write_text("0,1,2\n0,1,5\n1,1,3\n2,0,4\n1,0,2\n")
    assert "--header" in refused("diagnose", file, "--rank", 1)
    assert "no header" in done("diagnose", file, "--rank", 1, "--no-header").stderr
    options = ("--row", "0", "--col", "1", "--value", "2")
    assert "header" in done("diagnose", file, "--rank", 1, "--header", *options).stderr
    done("diagnose", file, "--rank", 1, "--header", *options, "--max-memory", "1GB")
    (tmp_path / "t.csv").write_text("2019,2020\n" + "".join(f"{1 + k % 7},{'' if k == 3 else 1 + k % 6}\n" for k in range(12)))
    said = done("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv").stderr
    assert "'2019'" in said
    assert (tmp_path / "o.csv").read_text().startswith("2019,2020\n")
    assert "'2019'" in done("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--rank", 1).stderr
