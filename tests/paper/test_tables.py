"""Tables of stored runs."""

from __future__ import annotations

import math

import pytest

import made_up
from lorank.experiments.tables import Case, average, typical, varying
from made_up import load


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = [
        made_up.run("completion-size", "prgd", 50, seed=0, seconds=2.0, n1=1000, rank=10, oversampling=5.0, m=99_500),
        made_up.run("completion-size", "prgd", 70, seed=1, seconds=4.0, n1=1000, rank=10, oversampling=5.0, m=99_500),
    ]
    way = made_up.trace("completion-size", "prgd", [0.5, 0.1], errors=[0.6, 0.2], n1=1000, rank=10)
    tuned = [{"experiment": "completion-size", "method": "prgd", "candidate": "x", "iterations": 5, "reached": True}]
    tables = load(made_up.write(tmp_path, rows, way, tuned))

    assert tables.experiments() == ["completion-size"]
    first = tables.results[0]
    assert first.case == Case(1000, 1000, 10, 5.0, 99_500, None, "")
    assert first.pace == 0.04
    assert first.reached
    assert not first.capped
    assert math.isnan(first.heldout_rmse)
    assert first.versions == ("0.1.0", "2.0.0", "1.14.0", "3.12.0")
    assert tables.curves[0].residual.tolist() == [0.5, 0.1]
    assert tables.curves[0].error.tolist() == [0.6, 0.2]
    assert tables.tuning[0].reached
    assert not tables.tuning[0].chosen

    mean = average(tables.results)[first.case]["prgd"]
    assert mean.of("iterations") == (60, 50, 70)
    assert mean.of("seconds") == (3, 2, 4)
    assert mean.tests == 2


def test_no_tables_are_empty_tables(tmp_path):
    assert load(tmp_path).results == ()
    assert load(tmp_path).curves == ()


def test_a_run_made_again_counts_once(tmp_path):
    made_up.write(tmp_path, [made_up.run("theorem", "prgd", 50, n1=30)])
    path = tmp_path / "runs" / "theorem.jsonl"
    path.write_text(path.read_text() + path.read_text().splitlines()[1].replace(": 50, ", ": 80, ") + "\n")
    assert [row.iterations for row in load(tmp_path).results] == [80]


def test_averages_leave_failed_runs_out_unless_all_failed(tmp_path):
    rows = [
        made_up.run("theorem", "prgd", 50, seed=0),
        made_up.run("theorem", "prgd", 9, seed=1, reached=False),
        made_up.run("theorem", "prgd", 90, seed=2, reached=False, capped=True),
        made_up.run("theorem", "rgd", 9, seed=0, reached=False),
    ]
    (means,) = average(load(made_up.write(tmp_path, rows)).results).values()
    assert means["prgd"].of("iterations").mean == 70
    assert means["prgd"].at_least  # one of two was cut short
    assert means["prgd"].reached == 1
    assert not means["prgd"].failed
    assert means["rgd"].failed
    assert means["rgd"].of("iterations").mean == 9
    assert not means["rgd"].at_least


def test_few_runs_cut_short_leave_the_median(tmp_path):
    rows = [made_up.run("theorem", "prgd", 10 * (seed + 1), seed=seed, error=0.1 * seed) for seed in range(5)]
    rows[0] |= {"reached": False, "capped": True}  # it counts as the longest, however early it was stopped
    (means,) = average(load(made_up.write(tmp_path, rows)).results).values()
    mean = means["prgd"]
    assert (mean.stopped, mean.by_median, mean.at_least) == (1, True, False)
    assert mean.of("iterations") == (40, 10, 50)
    assert mean.of("error").mean == pytest.approx(0.2)

    rows[1] |= {"reached": False, "capped": True}
    rows[2] |= {"reached": False, "capped": True}
    (means,) = average(load(made_up.write(tmp_path, rows)).results).values()
    assert means["prgd"].at_least
    assert means["prgd"].of("iterations").mean == 30


def test_the_typical_test_is_the_median_one(tmp_path):
    way = [made_up.trace("phase-real", "rgd", [0.5] * length, seed=seed) for seed, length in enumerate((9, 3, 5))]
    assert typical(load(made_up.write(tmp_path, traces=[row for rows in way for row in rows])).curves).seed == 2


def test_labels():
    case = Case(10_000, 10_000, 10, 5.0, 999_500, 0.001, "")
    assert case.label().replace("\N{NO-BREAK SPACE}", " ") == "n = 10 000, r = 10, 1/q = 5, σ = 0.001"  # noqa: RUF001
    phase = Case(128, 128, 1, 6.0, 768, None, "real")
    assert phase.label("oversampling").replace("\N{NO-BREAK SPACE}", " ") == "m/n = 6"
    assert varying([case, case._replace(n1=20_000)]) == ["n1"]
    assert varying([case, case._replace(oversampling=None, m=7), case._replace(oversampling=None, m=8)]) == [
        "oversampling",
        "m",
    ]
