"""Where a package of an extra is missing, what needs it says which extra brings it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# As an environment without these packages would have it: they cannot be found.
HIDE = """
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
folder = pathlib.Path(sys.argv[1])
(folder / "r.csv").write_text("user,item,stars\\nann,7,4\\nann,9,2\\nbob,9,5\\n", encoding="utf-8")
(folder / "t.csv").write_text("a,b\\n1,2\\n3,\\n", encoding="utf-8")
said = {}
"""

LIBRARY = """
import lorank.io.archive
import lorank as lr
problem, _ = lr.datasets.random_completion(40, 30, 2, oversampling=4)
result = lr.solve(problem, 2)
assert result.converged  # all that the library alone needs is there
assert lr.load(result.save(folder / "result.lorank")).converged
model_file = lorank.io.archive.write_archive(folder / "model.lorank", "model", {"class": "MatrixCompletion"}, {})
lr.distributed.save_partitions(problem, folder / "parts")
columns = ("user", "item", "stars")

def estimators():
    import lorank.estimators

for name, work in {
    "MatrixCompletion": lambda: lr.MatrixCompletion,
    "ImplicitFactorization": lambda: lr.ImplicitFactorization,
    "TableImputer": lambda: lr.TableImputer,
    "TensorImputer": lambda: lr.TensorImputer,
    "load": lambda: lr.load(model_file),
    "estimators": estimators,
    "torch": lambda: problem.to("torch"),
    "cuda": lambda: lr.datasets.random_completion(40, 30, 2, oversampling=4, backend="torch:cuda"),
    "from_csv": lambda: lr.distributed.from_csv(folder / "r.csv", *columns),
    "from_parquet": lambda: lr.distributed.from_parquet(folder / "r.csv", *columns),
    "cluster": lambda: lr.distributed.from_partitions(folder / "parts", cluster="tcp://127.0.0.1:1"),
    "compare": lr.compare(problem, 2, ["auto"]).plot,
    "result.plot": result.plot,
    "history.to_frame": result.history.to_frame,
    "load_movielens": lambda: lr.datasets.load_movielens("100k"),
}.items():
    try:
        said[name] = f"nothing: {work()}"
    except (ImportError, ValueError, OSError, RuntimeError) as error:
        said[name] = str(error)
print(json.dumps(said))
"""

COMMANDS = """
from typer.testing import CliRunner
from lorank.cli.app import build_app

for words in (
    "complete r.csv", "diagnose r.csv", "evaluate r.csv", "impute t.csv -o f.csv", "predict m.lorank r.csv -o p.csv",
    "recommend m.lorank --row 1", "inspect m.lorank", "serve m.lorank", "demo ratings", "demo table",
):
    (folder / "m.lorank").write_bytes(b"")
    command, *rest = (str(folder / word) if (folder / word).exists() else word for word in words.split())
    done = CliRunner().invoke(build_app(), [command, *rest])
    said[words] = (f"{done.exit_code}: " if done.exit_code != 1 else "") + done.stderr
print(json.dumps(said))
"""

LIBRARY_EXTRAS = {
    **dict.fromkeys(("MatrixCompletion", "ImplicitFactorization", "TableImputer", "TensorImputer"), "sklearn"),
    **dict.fromkeys(("load", "estimators"), "sklearn"),
    **dict.fromkeys(("torch", "cuda"), "gpu"),
    **dict.fromkeys(("from_csv", "from_parquet"), "files"),
    "cluster": "cluster",
    **dict.fromkeys(("compare", "result.plot"), "cli"),
    "history.to_frame": "files",
    "load_movielens": "cli",
}


def answers(hidden, code, folder):
    program = f"HIDDEN = {set(hidden)!r}\n{HIDE}\n{code}"
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_library_alone_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.delenv("LORANK_DATA", raising=False)
    hidden = ["sklearn", "joblib", "torch", "polars", "pandas", "distributed", "dask", "pooch"]
    hidden += ["typer", "rich", "matplotlib", "plotly"]
    found = answers(hidden, LIBRARY, tmp_path)
    assert set(found) == set(LIBRARY_EXTRAS)
    for name, said in found.items():
        assert f'pip install "lorank[{LIBRARY_EXTRAS[name]}]"' in said, (name, said)


def test_commands_name_the_extra(tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    found = answers(["sklearn", "joblib", "polars", "pandas", "plotly", "starlette", "uvicorn"], COMMANDS, tmp_path)
    for words, said in found.items():
        extra = "serve" if words.startswith("serve") else "files"
        assert said.startswith("lorank: "), (words, said)
        assert f'pip install "lorank[{extra}]"' in said, (words, said)
