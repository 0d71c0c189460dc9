"""What the controllers in a box tell, and how their log is written."""

import json
from datetime import timedelta
from typing import Any

import pytest

from dovetail.logs import Line
from dovetail.simulator.telemetry import BoxLog, BoxMetrics
from tests.support.cluster import START


def written(**fields: Any) -> dict[str, Any]:
    """A line's own fields, as they stand in JSON."""
    at = START + timedelta(microseconds=4_999)
    told: dict[str, Any] = json.loads(Line(at, "INFO", "did it", fields).as_json())
    head = {
        "level": "INFO",
        "time": "2026-01-01T09:00:00.004Z",
        "logger": "controller",
        "message": "did it",
    }
    assert head.items() <= told.items()
    return {key: value for key, value in told.items() if key not in head}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"node": "n1", "nodeclaim": "c"}, {"Node": {"name": "n1"}, "NodeClaim": {"name": "c"}}),
        ({"nodepool": "default"}, {"NodePool": {"name": "default"}}),
        ({"instance_type": "m5.large"}, {"instance-type": "m5.large"}),
        ({"pods": 0, "ok": False}, {"pods": 0, "ok": False}),
        ({"zone": "", "node": None}, {}),
        ({"error": ValueError("no")}, {"error": "no"}),
        ({"names": ["a", "b"]}, {"names": ["a", "b"]}),
    ],
    ids=str,
)
def test_a_line_is_written_as_operators_know_it(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert written(**fields) == expected


def test_listeners_are_told_of_every_line_and_the_latest_are_kept() -> None:
    now = START
    log = BoxLog(lambda: now, keep=2)
    heard: list[Line] = []
    log.listeners.append(heard.append)

    log.debug("a")
    now += timedelta(seconds=1)
    log.info("b", node="n1")
    log.error("c")

    assert [(one.level, one.message) for one in heard] == [
        ("DEBUG", "a"),
        ("INFO", "b"),
        ("ERROR", "c"),
    ]
    assert list(log.lines) == heard[1:]
    assert heard[1] == Line(START + timedelta(seconds=1), "INFO", "b", {"node": "n1"})


def test_counts_add_up_over_the_labels_that_do_not_matter() -> None:
    metrics = BoxMetrics()

    metrics.count("evictions", code="200", pool="a")
    metrics.count("evictions", 2, code="200", pool="b")
    metrics.count("evictions", code="429", pool="a")

    assert metrics.total("evictions") == 4
    assert metrics.total("evictions", code="200") == 3
    assert metrics.total("evictions", pool="a", code="429") == 1
    assert metrics.total("evictions", pool="c") == 0
    assert metrics.total("other") == 0


def test_a_gauge_is_what_it_was_set_to_last() -> None:
    metrics = BoxMetrics()

    metrics.gauge("nodes", 3, pool="a")
    metrics.gauge("nodes", 1, pool="a")

    assert metrics.total("nodes") == 1
