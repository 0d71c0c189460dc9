"""The page of behaviours names tests; they must exist, and no line may be lost."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "behaviours.md").read_text(encoding="utf-8")
LINES = {"P": 84, "S": 69, "I": 10, "T": 48, "R": 12, "C": 12, "A": 8, "X": 7}
"""How many lines of each letter the digest has."""


def test_every_test_named_on_the_page_exists() -> None:
    named = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[^)]+)\)", PAGE)

    defined = {
        path: set(re.findall(r"^def (test_\w+)\(", (ROOT / path).read_text("utf-8"), re.MULTILINE))
        for path in sorted({path for _, path in named})
        if (ROOT / path).exists()
    }

    assert named
    assert [one for one in named if one[0] not in defined.get(one[1], ())] == []


def test_every_line_of_the_digest_is_on_the_page_once() -> None:
    listed = re.findall(r"^\| ([A-Z]\d+) \|", PAGE, re.MULTILINE)

    expected = [f"{letter}{n}" for letter, count in LINES.items() for n in range(1, count + 1)]
    assert sorted(listed) == sorted(expected)


def test_a_line_without_a_test_says_why() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in PAGE.splitlines()
        if re.match(r"\| [A-Z]\d+ \|", line)
    ]

    assert [row[0] for row in rows if row[2] == "—" and not row[3]] == []


def test_all_twenty_oddities_have_an_answer() -> None:
    numbers = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)

    assert [int(one) for one in numbers] == list(range(1, 21))
