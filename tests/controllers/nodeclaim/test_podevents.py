"""Pod events: PE1–PE5 of the lifecycle checklist.

After a restart, Karpenter records every existing pod as new. Dovetail does not, so
that a restart does not extend consolidateAfter.
"""

from typing import Any

from dovetail.controllers.nodeclaim import podevents
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests
from tests.support.simulator.api_server import START

PROVIDER_ID = "aws:///a/i-1"
DAEMON = manifests.owner("DaemonSet", "agent", uid="1", controller=True)


def an_environment(**claim: Any) -> ControllerEnvironment:
    env = ControllerEnvironment().run(podevents.controller)
    env.add(NODE_CLAIMS, manifests.claim(provider_id=PROVIDER_ID, **claim))
    env.add(NODES, manifests.node(provider_id=PROVIDER_ID))
    return env


def get_event_seconds(env: ControllerEnvironment) -> float | None:
    """Return the seconds from the start to the last pod event."""
    at = env.claim().last_pod_event
    return None if at is None else (at - START).total_seconds()


def bind(env: ControllerEnvironment, name: str, **pod: Any) -> None:
    """Create a pod and bind it, as users and schedulers do."""
    env.add(PODS, manifests.pod(name, node="", phase="Pending", **pod))
    env.api.bind(name, "default", {"target": {"name": "node"}})
    env.wait(0)


def test_bound_pod_is_recorded() -> None:
    env = an_environment().wait(5)

    bind(env, "one")

    assert get_event_seconds(env) == 5


def test_pending_pods_are_no_pod_event() -> None:
    env = an_environment()

    env.add(PODS, manifests.pod("one", node="", phase="Pending"))

    assert get_event_seconds(env) is None


def test_terminal_pod_is_recorded() -> None:
    env = an_environment()
    bind(env, "one")
    env.wait(60)

    env.patch(PODS, "one", {"status": {"phase": "Succeeded"}}, "default", subresource="status")

    assert get_event_seconds(env) == 60


def test_start_of_a_pod_deletion_is_recorded_and_its_end_is_not() -> None:
    env = an_environment()
    bind(env, "one")
    env.wait(60)

    env.delete(PODS, "one", "default")
    env.wait(30)
    env.patch(PODS, "one", {"metadata": {"labels": {"a": "b"}}}, "default")

    assert get_event_seconds(env) == 60


def test_daemonset_pods_are_no_pod_event() -> None:
    env = an_environment()

    env.api.create(PODS, manifests.pod("agent", owner=DAEMON))
    env.wait(0)

    assert get_event_seconds(env) is None


def test_missing_and_unmanaged_nodes_are_ignored() -> None:
    env = an_environment(node_class=manifests.FOREIGN_NODE_CLASS)
    env.add(NODES, manifests.node("unmanaged", provider_id="aws:///a/i-2"))

    bind(env, "one")
    env.add(PODS, manifests.pod("two", node="unmanaged"))
    env.add(PODS, manifests.pod("three", node="nowhere"))

    assert get_event_seconds(env) is None
    assert env.log.entries("reconciler error") == []


def test_pod_events_within_ten_seconds_are_recorded_once() -> None:
    env = an_environment()
    bind(env, "one")

    env.wait(9)
    bind(env, "two")
    after_nine = get_event_seconds(env)
    env.wait(1)
    bind(env, "three")

    assert after_nine == 0
    assert get_event_seconds(env) == 10


def test_restart_is_no_pod_event() -> None:
    env = an_environment()
    bind(env, "one")
    env.wait(60)

    env.restart()

    assert get_event_seconds(env) == 0


def test_pod_bound_during_downtime_is_recorded() -> None:
    env = an_environment()
    bind(env, "one")
    env.crash().wait(60)
    env.add(PODS, manifests.pod("two"))
    env.wait(60)

    env.run(podevents.controller)

    assert get_event_seconds(env) == 120


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment()
    bind(env, "one")
    before = env.versions()

    env.manager.enqueue("nodeclaim.podevents", "node")
    env.wait(0)

    assert env.versions() == before
