"""Log lines: JSON with Karpenter's keys, or text."""

import json
from datetime import UTC, datetime

import pytest

from dovetail.host.log_writer import LineLog


class Noon:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, 0, 0, 5000, tzinfo=UTC)


def test_a_line_has_karpenters_keys_and_object_names() -> None:
    lines: list[str] = []
    log = LineLog(lines.append, clock=Noon())

    log.info("launched nodeclaim", nodeclaim="default-abc", instance_type="m5.large", zone="")

    assert [json.loads(line) for line in lines] == [
        {
            "level": "INFO",
            "time": "2026-01-01T12:00:00.005Z",
            "logger": "controller",
            "message": "launched nodeclaim",
            "NodeClaim": {"name": "default-abc"},
            "instance-type": "m5.large",
        }
    ]


@pytest.mark.parametrize(
    ("level", "written"), [("debug", ["a", "b", "c"]), ("info", ["b", "c"]), ("error", ["c"])]
)
def test_lines_below_the_level_are_not_written(level: str, written: list[str]) -> None:
    lines: list[str] = []
    log = LineLog(lines.append, clock=Noon(), level=level)

    log.debug("a")
    log.info("b")
    log.error("c")

    assert [json.loads(line)["message"] for line in lines] == written


def test_a_text_line_is_short_and_has_no_line_break() -> None:
    lines: list[str] = []
    log = LineLog(lines.append, clock=Noon(), form="text")

    log.error("reconciler error", key="a b", error='said "no"\nand left', again_in="1s", zone="")

    assert lines == [
        '12:00:00 ERROR reconciler error  key="a b"  error="said \\"no\\"\\nand left"  again-in=1s'
    ]
