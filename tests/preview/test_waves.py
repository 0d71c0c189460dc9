"""Waves: which nodes go together."""

from datetime import UTC, datetime, timedelta

from dovetail.preview.observer import Eviction, ObservedNode
from dovetail.preview.waves import find_waves

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
WEB = ("shop", "web", "Deployment")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_node(name: str, began: float, gone: float | None, reason: str = "Drifted") -> ObservedNode:
    return ObservedNode(
        claim=name,
        nodepool="default",
        disrupted=at(began),
        gone=None if gone is None else at(gone),
        reason=reason,
    )


def launched(name: str, seconds: float) -> ObservedNode:
    return ObservedNode(claim=name, nodepool="default", created=at(seconds))


def test_without_disruption_there_are_no_waves() -> None:
    assert find_waves([ObservedNode(claim="a", nodepool="default")], [], START) == ()


def test_nodes_that_begin_before_the_first_is_gone_are_one_wave() -> None:
    nodes = [a_node("a", 10, 60), a_node("b", 30, 70), a_node("c", 60, 110), a_node("d", 70, 120)]

    waves = find_waves(nodes, [], START)

    assert [(wave.number, wave.started, wave.finished, wave.nodes) for wave in waves] == [
        (1, 10, 70, 2),
        (2, 60, 120, 2),
    ]


def test_a_node_that_never_goes_leaves_its_wave_open() -> None:
    (wave,) = find_waves([a_node("a", 10, None), a_node("b", 50, None)], [], START)

    assert (wave.finished, wave.nodes) == (None, 2)


def test_launches_and_evictions_belong_to_the_wave_before_the_next_begins() -> None:
    nodes = [
        a_node("a", 10, 60),
        a_node("b", 60, 90, "Empty"),
        launched("new-1", 5),
        launched("new-2", 12),
        launched("new-3", 61),
    ]
    evictions = [Eviction(at(20), WEB), Eviction(at(30), WEB), Eviction(at(70), WEB)]

    first, second = find_waves(nodes, evictions, START)

    assert (first.launched, first.evictions, first.reasons) == (2, 2, {"Drifted": 1})
    assert (second.launched, second.evictions, second.reasons) == (1, 1, {"Empty": 1})
