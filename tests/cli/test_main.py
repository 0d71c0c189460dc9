"""The command as a whole: version, help, and being run as a module."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
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


@pytest.mark.parametrize(
    ("program", "usage"), [("dovetail", "dovetail top"), ("kubectl-dovetail", "kubectl dovetail top")]
)
def test_help_names_the_command_as_it_was_called(tmp_path: Path, program: str, usage: str) -> None:
    script = tmp_path / program
    script.write_text("from dovetail.cli.main import main\nmain()\n")

    done = subprocess.run(
        [sys.executable, str(script), "top", "--help"], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith(f"Usage: {usage} [OPTIONS]")


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
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


def cpu_seconds(*arguments: str, **variables: str) -> float:
    """Return the least CPU time of three runs of the command in a new process."""
    program = (
        "import resource, sys; from dovetail.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, file=sys.stderr)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(3)
    ]
    return min(float(run.stderr.split()[-1]) for run in runs)


def test_help_and_completion_take_less_than_a_quarter_of_a_second() -> None:
    complete = {"_DOVETAIL_COMPLETE": "bash_complete", "COMP_CWORD": "1", "COMP_WORDS": "dovetail "}
    # The command with the most imports.
    options = {**complete, "COMP_CWORD": "2", "COMP_WORDS": "dovetail doctor --"}

    assert cpu_seconds("--help") < 0.25
    assert cpu_seconds(**complete) < 0.25
    assert cpu_seconds(**options) < 0.25


def commands_and_groups() -> list[tuple[list[str], click.Group]]:
    context = click.Context(cli, info_name="dovetail")
    groups: list[tuple[list[str], click.Group]] = [([], cli)]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            groups.append(([name], command))
    return groups


@pytest.mark.parametrize(("path", "group"), commands_and_groups(), ids=lambda value: str(value))
def test_help_of_a_group_shows_the_first_sentence_of_each_command_in_full(
    path: list[str], group: click.Group
) -> None:
    context = click.Context(group, info_name="dovetail")

    shown = " ".join(CliRunner().invoke(cli, [*path, "--help"]).output.split())

    assert "..." not in shown.partition("Commands:")[2]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert command.help is not None
        sentence = " ".join(command.help.partition("\n\n")[0].split()).partition(". ")[0]
        assert f" {name} {sentence}" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--no-such"], "error: No such option '--no-such'."),
        (["simulate", "-f", "/missing.yaml"], "error: /missing.yaml does not exist"),
        (["replay", "/missing.trace"], "error: /missing.trace does not exist"),
        (["trace", "show", "/missing.trace"], "error: /missing.trace does not exist"),
        (["explain", "node", "--kubeconfig", "/missing"], "error: /missing "),
        (["crds", "nosuchkind"], "error: "),
    ],
)
def test_every_error_has_the_same_style(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, arguments)

    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(message)
