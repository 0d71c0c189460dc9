"""Names, docstrings, comments, messages and pages use the words of the glossary."""

from pathlib import Path

import pytest

from tests.docs.vocabulary import files, violations

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
CHECKED = sorted(
    path
    for folder in ("src/dovetail", "tests", "bench", "scripts")
    for path in (ROOT / folder).iterdir()
    if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
)
"""Modules and packages of source, tests, benchmarks and scripts."""

OTHER_TEXTS = sorted(
    path
    for pattern in (
        "Makefile",
        "scripts/*",
        "deploy/**/*.*",
        "examples/**/*.yaml",
        "src/dovetail/data/**/*.yaml",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and path.suffix not in (".py", ".md")
)
"""Charts, scenarios, examples and scripts."""

THE_CHECKER = {ROOT / "tests" / "docs" / "vocabulary.py", Path(__file__)}
"""These two have to name the words."""

BAD_SAMPLE = '''
"""Whoever asks is told."""


class Shelf:
    """What nobody bought."""

    def tell(self, one):
        """Tell whether a claim waits."""
        # The machine is given back.
        raise ValueError("no patience left")
'''


def found_in(path: Path) -> list[str]:
    return [
        str(violation) for file in files(path) if file not in THE_CHECKER for violation in violations(file)
    ]


@pytest.mark.parametrize("package", CHECKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_source_uses_the_words_of_the_glossary(package: Path) -> None:
    assert found_in(package) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_use_the_words_of_the_glossary(page: Path) -> None:
    assert found_in(page) == []


def test_charts_scenarios_and_scripts_use_the_words_of_the_glossary() -> None:
    assert [violation for path in OTHER_TEXTS for violation in found_in(path)] == []


def test_checker_finds_words_in_names_docstrings_comments_and_messages(tmp_path: Path) -> None:
    sample = tmp_path / "desk.py"
    sample.write_text(BAD_SAMPLE, encoding="utf-8")

    texts = [violation.text for violation in violations(sample)]

    assert sorted(texts) == [
        "comment: 'given back'",
        "comment: 'machine'",
        "docstring begins with 'Tell'",
        "docstring begins with 'What'",
        "docstring: 'bought'",
        "docstring: 'nobody'",
        "docstring: 'tell'",
        "docstring: 'told'",
        "docstring: 'whoever'",
        "module: desk (desk)",
        "name: Shelf (shelf)",
        "name: tell (tell)",
        "string: 'patience'",
        "variable: one",
    ]


def test_checker_finds_a_long_first_line_and_reports_its_position(tmp_path: Path) -> None:
    sample = tmp_path / "queue.py"
    sample.write_text(f'x = 1\n"""{"word " * 20}.\n\nMore.\n"""\n', encoding="utf-8")

    assert [str(violation) for violation in violations(sample)] == [
        f"{sample}:2: first line of 101 characters"
    ]


def test_checker_finds_words_on_a_page_but_not_in_names_of_tests(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nodes\n\nNobody knows `test_nobody_is_told`.\n", encoding="utf-8")

    assert [str(violation) for violation in violations(page)] == [f"{page}:3: page: 'nobody'"]


def test_checker_accepts_the_words_of_the_field(tmp_path: Path) -> None:
    sample = tmp_path / "backoff.py"
    sample.write_text('def launch(claim):\n    """Launch the instance of a NodeClaim, with retries."""\n')

    assert list(violations(sample)) == []
