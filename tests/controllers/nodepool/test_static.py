"""Static NodePools: SP1–SP9, SX1–SX9 and SC1 of the lifecycle checklist."""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.controllers.nodepool import static
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import DAEMON_SETS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.ports.kube_errors import InternalError
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

MINUTE = 60
ON = FeatureGates(StaticCapacity=True)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


def an_environment() -> ControllerEnvironment:
    return ControllerEnvironment().run(
        static.provisioning_controller, static.deprovisioning_controller, feature_gates=ON
    )


def add_pool(env: ControllerEnvironment, replicas: int | None, **fields: Any) -> ControllerEnvironment:
    env.add(NODE_POOLS, {**manifests.pool(replicas=replicas, **fields), "status": READY})
    return env


def resize(env: ControllerEnvironment, replicas: int) -> ControllerEnvironment:
    env.patch(NODE_POOLS, "default", {"spec": {"replicas": replicas}})
    return env


def names(env: ControllerEnvironment) -> list[str]:
    return sorted(claim.name for claim in env.cache.claims() if not claim.deleting)


def add_node(env: ControllerEnvironment, name: str, *pods: dict[str, Any]) -> None:
    """Add a NodeClaim and its Node with pods."""
    provider_id = f"aws:///us-east-1a/i-{name}"
    env.add(NODE_CLAIMS, manifests.claim(name, provider_id=provider_id, node_name=f"node-{name}"))
    env.add(NODES, manifests.node(f"node-{name}", provider_id=provider_id))
    for number, pod in enumerate(pods):
        pod["metadata"]["name"] = f"{name}-{number}"
        env.add(PODS, {**pod, "spec": {**pod["spec"], "nodeName": f"node-{name}"}})


def a_daemonset_pod(env: ControllerEnvironment, **annotations: str) -> dict[str, Any]:
    """Return a pod of an existing DaemonSet: the API server deletes orphans."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": manifests.pod()["spec"]}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    daemon_set = env.add(DAEMON_SETS, {"metadata": {"name": "agent", "namespace": "default"}, "spec": spec})
    uid = daemon_set["metadata"]["uid"]
    return a_pod(manifests.owner("DaemonSet", "agent", uid=uid, controller=True), **annotations)


def a_pod(owner: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    pod = manifests.pod(owner=owner)
    pod["metadata"]["annotations"] = annotations
    return pod


def a_do_not_disrupt_pod() -> dict[str, Any]:
    return a_pod(**{label_keys.DO_NOT_DISRUPT: "true"})


def test_new_static_nodepool_gets_its_replicas() -> None:
    env = add_pool(an_environment(), 3)

    assert len(names(env)) == 3
    assert env.metrics.total("karpenter_nodeclaims_created_total", reason="provisioned") == 3


def test_nodepool_with_enough_nodes_gets_no_more() -> None:
    env = add_pool(an_environment(), 3)
    before = env.versions()

    env.wait(10 * MINUTE)

    assert env.versions() == before


def test_changed_replicas_launch_or_delete_nodes() -> None:
    env = add_pool(an_environment(), 2)

    assert len(names(resize(env, 5))) == 5
    assert len(names(resize(env, 1))) == 1
    assert names(resize(env, 0)) == []


def test_deleting_nodeclaim_is_replaced_at_once() -> None:
    env = add_pool(an_environment(), 2)
    first = names(env)[0]
    env.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": ["test/held"]}})

    env.delete(NODE_CLAIMS, first)

    assert len(names(env)) == 2
    assert first not in names(env)


def test_nodeclaim_with_a_replacement_is_not_replaced_twice() -> None:
    env = add_pool(an_environment(), 2)
    status = {"conditions": [{"type": "DisruptionReason", "status": "True", "reason": "Drifted"}]}
    env.patch(NODE_CLAIMS, names(env)[0], {"status": status}, subresource="status")

    env.wait(2 * MINUTE)

    assert len(names(env)) == 2


@pytest.mark.parametrize(("limit", "count"), [("2", 2), ("5", 3), ("0", 0)])
def test_limit_restricts_created_nodeclaims(limit: str, count: int) -> None:
    env = add_pool(an_environment(), 3, limits=Resources.parse({"nodes": limit}))

    env.wait(5 * MINUTE)

    assert len(names(env)) == count


def test_deleting_nodeclaims_count_against_the_limit() -> None:
    env = add_pool(an_environment(), 2, limits=Resources.parse({"nodes": 2}))
    first = names(env)[0]
    env.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": ["test/held"]}})
    env.delete(NODE_CLAIMS, first).wait(5 * MINUTE)

    while_deleting = len(names(env))
    env.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": None}})
    env.wait(MINUTE)

    assert while_deleting == 1
    assert len(names(env)) == 2


def test_failed_creation_is_retried() -> None:
    env = an_environment()
    env.failing_client.fail("create", NODE_CLAIMS, InternalError("the API server is busy"))

    add_pool(env, 3, limits=Resources.parse({"nodes": 3})).wait(MINUTE)

    assert len(names(env)) == 3


def test_unready_nodepool_waits_until_it_is_ready() -> None:
    env = an_environment()
    env.add(NODE_POOLS, {**manifests.pool(replicas=2), "status": NOT_READY})
    before = names(env)

    env.patch(NODE_POOLS, "default", {"status": READY}, subresource="status")

    assert before == []
    assert len(names(env)) == 2


def test_nodepool_without_replicas_is_ignored() -> None:
    env = add_pool(an_environment(), None)
    add_node(env, "a")

    env.wait(5 * MINUTE)

    assert names(env) == ["a"]


def test_nodepool_of_another_provider_is_ignored() -> None:
    template = NodeTemplate(node_class=manifests.FOREIGN_NODE_CLASS)
    env = add_pool(an_environment(), 3, template=template)

    assert names(env) == []


def test_every_nodeclaim_has_the_fields_of_the_template() -> None:
    taint = Taint("team", TaintEffect.NO_SCHEDULE, "a")
    zone = RequirementSpec(label_keys.ZONE, Operator.IN, ("us-east-1a",))
    template = NodeTemplate(
        labels=FrozenDict({"team": "a"}),
        annotations=FrozenDict({"note": "x"}),
        taints=(taint,),
        startup_taints=(Taint("starting", TaintEffect.NO_EXECUTE),),
        requirements=(zone,),
        expire_after=timedelta(hours=5),
        termination_grace_period=timedelta(minutes=7),
    )

    env = add_pool(an_environment(), 1, template=template)

    claim = env.claim(names(env)[0])
    assert claim.labels["team"] == "a"
    assert claim.labels[label_keys.NODEPOOL] == "default"
    assert claim.annotations["note"] == "x"
    assert claim.taints == (taint,)
    assert claim.startup_taints == template.startup_taints
    assert claim.requirements == (zone,)
    assert claim.expire_after == timedelta(hours=5)
    assert claim.termination_grace_period == timedelta(minutes=7)


def test_unlaunched_nodeclaims_are_deleted_first() -> None:
    env = an_environment()
    add_node(env, "a")
    env.add(NODE_CLAIMS, manifests.claim("unlaunched"))
    add_node(env, "z")

    add_pool(env, 2)

    assert names(env) == ["a", "z"]


def test_then_nodes_without_workload_pods_are_deleted_then_the_lowest_disruption_cost() -> None:
    env = an_environment()
    add_node(env, "busy", a_pod(), a_pod())
    add_node(env, "daemons", a_daemonset_pod(env))
    add_node(env, "quiet", a_pod())
    add_pool(env, 3)

    first = names(resize(env, 2))
    second = names(resize(env, 1))

    assert first == ["busy", "quiet"]
    assert second == ["busy"]


def test_nodes_with_do_not_disrupt_pods_are_deleted_last() -> None:
    env = an_environment()
    add_node(env, "held", a_do_not_disrupt_pod())
    add_node(env, "busy", a_pod(), a_pod(), a_pod())
    add_node(env, "held-daemon", a_daemonset_pod(env, **{label_keys.DO_NOT_DISRUPT: "true"}))

    add_pool(env, 2)

    assert names(env) == ["held", "held-daemon"]


def test_failed_deletion_is_retried() -> None:
    env = add_pool(an_environment(), 2)
    env.failing_client.fail("delete", NODE_CLAIMS, InternalError("the API server is busy"))

    resize(env, 0).wait(MINUTE)

    assert names(env) == []


def test_controllers_that_crash_after_any_write_reach_the_right_number() -> None:
    for writes in (1, 2, 3):
        env = an_environment()
        env.crash_after(writes)
        add_pool(env, 3)

        env.restart().wait(MINUTE)

        assert len(names(env)) == 3
