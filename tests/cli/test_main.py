"""The command as a whole: version, help, and being run as a module."""

import subprocess
import sys

from click.testing import CliRunner

from dovetail import __version__
from dovetail.cli.main import cli


def test_running_the_module_is_running_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dovetail", "--version"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, f"dovetail {__version__}\n", "")


def test_help_is_there_under_both_spellings() -> None:
    short, long = (CliRunner().invoke(cli, [option]) for option in ("-h", "--help"))

    assert short.exit_code == 0
    assert short.output == long.output
