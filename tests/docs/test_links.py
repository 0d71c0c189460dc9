"""Links between pages lead to files and headings that exist."""

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


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[str]:
    """Yield the links of a page, without code: there, brackets have another meaning."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from (link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-") for text in plain)


def is_broken(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_no_link_of_a_page_is_broken(page: Path) -> None:
    assert [link for link in links(page) if is_broken(page, link)] == []


def test_every_page_is_linked_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"

    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}

    assert [page.name for page in (ROOT / "docs").glob("guides/*.md") if page not in linked] == []
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page not in {*linked, index}] == []


def test_numbers_of_decisions_are_unique() -> None:
    numbers = [page.name.partition("-")[0] for page in (ROOT / "docs" / "decisions").glob("*.md")]

    assert sorted(numbers) == sorted(set(numbers))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=page_name)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    """Pages may shorten a path to its end: ``plan/resolver.py``."""
    text = page.read_text(encoding="utf-8")

    names = re.findall(r"`([\w./-]+\.py)`", text)
    assert [name for name in names if not any(path.endswith(f"/{name}") for path in module_paths())] == []


@cache
def module_paths() -> frozenset[str]:
    folders = ("src", "tests", "bench", "scripts", "deploy")
    return frozenset(
        f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.py")
    )
