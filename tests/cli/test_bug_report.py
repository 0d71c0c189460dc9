"""Internal errors on the command line."""

import click
from click.testing import CliRunner

from dovetail.cli.main import Dovetail


@click.command()
def broken() -> None:
    raise ZeroDivisionError("not\nthought of")


class BrokenCommandLine(Dovetail):
    """The command line with a command that has a bug."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return broken


def test_an_internal_error_has_three_lines_and_its_own_exit_code() -> None:
    result = CliRunner().invoke(BrokenCommandLine("dovetail", modules={}), ["simulate"])

    assert result.exit_code == 70
    assert "internal error: ZeroDivisionError: not thought of" in result.stderr
    assert "a bug in Dovetail" in result.stderr
    assert "DOVETAIL_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 3
    assert result.stdout == ""


def test_an_internal_error_names_its_location() -> None:
    result = CliRunner().invoke(BrokenCommandLine("dovetail", modules={}), ["simulate"])

    assert "(at cli/main.py:" in result.stderr


def test_debug_mode_shows_the_traceback() -> None:
    result = CliRunner().invoke(
        BrokenCommandLine("dovetail", modules={}), ["simulate"], env={"DOVETAIL_DEBUG": "1"}
    )

    assert result.exit_code == 70
    assert "Traceback (most recent call last)" in result.stderr
    assert "in broken" in result.stderr
