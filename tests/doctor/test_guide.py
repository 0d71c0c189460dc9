"""The guide names every check as it is."""

import re
from pathlib import Path

from dovetail.doctor.checks.registry import CHECKS
from tests.doctor.test_reading_only import ALL_CALLS

GUIDE = (Path(__file__).parents[2] / "docs/guides/doctor.md").read_text(encoding="utf-8")


def test_the_guide_has_a_line_for_every_check_in_their_order() -> None:
    rows = [line for line in GUIDE.splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]

    assert rows == [
        f"| {one.code} | {one.title} | {one.severity} | {one.how} | {one.mend} |" for one in CHECKS
    ]


def test_the_guide_names_every_call_to_aws() -> None:
    named = set(re.findall(r"`[a-z0-9]+:(\w+)`", GUIDE))

    assert named == ALL_CALLS


def test_codes_are_unique_and_every_text_is_there() -> None:
    codes = [one.code for one in CHECKS]

    assert len(set(codes)) == len(codes) == 50
    assert all(one.how and one.mend and one.title for one in CHECKS)
