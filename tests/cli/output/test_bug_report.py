"""A bug of ours, as the user meets it."""

import click
from click.testing import CliRunner

from dovetail.cli.main import Dovetail


@click.command()
def broken() -> None:
    raise ZeroDivisionError("nobody\nthought of this")


class WithABug(Dovetail):
    """The command line, had one of its commands a bug."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return broken


def test_a_bug_is_told_in_three_lines_with_an_exit_code_of_its_own() -> None:
    result = CliRunner().invoke(WithABug("dovetail", modules={}), ["simulate"])

    assert result.exit_code == 70
    assert "broke: ZeroDivisionError: nobody thought of this" in result.stderr
    assert "a bug in Dovetail" in result.stderr
    assert "DOVETAIL_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 3
    assert result.stdout == ""


def test_a_bug_says_where_in_the_program_it_struck() -> None:
    result = CliRunner().invoke(WithABug("dovetail", modules={}), ["simulate"])

    assert "(at cli/main.py:" in result.stderr


def test_asked_to_debug_a_bug_shows_its_traceback() -> None:
    result = CliRunner().invoke(
        WithABug("dovetail", modules={}), ["simulate"], env={"DOVETAIL_DEBUG": "1"}
    )

    assert result.exit_code == 70
    assert "Traceback (most recent call last)" in result.stderr
    assert "in broken" in result.stderr
