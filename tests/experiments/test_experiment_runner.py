"""Runner: stored runs are skipped, interrupted experiments resume, methods beyond the time limit are skipped."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from lorank.experiments import Experiment, PlannedIterations, Progress, run_experiment
from lorank.experiments.progress import Estimate, duration
from lorank.experiments.store import Store, read
from lorank.experiments.tables import stored, tables, write_csv
from lorank.paper import EXPERIMENTS, command, load
from lorank.paper.methods import completion_methods
from scripted import Broken, Scripted, console, method, point, run

pytest.importorskip("rich")

NAME = "completion-size"


def rows(path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def script(solver, seed):
    return {}


def test_runs_become_tables(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a", "b"), method("c", name="rgd")], traced=(1,))], script)
    said = run(experiment, tmp_path, monkeypatch)
    found = rows(tmp_path / "results.csv")
    assert [(row["method"], row["seed"]) for row in found] == [("prgd", "0"), ("rgd", "0"), ("prgd", "1"), ("rgd", "1")]
    assert (
        found[0]
        | {
            "experiment": NAME,
            "scale": "tiny",
            "setting": "a",
            "n1": "60",
            "iterations": "10",
            "error": "0.0001",
            "heldout_rmse": "",
            "reached": "true",
            "capped": "false",
            "status": "recovered",
            "threads": "1",
        }
        == found[0]
    )
    assert all(found[0][name] for name in ("date", "lorank", "numpy", "scipy", "python", "machine"))
    traces = rows(tmp_path / "traces.csv")
    assert [(row["method"], row["seed"], row["iteration"], row["residual"]) for row in traces] == [
        (name, "1", *entry) for name in ("prgd", "rgd") for entry in (("0", "1.0"), ("1", "0.5"))
    ]
    tuning = rows(tmp_path / "tuning.csv")
    assert [(row["candidate"], row["seed"], row["chosen"]) for row in tuning] == [
        ("a", "1000", "true"),
        ("a", "1001", "true"),
        ("b", "1000", "false"),
        ("b", "1001", "false"),
    ]
    assert "5/5  rgd, n1 = 60" in said
    assert "left]" in said


def test_the_columns_of_the_tables(tmp_path):
    """The parameters and measurements that occur, and no others."""
    experiment = Scripted([point([method("a")], params={"n1": 60, "kappa": 10.0, "rank": 2}, traced=(0,))], script)
    records = run_experiment(experiment, tmp_path / "runs.jsonl", "tiny", progress=Progress("", len))
    heads = [path.read_text().splitlines()[0] for path in write_csv(tmp_path, records)]
    assert heads[0] == (
        "experiment,scale,method,setting,n1,rank,kappa,seed,iterations,seconds,error,residual,heldout_rmse,start,reached,capped,"
        "status,threads,date,lorank,numpy,scipy,python,machine"
    )
    assert heads[1] == "experiment,method,n1,rank,kappa,seed,iteration,seconds,residual,error,heldout_rmse"
    assert heads[2] == (
        "experiment,method,n1,rank,kappa,seed,candidate,iterations,seconds,error,reached,status,chosen,budget,protocol"
    )


def test_the_records_of_a_run_are_tables(tmp_path):
    experiment = Scripted([point([method("a")], traced=(0,))], script)
    records = run_experiment(experiment, tmp_path / "runs.jsonl", "tiny", progress=Progress("", len))
    found = tables(records)
    assert [row.method for row in found.results] == ["prgd", "prgd"]
    assert found.experiments() == [experiment.name]
    assert found.curves[0].residual.tolist() == [1.0, 0.5]


def test_what_is_stored_is_not_run_again(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a", "b")])], script)
    run(experiment, tmp_path, monkeypatch)
    before = (tmp_path / "runs" / f"{NAME}.jsonl").read_bytes()
    experiment.made.clear()
    said = run(experiment, tmp_path, monkeypatch)
    assert experiment.made == []
    assert "3 runs, 3 of them stored" in said
    assert (tmp_path / "runs" / f"{NAME}.jsonl").read_bytes() == before


def test_an_instance_serves_all_methods(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a", "b"), method("c", "d", name="rgd")])], script)
    run(experiment, tmp_path, monkeypatch)
    assert experiment.instances == [1000, 1001, 0, 1]


def test_a_method_beyond_the_time_limit_is_skipped(tmp_path, monkeypatch):
    def slow(solver, seed):
        return {"reached": False, "status": "time"} if solver == "slow" else {}

    where = point([method("slow", name="niht"), method("a")], seeds=(0, 1, 2))
    experiment = Scripted([where], slow)
    said = run(experiment, tmp_path, monkeypatch)
    assert [(solver, seed) for solver, seed, _ in experiment.made] == [("slow", 0), ("a", 0), ("a", 1), ("a", 2)]
    assert said.count("skipped") == 2
    found = rows(tmp_path / "results.csv")
    assert (found[0]["method"], found[0]["capped"], found[0]["reached"]) == ("niht", "true", "false")
    experiment.made.clear()
    run(experiment, tmp_path, monkeypatch)
    assert experiment.made == []


def test_out_of_iterations_is_capped_and_not_skipped(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a")], max_iter=5)], script)
    run(experiment, tmp_path, monkeypatch)
    assert [row["capped"] for row in rows(tmp_path / "results.csv")] == ["true", "true"]


def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch):
    def stop(solver, seed):
        if seed == 1:
            raise KeyboardInterrupt
        return {}

    experiment = Scripted([point([method("a"), method("b", name="rgd")])], stop)
    with pytest.raises(KeyboardInterrupt):
        run(experiment, tmp_path, monkeypatch)
    assert len(rows(tmp_path / "results.csv")) == 2
    experiment._script = script
    experiment.made.clear()
    run(experiment, tmp_path, monkeypatch)
    assert [(solver, seed) for solver, seed, _ in experiment.made] == [("a", 1), ("b", 1)]
    assert len(rows(tmp_path / "results.csv")) == 4


def test_ctrl_c_inside_a_solver_is_no_result(tmp_path, monkeypatch):
    """solve() returns what it has after Ctrl-C; that is no finished run."""
    experiment = load(NAME)

    def stop(self, problem, state, clock):
        raise KeyboardInterrupt

    monkeypatch.setattr("lorank.experiments.progress.Progress.watch", stop)
    with pytest.raises(KeyboardInterrupt):
        run(experiment, tmp_path, monkeypatch)
    assert rows(tmp_path / "results.csv") == []


def test_an_experiment_that_cannot_run_is_skipped(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a")])], script)
    experiment.missing = lambda scale: "there are no data"
    said = run(experiment, tmp_path, monkeypatch)
    assert "completion-size: skipped, there are no data" in said
    assert not (tmp_path / "runs").exists()


# -- the file of runs --------------------------------------------------------------------------------------------------
def test_a_torn_last_line_is_dropped(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a")])], script)
    run(experiment, tmp_path, monkeypatch)
    path = tmp_path / "runs" / f"{NAME}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    write_csv(tmp_path, stored(tmp_path, [NAME]))
    assert [row["seed"] for row in rows(tmp_path / "results.csv")] == ["0"]
    experiment.made.clear()
    run(experiment, tmp_path, monkeypatch)
    assert [seed for _, seed, _ in experiment.made] == [1]
    assert [record.get("seed") for record in read(path)[1]] == [0, 1]


def test_a_torn_first_line_is_begun_again(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    path = tmp_path / "runs" / f"{NAME}.jsonl"
    path.write_bytes(b'{"schema": 1, "exp')
    run(Scripted([point([method("a")])], script), tmp_path, monkeypatch)
    assert len(read(path)[1]) == 2


def test_a_damaged_line_is_named(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a")])], script)
    run(experiment, tmp_path, monkeypatch)
    path = tmp_path / "runs" / f"{NAME}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{half\n" + lines[2])
    with pytest.raises(ValueError, match=r"completion-size.jsonl, line 2, is damaged"):
        run(experiment, tmp_path, monkeypatch)
    path.write_bytes(lines[1])
    with pytest.raises(ValueError, match=r"completion-size.jsonl"):
        run(experiment, tmp_path, monkeypatch)


def test_another_scale_or_version_is_refused(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a")])], script)
    run(experiment, tmp_path, monkeypatch, scale="quick")
    assert {record["scale"] for record in stored(tmp_path, [NAME])} == {"quick"}
    with pytest.raises(ValueError, match="holds runs at --scale quick, not paper: choose another --out"):
        run(experiment, tmp_path, monkeypatch, scale="paper")
    path = tmp_path / "runs" / f"{NAME}.jsonl"
    path.write_text(json.dumps({"schema": 99, "scale": "quick"}) + "\n")
    with pytest.raises(ValueError, match="written by another version of lorank"):
        run(experiment, tmp_path, monkeypatch, scale="quick")


def test_another_experiments_scale_is_refused_too(tmp_path, monkeypatch):
    run(Scripted([point([method("a")])], script), tmp_path, monkeypatch, scale="quick")
    other = Scripted([point([method("a")])], script)
    other.name = "theorem"
    with pytest.raises(ValueError, match=r"completion-size.jsonl holds runs at --scale quick"):
        run(other, tmp_path, monkeypatch, scale="tiny")


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
def test_two_at_once_are_refused(tmp_path):
    with (
        Store(tmp_path / "runs" / f"{NAME}.jsonl", NAME, "tiny"),
        pytest.raises(ValueError, match="is in use"),
        Store(tmp_path / "runs" / f"{NAME}.jsonl", NAME, "tiny"),
    ):
        pass


def test_a_setting_outside_the_grid_is_refused(tmp_path, monkeypatch):
    run(Scripted([point([method("a", "b")], seeds=())], script), tmp_path, monkeypatch)
    with pytest.raises(ValueError, match="prgd"):
        run(Scripted([point([method("c", "b")])], script), tmp_path, monkeypatch)


def test_numbers_that_are_not_finite_are_stored_as_null(tmp_path):
    import numpy as np

    with Store(tmp_path / "runs" / f"{NAME}.jsonl", NAME, "tiny") as store:
        store.add("run", {"n1": np.int64(3)}, "prgd", 0, {"error": float("nan"), "seconds": np.float64(0.5)})
    (_, (record,)) = read(tmp_path / "runs" / f"{NAME}.jsonl")
    assert (record["params"], record["error"], record["seconds"]) == ({"n1": 3}, None, 0.5)


# -- killed ------------------------------------------------------------------------------------------------------------
CHILD = """
import sys, time
from pathlib import Path
from rich.console import Console
from lorank.experiments import store
from lorank.paper.command import reproduce
plain, made = store.Store.add, []
def add(*args):
    made.append(plain(*args))
    if len(made) == 6:
        time.sleep(3600)
    return made[-1]
store.Store.add = add
reproduce(["completion-size"], "tiny", Path(sys.argv[1]), console=Console(stderr=True))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_killed_run_resumes(tmp_path, monkeypatch):
    path = tmp_path / "runs" / f"{NAME}.jsonl"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stderr=subprocess.DEVNULL, env=environment)
    try:
        while not (path.exists() and path.read_bytes().count(b"\n") >= 7):
            assert child.poll() is None, "ended before it could be killed"
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()
    whole = path.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    stored = {json.loads(line)["key"] for line in whole.splitlines()[1:]}
    assert len(stored) == 6

    experiment, made = load(NAME), []
    plain = Store.add

    def add(self, kind, params, method, seed, values):
        record = plain(self, kind, params, method, seed, values)
        made.append(record["key"])
        return record

    monkeypatch.setattr(Store, "add", add)
    run(experiment, tmp_path, monkeypatch)
    assert path.read_bytes().startswith(whole)
    assert not stored & set(made)
    jobs = sum(len(p.seeds) * len(p.methods) + sum(p.tunes(entry) for entry in p.methods) for p in experiment.points("tiny"))
    assert len(made) == len(set(made)) == jobs - len(stored)


@pytest.mark.slow
# -- the experiments ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("completion") or name == "movielens"])
def test_each_runs_at_a_tiny_scale(name, tmp_path, monkeypatch):
    experiment = load(name)
    run(experiment, tmp_path, monkeypatch)
    found = rows(tmp_path / "results.csv")
    points = experiment.points("tiny")
    assert len(found) == sum(len(p.seeds) * len(p.methods) for p in points)
    assert {row["experiment"] for row in found} == {name}
    assert all(float(row["seconds"]) >= 0 and row["setting"] for row in found)
    if name == "movielens":
        assert {row["status"] for row in found} == {"done"}
        assert {row["capped"] for row in found} == {"false"}
        assert {row["iterations"] for row in found} == {"10"}
        traces = rows(tmp_path / "traces.csv")
        assert len(traces) == 11 * len(found)
        assert all(0 < float(row["heldout_rmse"]) < 5 and row["error"] == "" for row in traces)
        for row in found:
            last = [t for t in traces if t["method"] == row["method"]][-1]
            assert float(last["heldout_rmse"]) == pytest.approx(float(row["heldout_rmse"]), rel=1e-4)
    elif name == "completion-noise":
        assert {row["noise"] for row in found} == {"0.0001", "0.1"}
        for row in found:
            assert row["method"] == "niht" or float(row["error"]) < 5 * float(row["noise"])
    else:
        reached = [row for row in found if row["reached"] == "true"]
        assert len(reached) > 0.7 * len(found)
        assert all(float(row["error"]) <= 1e-4 for row in reached)
        assert {row["method"] for row in rows(tmp_path / "traces.csv")} == {entry.name for entry in points[0].methods}


def test_same_seed_same_iterations(tmp_path, monkeypatch):
    """Whatever ran before: a resumed run gives what an unbroken one would have given."""
    experiment = load(NAME)
    where = experiment.points("tiny")[0]
    outcomes = [
        experiment.run(where, experiment.instance(where, 0), where.methods[0].grid[0], max_iter=50, max_seconds=60, traced=True)
        for _ in range(2)
    ]
    assert outcomes[0].iterations == outcomes[1].iterations
    assert outcomes[0].trace["error"] == outcomes[1].trace["error"]


def test_planned_runs_end_as_planned():
    experiment = load(NAME)
    where = experiment.points("tiny")[0]
    instance = experiment.instance(where, 0)

    class Short(type(experiment)):
        def stop(self, point, instance):
            return PlannedIterations(3)

    outcome = Short().run(where, instance, "rgd", max_iter=3, max_seconds=60)
    assert (outcome.status, outcome.reached, outcome.capped, outcome.iterations) == ("done", True, False, 3)


def test_missing_data_are_named():
    with pytest.raises(NotImplementedError):
        Experiment().points("tiny")
    with pytest.raises(ValueError, match="unknown experiment 'completion': choose from completion-size, "):
        load("completion")


# -- time left ---------------------------------------------------------------------------------------------------------
def test_the_time_left_comes_from_similar_runs():
    estimate = Estimate()
    for size in (1.0, 10.0, 10.0):
        estimate.expect(("prgd", size, 100.0))
    assert estimate.left() is None
    estimate.done(("prgd", 1.0, 100.0), 2.0)
    assert estimate.left() == pytest.approx(40.0)  # ten times as large, ten times as long
    estimate.done(("prgd", 10.0, 100.0), 30.0)
    assert estimate.left() == pytest.approx(30.0)  # one of the same size says more
    estimate.expect(("niht", 1000.0, 60.0))
    assert estimate.left() == pytest.approx(90.0)  # unknown: by the others, and not above its cap
    estimate.done(("niht", 1000.0, 60.0), None)
    assert estimate.left() == pytest.approx(30.0)


@pytest.mark.parametrize(("seconds", "text"), [(12, "12 s"), (300, "5 min"), (3900, "1 h 05 min")])
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.slow
def test_a_terminal_shows_a_bar(tmp_path, monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(command, "load", lambda name: load(NAME))
    command.reproduce([NAME], "tiny", tmp_path, console=Console(force_terminal=True, width=150, stderr=True))
    assert "\x1b[" in capsys.readouterr().err
    assert len(rows(tmp_path / "results.csv")) == len(completion_methods("tiny")) * 2 * 2


# -- side by side ------------------------------------------------------------------------------------------------------
def test_several_processes_give_the_same_runs(tmp_path):
    """Iterations, errors and traces; each run is stored once."""
    from lorank.experiments.progress import Progress
    from lorank.experiments.runner import run_experiment

    experiment = load("theorem")
    one, two = (
        run_experiment(experiment, tmp_path / f"{workers}.jsonl", "tiny", workers=workers, progress=Progress("", len))
        for workers in (1, 2)
    )
    same = ("setting", "iterations", "status", "reached")
    found = [{record["key"]: [record[name] for name in same] for record in records} for records in (one, two)]
    assert found[0] == found[1]
    assert len(two) == len(found[1]) == 4


def test_several_experiments_in_a_pool(tmp_path):
    """Runs wait for the settings, which are chosen side by side as well; what is stored is not done again."""
    for _ in range(2):
        screen = console()
        command.reproduce(["phase-real", "sensing-success"], "tiny", tmp_path, jobs=2, console=screen)
    assert screen.file.getvalue().count("\n") == 2  # all of them stored; CPU seconds
    found = rows(tmp_path / "results.csv")
    assert {row["experiment"] for row in found} == {"phase-real", "sensing-success"}
    chosen = {
        (row["experiment"], row["method"], row["n1"], row["candidate"])
        for row in rows(tmp_path / "tuning.csv")
        if row["chosen"] == "true"
    }
    tuned = {(experiment, method, n1) for experiment, method, n1, _ in chosen}
    assert len(tuned) == len(chosen)  # one setting each
    for row in found:
        assert (row["experiment"], row["method"], row["n1"]) not in tuned or (
            (row["experiment"], row["method"], row["n1"], row["setting"]) in chosen
        )
    budgets = {row["budget"] for row in rows(tmp_path / "tuning.csv") if row["experiment"] == "sensing-success"}
    assert budgets == {"2 candidates on 2 seeds, at most 60 s and 100 iterations each"}


def test_a_run_that_fails_in_another_process_is_named(tmp_path):
    from lorank.experiments.progress import Progress
    from lorank.experiments.runner import run_experiment

    with pytest.raises(RuntimeError, match=r"(?s)prgd, .*seed 0 failed:\n.*this one cannot be solved"):
        run_experiment(Broken(), tmp_path / "runs.jsonl", "tiny", workers=2, progress=Progress("", len))
