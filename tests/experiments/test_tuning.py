"""Settings are the best of their grid, chosen on seeds that are not reported."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lorank.experiments import Method, Outcome
from lorank.experiments.store import Store
from lorank.experiments.tuning import tune
from lorank.paper import EXPERIMENTS, load
from lorank.paper.completion import CompletionNoise
from scripted import Scripted, method, point, run


def tuned(script, *grid, **options):
    """What tuning chose, its candidates, and the experiment that ran."""
    where = point([method(*grid)], **options)
    experiment = Scripted([where], script)

    def one(candidate, seed, instance, max_iter):
        return experiment.run(where, instance, candidate, max_iter=max_iter, max_seconds=1.0)

    return tune(experiment, where, where.methods[0], experiment.instance, one), experiment


def test_the_fewest_iterations_win():
    costs = {"a": 30, "b": 12, "c": 20}
    found, experiment = tuned(lambda solver, seed: {"iterations": costs[solver]}, "a", "b", "c")
    assert found["chosen"] == "b"
    assert [entry["candidate"] for entry in found["candidates"] if entry["chosen"]] == ["b", "b"]
    assert {seed for _, seed, _ in experiment.made} == {1000, 1001}


def test_a_candidate_is_stopped_where_it_cannot_win_any_more():
    costs = {"a": 15, "b": 40}
    found, experiment = tuned(lambda solver, seed: {"iterations": costs[solver]}, "a", "b")
    assert experiment.made == [("a", 1000, 100), ("a", 1001, 100), ("b", 1000, 30)]
    assert found["chosen"] == "a"
    assert [entry["reached"] for entry in found["candidates"]] == [True, True, False]


def test_slower_on_one_seed_and_faster_on_the_other_is_measured_by_the_sum():
    costs = {("a", 1000): 30, ("a", 1001): 30, ("b", 1000): 40, ("b", 1001): 10}
    found, _ = tuned(lambda solver, seed: {"iterations": costs[solver, seed]}, "a", "b")
    assert found["chosen"] == "b"


def test_a_candidate_must_hold_on_all_tuning_seeds():
    def script(solver, seed):
        return {"iterations": 5 if solver == "bold" else 50, "reached": solver == "safe" or seed == 1000}

    for grid in (("bold", "safe"), ("safe", "bold")):
        found, _ = tuned(script, *grid)
        assert found["chosen"] == "safe"


def test_where_none_recovers_the_smallest_error_wins():
    errors = {"a": 0.3, "b": 0.01, "c": math.nan}
    found, experiment = tuned(lambda solver, seed: {"reached": False, "error": errors[solver]}, "a", "b", "c")
    assert found["chosen"] == "b"
    assert [seed for _, seed, _ in experiment.made] == [1000] * 3  # who fails is not tried on the next seed


def test_a_run_that_is_cut_short_is_no_failure():
    """A long step that gets further on one seed and diverges on the next loses against a short one that is merely slow."""

    def script(solver, seed):
        diverged = solver == "long" and seed == 1001
        return {"reached": False, "status": "diverged" if diverged else "time", "error": 0.1 if solver == "long" else 0.5}

    for grid in (("long", "short"), ("short", "long")):
        found, experiment = tuned(script, *grid)
        assert found["chosen"] == "short"
        assert len(experiment.made) == 4
    found, experiment = tuned(lambda solver, seed: {"status": "time", "reached": False, "error": float(solver)}, "0.2", "0.4")
    assert found["chosen"] == "0.2"
    assert [solver for solver, *_ in experiment.made] == ["0.2", "0.2", "0.4"]  # whose error cannot become the smaller one


def test_the_budget_is_stored():
    found, _ = tuned(lambda solver, seed: {}, "a", "b", "c", tuning_seconds=5.0)
    assert found["budget"] == {"grid": 3, "seeds": 2, "max_iter": 100, "max_seconds": 5.0}


def test_where_none_is_stopped_every_run_may_go_to_its_end():
    where = point([method("a", "b")])
    experiment = Scripted([where], lambda solver, seed: {"iterations": {"a": 10, "b": 50}[solver]})
    experiment.stop_slower_candidates = False
    tune(
        experiment,
        where,
        where.methods[0],
        experiment.instance,
        lambda candidate, seed, instance, most: experiment.run(where, instance, candidate, max_iter=most, max_seconds=1),
    )
    assert experiment.made == [("a", 1000, 100), ("a", 1001, 100), ("b", 1000, 100)]  # b may not win any more


def settled(iterations, error, reached=True):
    status = "settled" if reached else "max_iter"
    return [Outcome("", iterations, 1.0, 0.1, status, reached, not reached, error=error)]


def test_on_noisy_data_a_run_that_stopped_too_early_does_not_win():
    better = CompletionNoise().better
    assert not better(settled(20, 0.5), settled(100, 0.01))
    assert better(settled(100, 0.01), settled(20, 0.5))
    assert better(settled(50, 0.0105), settled(100, 0.01))  # as good, and sooner
    assert not better(settled(50, 0.001, reached=False), settled(100, 0.01))
    assert better(settled(100, 0.01), settled(20, math.nan))


def test_tuning_and_reporting_seeds_are_apart():
    with pytest.raises(ValueError, match=r"\[1000\]"):
        point([], seeds=(0, 1000))
    with pytest.raises(ValueError, match="seeds of reported runs"):
        point([Method("prgd", ("a", "b"), more_seeds=(1,))])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_well_made(name, tmp_path, monkeypatch):
    """At all scales: parameters tell points apart, and who borrows settings finds them, chosen before."""
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))  # nothing is downloaded
    experiment = load(name)
    assert experiment.name == name
    for scale in ("tiny", "quick", "paper"):
        if experiment.missing(scale):
            continue
        seen, reported = [], []
        for where in experiment.points(scale):
            if where.seeds:
                assert dict(where.params) not in reported
                reported.append(dict(where.params))
            assert all(seed < 1000 for seed in where.seeds)
            seen += [(dict(where.params), entry.name) for entry in where.methods if where.tunes(entry)]
            tuned = [(dict(where.settings_of(entry)), entry.name) for entry in where.methods if len(entry.grid) > 1]
            assert all(entry in seen for entry in tuned)
            assert len({entry.name for entry in where.methods}) == len(where.methods)


def test_a_stored_choice_serves_again(tmp_path, monkeypatch):
    experiment = Scripted([point([method("a", "b")])], lambda solver, seed: {"iterations": {"a": 30, "b": 12}[solver]})
    run(experiment, tmp_path, monkeypatch)
    assert [(solver, seed) for solver, seed, _ in experiment.made if seed < 1000] == [("b", 0), ("b", 1)]
    with Store(tmp_path / "runs" / "completion-size.jsonl", experiment.name, "tiny") as store:
        record = store.get("tuning", experiment.points("tiny")[0].params, "prgd")
    assert record is not None
    assert record["chosen"] == "b"


def test_a_point_may_borrow_settings(tmp_path, monkeypatch):
    grid = method("a", "b")
    first = point([grid])
    second = point([grid], params={**first.params, "n1": 99}, tuned_at=first.params)
    experiment = Scripted([first, second], lambda solver, seed: {"iterations": {"a": 30, "b": 12}[solver]})
    run(experiment, tmp_path, monkeypatch)
    assert [solver for solver, seed, _ in experiment.made if seed < 1000] == ["b"] * 4
    assert sum(seed >= 1000 for _, seed, _ in experiment.made) == 4


def test_a_method_alone_may_borrow_its_setting(tmp_path, monkeypatch):
    first = point([method("a", "b")])
    borrowing = replace(method("a", "b"), tuned_at=first.params)
    second = point([borrowing, method("c", "d", name="rgd")], params={**first.params, "n1": 99})
    cost = {"a": 30, "b": 12, "c": 20, "d": 40}
    experiment = Scripted([first, second], lambda solver, seed: {"iterations": cost[solver]})
    run(experiment, tmp_path, monkeypatch)
    assert sorted(solver for solver, seed, _ in experiment.made if seed < 1000) == ["b"] * 4 + ["c"] * 2
    assert {solver for solver, seed, _ in experiment.made if seed >= 1000} == {"a", "b", "c", "d"}
