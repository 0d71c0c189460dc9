"""Commands of an installation without extras: those for AWS name what they need, all others work."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import __version__

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


WHEEL = f"dovetail-{__version__}-py3-none-any.whl"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def install_hint(folder: Path, origin: dict[str, Any] | None, *, tool: str = "") -> str:
    """Return the command for a missing extra, in an installation that recorded its origin (PEP 610)."""
    installed = folder / f"dovetail-{__version__}.dist-info"
    installed.mkdir()
    (folder / "dovetail").symlink_to(ROOT / "src" / "dovetail")
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dovetail\nVersion: {__version__}\n")
    if origin is not None:
        (installed / "direct_url.json").write_text(json.dumps(origin))
    if tool:
        (folder / tool).touch()
    program = (
        f"import sys; sys.prefix = sys.path[0] = {str(folder)!r}; from dovetail.cli.main import main; main()"
    )
    return run_without_extras(program, "run", "--help").stderr.partition("; install it with: ")[2].strip()


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        ("", "pip install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("uv-receipt.toml", "uv tool install"),
    ],
)
def test_the_hint_names_the_file_that_was_installed_and_the_tool_that_did_it(
    tmp_path: Path, tool: str, command: str
) -> None:
    origin = {"url": f"file:///releases/{WHEEL}", "archive_info": {"hashes": {"sha256": "abc"}}}

    assert (
        install_hint(tmp_path, origin, tool=tool) == f"{command} 'dovetail[run] @ file:///releases/{WHEEL}'"
    )


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (
            {"url": f"https://releases.example/{WHEEL}", "archive_info": {"hashes": {"sha256": "abc"}}},
            f"dovetail[run] @ https://releases.example/{WHEEL}#sha256=abc",
        ),
        (
            {"url": "https://git.example/dovetail", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"dovetail[run] @ git+https://git.example/dovetail@{COMMIT}",
        ),
        ({"url": "file:///source", "dir_info": {}}, "dovetail[run] @ file:///source"),
        (None, f"./{WHEEL}[run]"),
    ],
)
def test_the_hint_names_where_dovetail_came_from_and_never_the_package_index(
    tmp_path: Path, origin: dict[str, Any] | None, requirement: str
) -> None:
    assert install_hint(tmp_path, origin) == f"pip install '{requirement}'"


def test_a_migration_is_checked_without_extras() -> None:
    program = "from dovetail.cli.main import main; main()"

    result = run_without_extras(program, *"migrate check --cluster examples/preview/cluster.json".split())

    assert result.returncode == 2, result.stderr
    assert "Ready, with warnings" in result.stdout
