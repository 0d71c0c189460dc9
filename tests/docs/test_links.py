"""Links between the documents: each leads to a file that is there, and to a heading in it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "deploy/**/*.md", "bench/**/*.md")
    for page in ROOT.glob(pattern)
)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[str]:
    """Yield what a page links to, code left out: there, brackets are something else."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from (link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that a page's headings get where it is shown."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).lower() for one in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", one).strip().replace(" ", "-") for one in plain)


def leads_nowhere(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if leads_nowhere(page, link)] == []


def test_every_guide_can_be_found_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"

    found = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}

    assert [one.name for one in (ROOT / "docs").glob("guides/*.md") if one not in found] == []
    assert [one.name for one in (ROOT / "docs").glob("*.md") if one not in {*found, index}] == []


def test_a_number_of_a_decision_is_there_once() -> None:
    numbers = [page.name.partition("-")[0] for page in (ROOT / "docs" / "decisions").glob("*.md")]

    assert sorted(numbers) == sorted(set(numbers))
