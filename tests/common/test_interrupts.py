"""Ctrl-C while the command imports its modules."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there no process can send Ctrl-C to one other alone")

# A finder that sends Ctrl-C to its process where a module is imported.
FINDER = """
import os, signal, sys, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED"]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)

sys.meta_path.insert(0, Finder())
"""
SCRIPT = "import sys\nfrom lorank.cli.app import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


def interrupted_at(folder, module, *command):
    (folder / "sitecustomize.py").write_text(FINDER)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "INTERRUPTED": module}
    return subprocess.run([sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, check=False)


MODULES = ["lorank.backends", "numpy", "lorank.tensors", "lorank.cli.app", "lorank.cli.errors", "typer"]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("by", ["script", "module"])
def test_ctrl_c_ends_the_command_without_a_traceback(tmp_path, module, by):
    (tmp_path / "lorank").write_text(SCRIPT)
    command = [tmp_path / "lorank"] if by == "script" else ["-m", "lorank"]
    found = interrupted_at(tmp_path, module, *command, "--version")
    assert found.returncode in (130, -signal.SIGINT)
    assert (found.stdout, found.stderr) == ("", "")


@pytest.mark.parametrize("command", [("-c", "import lorank"), ("-m", "other"), ("other.py",)])
def test_other_programs_get_a_keyboard_interrupt(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text("import lorank\n")
    found = interrupted_at(tmp_path, "lorank.tensors", *command)
    assert "KeyboardInterrupt" in found.stderr


def test_the_command_keeps_its_handler_after_the_import(tmp_path):
    """Within commands Ctrl-C raises an exception, and an ignored signal stays ignored."""
    code = "import sys, signal\nsys.argv[0] = 'lorank'\nfrom lorank.cli import app\napp.build_app = lambda: show\n"
    code += "def show(): print(signal.getsignal(signal.SIGINT).__name__)\napp.main()\n"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "default_int_handler\n"
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + code.replace(".__name__", " is signal.SIG_IGN")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
