"""Shell completion: commands, options, values and files, without importing the commands."""

import os
import subprocess
import sys

import click

from dovetail.cli.completion_table import describe_command, read_table
from dovetail.cli.main import cli


def complete(words: str) -> list[str]:
    """Return what bash gets for a line that ends with TAB: type and value."""
    result = subprocess.run(
        [sys.executable, "-m", "dovetail"],
        env={
            **os.environ,
            "_DOVETAIL_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.split()


def test_the_table_has_all_commands_and_options() -> None:
    actual = describe_command(cli, click.Context(cli, info_name="dovetail"))

    assert read_table() == actual, "options have changed: run make completion"


def test_commands_options_and_values_are_completed() -> None:
    assert complete("dovetail sim") == ["plain,simulate"]
    assert complete("dovetail cluster pl") == ["plain,plan"]
    assert complete("dovetail simulate --pack") == ["plain,--packing"]
    assert complete("dovetail cluster plan --off") == ["plain,--offline"]
    assert complete("dovetail simulate -o y") == ["plain,yaml"]
    assert complete("dovetail demo spot-") == ["plain,spot-storm"]


def test_files_are_completed_where_a_file_is_expected() -> None:
    assert complete("dovetail simulate -f my") == ["file,my"]
    assert complete("dovetail explain node --cluster cl") == ["file,cl"]
    assert complete("dovetail demo ./mine") == ["file,./mine"]
