"""The comparison: nothing that differs is overlooked, and no row of the table is idle."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.aws.golden.accepted import read_accepted
from tests.aws.golden.compare import AcceptedDifferences, Difference, compare
from tests.aws.golden.normal_form import Facts
from tests.aws.golden.store import FACTS, read_facts

HEADER = "| Id | Where | Karpenter | Dovetail | Reason | Cases |\n|---|---|---|---|---|---|\n"
DIFFERENCE = Difference("launch", "ec2:CreateFleet", "Type", "instant", "request")


@pytest.fixture(scope="module")
def facts() -> Facts:
    return read_facts(FACTS.read_bytes())["al2023-default"][1]


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return container and key of every scalar."""
    for key, entry in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(entry, dict | list):
            yield from leaves(entry)
        else:
            yield value, key


def clone(facts: Facts) -> Facts:
    """Return a copy in which no value is shared."""
    copied: Facts = msgspec.json.decode(msgspec.json.encode(facts))
    return copied


def table(*rows: str) -> AcceptedDifferences:
    return AcceptedDifferences(read_accepted(HEADER + "\n".join(rows)))


def test_equal_facts_have_no_differences(facts: Facts) -> None:
    assert compare(facts, clone(facts)) == []


def test_every_changed_value_is_a_difference(facts: Facts) -> None:
    changed = clone(facts)
    overlooked: list[str] = []
    count = 0

    for container, key in leaves(changed):
        before = container[key]
        container[key] = "changed"
        if compare(facts, changed) == []:
            overlooked.append(f"{key}: {before}")
        container[key] = before
        count += 1

    assert overlooked == []
    assert count > 400


def test_every_missing_and_additional_request_is_a_difference(facts: Facts) -> None:
    for phase, requests in facts["requests"].items():
        for number in range(len(requests)):
            fewer = clone(facts)
            del fewer["requests"][phase][number]

            assert compare(facts, fewer) != []
            assert compare(fewer, facts) != []


def test_a_row_covers_its_phase_operation_path_values_and_cases_only() -> None:
    row = "| `x` | `launch ec2:CreateFleet Type` | `instant` | `req*` | because | `a`, `b-*` |"

    assert table(row).uncovered("a", [DIFFERENCE]) == []
    assert table(row).uncovered("b-1", [DIFFERENCE]) == []
    assert table(row).uncovered("c", [DIFFERENCE]) == [DIFFERENCE]
    for field, value in {"phase": "class", "path": "Types", "karpenter": "–", "dovetail": "–"}.items():
        other = Difference(
            **{**{name: getattr(DIFFERENCE, name) for name in DIFFERENCE.__struct_fields__}, field: value}
        )
        assert table(row).uncovered("a", [other]) == [other]


def test_patterns_that_no_difference_needs_are_reported() -> None:
    accepted = table(
        "| `x` | `launch ec2:CreateFleet Type` | `instant` | `request`, `maintain` | because | `a` |",
        "| `y` | `launch ec2:CreateFleet` | – | `present` | because | all |",
    )

    assert accepted.uncovered("a", [DIFFERENCE]) == []
    assert accepted.unused() == ["x: maintain", "y: *", "y: launch ec2:CreateFleet", "y: present", "y: –"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("| `x` | launch | – | `present` | because | all |", "row `x`: 'launch' is neither"),
        ("| `x` | `launch` | – | `present` |  | all |", "not empty"),
        ("| `x` | `launch` | – | `present` | all |", "needs 6 cells"),
        ("| `x` | `a` | – | `b` | c | all |\n| `x` | `a` | – | `b` | c | all |", "not unique"),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error(row: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_accepted(HEADER + row)
