"""What pages show as a command's output is what the command prints today."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"```\n\$ dovetail ((?:demo|simulate) .*?)\n(.*?)```", README, re.DOTALL)
CUT = "…"


def output(command: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(ROOT)
    return CliRunner().invoke(cli, command.split(), prog_name="dovetail").stdout.splitlines()


@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[one for one, _ in SESSIONS])
def test_the_output_in_the_readme_is_what_is_printed_today(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = output(command, monkeypatch)

    # The page may leave lines out, and the end of a line that says more than fits.
    rest = iter(printed)
    missing = [
        line
        for line in shown.splitlines()
        if line != CUT and not any(one.startswith(line.rstrip(CUT)) for one in rest)
    ]

    assert missing == []


def test_the_report_in_the_guide_to_the_demo_is_what_is_printed_today(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guide = (ROOT / "docs/guides/demo.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"## The report\n\n(.*?)\n\nThe first table", guide, re.DOTALL)

    printed = output("demo scale-100", monkeypatch)

    assert [
        one for one in shown.splitlines() if one and one.removeprefix("    ") not in printed
    ] == []


def test_all_scenarios_are_in_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guides/demo.md").read_text(encoding="utf-8")

    names = [line.split()[0] for line in output("demo --list", monkeypatch)]

    assert [one for one in names if f"| `{one}` |" not in guide] == []


def test_the_scenario_of_the_guide_reaches_its_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs/guides/demo.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(written, encoding="utf-8")

    printed = output(f"demo {tmp_path / 'mine.yaml'}", monkeypatch)

    assert "Invariants: none broken." in printed
    assert any(line.strip().endswith("$0.4703/h") for line in printed)
