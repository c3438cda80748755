"""Custom experiments: from a generator and solvers to tables, figures and a page; `lorank bench`."""

from __future__ import annotations

import csv
import pickle
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lorank as lr
from lorank.experiments import Benchmark, combinations, load_file, run
from lorank.experiments.figures import curves, figures, profile
from lorank.experiments.latex import escaped, latex_table
from lorank.experiments.tables import Case, Curve, Row, average

pytest.importorskip("matplotlib")
typer = pytest.importorskip("typer.testing")

FILE = """
from dataclasses import dataclass
import lorank as lr

@dataclass(frozen=True)
class Own:
    def start(self, G):
        return None
    def weights(self, G, memory):
        return lr.geometry.Weights(), None

def problem(seed, n, rank):
    return lr.datasets.random_completion(n, n, rank, oversampling=6, seed=seed)

solvers = {"own": [lr.solvers.RGD(Own(), lr.steps.Exact(k)) for k in (1.0, 0.8)], "RCG": "rcg"}
experiment = lr.experiments.Benchmark(problem, solvers, {"n": [30, 40], "rank": [1, 2]}, seeds=2)
"""


def problem(seed, n, rank=2):
    return lr.datasets.random_completion(n, n, rank, oversampling=6, seed=seed)


def small(**options):
    return Benchmark(problem, ["rgd", "rcg"], {"n": [30, 40]}, **({"seeds": 2} | options))


def lines(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The results of a file with an own metric, in two processes."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "own_metric.py").write_text(FILE)
    invoked = typer.CliRunner().invoke(
        build_app(),
        ["bench", str(folder / "own_metric.py"), "--out", str(folder / "out"), "--jobs", "2", "--formats", "png,pdf,svg"],
    )
    assert invoked.exit_code == 0, invoked.output
    return folder / "out", invoked.stdout.split()


def build_app():
    from lorank.cli.app import build_app

    return build_app()


def test_all_files_of_an_own_metric(made):
    out, printed = made
    assert all(Path(name).is_file() for name in printed)
    names = {Path(name).relative_to(out).as_posix() for name in printed}
    figures_ = ("against-rank", "against-n", "success", "profile", "convergence")
    assert names == {
        *("results.csv", "traces.csv", "tuning.csv", "tables/own_metric.tex", "index.html"),
        *(f"figures/own_metric-{figure}.{kind}" for figure in figures_ for kind in ("png", "pdf", "svg")),
    }
    heads = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    for name in printed:
        assert Path(name).read_bytes().startswith(heads.get(Path(name).suffix, b"")), name
    rows = lines(out / "results.csv")
    assert len(rows) == 4 * 2 * 2
    assert {row["reached"] for row in rows} == {"true"}
    assert {row["seed"] for row in lines(out / "tuning.csv")} == {"1000", "1001"}  # never those of the results


def test_the_page_needs_no_network(made):
    text = (made[0] / "index.html").read_text(encoding="utf-8")
    assert text.count("<svg ") > 12
    assert "src=" not in text
    assert not re.search(r'href="https?:', re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_latex_table_has_a_line_for_each_point_and_method(made):
    text = (made[0] / "tables" / "own_metric.tex").read_text()
    assert text.count(r"\midrule") == 4
    assert [text.count(rule) for rule in (r"\toprule", r"\bottomrule", r"\end{tabular}")] == [1, 1, 1]
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 1 + 4 * 2
    assert len({line.count("&") for line in body}) == 1
    assert text.count(r"\mathbf") == 4 * 2  # the best of each point, in iterations and in seconds


def test_stored_runs_are_not_repeated(tmp_path):
    first = run(small(), tmp_path)
    stored = (tmp_path / "runs" / "experiment.jsonl").read_bytes()
    again = run(small(), tmp_path)
    assert (tmp_path / "runs" / "experiment.jsonl").read_bytes() == stored
    assert [row.seconds for row in again.tables.results] == [row.seconds for row in first.tables.results]
    more = run(small(seeds=3), tmp_path)
    assert len(more.tables.results) == 12
    assert (tmp_path / "runs" / "experiment.jsonl").read_bytes().startswith(stored)
    assert "n = 30, RCG: " in str(more)


def test_own_measurements_reach_tables_and_traces(tmp_path):
    def measure(X, instance):
        return {"largest": float(X.s[0] / instance.truth.s[0])}

    found = run(small(measure=measure, seeds=1), tmp_path, formats=())
    assert all(row.get("largest") == pytest.approx(1, abs=1e-3) for row in found.tables.results)
    assert found.tables.curves[0].largest[-1] == pytest.approx(1, abs=1e-3)
    assert float(lines(tmp_path / "results.csv")[0]["largest"]) == pytest.approx(1, abs=1e-3)
    assert "largest" in lines(tmp_path / "traces.csv")[0]


def test_the_solution_stays_outside_the_timed_part(tmp_path):
    """A slow measurement does not count."""
    import time

    def measure(X, instance):
        time.sleep(0.02)
        return {}

    found = run(small(measure=measure, seeds=1), tmp_path, formats=(), threads=2)  # wall times
    assert all(row.seconds < 0.02 * row.iterations for row in found.tables.results)


def test_one_setting_for_all_points_never_fails(tmp_path):
    grid = [lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Constant(k), safeguard=None) for k in (5.0, 0.5, 0.3)]
    experiment = Benchmark(problem, {"RGD": grid}, {"n": [30, 40]}, seeds=1, tuning="all", max_iter=400)
    found = run(experiment, tmp_path, formats=()).tables
    assert len({row.setting for row in found.results}) == 1
    tried = [one for one in found.tuning if "5.0" in one.candidate]
    assert len(tried) == 1  # it failed at the first
    assert not tried[0].reached
    assert len([one for one in found.tuning if one.chosen]) == 2 * 2  # seeds and points


def test_points_one_by_one_and_problems_without_solution(tmp_path):
    def unknown(seed, n, rank):
        return problem(seed, n, rank)[0]

    found = run(Benchmark(unknown, ["rcg"], [{"n": 30, "rank": 1}, {"n": 40, "rank": 2}], seeds=1), tmp_path, formats=())
    assert [vars(row.case) for row in found.tables.results] == [{"n": 30, "rank": 1}, {"n": 40, "rank": 2}]
    assert all(row.reached and row.residual <= 1e-4 and np.isnan(row.error) for row in found.tables.results)
    with pytest.raises(lr.ParameterError, match="needs a parameter rank"):
        run(Benchmark(lambda seed, n: problem(seed, n)[0], ["rcg"], {"n": [30]}, seeds=1), tmp_path / "b")


def test_tensors_can_be_compared(tmp_path):
    def tensor(seed, n, rank):
        return lr.datasets.random_tensor((n, n, n), rank, oversampling=8, seed=seed)

    found = run(Benchmark(tensor, ["rcg"], [{"n": 12, "rank": (2, 2, 2)}], seeds=1), tmp_path, formats=("svg",)).tables
    assert [(row.reached, row.case.rank) for row in found.results] == [(True, (2, 2, 2))]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Benchmark("x", ["rcg"], {}), "problem must be a function"),
        (lambda: Benchmark(problem, "rcg", {}), "solvers must be a mapping"),
        (lambda: Benchmark(problem, ["rcg"], {"n": [30]}, tuning="never"), "tuning must be 'point' or 'all'"),
        (lambda: Benchmark(problem, ["rcg"], {"n": [30]}, seeds=[1000]), "tuning seeds must differ"),
        (lambda: run([small(), small()], "x"), "experiments must be at least one, with different names"),
        (lambda: run(small(), "x", formats=["eps"]), "formats are png, pdf and svg, got 'eps'"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_file_without_experiments_is_refused(tmp_path):
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match="defines no experiment: write experiment = "):
        load_file(tmp_path / "empty.py")
    invoked = typer.CliRunner().invoke(build_app(), ["bench", str(tmp_path / "none.py")])
    assert invoked.exit_code == 1
    assert "none.py does not exist" in invoked.output


def test_experiments_of_a_file_can_be_sent_to_other_processes(tmp_path):
    (tmp_path / "sent.py").write_text(FILE)
    (experiment,) = load_file(tmp_path / "sent.py")
    assert pickle.loads(pickle.dumps(experiment)).name == experiment.name == "sent"


def test_combinations():
    assert combinations({"a": [1, 2], "b": (3,)}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]


# -- figures -----------------------------------------------------------------------------------------------------------
def row(method, seed, iterations, reached=True):
    about = {"experiment": "e", "scale": "paper", "setting": "", "case": Case(n=10), "residual": 0.0, "heldout_rmse": 0.0}
    about |= {"threads": 1, "date": "", "versions": (), "machine": "", "protocol": 1, "status": "", "error": 1e-5}
    return Row(method=method, seed=seed, iterations=iterations, seconds=iterations, reached=reached, capped=False, **about)


def test_performance_profiles():
    """A is the best on two problems of three and solves those alone; b solves all, within a factor of 4."""
    rows = [row("a", 0, 10), row("a", 1, 10), row("a", 2, 10, reached=False), row("b", 0, 20), row("b", 1, 40), row("b", 2, 5)]
    lines_ = {line.key: dict(zip(line.x, line.y, strict=True)) for line in profile(rows).lines}
    assert lines_["a"][1.0] == pytest.approx(200 / 3)
    assert max(lines_["a"].values()) == pytest.approx(200 / 3)
    assert [lines_["b"][x] for x in (1.0, 2.0, 4.0)] == pytest.approx([100 / 3, 200 / 3, 100])


def test_bands_over_seeds():
    """The median and the range of three runs, in logarithms; the curve ends where half of the runs have ended."""
    made = [
        Curve("e", "a", Case(n=10), k, {"iteration": np.arange(4.0 + k), "residual": level * 0.1 ** np.arange(4.0 + k)})
        for k, level in enumerate((1.0, 2.0, 4.0))
    ]
    (line,) = curves(made, "iteration", "residual").lines
    assert line.x.tolist() == [0, 1, 2, 3, 4]
    assert line.y[:4] == pytest.approx([2, 0.2, 0.02, 0.002])
    assert line.low[:4] == pytest.approx([1, 0.1, 0.01, 0.001])
    assert line.high[:4] == pytest.approx([4, 0.4, 0.04, 0.004])
    assert line.low[4] == pytest.approx(2e-4)  # the shortest run keeps its last value, 1e-3
    assert line.y[4] == pytest.approx(4e-4)


def test_figures_without_runs_are_an_error():
    from lorank.experiments.drawing import draw
    from lorank.experiments.tables import Tables

    with pytest.raises(ValueError, match="no runs of the experiment 'x': the experiments with runs are none"):
        figures(Tables(), "x")
    with pytest.raises(ValueError, match="no panels to draw"):
        draw([])


def test_latex_of_odd_names():
    assert escaped(r"a_b & 50% \x") == r"a\_b \& 50\% \textbackslash{}x"
    points = average([row("a_b", 0, 10), row("c", 0, 12, reached=False)])
    text = latex_table(points)
    assert r"a\_b & $\mathbf{10}$ & $\mathbf{10}$" in text
    assert "c & -- & --" in text


@pytest.mark.skipif(not __import__("shutil").which("pdflatex"), reason="needs pdflatex")
def test_latex_compiles(made, tmp_path):
    table = made[0] / "tables" / "own_metric.tex"
    text = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}\input{{{table}}}\end{{document}}"
    (tmp_path / "a.tex").write_text(text)
    subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"], cwd=tmp_path, check=True)
