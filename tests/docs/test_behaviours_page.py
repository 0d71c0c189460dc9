"""The behaviour pages name tests that exist, and list every behaviour once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE_COUNTS = {
    "behaviours.md": {"P": 84, "S": 69, "I": 10, "T": 48, "R": 12, "C": 12, "A": 8, "X": 7, "B": 8},
    "behaviours-lifecycle.md": {
        **{"LA": 11, "RG": 24, "IN": 17, "LV": 10, "NF": 13, "EX": 8, "GC": 4, "CO": 2, "HY": 2},
        **{"PE": 5, "SG": 4, "CN": 9, "DF": 21, "NP": 10, "TM": 31, "EV": 14, "DD": 10, "PD": 6, "CA": 24},
        **{"DR": 21, "SD": 8, "CS": 46, "VA": 7, "MN": 6, "SN": 5, "BL": 15},
        **{"BU": 20, "EM": 20, "QU": 15, "ST": 5, "VT": 1, "OP": 7, "E2E": 6},
        **{"NH": 16, "SP": 9, "SX": 9, "SC": 1, "NO": 8, "CB": 7},
    },
    "behaviours-aws.md": {"": 142},
}
"""Page → prefix of an id → number of its lines."""
ROW = re.compile(r"^\| ((?:E2E|[A-Z]*)\d+) \|", re.MULTILINE)
EACH_PAGE = pytest.mark.parametrize("page", LINE_COUNTS)


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@EACH_PAGE
def test_every_test_named_on_a_page_exists(page: str) -> None:
    named = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[^)]+)\)", read(page))

    defined = {
        path: set(re.findall(r"^def (test_\w+)\(", (ROOT / path).read_text("utf-8"), re.MULTILINE))
        for path in sorted({path for _, path in named})
        if (ROOT / path).exists()
    }

    assert named
    assert [(test, path) for test, path in named if test not in defined.get(path, ())] == []


@EACH_PAGE
def test_every_file_that_a_page_links_to_exists(page: str) -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", read(page))

    assert linked
    assert [link for link in sorted(set(linked)) if not (ROOT / "docs" / link).exists()] == []


@EACH_PAGE
def test_every_id_is_on_its_page_once(page: str) -> None:
    numbered = "" in LINE_COUNTS[page]
    listed = [row_id for row_id in ROW.findall(read(page)) if row_id.isdigit() == numbered]

    expected = [f"{letters}{n}" for letters, count in LINE_COUNTS[page].items() for n in range(1, count + 1)]
    assert sorted(listed) == sorted(expected)


@EACH_PAGE
def test_a_line_without_a_test_has_a_reason(page: str) -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in read(page).splitlines()
        if ROW.match(line)
    ]

    assert [row[0] for row in rows if row[2] == "—" and not row[3]] == []


def test_all_twenty_details_of_karpenter_are_listed() -> None:
    numbers = re.findall(r"^\| (\d+) \|", read("behaviours.md"), re.MULTILINE)

    assert [int(number) for number in numbers] == list(range(1, 21))
