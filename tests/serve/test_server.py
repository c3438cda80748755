"""lorank serve: from a file to an answer, and what goes wrong before."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("typer")

from typer.testing import CliRunner

import lorank as lr
from lorank.cli import app as cli
from lorank.serve import server as command


def run(*arguments):
    return CliRunner().invoke(cli.build_app(), ["serve", *map(str, arguments)])


@pytest.fixture
def model(tmp_path):
    taken = [("anna", "tea"), ("anna", "milk"), ("ben", "tea"), ("ben", "bread"), ("cleo", "milk")]
    return lr.ImplicitFactorization(rank=2, zeros=0.1, regularization=0.1).fit(taken).save(tmp_path / "shop.lorank")


@pytest.mark.skipif(os.name == "nt", reason="there no process can send Ctrl-C to one other alone")
def test_a_server_begins_answers_and_ends_with_ctrl_c(model):
    code = "from lorank.cli.app import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", str(model), "--port", "0", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = process.stdout.readline().split()[0]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url + "api/recommend?user=anna&n=5", timeout=60) as answer:
            assert [one["id"] for one in json.load(answer)["items"]] == ["bread"]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")
    finally:
        process.kill()
        process.communicate()


def test_other_machines_are_warned_of_and_let_in_by_any_name(model, monkeypatch):
    apps = []

    class Nothing:
        def run(self, sockets):
            assert sockets[0].getsockname()[0] == "0.0.0.0"

    monkeypatch.setattr(command, "make_server", lambda app: apps.append(app) or Nothing())
    done = run(model, "--host", "0.0.0.0", "--port", 0)
    assert done.exit_code == 0, done.output
    assert "password" in done.stderr
    (guard,) = apps[0].user_middleware
    assert guard.kwargs["hosts"] is None


def test_what_goes_wrong_is_one_line(model, tmp_path, monkeypatch):
    with command.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        done = run(model, "--port", port)
        assert (done.exit_code, "Try another --port" in done.stderr) == (1, True)
    for arguments, said in (
        ([tmp_path / "none.lorank"], "does not exist"),
        ([__file__], "lorank file"),
        ([model, "--titles", tmp_path / "none.csv"], "does not exist"),
        ([model, "--host", "no.such.host.invalid"], "no.such.host.invalid"),
    ):
        done = run(*arguments)
        assert done.exit_code == (2 if "--host" in arguments else 1)
        assert said in done.stderr
        assert "Traceback" not in done.output
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else find(name, *rest))
    done = run(model)
    assert (done.exit_code, 'pip install "lorank[serve]"' in done.stderr) == (1, True)
