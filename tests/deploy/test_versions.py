"""One version everywhere, with a section of the changelog that has upgrade notes."""

import os
import re
import shutil
import subprocess
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


def test_the_newest_released_section_of_the_changelog_is_of_this_version() -> None:
    released = [title for title, _ in sections() if title != "Unreleased"]

    assert re.fullmatch(rf"{re.escape(__version__)} - \d{{4}}-\d{{2}}-\d{{2}}", released[0])
    assert "Unreleased" not in [title for title, _ in sections()[1:]]


def test_every_section_of_the_changelog_has_upgrade_notes() -> None:
    assert [title for title, text in sections() if "\n### Upgrade notes\n" not in text] == []


def check_release(folder: Path, changelog: str) -> "subprocess.CompletedProcess[str]":
    """Run the step `version` of the release check in a checkout with this changelog."""
    names = ["scripts/release-check", "pyproject.toml", "src/dovetail/__init__.py"]
    for name in (*names, *(str(path.relative_to(ROOT)) for path in CHARTS)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text(changelog)
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "release"]):
        command = ["git", *arguments]
        subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(
        [folder / "scripts" / "release-check"],
        env={"PATH": os.environ["PATH"], "STEPS": "version"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_release_with_its_section_first_in_the_changelog_passes(tmp_path: Path) -> None:
    result = check_release(
        tmp_path, f"# Changelog\n\n## {__version__} - 2026-11-18\n\n### Upgrade notes\n\nNone.\n"
    )

    assert result.returncode == 0, result.stderr
    assert "passed  version" in result.stdout


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (
            "## Unreleased\n\n### Upgrade notes\n\nNone.\n\n### Fixed\n- A bug.\n\n",
            f"begins with Unreleased, not with {__version__}: rename that section",
        ),
        ("## 9.0.0 - 2026-11-19\n\n### Upgrade notes\n\n", f"begins with 9.0.0, not with {__version__}"),
        (f"## {__version__} - 2026-11-19\n\n", "no upgrade notes in its first section"),
    ],
)
def test_a_release_with_another_first_section_fails(first: str, message: str, tmp_path: Path) -> None:
    older = "## 0.0.1 - 2026-11-18\n\n### Upgrade notes\n\nNone.\n"

    result = check_release(tmp_path, f"# Changelog\n\n{first}{older}")

    assert result.returncode == 1
    assert "FAILED  version" in result.stdout
    assert message in result.stderr
