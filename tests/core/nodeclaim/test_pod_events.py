"""Pod events of a node, and when it becomes consolidatable."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.core.nodeclaim.lifecycle import set_claim_condition
from dovetail.core.nodeclaim.pod_events import (
    get_consolidatable_time,
    is_already_recorded,
    is_pod_event,
    should_record,
)
from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN
from dovetail.model.kube.pod import Pod, PodPhase
from tests.support.scheduling.builders import a_pod, owned_by

NINE = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUNNING = a_pod("p", node_name="n", phase=PodPhase.RUNNING, created=NINE)


def but(**fields: Any) -> Pod:
    return msgspec.structs.replace(RUNNING, **fields)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, RUNNING),
        (but(node_name=""), RUNNING),
        (RUNNING, but(phase=PodPhase.FAILED)),
        (RUNNING, but(deleting=True)),
    ],
    ids=["there", "bound", "ended", "going"],
)
def test_binding_and_termination_of_pods_are_pod_events(before: Pod | None, after: Pod) -> None:
    assert is_pod_event(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (RUNNING, None),
        (RUNNING, but(ready=False)),
        (None, but(node_name="")),
        (but(deleting=True), but(deleting=True, phase=PodPhase.SUCCEEDED, node_name="")),
        (None, but(owner=owned_by("DaemonSet", "agent"))),
    ],
    ids=["gone", "unready", "waiting", "unbound", "daemon"],
)
def test_other_pod_changes_are_no_pod_events(before: Pod | None, after: Pod | None) -> None:
    assert not is_pod_event(before, after)


def test_pod_from_before_the_last_event_is_already_recorded() -> None:
    claim = NodeClaim(name="c", last_pod_event=NINE)

    assert is_already_recorded(RUNNING, claim)
    assert not is_already_recorded(but(start_time=NINE + SECOND), claim)
    assert not is_already_recorded(RUNNING, NodeClaim(name="c"))


def test_events_are_ten_seconds_apart() -> None:
    claim = NodeClaim(name="c", last_pod_event=NINE)

    assert not should_record(claim, NINE + 9 * SECOND)
    assert should_record(claim, NINE + 10 * SECOND)


def test_node_is_consolidatable_after_its_last_event_or_initialization() -> None:
    claim = set_claim_condition(NodeClaim(name="c", created=NINE), NINE, INITIALIZED, TRUE)
    stirred = msgspec.structs.replace(claim, last_pod_event=NINE + SECOND)

    assert get_consolidatable_time(claim, 30 * SECOND) == NINE + 30 * SECOND
    assert get_consolidatable_time(stirred, 30 * SECOND) == NINE + 31 * SECOND
    assert get_consolidatable_time(claim, None) is None


@pytest.mark.parametrize("status", [UNKNOWN, FALSE])
def test_uninitialized_node_is_never_consolidatable(status: str) -> None:
    claim = set_claim_condition(NodeClaim(name="c", created=NINE), NINE, INITIALIZED, status, "x")

    assert get_consolidatable_time(claim, timedelta()) is None
