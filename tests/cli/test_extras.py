"""Commands of an installation without extras: those for AWS name what they need, all others work."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_EXTRAS = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package in ("boto3", "botocore", "cel_expr_python", "prometheus_client", "pydantic", "ray"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""
IMPORT_COMMANDS = """
import click
from dovetail.cli.main import cli

context = click.Context(cli)
for name in cli.list_commands(context):
    try:
        command = cli.get_command(context, name)
        if name == "cluster":
            command.get_command(context, "plan")
    except ModuleNotFoundError:
        print(name)
"""


def run_without_extras(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_only_commands_for_aws_need_an_extra() -> None:
    result = run_without_extras(IMPORT_COMMANDS)

    assert result.stdout.split() == ["cluster", "doctor", "run"], result.stderr


@pytest.mark.parametrize("command", ["run --help", "doctor", "cluster plan -f examples/fargate.yaml"])
def test_a_command_that_lacks_an_extra_says_how_to_get_it(command: str) -> None:
    result = run_without_extras("from dovetail.cli.main import main; main()", *command.split())

    assert result.returncode == 1
    assert result.stderr.startswith("error: this needs the package '")
    # In a checkout; elsewhere it names the extra.
    assert result.stderr.endswith("; install it with: make setup\n")


@pytest.mark.parametrize(
    ("file", "command"),
    [("pipx_metadata.json", "pipx install --force"), ("uv-receipt.toml", "uv tool install")],
)
def test_the_tool_that_installed_dovetail_is_named(tmp_path: Path, file: str, command: str) -> None:
    (tmp_path / file).touch()
    program = f"import sys; sys.prefix = {str(tmp_path)!r}; from dovetail.cli.main import main; main()"

    result = run_without_extras(program, "run", "--help")

    assert result.stderr.endswith(f"; install it with: {command} 'dovetail[run]'\n")


def test_a_migration_is_checked_without_extras() -> None:
    program = "from dovetail.cli.main import main; main()"

    result = run_without_extras(program, *"migrate check --cluster examples/preview/cluster.json".split())

    assert result.returncode == 2, result.stderr
    assert "Ready, with warnings" in result.stdout
