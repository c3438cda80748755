"""Commands run in this process, as a shell would run them."""

from __future__ import annotations

from typer.testing import CliRunner

from lorank.cli import app as cli


def run(*arguments):
    return CliRunner().invoke(cli.build_app(), [str(a) for a in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output + result.stderr
    return result


def refused(*arguments, code=1):
    """What is said where a file is refused; with code=2, an option."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    return result.stderr
