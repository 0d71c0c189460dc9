"""Output on the pages is what the commands print."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli

ROOT = Path(__file__).parents[2]
SESSIONS = [
    session
    for page in (ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md")))
    for session in re.findall(
        r"```\n\$ dovetail ((?:demo|simulate) .*?)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
]
"""Commands on the pages that need no cluster, and the output that follows them."""

CUT = "…"


def output(command: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(ROOT)
    return CliRunner().invoke(cli, command.split(), prog_name="dovetail").stdout.splitlines()


@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[command for command, _ in SESSIONS])
def test_output_on_a_page_is_current(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = output(command, monkeypatch)

    # The page may omit lines, and the end of a long line.
    rest = iter(printed)
    missing = [
        line
        for line in shown.splitlines()
        if line != CUT and not any(text.startswith(line.rstrip(CUT)) for text in rest)
    ]

    assert missing == []


def test_report_in_the_demo_guide_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guides/demo.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"## The report\n\n(.*?)\n\nThe first table", guide, re.DOTALL)

    printed = output("demo scale-100", monkeypatch)

    assert [line for line in shown.splitlines() if line and line.removeprefix("    ") not in printed] == []


def test_demo_guide_lists_every_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guides/demo.md").read_text(encoding="utf-8")

    names = [line.split()[0] for line in output("demo --list", monkeypatch)]

    assert [name for name in names if f"| `{name}` |" not in guide] == []


def test_scenario_of_the_demo_guide_reaches_its_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs/guides/demo.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(written, encoding="utf-8")

    printed = output(f"demo {tmp_path / 'mine.yaml'}", monkeypatch)

    assert "Invariants: none broken." in printed
    assert any(line.strip().endswith("$0.6751/h") for line in printed)
