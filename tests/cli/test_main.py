"""The command as a whole: version, help, and being run as a module."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail import __version__
from dovetail.cli.main import cli


def test_the_module_runs_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dovetail", "--version"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, f"dovetail {__version__}\n", "")


def test_help_has_a_short_and_a_long_option() -> None:
    short, long = (CliRunner().invoke(cli, [option]) for option in ("-h", "--help"))

    assert short.exit_code == 0
    assert short.output == long.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])

    assert result.exit_code == 0
    assert "_DOVETAIL_COMPLETE" in result.stdout


def test_command_names_are_completed() -> None:
    asked = {"_DOVETAIL_COMPLETE": "bash_complete", "COMP_WORDS": "dovetail sim", "COMP_CWORD": "1"}

    result = CliRunner().invoke(cli, [], prog_name="dovetail", env=asked)

    assert result.stdout.split() == ["plain,simulate"]


def test_a_mistyped_command_gets_a_suggestion() -> None:
    result = CliRunner().invoke(cli, ["simulat"])

    assert result.exit_code == 1
    assert "Did you mean 'simulate'?" in result.stderr


def test_without_arguments_the_help_is_shown() -> None:
    result = CliRunner().invoke(cli, [])

    assert result.exit_code == 0
    assert "simulate" in result.stdout
    assert result.stderr == ""


def test_an_interrupt_exits_with_130_without_traceback() -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "dovetail", "simulate", "-f", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A background test run ignores interrupts, and child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert waiting.stdin is not None
    # More than a pipe holds: when this returns, the command is up and reading.
    waiting.stdin.write(b"# nothing yet\n" * 100_000)
    waiting.stdin.flush()

    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=30)

    assert waiting.returncode == 130
    assert (out, err.strip()) == (b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("command", ["--help", "completion bash", "simulate --help", "--version"])
def test_a_full_disk_is_no_internal_error(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dovetail", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "Error: standard output cannot be written: No space left on device\n"
