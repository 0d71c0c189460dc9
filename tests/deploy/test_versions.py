"""One version everywhere, with a section of the changelog that has upgrade notes."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from dovetail import __version__

ROOT = Path(__file__).resolve().parents[2]
CHARTS = sorted((ROOT / "deploy" / "charts").glob("*/Chart.yaml"))


def sections() -> list[tuple[str, str]]:
    """Return title and text of each section of the changelog, newest first."""
    parts = re.split(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_package_and_module_have_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == __version__


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.parent.name)
def test_charts_have_the_version_of_the_package(chart: Path) -> None:
    content = yaml.safe_load(chart.read_text())

    assert (content["version"], str(content["appVersion"])) == (__version__, __version__)


def test_the_changelog_begins_with_unreleased_changes_and_then_has_this_version() -> None:
    (first, _), (second, _), *_ = sections()

    assert first == "Unreleased"
    assert re.fullmatch(rf"{re.escape(__version__)} - \d{{4}}-\d{{2}}-\d{{2}}", second)


def test_every_section_of_the_changelog_has_upgrade_notes() -> None:
    assert [title for title, text in sections() if "\n### Upgrade notes\n" not in text] == []
