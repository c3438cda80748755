"""``lorank demo``, the entry point and the version, on a small matrix."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import lorank
from lorank.cli import app as cli

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from lorank.cli import solver_demo as demo_module
from lorank.cli.solver_demo import SOLVERS, SolverDemo, run_solver_demo
from lorank.loop.result import Status
from lorank.report import Run

pytestmark = pytest.mark.filterwarnings("error::lorank.ConvergenceWarning")

SMALL = ["--n", "200", "--rank", "3"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments: str):
    return CliRunner().invoke(cli.build_app(), ["demo", *arguments])


def test_demo_prints_a_table_and_draws(tmp_path):
    result = run(*SMALL)
    assert result.exit_code == 0, result.output
    for solver in SOLVERS:
        assert re.search(rf"^ *{solver} +\d+ +\d+\.\d+ +\d\.\de[-+]\d+ +", result.stdout, re.MULTILINE), result.stdout
        assert re.search(rf"^{solver} .*iteration +\d+  residual .*", result.stderr, re.MULTILINE), result.stderr
    assert "lorank-demo.png" in result.stdout
    assert (tmp_path / "lorank-demo.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert os.listdir(tmp_path) == ["lorank-demo.png"]


def test_demo_json(tmp_path):
    result = run(*SMALL, "--json", "--out", "here.png", "--seed", "3", "--tol", "1e-3")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["lorank"], report["n"], report["rank"], report["seed"]) == (lorank.__version__, 200, 3, 3)
    assert report["observations"] == 5 * (200 + 200 - 3) * 3
    assert report["backend"] in ("native", "numpy")
    assert report["interrupted"] is False
    assert [run["solver"] for run in report["runs"]] == list(SOLVERS)
    prgd = report["runs"][0]
    assert prgd["reached"]
    assert prgd["status"] == "recovered"
    assert 0 < prgd["relative_error"] <= 1e-3
    assert prgd["iterations"] > 0
    assert prgd["seconds"] > 0
    assert "RowColumn" in prgd["composition"]
    assert (tmp_path / report["plot"]).exists()


def test_demo_says_what_was_not_reached():
    result = run(*SMALL, "--max-iter", "2", "--json")
    assert result.exit_code == 0
    for entry in json.loads(result.stdout)["runs"]:
        assert not entry["reached"]
        assert entry["status"] == "max_iter"
        assert entry["speed_against_rgd"] is None
    assert run(*SMALL, "--max-iter", "2").stdout.count("not reached") == len(SOLVERS)


def test_speed_against_a_base_that_did_not_get_there_is_a_bound():
    def made(solver, time, reached):
        nothing = np.empty(0)
        return Run(solver, "", Status("x", success=reached), 1, time, 0.1, nothing, nothing, nothing)

    fast, slow, lost = made("prgd", 2.0, True), made("rgd", 10.0, True), made("rgd", 10.0, False)
    assert demo_module._speed_text(fast, slow) == "5.0 x"
    assert demo_module._speed_text(fast, lost) == "> 5.0 x"
    assert demo_module._speed_text(lost, lost) == "not reached"
    assert demo_module._speed_text(fast, None) == "-"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", "5", "--rank", "10"], "a 5 x 5 matrix cannot have rank 10"),
        (["--rank", "0"], "--rank must be at least 1"),
        (["--oversampling", "-1"], "--oversampling must be a positive number"),
        (["--oversampling", "nan"], "--oversampling must be a positive number"),
        (["--n", "100000000"], "lower --n, --rank or --oversampling"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--tol", "2"], "--tol must lie between 0 and 1"),
        (["--max-iter", "0"], "--max-iter must be at least 1"),
        (["--max-seconds", "0"], "--max-seconds must be positive"),
        (["--out", "missing/plot.png"], "there is no folder"),
        (["--out", "plot.pdf"], ".png"),
        (["--out", "folder.png"], "is a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_one_line(arguments, message, tmp_path):
    (tmp_path / "folder.png").mkdir()
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("lorank: ")
    assert result.stderr.count("\n") == 1


def test_a_failed_write_is_one_line(monkeypatch):
    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    result = run("--n", "30", "--rank", "1")
    assert result.exit_code == 1
    assert "no space left on device" in result.stderr
    assert "Traceback" not in result.output


def test_too_little_memory_is_one_line(monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(demo_module, "random_completion", fail)
    result = run()
    assert result.exit_code == 2
    assert "not enough memory" in result.stderr


def test_warnings_are_lines():
    """Once each, and not as Python's."""
    result = run("--n", "40", "--rank", "3", "--oversampling", "0.9", "--max-iter", "3")
    assert result.exit_code == 0
    assert len(re.findall(r"^lorank: note: .* fewer than the .* degrees of freedom", result.stderr, re.MULTILINE)) == 1
    assert "UserWarning" not in result.output


def interrupt(monkeypatch, *, solver: int, iteration: int) -> None:
    """Ctrl-C in that iteration of that solver."""
    trace = sys.modules["lorank.report.comparison"]._Trace
    plain, count = trace.__call__, 0

    def call(self, problem, state, clock):
        nonlocal count
        count += state.iteration == 0
        if count == solver and state.iteration == iteration:
            raise KeyboardInterrupt
        plain(self, problem, state, clock)

    monkeypatch.setattr(trace, "__call__", call)


def test_ctrl_c_shows_what_is_done(monkeypatch, tmp_path):
    interrupt(monkeypatch, solver=2, iteration=5)
    result = run(*SMALL)
    assert result.exit_code == 130
    assert re.search(r"^ *prgd +\d+", result.stdout, re.MULTILINE)
    assert re.search(r"^ *rgd +5 .*interrupted", result.stdout, re.MULTILINE)
    assert "shampoo" not in result.stdout
    assert "interrupted: 1 of 5 solvers had finished" in result.stderr
    assert os.listdir(tmp_path) == []


def test_ctrl_c_with_json(monkeypatch):
    interrupt(monkeypatch, solver=1, iteration=0)
    result = run(*SMALL, "--json")
    assert result.exit_code == 130
    report = json.loads(result.stdout)
    assert report["interrupted"]
    assert report["plot"] is None
    assert [entry["status"] for entry in report["runs"]] == ["interrupted"]


def test_ctrl_c_before_the_first_solver(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_module, "random_completion", stop)
    result = run(*SMALL)
    assert result.exit_code == 130
    assert result.stdout == ""


def test_live_lines_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    assert run_solver_demo(SolverDemo(n=100, rank=2)).code == 0
    shown = capsys.readouterr().err
    assert "\x1b[" in shown
    lines = re.sub(r"\x1b\[[\d;?]*\w", "", shown).splitlines()
    for solver in SOLVERS:
        assert any(line.startswith(solver) and "iteration" in line and "residual" in line for line in lines)


def test_version(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lorank", "--version"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    assert capsys.readouterr().out == f"lorank {lorank.__version__}\n"


def test_help_names_the_command():
    result = CliRunner().invoke(cli.build_app(), ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.stdout


@pytest.mark.parametrize("name", cli.NEEDS)
def test_without_the_extra_it_says_how_to_get_it(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys, "argv", ["lorank", "demo"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert name in err
    assert 'pip install "lorank[cli]"' in err


def test_warnings_elsewhere_are_left_alone():
    before = warnings.showwarning
    run("--n", "30", "--rank", "1")
    assert warnings.showwarning is before


def test_ids_are_shown_whatever_the_locale(tmp_path):
    """Files are UTF-8; a terminal that is not gets what it can show."""
    pytest.importorskip("polars")
    pytest.importorskip("sklearn")
    (tmp_path / "r.csv").write_text(
        "user,item,rating\nZo\u00eb,\u6771,3\nZo\u00eb,a,4\nb,a,2\nb,\u6771,5\nc,a,3\n", encoding="utf-8"
    )
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}

    def call(*words):
        program = "import sys; from lorank.cli.app import main; sys.argv[0] = 'lorank'; main()"
        options = {"cwd": tmp_path, "env": os.environ | locale, "capture_output": True, "check": False}
        done = subprocess.run([sys.executable, "-c", program, *words], **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    call("complete", "r.csv", "--rank", "1", "--regularization", "learned", "-o", "m.lorank")
    assert b"\\u6771" in call("recommend", "m.lorank", "--row", "Zo\u00eb".encode(), "--include-seen")
    call("recommend", "m.lorank", "--all", "-o", "all.csv")
    assert "\u6771" in (tmp_path / "all.csv").read_text(encoding="utf-8")


def test_python_m_lorank_is_the_command():
    done = subprocess.run([sys.executable, "-m", "lorank", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"lorank {lorank.__version__}\n"
