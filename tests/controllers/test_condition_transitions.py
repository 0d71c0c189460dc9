"""Condition transitions: Events and metrics."""

from dovetail.controllers import condition_transitions
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodepool import readiness
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests


def test_transitions_of_a_nodeclaim_are_published() -> None:
    env = ControllerEnvironment().run(lifecycle.controller, condition_transitions.nodeclaim_controller)

    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id))

    assert env.events.reasons("claim") == ["Launched", "Registered", "Initialized", "Ready"]
    assert env.events.published[0].message == (
        "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched"
    )
    metric = "operator_nodeclaim_status_condition_transitions_total"
    assert env.metrics.total(metric, type="Ready", status="True") == 1


def test_transitions_of_a_nodepool_are_published() -> None:
    env = ControllerEnvironment().run(readiness.controller, condition_transitions.nodepool_controller)

    env.add(NODE_POOLS, manifests.pool())

    assert env.events.reasons("default") == ["NodeClassReady", "Ready"]


def test_restart_publishes_no_transition_again() -> None:
    env = ControllerEnvironment().run(lifecycle.controller, condition_transitions.nodeclaim_controller)
    env.add(NODE_CLAIMS, manifests.claim())
    published = len(env.events.published)

    env.restart()

    assert len(env.events.published) == published


def test_second_reconcile_changes_nothing() -> None:
    env = ControllerEnvironment().run(lifecycle.controller, condition_transitions.nodeclaim_controller)
    env.add(NODE_CLAIMS, manifests.claim())
    published = len(env.events.published)

    env.manager.enqueue("nodeclaim.status", "claim")
    env.wait(60)

    assert len(env.events.published) == published
