"""``lorank reproduce`` on the command line."""

from __future__ import annotations

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from lorank.cli import app as cli
from lorank.experiments import Experiment
from lorank.paper import EXPERIMENTS, command


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _no_pictures(monkeypatch):
    monkeypatch.setattr(command, "render", lambda out: ["tables"])


def invoke(*arguments: str):
    return CliRunner().invoke(cli.build_app(), ["reproduce", *arguments])


def test_list():
    result = invoke("--list")
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(EXPERIMENTS)
    assert "Completion: iterations and time against matrix size" in result.stdout


@pytest.mark.slow
def test_from_runs_to_the_page(tmp_path):
    result = invoke("completion-size", "--scale", "tiny", "--out", "here")
    assert result.exit_code == 0, result.output
    assert "CPU seconds: " in result.stderr
    assert "completion-size" in result.stderr
    made = [line for line in result.stdout.splitlines() if line]
    assert all((tmp_path / line).is_file() for line in made)
    assert {"here/results.csv", "here/traces.csv", "here/tuning.csv"} <= set(made)
    assert any(line.endswith(".png") for line in made)
    assert any(line.endswith(".html") for line in made)
    (tmp_path / "here" / "results.csv").unlink()
    again = invoke("--only-render", "--out", "here")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "here" / "results.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["size"], "unknown experiment 'size': choose from completion-size, completion-oversampling"),
        (["--scale", "huge"], "--scale must be quick or paper, got huge"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--out", "file"], "--out must be a folder"),
        (["--only-render", "--out", "nothing"], "in nothing"),
    ],
)
def test_bad_options_are_one_line(arguments, message, tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("lorank: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("_no_pictures")
def test_a_folder_of_another_scale_is_one_line():
    assert invoke("completion-size", "--scale", "tiny", "--out", "here").exit_code == 0
    result = invoke("completion-noise", "--scale", "quick", "--out", "here")
    assert result.exit_code == 2
    assert "holds runs at --scale tiny, not quick: choose another --out" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("_no_pictures")
def test_ctrl_c_says_how_to_go_on(monkeypatch):
    plain, count = Experiment.run, 0

    def stop(*arguments, **options):
        nonlocal count
        count += 1
        if count == 20:
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    monkeypatch.setattr(Experiment, "run", stop)
    result = invoke("completion-size", "--scale", "tiny", "--out", "a folder")
    assert result.exit_code == 130
    assert "lorank reproduce completion-size --scale tiny --out 'a folder'" in result.stderr
    monkeypatch.setattr(Experiment, "run", plain)
    assert "of them stored" in invoke("completion-size", "--scale", "tiny", "--out", "a folder").stderr


@pytest.mark.usefixtures("_no_pictures")
def test_names_run_in_the_order_given_and_once(monkeypatch):
    asked = []
    monkeypatch.setattr(command, "reproduce", lambda chosen, scale, out, **options: asked.append(chosen))
    assert invoke("completion-noise", "completion-size", "completion-noise").exit_code == 0
    assert invoke().exit_code == 0
    assert invoke("all").exit_code == 0
    assert asked == [["completion-noise", "completion-size"], list(EXPERIMENTS), list(EXPERIMENTS)]


def test_cpu_seconds_by_experiment():
    records = [{"experiment": name, "cpu": cpu} for name, cpu in (("a", 1.2), ("b", 4.0), ("a", 2.4))]
    records.append({"experiment": "b"})  # of a former version
    assert command.spent(records).startswith("CPU seconds: 8 in runs (a 4, b 4), ")


def test_importing_lorank_does_not_import_the_experiments():
    import subprocess
    import sys

    code = (
        "import sys, lorank\n"
        "print([m for m in sys.modules if m.startswith(('lorank.experiments', 'lorank.paper')) or m == 'pooch'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
