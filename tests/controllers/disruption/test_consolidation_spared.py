"""Who is spared by consolidation, and who is not.

CS14, CS16, CS17, CS18, CS19, CS20, CS24, CS25, CS26, CS30, CS31, CS35, CS43.
"""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_POOLS, NODES, POD_DISRUPTION_BUDGETS
from tests.support import wire
from tests.support.fleet import ZONE_LABELS, a_budget, a_machine, a_pod
from tests.support.replaced import Yard

PROTECTED = {label_keys.DO_NOT_DISRUPT: "true"}


def a_yard(after: float | None = 0, **machine: Any) -> Yard:
    """An oversized node with one small pod of the app ``web``."""
    yard = Yard()
    yard.add_pool(after=after)
    yard.machine("node", **machine)
    yard.app_pod("web", "node", labels={"app": "web"})
    return yard.wait(60)  # type: ignore[return-value]


def is_moved(yard: Yard, seconds: float = 16) -> bool:
    yard.open().wait(seconds)
    return yard.marked() == ["node"]


def test_the_node_is_replaced_if_nothing_is_in_the_way() -> None:
    assert is_moved(a_yard())


def test_a_pool_that_sells_nothing_is_in_nobodys_way() -> None:
    yard = a_yard()
    unready = {"type": "Ready", "status": "False", "reason": "NodeClassNotFound"}
    yard.add(NODE_POOLS, {**wire.pool("broken"), "status": {"conditions": [unready]}})

    assert is_moved(yard)


def test_a_budget_lets_pods_go_that_are_not_ready_if_it_says_so() -> None:
    yard = Yard()
    yard.add_pool()
    yard.machine("node")
    yard.app_pod("web", "node", labels={"app": "web"}, ready=False)
    a_budget(yard, app="web", maxUnavailable=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    yard.wait(60)

    assert is_moved(yard)


def test_a_budget_of_another_namespace_is_nobodys() -> None:
    yard = a_yard()
    budget = {
        "metadata": {"name": "budget", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "100%"},
    }
    yard.add(POD_DISRUPTION_BUDGETS, budget)

    assert is_moved(yard)


def test_a_protected_node_stays() -> None:
    assert not is_moved(a_yard(annotations=PROTECTED))


def test_a_protected_pod_keeps_its_node_even_where_draining_has_a_deadline() -> None:
    yard = a_yard(termination_grace_period=timedelta(minutes=5))
    yard.app_pod("guarded", "node", cpu="0", annotations=PROTECTED)

    assert not is_moved(yard)


def test_protection_for_a_while_keeps_a_node_until_it_ends() -> None:
    yard = a_yard()
    yard.app_pod("guarded", "node", cpu="0", annotations={label_keys.DO_NOT_DISRUPT: "2m"})

    before = is_moved(yard, 100)
    yard.wait(100)

    assert not before
    assert yard.marked() == ["node"]


def test_protection_that_cannot_be_read_keeps_nobody() -> None:
    yard = a_yard()
    yard.app_pod("guarded", "node", cpu="0", annotations={label_keys.DO_NOT_DISRUPT: "soon"})

    assert is_moved(yard)


def test_a_pod_without_an_owner_is_moved_like_others() -> None:
    yard = Yard()
    yard.add_pool()
    yard.machine("node")
    a_pod(yard, "alone")
    yard.wait(60)

    assert is_moved(yard)


def test_a_node_of_somebody_else_is_a_place_to_go_to() -> None:
    yard = a_yard()
    yard.add(NODES, wire.node("stranger", taints=(), labels=dict(ZONE_LABELS)))

    yard.open().wait(16)

    assert yard.leaving() == ["claim"]
    assert yard.replacements() == []


@pytest.mark.parametrize(("after", "goes"), [(None, True), (3600, False)])
def test_a_destination_takes_pods_unless_it_is_within_its_own_pools_window(
    after: float | None, goes: bool
) -> None:
    yard = a_yard()
    yard.add_pool("other", after=after)
    a_machine(yard, "node-other", pool="other")

    yard.open().wait(16)

    assert (yard.leaving() == ["claim"]) is goes
    assert bool(yard.replacements()) is not goes  # A new node has no window.


def test_a_node_that_pods_came_to_just_now_is_skipped_while_others_go() -> None:
    yard = a_yard()
    a_machine(yard, "node-busy")
    yard.app_pod("busy", "node-busy", cpu="3")

    assert is_moved(yard)
    assert "ConsolidationCandidate" not in yard.events.about("node-busy")
