"""Tables of stored runs."""

from __future__ import annotations

import math

import pytest

import made_up
from lorank.experiments.tables import Case, average, varying
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
    assert first.case == Case(n1=1000, n2=1000, rank=10, oversampling=5.0, m=99_500)
    assert first.case.noise is None
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


def test_the_time_per_iteration_leaves_out_the_start(tmp_path):
    rows = [
        made_up.run("theorem", "prgd", 50, seconds=3.0, start=1.0),
        made_up.run("theorem", "rgd", 50, seconds=3.0, start=None),
    ]
    way = made_up.trace("theorem", "rgd", [0.5, 0.1], pace=2.0)
    way[0]["trace"]["seconds"] = [0.5, 1.0]  # the start of a traced run is its first entry
    (means,) = average(load(made_up.write(tmp_path, rows, way)).results).values()
    assert means["prgd"].of("pace").mean == pytest.approx(0.04)
    assert means["rgd"].of("pace").mean == pytest.approx(0.05)


def test_labels():
    case = Case(n1=10_000, n2=10_000, rank=10, oversampling=5.0, m=999_500, noise=0.001)
    assert case.label().replace("\N{NO-BREAK SPACE}", " ") == "n = 10 000, r = 10, 1/q = 5, σ = 0.001"  # noqa: RUF001
    phase = Case(n1=128, n2=128, rank=1, oversampling=6.0, m=768, field="real")
    assert phase.label("oversampling").replace("\N{NO-BREAK SPACE}", " ") == "m/n = 6"

    def like(**changes):
        return Case(**{name: value for name, value in (vars(case) | changes).items() if value is not None})

    assert varying([case, like(n1=20_000)]) == ["n1"]
    assert varying([case, like(oversampling=None, m=7), like(oversampling=None, m=8)]) == ["oversampling", "m"]
    assert Case(n=100, kappa=10.0).label().replace("\N{NO-BREAK SPACE}", " ") == "\N{GREEK SMALL LETTER KAPPA} = 10, n = 100"
