"""What stands for a gap in tables: lines that end early, numbers as -999, and what a user names."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("polars")

import polars as pl

from lorank.io import open_table
from lorank.io import text_columns as columns
from lorank.io.missing_codes import MissingCodes, SuspectedCodes


@pytest.fixture(params=[1 << 24, 20], ids=["one part", "many parts"], autouse=True)
def size(request, monkeypatch):
    monkeypatch.setattr(columns, "BYTES", request.param)


WIDE = "a,b,c\n1,2,3\n\n4,5\n6,,\n7\n8,9,10\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WIDE, "line 4: 2 fields where the first line has 3, and 1 other line"),
        (WIDE.replace("5", '"5"'), "line 4: 2 fields where the first line has 3, and 1 other line"),
        (WIDE.replace("\n", "\r\n").replace("7\r\n", ""), "line 4: 2 fields where the first line has 3: "),
        ("\ufeff" + WIDE.split("\n", 1)[1].replace("\n\n", "\n"), "line 2: 2 fields where the first line has 3"),
    ],
)
def test_lines_that_end_early_are_named(tmp_path, text, words):
    (tmp_path / "t.csv").write_bytes(text.encode())
    with pytest.warns(UserWarning, match=words):
        open_table(tmp_path / "t.csv")


@pytest.mark.parametrize("text", ["a,b\n1,\n2,3\n,\n", 'a,b\n1,""\n"2",3\n4,\n', "a\n1\n\n3\n", 'a,b\n"1,2,3",\n"4\n5",6\n'])
def test_gaps_are_no_lines_that_end_early(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    open_table(tmp_path / "t.csv")  # warnings are errors


def sentinels(values):
    seen = SuspectedCodes("t.csv, column 'a'", "--missing {} makes gaps of them")
    for part in np.array_split(np.asarray(values, float), 3):
        seen.add(part)
    return seen.found()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 2, -999, 3, -999, 4, -999, np.nan], [(-999, 3)]),
        ([-3.5, 9.25, 99, 99, 99, -2], [(99, 3)]),
        ([1, 2, 9999, -9999, 9999, -9999, 9999, -9999], [(-9999, 3), (9999, 3)]),
        ([-999, -999, -999, 5], [(-999, 3)]),
        ([1, 2, -999, 3, -999], []),  # too few
        ([*range(990, 999), 999, 999, 999], []),  # house numbers
        ([-2000, 500, -999, -999, -999], []),  # among the others
        ([999] * 9, []),  # nothing else
        ([np.nan] * 9, []),
        ([*np.arange(5000) % 7, 999, 999, 999], []),  # outliers, maybe
    ],
)
def test_numbers_that_look_like_no_values(values, found):
    assert sentinels(values) == found


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_named_is_a_gap(tmp_path, kind):
    frame = pl.DataFrame({"a": [1.5, -999.0, 3.0], "b": [-999, 4, 6], "c": ["x", "Unknown", "-999"], "d": [None, 2, 3]})
    getattr(frame, f"write_{kind}")(tmp_path / f"t.{kind}")
    missing = MissingCodes.of(["-999", "unknown"])
    table = open_table(tmp_path / f"t.{kind}", missing)
    typed = pl.concat([table.typed(block) for block in table.blocks()])
    assert typed.to_dict(as_series=False) == {
        "a": [1.5, None, 3],
        "b": [None, 4, 6],
        "c": ["x", None, None],
        "d": [None, 2, 3],
    }


def test_the_command_asks_and_takes_an_answer(tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("sklearn")
    from command_line import done

    rows = [f"{k},{-999 if k % 4 == 1 else 2 * k}" for k in range(1, 21)]
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    asked = done("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--json")
    assert "5 copies of -999" in asked.stderr
    assert "--missing -999" in asked.stderr
    assert json.loads(asked.stdout)["gaps"] == 0
    for options in ((), ("--rank", "1")):
        answered = done("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--missing", "-999", "--json", *options)
        assert "copies" not in answered.stderr
        assert json.loads(answered.stdout)["gaps"] == 5
        assert (open_table(tmp_path / "o.csv").read()["b"] > 0).all()
    said = done("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--missing", "-999", "--rank", "0", "--json")
    assert json.loads(said.stdout)["rank"] == 0
