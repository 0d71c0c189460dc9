"""Displaced pods: the node of an assignment has no room, or does not accept them."""

from typing import Any

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.ports.api_resources import NODES, PODS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.scheduling.instance_types import a_type


def test_displaced_pod_gets_another_nodeclaim_within_seconds() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("planned", requests={"cpu": "3"})
    env.wait(2)
    node = env.make_ready(env.live_claims()[0])
    env.add_pending_pod("other", requests={"cpu": "3"}, seen=False)

    env.bind("other", node)
    env.wait(2)

    assert len(env.claims_for("planned")) == 2


def test_assigned_pod_that_still_fits_is_not_displaced() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("planned", requests={"cpu": "1"})
    env.wait(2)
    node = env.make_ready(env.live_claims()[0])
    env.add_pending_pod("other", requests={"cpu": "2"}, seen=False)

    env.bind("other", node)
    env.wait(2)

    assert len(env.claims_for("planned")) == 1


def test_displaced_pod_that_is_bound_within_the_batch_window_gets_no_nodeclaim() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("one", requests={"cpu": "3"})
    env.add_pending_pod("other", requests={"cpu": "3"})
    env.wait(2)
    first, second = (env.make_ready(claim) for claim in env.live_claims())

    # Each pod is bound to the node that was launched for the other.
    env.bind("one", first if env.claims_for("one") != [env.live_claims()[0]] else second)
    env.bind("other", second if env.claims_for("one") != [env.live_claims()[0]] else first)
    env.wait(5)

    assert len(env.live_claims()) == 2


SPREAD = {
    "topologyKey": label_keys.ZONE,
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def test_daemonset_pod_that_took_the_room_before_initialization_displaces_the_pod_at_once() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("planned", requests={"cpu": "3"})
    env.wait(2)
    (claim,) = env.live_claims()
    env.launch(claim)
    node = env.register(claim)
    # A LimitRange or a webhook gave it more than its template requests.
    env.add_pending_pod("agent", requests={"cpu": "2"}, seen=False)
    env.bind("agent", node)
    env.wait(20)
    assert len(env.claims_for("planned")) == 1

    env.initialize(claim)
    env.wait(2)

    assert len(env.claims_for("planned")) == 2


def test_pod_that_does_not_tolerate_a_new_taint_of_its_node_gets_another_within_ten_seconds() -> None:
    env, node = an_unbound_pod()
    env.patch(NODES, node, {"spec": {"taints": [{"key": "team", "value": "other", "effect": "NoSchedule"}]}})

    env.wait(8)
    assert len(env.claims_for("planned")) == 1
    env.wait(4)

    assert len(env.claims_for("planned")) == 2


def test_pod_whose_skew_other_pods_have_used_up_gets_another_node() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    web = {"labels": {"app": "web"}, "topologySpreadConstraints": [SPREAD]}
    env.add_pending_pod("planned", requests={"cpu": "3"}, **web)
    env.add_pending_pod("other", requests={"cpu": "3"}, **web)
    env.wait(2)
    node = env.make_ready(env.claims_for("planned")[0])
    env.make_ready(env.claims_for("other")[0])
    nominate(env, env.claims_for("planned")[0], node)

    # The zone of the node has one pod, the other zone none: another would exceed the skew.
    env.add_pending_pod("extra", requests={"cpu": "100m"}, labels={"app": "web"}, seen=False)
    env.bind("extra", node)
    env.delete(PODS, "other", "default")
    env.wait(9)
    assert env.assignments.is_assigned(get_pod(env, "planned"))
    env.wait(3)

    assert not env.assignments.is_assigned(get_pod(env, "planned"))


def test_pods_that_kube_scheduler_has_not_tried_yet_get_no_second_node() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    names = env.add_pending_pods(12, requests={"cpu": "1500m"})
    env.wait(2)
    launched = env.live_claims()
    for claim in launched:
        nominate(env, claim, env.make_ready(claim))

    env.wait(240)

    assert env.live_claims() == launched
    assert all(len(env.claims_for(name)) == 1 for name in names)


def an_unbound_pod() -> tuple[ProvisioningEnvironment, str]:
    """Return a pod that is nominated for its initialized node and not bound."""
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("planned", requests={"cpu": "3"})
    env.wait(2)
    return env, env.make_ready(env.live_claims()[0])


def get_pod(env: ControllerEnvironment, name: str) -> Pod:
    pod = env.cache.pod("default", name)
    assert pod is not None
    return pod


def nominate(env: ControllerEnvironment, claim: str, node: str) -> None:
    for pod in env.assignments.pods_of(claim):
        status: dict[str, Any] = {"status": {"nominatedNodeName": node}}
        env.patch(PODS, pod.name, status, "default", subresource="status")
