"""Minimum saving for evictions: a share of what the evicted pods cost."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.method import get_time_state
from dovetail.core.disruption.context import DisruptionContext
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import OwnerReference, Pod
from dovetail.model.settings import ConsolidationSettings
from tests.support.disruption.consolidation import a_pool_node, context_of
from tests.support.scheduling.builders import a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, a_type
from tests.support.simulator.api_server import START

LARGE = a_type("large", cpu=8, memory="32Gi", pods=50, price=1.0)
SMALL = a_type("small", cpu=6, memory="24Gi", pods=50, price=0.8)
POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])
HOUR = timedelta(hours=1)


def a_node_of(moved: Sequence[Pod], age: timedelta) -> DisruptionContext:
    """Return a large node whose pods fit a node that saves 0.2 USD per hour."""
    snapshot = cluster((), [POOL], (LARGE, SMALL), nodes=[a_pool_node("n", LARGE, moved)])
    context = context_of(replace(snapshot, now=START))
    (candidate,) = context.candidates
    claim = replace(candidate.claim, created=START - age)
    return replace(context, candidates=(replace(candidate, claim=claim),))


def is_replaced(context: DisruptionContext, **settings: Any) -> bool:
    result = consolidate(context, {"default": 1}, settings=ConsolidationSettings(**settings))
    return bool(result.commands)


def owned_by(kind: str, owned: Sequence[Pod]) -> list[Pod]:
    return [replace(pod, owner=OwnerReference("v1", kind, "web", "uid")) for pod in owned]


def test_a_full_node_is_not_replaced_for_a_fifth_of_its_price_unless_any_saving_will_do() -> None:
    context = a_node_of(pods(5, "p", cpu="1"), HOUR)

    result = consolidate(context, {"default": 1})

    (reason,) = result.keep_reasons
    assert reason.code == "below-threshold"
    assert "it would save 0.2000 USD per hour; moving its pods must save 0.2" in reason.message
    assert is_replaced(context, min_saving_share=0.0)


def test_fewer_and_smaller_pods_move_for_the_same_saving() -> None:
    assert is_replaced(a_node_of(pods(4, "p", cpu="1"), HOUR))
    # As many pods as on the full node, with a fifth of their requests.
    assert is_replaced(a_node_of(pods(5, "p", cpu="200m"), HOUR))


def test_pods_of_an_old_node_move_for_less_because_the_saving_lasts() -> None:
    moved = pods(5, "p", cpu="1")

    assert not is_replaced(a_node_of(moved, timedelta(days=1, hours=23)))
    assert is_replaced(a_node_of(moved, timedelta(days=2)))


@pytest.mark.parametrize("kind", ["Job", "Workflow", "SparkApplication"])
def test_tasks_lose_their_work_and_move_only_for_more_than_they_cost(kind: str) -> None:
    moved = pods(2, "p", cpu="1")

    assert is_replaced(a_node_of(owned_by("ReplicaSet", moved), HOUR))
    assert not is_replaced(a_node_of(owned_by(kind, moved), HOUR))
    # However old the node is: its tasks are as old.
    assert not is_replaced(a_node_of(owned_by(kind, moved), timedelta(days=20)))
    assert is_replaced(a_node_of(owned_by(kind, pods(1, "p", cpu="200m")), HOUR))


def test_pods_with_a_negative_deletion_cost_move_for_less() -> None:
    cheap = {"controller.kubernetes.io/pod-deletion-cost": "-100000000"}
    moved = [replace(pod, annotations=cheap) for pod in pods(5, "p", cpu="1")]

    assert is_replaced(a_node_of(moved, HOUR))


def test_a_pass_is_repeated_when_a_node_is_a_day_older() -> None:
    moved = pods(5, "p", cpu="1")

    states = [get_time_state(a_node_of(moved, HOUR * hours)) for hours in (23, 24, 47, 48)]

    assert states[0] != states[1]
    assert states[1] == states[2] != states[3]
