"""Blockers of consolidation.

CS14, CS16, CS17, CS18, CS19, CS20, CS24, CS25, CS26, CS30, CS31, CS35, CS43.
"""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_POOLS, NODES, POD_DISRUPTION_BUDGETS
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.running_nodes import ZONE_LABELS, add_pdb, add_pod, add_running_node
from tests.support.kube import manifests

PROTECTED = {label_keys.DO_NOT_DISRUPT: "true"}


def an_environment(after: float | None = 0, **node_fields: Any) -> DisruptionEnvironment:
    """Return an environment with an oversized node and one small pod of ``web``."""
    env = DisruptionEnvironment()
    env.add_pool(after=after)
    env.add_node("node", **node_fields)
    env.add_app_pod("web", "node", labels={"app": "web"})
    return env.wait(60)  # type: ignore[return-value]


def is_disrupted(env: DisruptionEnvironment, seconds: float = 16) -> bool:
    env.start().wait(seconds)
    return env.disrupted_nodes() == ["node"]


def test_node_without_blocker_is_replaced() -> None:
    assert is_disrupted(an_environment())


def test_unready_nodepool_does_not_block_others() -> None:
    env = an_environment()
    unready = {"type": "Ready", "status": "False", "reason": "NodeClassNotFound"}
    env.add(NODE_POOLS, {**manifests.pool("broken"), "status": {"conditions": [unready]}})

    assert is_disrupted(env)


def test_pdb_allows_unready_pods_with_always_allow() -> None:
    env = DisruptionEnvironment()
    env.add_pool()
    env.add_node("node")
    env.add_app_pod("web", "node", labels={"app": "web"}, ready=False)
    add_pdb(env, app="web", maxUnavailable=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    env.wait(60)

    assert is_disrupted(env)


def test_pdb_of_another_namespace_does_not_block() -> None:
    env = an_environment()
    budget = {
        "metadata": {"name": "budget", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "100%"},
    }
    env.add(POD_DISRUPTION_BUDGETS, budget)

    assert is_disrupted(env)


def test_do_not_disrupt_node_is_kept() -> None:
    assert not is_disrupted(an_environment(annotations=PROTECTED))


def test_do_not_disrupt_pod_keeps_its_node_despite_termination_grace_period() -> None:
    env = an_environment(termination_grace_period=timedelta(minutes=5))
    env.add_app_pod("protected", "node", cpu="0", annotations=PROTECTED)

    assert not is_disrupted(env)


def test_do_not_disrupt_duration_keeps_a_node_until_it_ends() -> None:
    env = an_environment()
    env.add_app_pod("protected", "node", cpu="0", annotations={label_keys.DO_NOT_DISRUPT: "2m"})

    before = is_disrupted(env, 100)
    env.wait(100)

    assert not before
    assert env.disrupted_nodes() == ["node"]


def test_invalid_do_not_disrupt_annotation_is_ignored() -> None:
    env = an_environment()
    env.add_app_pod("protected", "node", cpu="0", annotations={label_keys.DO_NOT_DISRUPT: "soon"})

    assert is_disrupted(env)


def test_pod_without_owner_does_not_block() -> None:
    env = DisruptionEnvironment()
    env.add_pool()
    env.add_node("node")
    add_pod(env, "unowned")
    env.wait(60)

    assert is_disrupted(env)


def test_unmanaged_node_can_receive_pods() -> None:
    env = an_environment()
    env.add(NODES, manifests.node("unmanaged", taints=(), labels=dict(ZONE_LABELS)))

    env.start().wait(16)

    assert env.deleting_claims() == ["claim"]
    assert env.replacements() == []


@pytest.mark.parametrize(("after", "deleted"), [(None, True), (3600, False)])
def test_target_receives_pods_unless_within_consolidate_after_of_its_nodepool(
    after: float | None, deleted: bool
) -> None:
    env = an_environment()
    env.add_pool("other", after=after)
    add_running_node(env, "node-other", pool="other")

    env.start().wait(16)

    assert (env.deleting_claims() == ["claim"]) is deleted
    assert bool(env.replacements()) is not deleted  # A new node has no consolidateAfter period.


def test_node_with_a_recent_pod_event_is_skipped_while_others_are_consolidated() -> None:
    env = an_environment()
    add_running_node(env, "node-busy")
    env.add_app_pod("busy", "node-busy", cpu="3")

    assert is_disrupted(env)
    assert "ConsolidationCandidate" not in env.events.reasons("node-busy")
