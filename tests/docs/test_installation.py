"""Nothing that we ship installs `dovetail` by name: on PyPI, that is another project."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Makefile",
    *("deploy", "docs", "examples", "scripts", "src"),
)
INSTALLER = re.compile(r"\b(?:pip3?|pipx|uvx?|poetry|conda)\b[^`]*")
"""A command up to the end of the line or of its code span."""
NAME = re.compile(
    r"""(?<![\w./:@-])dovetail  # not the end of a path
    (?:\[[^\]]*\])?+  # extras
    (?!\w|[./-]|\s*@\s)  # neither a path nor a direct reference
    """,
    re.VERBOSE,
)


def installations(text: str) -> list[str]:
    """Return the commands that install a distribution of the name `dovetail` from an index."""
    commands = [command for line in text.splitlines() for command in INSTALLER.findall(line)]
    installing = [
        command for command in commands if re.search(r"\b(install|inject|add|run|uvx|--with)\b", command)
    ]
    return [command for command in installing if NAME.search(command) and "--no-index" not in command]


def test_no_shipped_file_installs_dovetail_from_an_index() -> None:
    command = ["git", "ls-files", *SHIPPED]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    texts = {name: (ROOT / name).read_text(errors="ignore") for name in listed}

    assert len(texts) > 1_000
    assert {name: commands for name, text in texts.items() if (commands := installations(text))} == {}


def test_the_package_requires_no_distribution_of_its_own_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    requirements = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    assert [line for line in requirements if line.startswith(project["name"])] == []
    assert set(extras["run"]) < set(extras["cluster"])


@pytest.mark.parametrize(
    "command",
    [
        "pip install dovetail",
        "pip install 'dovetail[sweep]'",
        "pip install -U dovetail==0.1.0",
        "pipx install --force 'dovetail[run]'",
        "uv tool install dovetail",
        "uvx dovetail run",
        "pipx run dovetail demo",
    ],
)
def test_an_installation_by_name_is_found(command: str) -> None:
    assert installations(f"Run `{command}` first.") == [command]


@pytest.mark.parametrize(
    "command",
    [
        "pip install --no-index --find-links dist dovetail",
        "pip install dist/dovetail-0.1.0-py3-none-any.whl",
        "pipx install './dovetail-0.1.0-py3-none-any.whl[run]'",
        'pip install "dovetail @ https://releases.example/dovetail-0.1.0-py3-none-any.whl#sha256=0"',
        "uv tool install 'dovetail[run] @ file:///tmp/dovetail-0.1.0-py3-none-any.whl'",
    ],
)
def test_an_installation_of_a_file_or_url_is_not(command: str) -> None:
    assert installations(f"Run `{command}` first.") == []
