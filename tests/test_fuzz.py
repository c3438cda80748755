"""The short form of tools/fuzz.py: random attacks on files, runs and inputs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
fuzz = pytest.importorskip("fuzz")

NEEDS = {"csv": "polars", "commands": "typer", "workers": "distributed"}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(fuzz.FAMILIES))
def test_every_promise_is_kept_under_random_attacks(name):
    pytest.importorskip(NEEDS.get(name, "numpy"))
    outcomes, failures = fuzz.attack(name, fuzz.FAMILIES[name][1])
    assert outcomes
    assert not failures, "\n".join(failures)


def test_the_page_names_tests_that_exist_and_all_families():
    root = Path(__file__).resolve().parents[1]
    text = (root / "docs/project/reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (root / name).exists()] == []
    assert set(fuzz.FAMILIES) <= set(re.findall(r"`(\w+)`", text))


def test_a_broken_promise_is_counted_with_its_seed(monkeypatch):
    def broken(rng, place):
        while True:
            number = int(rng.integers(100))
            yield f"number {number}", lambda number=number: 1 / (number % 2) and "odd"

    monkeypatch.setitem(fuzz.FAMILIES, "broken", (broken, 20, 20))
    outcomes, failures = fuzz.attack("broken", 20, seed=3)
    assert set(outcomes) == {"odd"}
    assert len(failures) == 20 - outcomes["odd"]
    assert failures[0].startswith("broken --seed 3 --case ")
    assert "ZeroDivisionError" in failures[0]
    number = int(failures[0].split()[4].rstrip(":"))
    assert fuzz.attack("broken", 20, seed=3, only=number)[1] == failures[:1]
