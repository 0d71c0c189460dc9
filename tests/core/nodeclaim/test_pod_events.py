"""When pods stir a node, and when it is quiet."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.core.nodeclaim.lifecycle import INITIALIZED, stated
from dovetail.core.nodeclaim.pod_events import noted_before, quiet_at, stirs, worth_noting
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN
from dovetail.model.kube.pod import Phase, Pod
from tests.support.build import a_pod, owned_by

NINE = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUNNING = a_pod("p", node_name="n", phase=Phase.RUNNING, created=NINE)


def but(**fields: Any) -> Pod:
    return msgspec.structs.replace(RUNNING, **fields)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, RUNNING),
        (but(node_name=""), RUNNING),
        (RUNNING, but(phase=Phase.FAILED)),
        (RUNNING, but(deleting=True)),
    ],
    ids=["there", "bound", "ended", "going"],
)
def test_what_changes_who_is_on_a_node_stirs_it(before: Pod | None, after: Pod) -> None:
    assert stirs(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (RUNNING, None),
        (RUNNING, but(ready=False)),
        (None, but(node_name="")),
        (but(deleting=True), but(deleting=True, phase=Phase.SUCCEEDED, node_name="")),
        (None, but(owner=owned_by("DaemonSet", "agent"))),
    ],
    ids=["gone", "unready", "waiting", "unbound", "daemon"],
)
def test_what_does_not_leaves_it_alone(before: Pod | None, after: Pod | None) -> None:
    assert not stirs(before, after)


def test_a_pod_from_before_the_last_event_is_no_news() -> None:
    claim = NodeClaim(name="c", last_pod_event=NINE)

    assert noted_before(RUNNING, claim)
    assert not noted_before(but(started=NINE + SECOND), claim)
    assert not noted_before(RUNNING, NodeClaim(name="c"))


def test_events_are_ten_seconds_apart() -> None:
    claim = NodeClaim(name="c", last_pod_event=NINE)

    assert not worth_noting(claim, NINE + 9 * SECOND)
    assert worth_noting(claim, NINE + 10 * SECOND)


def test_a_node_is_quiet_so_long_after_the_last_event_or_else_its_initialization() -> None:
    claim = stated(NodeClaim(name="c", created=NINE), NINE, INITIALIZED, TRUE)
    stirred = msgspec.structs.replace(claim, last_pod_event=NINE + SECOND)

    assert quiet_at(claim, 30 * SECOND) == NINE + 30 * SECOND
    assert quiet_at(stirred, 30 * SECOND) == NINE + 31 * SECOND
    assert quiet_at(claim, None) is None


@pytest.mark.parametrize("status", [UNKNOWN, FALSE])
def test_a_node_that_is_not_complete_is_never_quiet(status: str) -> None:
    claim = stated(NodeClaim(name="c", created=NINE), NINE, INITIALIZED, status, "x")

    assert quiet_at(claim, timedelta()) is None
