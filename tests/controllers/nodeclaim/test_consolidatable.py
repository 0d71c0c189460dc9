"""The Consolidatable condition: CN1–CN9 of the lifecycle checklist."""

from datetime import timedelta
from typing import Any

from dovetail.controllers.nodeclaim import consolidatable, podevents
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model.karpenter.nodepool import Disruption
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests


def after(seconds: float | None) -> Disruption:
    wait = None if seconds is None else timedelta(seconds=seconds)
    return Disruption(consolidate_after=wait)


def an_environment(consolidate_after: float | None = 30, **pool: Any) -> ControllerEnvironment:
    """Return an environment with an initialized NodeClaim."""
    env = ControllerEnvironment().run(lifecycle.controller, podevents.controller, consolidatable.controller)
    env.add(NODE_POOLS, manifests.pool(disruption=after(consolidate_after), **pool))
    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id))
    return env


def consolidatable_now(env: ControllerEnvironment) -> bool:
    return condition(env.claim().conditions, "Consolidatable")[0] == "True"


def test_node_is_consolidatable_after_its_last_pod_event_plus_consolidate_after() -> None:
    env = an_environment().wait(20)
    env.add(PODS, manifests.pod())

    env.wait(29)
    before = consolidatable_now(env)
    env.wait(1)

    assert not before
    assert consolidatable_now(env)


def test_time_counts_from_initialization_without_pod_events() -> None:
    env = an_environment()

    env.wait(29)
    before = consolidatable_now(env)
    env.wait(1)

    assert not before
    assert consolidatable_now(env)


def test_consolidate_after_zero_does_not_wait() -> None:
    env = an_environment(0)

    assert consolidatable_now(env)


def test_new_pod_event_removes_the_condition() -> None:
    env = an_environment().wait(60)
    assert consolidatable_now(env)

    env.add(PODS, manifests.pod())

    assert not consolidatable_now(env)
    assert "Consolidatable" not in env.claim().conditions


def test_consolidate_after_never_removes_the_condition_at_once() -> None:
    env = an_environment().wait(60)

    env.patch(NODE_POOLS, "default", {"spec": {"disruption": {"consolidateAfter": "Never"}}})

    assert "Consolidatable" not in env.claim().conditions


def test_uninitialized_node_is_not_consolidatable() -> None:
    for status in ("Unknown", "False"):
        env = an_environment().wait(60).crash()
        conditions = env.get(NODE_CLAIMS, "claim")["status"]["conditions"]
        changed = [
            {**condition, "status": status} if condition["type"] == "Initialized" else condition
            for condition in conditions
        ]
        env.patch(NODE_CLAIMS, "claim", {"status": {"conditions": changed}}, subresource="status")

        env.run(consolidatable.controller)

        assert "Consolidatable" not in env.claim().conditions


def test_nodeclaim_of_another_provider_is_ignored() -> None:
    env = ControllerEnvironment().run(consolidatable.controller)
    env.add(NODE_POOLS, manifests.pool())
    env.add(NODE_CLAIMS, manifests.claim(node_class=manifests.FOREIGN_NODE_CLASS))

    assert env.writes == []


def test_nodes_of_static_nodepools_are_not_consolidatable() -> None:
    env = an_environment(0, replicas=1)

    assert "Consolidatable" not in env.claim().conditions


def test_other_conditions_are_kept() -> None:
    env = an_environment().wait(60)
    conditions = env.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    drifted = {"type": "Drifted", "status": "True", "reason": "Drifted"}
    env.patch(NODE_CLAIMS, "claim", {"status": {"conditions": [*conditions, drifted]}}, subresource="status")

    env.add(PODS, manifests.pod())

    assert "Consolidatable" not in env.claim().conditions
    assert condition(env.claim().conditions, "Drifted")[0] == "True"


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment().wait(60)
    before = env.versions()

    env.manager.enqueue("nodeclaim.disruption", "claim")
    env.wait(3600)

    assert env.versions() == before
