"""Pod nomination: ``nominatedNodeName`` is set for launched nodes and cleared."""

from typing import Any

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.pod import nomination
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.ports.kube_errors import Forbidden
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

SPREAD = {
    "topologyKey": "topology.kubernetes.io/zone",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def an_environment(gates: FeatureGates = FeatureGates(), **spec: Any) -> ControllerEnvironment:  # noqa: B008 - frozen
    """Return a NodeClaim that was created for the pending pods ``one`` and ``two``."""
    env = ControllerEnvironment().run(
        lifecycle.controller, nomination.controller, nomination.cleanup_controller, feature_gates=gates
    )
    pods = [add_pending_pod(env, name, **spec) for name in ("one", "two")]
    assigned = ",".join(f"default/{pod['name']}/{pod['uid']}" for pod in pods)
    env.add(NODE_CLAIMS, manifests.claim(annotations=FrozenDict({ASSIGNED_PODS_ANNOTATION: assigned})))
    env.assignments.assign("claim", [get_pod(env, "one"), get_pod(env, "two")])
    return env


def add_pending_pod(env: ControllerEnvironment, name: str, **spec: Any) -> dict[str, Any]:
    pod = manifests.pod(name, node="", phase="Pending", **spec)
    pod["metadata"]["labels"] = {"app": "web"}
    metadata: dict[str, Any] = env.add(PODS, pod)["metadata"]
    return metadata


def join(env: ControllerEnvironment) -> ControllerEnvironment:
    """Add the NodeClaim's Node, not ready yet."""
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id, ready=False))
    return env


def get_pod(env: ControllerEnvironment, name: str) -> Pod:
    pod = env.cache.pod("default", name)
    assert pod is not None
    return pod


def nominated(env: ControllerEnvironment) -> list[str]:
    return [get_pod(env, name).nominated_node_name for name in ("one", "two")]


def nominate(env: ControllerEnvironment, name: str, node: str | None) -> None:
    """Set the field as kube-scheduler does."""
    status: dict[str, Any] = {"status": {"nominatedNodeName": node}}
    env.patch(PODS, name, status, "default", subresource="status")


def test_pods_are_nominated_before_pods_can_be_bound_to_their_node() -> None:
    env = join(an_environment())

    assert nominated(env) == ["node", "node"]
    touched = [about for _, about in env.writes if about.startswith(("Pod/", "Node/"))]
    assert touched[:3] == ["Pod/one", "Pod/two", "Node/node"]


def test_no_pod_is_nominated_without_the_feature_gate() -> None:
    env = join(an_environment(FeatureGates(NominatedNodeName=False)))

    assert nominated(env) == ["", ""]
    assert env.claim().node_name == "node"


def test_bound_pod_is_not_nominated() -> None:
    env = an_environment()
    env.add(NODES, manifests.node("other", provider_id="aws:///a/i-other"))
    env.api.bind("one", "default", {"target": {"name": "other"}})
    env.wait(0)

    join(env)

    assert nominated(env) == ["", "node"]


def test_pods_of_a_topology_spread_are_nominated_one_after_the_other() -> None:
    env = join(an_environment(topologySpreadConstraints=[SPREAD]))
    make_ready(env)
    assert nominated(env) == ["node", ""]

    env.api.bind("one", "default", {"target": {"name": "node"}})
    env.wait(0)

    assert nominated(env) == ["", "node"]


def test_cleared_nomination_is_set_again_once_the_node_is_ready() -> None:
    env = join(an_environment())
    nominate(env, "one", None)
    env.wait(10)
    assert nominated(env) == ["", "node"]

    make_ready(env)

    assert nominated(env) == ["node", "node"]


def test_nomination_is_set_again_until_the_last_taints_are_removed() -> None:
    env = join(an_environment())
    make_ready(env)

    nominate(env, "one", None)
    env.wait(3)

    assert nominated(env) == ["node", "node"]


def test_preempting_pod_keeps_its_nomination_for_another_node() -> None:
    env = an_environment()
    env.add(NODES, manifests.node("other", provider_id="aws:///a/i-other"))
    nominate(env, "one", "other")

    join(env)

    assert nominated(env) == ["other", "node"]


def test_forbidden_nomination_does_not_block_registration() -> None:
    env = an_environment()
    env.failing_client.fail("patch status", PODS, *(Forbidden("no") for _ in range(9)))

    join(env)

    assert nominated(env) == ["", ""]
    assert env.claim().node_name == "node"
    assert env.log.entries("could not nominate pods")


def test_pod_that_was_not_scheduled_yet_keeps_its_nomination() -> None:
    env = join(an_environment())
    make_ready(env)
    env.wait(60)

    env.assignments.expire(env.now)

    assert env.assignments.is_assigned(get_pod(env, "one"))
    assert nominated(env) == ["node", "node"]


def test_pod_rejected_on_the_ready_node_is_scheduled_again() -> None:
    env = join(an_environment())
    make_ready(env)
    env.wait(60)
    nominate(env, "one", None)
    nominate(env, "two", None)
    env.wait(0)

    env.assignments.expire(env.now)

    assert nominated(env) == ["", ""]
    assert not env.assignments.is_assigned(get_pod(env, "one"))


def test_nomination_is_cleared_after_five_minutes() -> None:
    env = join(an_environment())
    make_ready(env)
    env.wait(301)

    env.assignments.expire(env.now)
    env.wait(3)

    assert nominated(env) == ["", ""]


def test_nomination_is_kept_as_long_as_the_pod_assignment() -> None:
    env = join(an_environment())

    env.wait(600)

    assert nominated(env) == ["node", "node"]


def test_nomination_is_cleared_when_the_pod_assignment_is_released() -> None:
    env = join(an_environment())
    make_ready(env)

    env.assignments.release([get_pod(env, "one")])
    env.wait(3)

    assert nominated(env) == ["", "node"]


def test_nomination_survives_a_restart_while_its_node_starts() -> None:
    env = join(an_environment())

    env.restart()
    env.wait(3)
    assert nominated(env) == ["node", "node"]

    make_ready(env)
    env.wait(3)
    assert nominated(env) == ["", ""]


def test_nomination_for_a_missing_node_is_cleared() -> None:
    env = join(an_environment())
    env.assignments.release([get_pod(env, "one")])

    nominate(env, "one", "gone")
    env.wait(3)

    assert nominated(env) == ["", "node"]


def test_nomination_of_a_preempting_pod_is_kept() -> None:
    env = join(an_environment())
    make_ready(env)
    env.assignments.release([get_pod(env, "one"), get_pod(env, "two")])
    env.add(PODS, manifests.pod("victim", terminationGracePeriodSeconds=60))
    env.delete(PODS, "victim", "default")

    nominate(env, "one", "node")
    env.wait(3)

    assert nominated(env)[0] == "node"


def test_nomination_for_a_node_that_was_launched_for_other_pods_is_kept() -> None:
    env = join(an_environment())
    env.assignments.release([get_pod(env, "one")])
    env.add(NODES, manifests.node("other", provider_id="aws:///a/i-other"))

    nominate(env, "one", "other")
    env.wait(3)

    assert nominated(env) == ["other", "node"]


def test_nothing_is_polled_while_no_pod_is_nominated() -> None:
    env = join(an_environment())
    nominate(env, "one", None)
    nominate(env, "two", None)
    env.wait(10)
    before = count_reconciles(env)

    env.wait(3600)

    assert count_reconciles(env) == before


def count_reconciles(env: ControllerEnvironment) -> float:
    return env.metrics.total("controller_runtime_reconcile_total", controller="pod.nomination")


def make_ready(env: ControllerEnvironment) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    env.patch(NODES, "node", {"status": {"conditions": conditions}}, subresource="status")
    env.wait(0)
