"""Commands run in this process, as a shell would run them."""

from __future__ import annotations

from typer.testing import CliRunner

from lorank import cli


def run(*arguments):
    return CliRunner().invoke(cli.build_app(), [str(a) for a in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output + result.stderr
    return result


def refused(*arguments):
    """What is said where a file (1) or an option (2) is refused."""
    result = run(*arguments)
    assert result.exit_code in (1, 2), result.output
    return result.stderr
