"""Ctrl-C while the command ``lorank`` imports its modules: the process ends without a traceback.

``lorank/__init__.py`` imports this module first. It imports a few modules of the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def is_command() -> bool:
    """Whether this process is the command: ``lorank ...`` or ``python -m lorank ...``, and none of its worker processes."""
    name = os.path.splitext(os.path.basename((getattr(sys, "argv", None) or [""])[0]))[0]
    if name == "-m":  # before the module is found
        before = sys.orig_argv.index("-m") if "-m" in sys.orig_argv else -1
        name = sys.orig_argv[before + 1]
    processes = sys.modules.get("multiprocessing.process")
    return name == "lorank" and (processes is None or processes.parent_process() is None)


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the process at once, until :func:`raise_at_ctrl_c`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as after nohup
        _set(signal.SIG_DFL)


def raise_at_ctrl_c() -> None:
    """Let Ctrl-C raise a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        _set(signal.default_int_handler)


def _set(handler: object) -> None:
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type]


if is_command():
    end_at_ctrl_c()
