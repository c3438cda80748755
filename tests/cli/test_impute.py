"""``lorank impute`` on files that are read, filled and written a few rows at a time."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from command_line import done, refused, run

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("sklearn")

import polars as pl

import lorank as lr
from lorank.io import open_table
from lorank.io import tables as blocks
from lorank.io import text_columns as columns
from lorank.io.archive import FileError


@pytest.fixture
def small(monkeypatch):
    """Blocks of a few rows."""
    monkeypatch.setattr(columns, "BYTES", 2000)
    monkeypatch.setattr(blocks, "ROWS", 37)


def frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n)
    whole = pl.DataFrame(
        {
            "id": [f"n{k}" for k in range(n)],
            "a": a,
            "count": np.rint(4 * a + 20).astype(int),
            "size": np.select([a > 0.5, a < -0.5], ["large, or more", "small"], 'mid"dle').tolist(),
            "b": 2 * a + 0.1 * rng.standard_normal(n),
        }
    )
    gaps = {name: rng.random(n) < 0.2 for name in ("count", "size", "b")}
    holes = whole.with_columns(
        **{name: pl.Series([None if g else x for g, x in zip(gaps[name], whole[name], strict=True)]) for name in gaps}
    )
    return whole, holes, gaps


def check(whole, holes, gaps, out):
    """Cells that were there are there; the others are near what was hidden."""
    assert out.columns == whole.columns
    for name in whole.columns:
        there = ~gaps.get(name, np.zeros(len(whole), bool))
        assert out[name].filter(there).to_list() == whole[name].filter(there).to_list()
    assert sum(out.null_count().row(0)) == 0
    assert (out["size"] == whole["size"]).filter(gaps["size"]).mean() > 0.8
    off = (out["count"] - whole["count"]).filter(gaps["count"])
    assert off.abs().mean() < 1
    assert ((out["b"] - whole["b"]).filter(gaps["b"])).abs().mean() < 0.3


@pytest.mark.usefixtures("small")
def test_text_by_blocks(tmp_path):
    whole, holes, gaps = frame()
    holes.write_csv(tmp_path / "t.csv", null_value="NA")
    table = open_table(tmp_path / "t.csv")
    assert (table.rows, len(list(table.blocks())) > 5) == (400, True)
    assert table.kinds == {"id": "text", "a": "number", "count": "whole", "size": "text", "b": "number"}
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--model", tmp_path / "m.lorank", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["rows"], told["columns"], told["left_alone"]) == (400, 4, ["id"])
    assert told["gaps"] == sum(int(g.sum()) for g in gaps.values())
    check(whole, holes, gaps, pl.read_csv(tmp_path / "o.csv"))
    before, after = ([*csv.reader((tmp_path / name).read_text().splitlines())] for name in ("t.csv", "o.csv"))
    for old, new in zip(before, after, strict=True):  # letter by letter
        assert [n for o, n in zip(old, new, strict=True) if o != "NA"] == [o for o in old if o != "NA"]
    again = lr.load(tmp_path / "m.lorank").transform(table.typed(next(table.blocks())))
    assert again["count"].dtype == pl.Int64
    assert sum(again.null_count().row(0)) == 0


@pytest.mark.usefixtures("small")
def test_parquet_by_blocks_keeps_types(tmp_path):
    whole, holes, gaps = frame()
    holes.write_parquet(tmp_path / "t.parquet")
    done = run("impute", tmp_path / "t.parquet", "-o", tmp_path / "o.parquet")
    assert done.exit_code == 0, done.output
    out = pl.read_parquet(tmp_path / "o.parquet")
    assert out.schema == whole.schema
    check(whole, holes, gaps, out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.parquet", "t.parquet"]  # nothing is left over


@pytest.mark.usefixtures("small")
def test_a_page_draws_what_was_filled(tmp_path):
    _, holes, gaps = frame()
    holes.write_csv(tmp_path / "t.csv")
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--report", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"{int(gaps['count'].sum()):,} missing" in page
    assert "mid&quot;dle" in page
    assert page.count("<svg") == 3  # columns with gaps
    quality = lr.TableImputer(random_state=0).fit(holes).quality_
    assert f"held-out error: {quality[2]:.2f} standard deviations" in page
    assert f"held-out error: {quality[3]:.0%} wrong" in page
    assert f"count {quality[2]:.2f}" in done.stdout
    assert f"size {quality[3]:.0%} wrong" in done.stdout
    assert "<script" not in page
    holes.with_columns(hour=np.arange(len(holes))).write_csv(tmp_path / "t.csv")
    for options in (("--rank", "1"), ("--time", "hour")):
        (tmp_path / "page.html").unlink()
        done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--report", tmp_path / "page.html", *options)
        assert done.exit_code == 0, done.output
        assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") == 3


def test_series_keep_whole_numbers_and_fill_categories(tmp_path):
    """As tables do; the column of times is read, and written as it was."""
    rows = [f"2024-01-{k + 1:02},{k},{'even' if k % 2 == 0 else 'odd'}" for k in range(28)]
    rows[9], rows[20] = "2024-01-10,,", "2024-01-21,20,"
    (tmp_path / "t.csv").write_text("day,a,kind\n" + "\n".join(rows) + "\n")
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--time", "day", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["gaps"] == 3
    found = list(csv.reader((tmp_path / "o.csv").read_text().splitlines()))
    assert found[10][0] == "2024-01-10"
    assert found[10][1].isdigit()
    assert {found[10][2], found[21][2]} <= {"even", "odd"}
    ordered = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--ordered")
    assert ordered.exit_code == 0, ordered.output


@pytest.mark.usefixtures("small")
def test_records_may_hold_line_breaks(tmp_path):
    rows = [f'"line {k}\nand ""more""",{k % 9},{"" if k % 11 == 0 else 2 * (k % 9)}' for k in range(300)]
    (tmp_path / "t.csv").write_text("text,x,y\n" + "\n".join(rows) + "\n")
    table = open_table(tmp_path / "t.csv")
    assert table.rows == 300
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    assert done.exit_code == 0, done.output
    out = pl.read_csv(tmp_path / "o.csv")
    assert out["text"][7] == 'line 7\nand "more"'
    assert (out["y"] - 2 * out["x"]).abs().max() <= 1


@pytest.mark.usefixtures("small")
def test_a_sample_has_every_row_as_likely(tmp_path):
    pl.DataFrame({"x": np.arange(600.0), "y": np.arange(600.0) % 7}).write_csv(tmp_path / "t.csv")
    table = open_table(tmp_path / "t.csv")
    means = [table.sample(60, np.random.default_rng(k))["x"].mean() for k in range(30)]
    assert abs(np.mean(means) - 299.5) < 20
    some = table.sample(60, np.random.default_rng(0))["x"].to_numpy()
    assert len(some) == 60
    assert (np.diff(some) > 0).all()
    assert len(table.sample(1000, np.random.default_rng(0))) == 600


def _stopped(table, path):
    with table.writing(path) as write:
        block = next(table.blocks())
        write(block, table.typed(block))
        raise FileError("stop")


@pytest.mark.usefixtures("small")
def test_what_fails_leaves_nothing_behind(tmp_path):
    whole, holes, _ = frame()
    lines = [",".join("" if x is None else f'"{x}"'.replace('mid"dle', "middle") for x in row) for row in holes.rows()]
    lines[350] += ",more"
    (tmp_path / "t.csv").write_text(",".join(whole.columns) + "\n" + "\n".join(lines) + "\n")
    done = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    assert done.exit_code == 1
    assert "line 352: 6 fields where the first line has 5" in done.stderr
    holes.write_csv(tmp_path / "t.csv")
    table = open_table(tmp_path / "t.csv")
    with pytest.raises(FileError, match="stop"):
        _stopped(table, tmp_path / "o.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_an_empty_name_and_a_compressed_output(tmp_path):
    """As pandas writes its index, and .gz holds what it says."""
    import gzip

    lines = [f"{k},{k % 7},{'' if k % 5 == 0 else 2 * (k % 7)}" for k in range(60)]
    source, out = tmp_path / "t.csv", tmp_path / "o.csv.gz"
    source.write_text(",a,b\n" + "\n".join(lines) + "\n")
    done = run("impute", source, "-o", out)
    assert done.exit_code == 0, done.output
    with gzip.open(out, "rt", newline="") as file:
        found = list(csv.reader(file))
    assert found[0] == ["", "a", "b"]
    assert len(found) == 61
    assert all(cell for record in found[1:] for cell in record)


def test_empty_lines_are_no_rows(tmp_path):
    rows = [f"{k},{2 * k % 7},{k % 3}" for k in range(30)]
    rows[5], rows[9] = "", '4,,"2"'
    rows[12] = "  "
    for text, options in (("\n".join(["a,b,c", *rows, "", ""]), ()), ("\n".join(["a,b,c", *rows]), ("--time", "a"))):
        file = tmp_path / "t.csv"
        file.write_text(text)
        result = run("impute", file, "-o", tmp_path / "o.csv", *options)
        assert result.exit_code == 0, result.output
        assert len((tmp_path / "o.csv").read_text().splitlines()) == 29


@pytest.mark.parametrize(
    ("name", "text", "cells"),
    [
        ("t.csv", 'a,b\n\n"x\n\ny",1\n \n,\n', [("x\n\ny", "1"), (None, None)]),
        ("t.tsv", "a\tb\n\t\n\n1\t2", [(None, None), ("1", "2")]),
    ],
)
def test_blank_lines_are_skipped_but_not_within_quotes_and_not_lines_of_separators(tmp_path, name, text, cells):
    (tmp_path / name).write_text(text)
    assert [row for block in open_table(tmp_path / name).blocks() for row in block.rows()] == cells


def test_known_cells_keep_their_spaces(tmp_path):
    lines = [f"{k} , {k % 5}" for k in range(40)]
    lines[7] = "7 ,"
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *lines]))
    assert run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv").exit_code == 0
    written = (tmp_path / "o.csv").read_text().splitlines()
    assert written[1:8] == lines[:7]
    assert written[9:] == lines[8:]


def test_brackets_in_a_parquet_file_s_name(tmp_path):
    _, holes, _ = frame(60)
    holes.write_parquet(tmp_path / "t[1].parquet")
    assert run("impute", tmp_path / "t[1].parquet", "-o", tmp_path / "o[2].parquet").exit_code == 0
    assert (tmp_path / "o[2].parquet").exists()


def test_endings_that_would_lie_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(f"{k},{k}" for k in range(20)))
    result = run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.xlsx")
    assert result.exit_code != 0
    assert "xlsx" in result.output
    assert not (tmp_path / "o.xlsx").exists()


def test_a_list_of_ratings_is_told_of_complete(tmp_path):
    (tmp_path / "t.csv").write_text("user,item,rating\n" + "\n".join(f"{k % 7},{k % 5},{k % 3}" for k in range(30)))
    assert "lorank complete" in run("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv").output


def test_columns_of_lists_are_left_alone_and_are_not_for_csv(tmp_path):
    numbers = [float(k) if k % 5 else None for k in range(40)]
    frame = pl.DataFrame({"x": numbers, "y": [2.0 * k for k in range(40)], "tags": [["a"], ["b", "c"]] * 20})
    frame.write_parquet(tmp_path / "in.parquet")
    table = open_table(tmp_path / "in.parquet")
    imputer = lr.TableImputer(refine="none").fit(frame)
    filled = imputer.transform(frame)
    assert filled["x"].null_count() == 0
    assert filled["tags"].to_list() == frame["tags"].to_list()
    with pytest.raises(ValueError, match=r"write a \.parquet file instead"), table.writing(tmp_path / "out.csv") as write:
        write(frame, filled)
    assert not (tmp_path / "out.csv").exists()


def test_a_saved_model_fills_new_rows(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(80)
    cells = [[f"{v:.2f}", "" if k % 9 == 0 else f"{2 * v:.1f}", str(round(10 * v))] for k, v in enumerate(a)]
    lines = ["x,y,n", *(",".join(row) for row in cells)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "new.csv").write_text("x,y,n\n1,,10\n-1,,-10\n", encoding="utf-8")
    done("impute", tmp_path / "t.csv", "-o", tmp_path / "f.csv", "--model", tmp_path / "m.lorank")
    done("impute", tmp_path / "new.csv", "-o", tmp_path / "g.csv", "--use-model", tmp_path / "m.lorank")
    lines = (tmp_path / "g.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "-1"]  # observed cells as written
    filled = [line.split(",")[1] for line in lines[1:]]
    assert np.allclose(np.array(filled, float), [2.0, -2.0], atol=0.3)
    assert all(len(one.partition(".")[2]) == 1 for one in filled)  # the decimals of the fit
    assert lr.load(tmp_path / "m.lorank").n_features_in_ == 3

    (tmp_path / "other.csv").write_text("x,z,n\n1,,10\n", encoding="utf-8")
    said = refused("impute", tmp_path / "other.csv", "-o", tmp_path / "h.csv", "--use-model", tmp_path / "m.lorank")
    assert "'z'" in said
    assert "'y'" in said
    said = refused(
        "impute", tmp_path / "new.csv", "-o", tmp_path / "h.csv", "--use-model", tmp_path / "m.lorank", "--rank", 2, code=2
    )
    assert "--rank" in said
    problem, _ = lr.datasets.random_completion(30, 20, 2, oversampling=5)
    lr.solve(problem, 2).save(tmp_path / "r.lorank")
    assert "Result" in refused("impute", tmp_path / "new.csv", "-o", tmp_path / "h.csv", "--use-model", tmp_path / "r.lorank")
