"""Environment of a simulated process: random numbers, log and metrics."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.logs import LogLine
from dovetail.ports.metrics import NODES_CREATED, SCHEDULER_QUEUE_DEPTH, ControllerLabels, NodeLabels
from dovetail.simulator.environment import SeededRandomSource, SimulatedLog, SimulatedMetrics
from tests.support.simulator.api_server import START

SEEDS = st.integers(-(2**70), 2**70)


@given(SEEDS, st.integers(0, 30))
def test_the_same_seed_gives_the_same_names_and_numbers(seed: int, count: int) -> None:
    first, other = SeededRandomSource(seed), SeededRandomSource(seed)

    assert first.alphanumeric(count) == other.alphanumeric(count)
    assert first.random() == other.random()


@given(SEEDS)
def test_random_numbers_are_within_zero_and_one(seed: int) -> None:
    source = SeededRandomSource(seed)

    assert all(0 <= source.random() < 1 for _ in range(50))


def test_names_contain_no_words_and_rarely_collide() -> None:
    source = SeededRandomSource(7)

    names = [source.alphanumeric(5) for _ in range(2000)]

    assert not set("".join(names)) & set("aeiou013y")
    assert len(set(names)) > 1998


def test_random_numbers_are_distributed_evenly() -> None:
    source = SeededRandomSource(7)

    tenths = [int(source.random() * 10) for _ in range(10_000)]

    assert all(900 < tenths.count(tenth) < 1100 for tenth in range(10))


def written(**fields: Any) -> dict[str, Any]:
    """The fields of a log line in JSON."""
    at = START + timedelta(microseconds=4_999)
    line: dict[str, Any] = json.loads(LogLine(at, "INFO", "did it", fields).as_json())
    head = {"level": "INFO", "time": "2026-01-01T09:00:00.004Z", "logger": "controller", "message": "did it"}
    assert head.items() <= line.items()
    return {key: value for key, value in line.items() if key not in head}


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
def test_a_line_has_the_format_of_karpenter(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert written(**fields) == expected


def test_listeners_get_every_line_and_the_latest_are_kept() -> None:
    now = START
    log = SimulatedLog(lambda: now, keep=2)
    lines: list[LogLine] = []
    log.listeners.append(lines.append)

    log.debug("a")
    now += timedelta(seconds=1)
    log.info("b", node="n1")
    log.error("c")

    assert [(line.level, line.message) for line in lines] == [("DEBUG", "a"), ("INFO", "b"), ("ERROR", "c")]
    assert list(log.lines) == lines[1:]
    assert lines[1] == LogLine(START + timedelta(seconds=1), "INFO", "b", {"node": "n1"})


def test_totals_sum_over_the_other_labels() -> None:
    metrics = SimulatedMetrics()

    metrics.inc(NODES_CREATED, NodeLabels(nodepool="a", zone="z1"))
    metrics.inc(NODES_CREATED, NodeLabels(nodepool="b", zone="z1"), by=2)
    metrics.inc(NODES_CREATED, NodeLabels(nodepool="a", zone="z2"))

    name = NODES_CREATED.name
    assert metrics.total(name) == 4
    assert metrics.total(name, zone="z1") == 3
    assert metrics.total(name, nodepool="a", zone="z2") == 1
    assert metrics.total(name, nodepool="c") == 0
    assert metrics.total("other") == 0


def test_a_gauge_has_its_last_value() -> None:
    metrics = SimulatedMetrics()

    metrics.set(SCHEDULER_QUEUE_DEPTH, 3, ControllerLabels(controller="a"))
    metrics.set(SCHEDULER_QUEUE_DEPTH, 1, ControllerLabels(controller="a"))

    assert metrics.total(SCHEDULER_QUEUE_DEPTH.name) == 1
