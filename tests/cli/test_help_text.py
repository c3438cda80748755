"""``lorank`` without a command, demos, examples on the help pages, and the doctor."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

import typer
from typer.testing import CliRunner

import lorank
from lorank.cli import app as cli
from lorank.cli.demos import DEMOS
from lorank.cli.doctor import PACKAGES, examine
from lorank.cli.help_text import EXAMPLES, WELCOME


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments: str):
    return CliRunner().invoke(cli.build_app(), list(arguments), env={"COLUMNS": "120", "TERM": "dumb"})


def commands() -> dict:
    return typer.main.get_command(cli.build_app()).commands


def test_alone_it_says_what_one_can_do():
    result = run()
    assert result.exit_code == 0
    assert result.stdout == WELCOME
    assert max(map(len, WELCOME.splitlines())) <= 80


LINES = [line for lines in EXAMPLES.values() for line in lines]
LINES += [line.partition("  ")[0] for line in re.findall(r"^  (lorank [a-z].*)$", WELCOME, re.MULTILINE)]


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_examples_are_commands_as_they_are(line):
    """Parsed, not run: the command, its options and their number of values exist."""
    words = shlex.split(line)
    if len(words) == 1:
        return
    command = commands()[words[1]]
    command.make_context(words[1], words[2:], resilient_parsing=False)


def test_examples_stand_in_the_help():
    for name in EXAMPLES:
        said = run(name, "--help").stdout
        assert EXAMPLES[name][0] in said, name


def test_help_fits_into_a_terminal_of_80_columns():
    """Examples stand on one line each, and flags are not followed by what looks like a value."""
    assert max(map(len, LINES)) <= 78
    for name in commands():
        result = CliRunner().invoke(cli.build_app(), [name, "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80, name
        for wrong in ("list[", "{", "<bool>"):
            assert wrong not in result.stdout, name
        assert CliRunner().invoke(cli.build_app(), [name, "-h"], env={"COLUMNS": "80", "TERM": "dumb"}).stdout == result.stdout
        json_line = next((line for line in result.stdout.splitlines() if "--json" in line and "Print" in line), "")
        assert "bool" not in json_line.lower(), name


def test_the_list_of_commands_has_groups_and_no_types():
    shown = run("-h").stdout
    places = [shown.index(title) for title in ("Ratings and clicks", "Tables and time series", "Research", "First steps")]
    assert places == sorted(places)
    assert "<" not in shown
    for name in commands():
        assert re.search(rf"^│ {name} ", shown, re.MULTILINE), name
        assert "<" not in run(name, "-h").stdout.replace("0<=x<=65535", ""), name


@pytest.mark.parametrize("name", DEMOS)
def test_stories(name, tmp_path):
    if name in ("ratings", "table"):
        pytest.importorskip("sklearn")
    result = run("demo", name, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    picture = tmp_path / f"lorank-demo-{name}.png"
    assert said["plot"] == picture.name
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert [path.name for path in tmp_path.iterdir()] == [picture.name]
    if name == "ratings":
        assert said["rmse"] < 0.8 * said["rmse_of_the_mean"]
        assert 0.8 < said["coverage"] < 0.99
    elif name == "table":
        assert said["rmse"] < 0.5 * said["rmse_of_lines"]
    elif name == "phase":
        assert said["relative_error"] < 1e-4
    else:
        assert said["rmse"] < 0.02
        assert said["spoilt_found"] > 0.9


def test_a_story_in_words():
    result = run("demo", "image", "--out", "here.png")
    assert result.exit_code == 0, result.output
    assert "plot: here.png" in result.stdout
    assert "with your own data: " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "there is no demo 'nonsense': choose ratings, table, phase, image"),
        (["phase", "--max-iter", "3"], "--max-iter is for lorank demo without"),
        (["phase", "--out", "x.pdf"], ".png"),
        (["phase", "--out", "missing/x.png"], "there is no folder"),
    ],
)
def test_wrong_stories_are_one_line(arguments, message):
    result = run("demo", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_doctor_names_what_is_missing(monkeypatch):
    from lorank.cli import doctor

    found = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "" if name in ("polars", "torch") else found(name))
    result = run("doctor")
    assert result.exit_code == 0
    assert f"lorank {lorank.__version__}" in re.sub(" +", " ", result.stdout)
    assert re.search(r"^--  polars +missing$", result.stdout, re.MULTILINE)
    assert re.search(r'^  polars: .*pip install "lorank\[files\]"', result.stdout, re.MULTILINE)
    assert "GPU: " in result.stdout
    findings = json.loads(run("doctor", "--json").stdout)["findings"]
    assert {"what", "found", "there", "brings", "remedy"} == set(findings[0])


def test_the_doctor_is_coloured_on_a_terminal_and_plain_elsewhere():
    coloured = CliRunner().invoke(cli.build_app(), ["doctor"], env={"FORCE_COLOR": "1", "TERM": "xterm-256color"}, color=True)
    assert "\x1b[32mok" in coloured.stdout
    plain = run("doctor").stdout
    assert "\x1b" not in plain
    assert "chromium" not in plain.lower()


@pytest.mark.parametrize("arguments", [["doctor", "--json"], ["reproduce", "--list"]])
@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_closed_pipe_is_no_error(arguments):
    """As in ``lorank ... | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "lorank", *arguments], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.stderr == ""


def test_the_doctor_knows_every_optional_package():
    import tomllib
    from pathlib import Path

    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"]
    for name, (_, extra) in PACKAGES.items():
        assert any(re.match(rf"{name}\b", one) for one in extras[extra]), name
    assert {one.what for one in examine()} >= {"kernels", "threads", "GPU", *PACKAGES}
