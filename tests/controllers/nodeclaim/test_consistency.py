"""Consistency: CO1–CO2 of the lifecycle checklist."""

from dovetail.controllers.nodeclaim import consistency
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests

SMALL = {"cpu": "4", "memory": "8Gi", "pods": "110"}
RESIZED = {"capacity": SMALL, "allocatable": SMALL}


def an_environment(size: dict[str, str] | None = None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(lifecycle.controller, consistency.controller)
    env.add(NODE_CLAIMS, manifests.claim(requests={"cpu": 1, "memory": "1Gi"}))
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id, size=size))
    return env.wait(600)


def consistent(env: ControllerEnvironment) -> tuple[str, str]:
    return condition(env.claim().conditions, "ConsistentStateFound")


def test_node_with_the_capacity_of_its_nodeclaim_is_consistent() -> None:
    assert consistent(an_environment()) == ("True", "ConsistentStateFound")


def test_node_with_half_the_memory_is_reported() -> None:
    env = an_environment(SMALL)

    assert consistent(env) == ("False", "ConsistencyCheckFailed")
    (event,) = {event for event in env.events.published if event.reason == "FailedConsistencyCheck"}
    assert "memory" in event.message
    assert "50.0% of expected" in event.message
    assert event.warning


def test_nodeclaim_of_another_provider_is_ignored() -> None:
    env = ControllerEnvironment().run(consistency.controller)
    env.add(NODE_CLAIMS, manifests.claim(node_class=manifests.FOREIGN_NODE_CLASS, provider_id="aws:///a/i"))
    env.add(NODES, manifests.node(provider_id="aws:///a/i"))

    assert env.wait(3600).writes == []


def test_nodeclaim_is_checked_once_in_ten_minutes() -> None:
    env = an_environment()
    env.patch(NODES, "node", {"status": RESIZED}, subresource="status")

    env.wait(599)
    before = consistent(env)
    env.wait(1)

    assert before[0] == "True"
    assert consistent(env)[0] == "False"


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment()
    before = env.versions()

    env.wait(3600)

    assert env.versions() == before
