"""Laws of scheduling: bindings are valid, and no pod is pending needlessly."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.codec.kube.pod_encoding import encode_pod
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.ports.api_resources import NAMESPACES, NODES, PODS
from dovetail.ports.kube_errors import Invalid, NotFound
from dovetail.simulator.apiserver.options import DeleteOptions
from tests.support.scheduling.instance_types import GPU_A, ON_DEMAND, SPOT, ZONES
from tests.support.scheduling.pod_strategies import TEAM, TIER, maybe, workloads
from tests.support.simulator.scheduler import SchedulerCluster, a_node
from tests.support.simulator.scheduler_auditor import Auditor

LATER = 400
"""Seconds after which every unschedulable pod has been retried."""

TAINTS = [["team=x:NoSchedule"], ["gpu=:NoExecute"], ["soft=:PreferNoSchedule"]]
SIZES = st.sampled_from(
    [
        {"cpu": cpu, "pods": pods, "zone": zone, "kind": kind}
        for cpu, pods, zone, kind in product(("4", "2", "8"), ("110", "4"), ZONES, (ON_DEMAND, SPOT))
    ]
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    size = dict(draw(SIZES))
    labels = {label_keys.CAPACITY_TYPE: size.pop("kind"), label_keys.ARCH: "amd64"}
    labels |= maybe(draw, [{TEAM: "x"}, {TIER: "2"}, {TIER: "5"}], {})
    node = a_node(
        name, labels=labels, taints=maybe(draw, TAINTS, []), **maybe(draw, [{GPU_A: "2"}], {}), **size
    )
    return {**node, "spec": {**node["spec"], **maybe(draw, [cordoned(node)], {})}}


def cordoned(node: Mapping[str, Any]) -> dict[str, Any]:
    """A cordoned node, with the taint that the node lifecycle controller adds."""
    mark = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    taints = [taint for taint in node["spec"].get("taints") or () if taint != mark]
    return {"unschedulable": True, "taints": [*taints, mark]}


def uncordoned(node: Mapping[str, Any]) -> dict[str, Any]:
    return {"unschedulable": False, "taints": cordoned(node)["taints"][:-1]}


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, int]:
    what = draw(st.sampled_from(["kill pod", "cordon", "uncordon", "add node", "kill node"]))
    return what, draw(st.integers(0, 5))


def a_cluster(pods: list[Pod], hosts: list[dict[str, Any]]) -> SchedulerCluster:
    cluster = SchedulerCluster()
    cluster.create(NAMESPACES, {"metadata": {"name": "other"}})
    for node in hosts:
        cluster.create(NODES, node)
    add(cluster, pods)
    return cluster


def add(cluster: SchedulerCluster, pods: list[Pod]) -> None:
    for pod in pods:
        # Volumes are not covered; objects that Kubernetes would reject are ignored.
        spec = msgspec.structs.replace(pod.spec, volumes=())
        wire = encode_pod(msgspec.structs.replace(pod, spec=spec, uid="", created=None))
        wire["spec"]["containers"][0]["image"] = "app:1"
        for port in wire["spec"]["containers"][0].get("ports") or ():
            port["containerPort"] = port["hostPort"]
        try:
            cluster.create(PODS, wire)
        except Invalid:
            continue


def change(cluster: SchedulerCluster, what: str, number: int, extra: dict[str, Any]) -> None:
    pods = [pod["metadata"] for pod in cluster.list(PODS).items if "nodeName" in pod["spec"]]
    names = [node["metadata"]["name"] for node in cluster.list(NODES).items]
    if what == "kill pod" and pods:
        deleted = pods[number % len(pods)]
        force = DeleteOptions(grace_period_seconds=0)
        cluster.delete(PODS, deleted["name"], deleted["namespace"], options=force)
    elif what == "add node":
        try:
            cluster.get(NODES, extra["metadata"]["name"])
        except NotFound:
            cluster.create(NODES, extra)
    elif names:
        name = names[number % len(names)]
        if what == "kill node":
            cluster.delete(NODES, name)
            for pod in cluster.list(PODS).items:
                if pod["spec"].get("nodeName") == name:
                    meta, force = pod["metadata"], DeleteOptions(grace_period_seconds=0)
                    cluster.delete(PODS, meta["name"], meta["namespace"], options=force)
        else:
            node = cluster.get(NODES, name)
            how = cordoned if what == "cordon" else uncordoned
            cluster.change_node(name, **how(node))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_binding_is_valid_and_no_pod_is_pending_needlessly(data: st.DataObject) -> None:
    hosts = [data.draw(nodes(f"n{i}")) for i in range(data.draw(st.integers(1, 5)))]
    cluster = a_cluster(data.draw(workloads(most=5)), hosts)
    audit = Auditor(cluster)
    cluster.wait(LATER)

    findings = audit.findings()

    assert findings == []


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_laws_hold_while_pods_and_nodes_come_and_go(data: st.DataObject) -> None:
    hosts = [data.draw(nodes(f"n{i}")) for i in range(data.draw(st.integers(1, 4)))]
    extra = data.draw(nodes("extra"))
    cluster = a_cluster(data.draw(workloads(most=4)), hosts)
    audit = Auditor(cluster)
    cluster.wait(data.draw(st.sampled_from([0, 0.5, 20])))

    for what, number in data.draw(st.lists(changes(), max_size=6)):
        change(cluster, what, number, extra)
        cluster.wait(data.draw(st.sampled_from([0, 0.5, 20])))
    cluster.wait(LATER)

    assert audit.findings() == []


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_scheduler_started_in_a_running_cluster_binds_validly(data: st.DataObject) -> None:
    hosts = [data.draw(nodes(f"n{i}")) for i in range(data.draw(st.integers(1, 4)))]
    first = a_cluster(data.draw(workloads(most=3)), hosts)
    first.wait(1)
    later = a_cluster([], hosts)
    for pod in first.list(PODS).items:
        if "nodeName" in pod["spec"]:
            meta = {key: pod["metadata"].get(key) for key in ("name", "namespace", "labels")}
            later.create(PODS, {"metadata": meta, "spec": pod["spec"]})
    audit = Auditor(later)

    more = data.draw(workloads(most=3))
    add(later, [msgspec.structs.replace(pod, name=f"late-{pod.name}") for pod in more])
    later.wait(LATER)

    assert audit.findings() == []


def test_the_laws_detect_violations() -> None:
    cluster = a_cluster([], [a_node("n1", cpu="1")])
    audit = Auditor(cluster)
    small = Pod(name="small", spec=PodSpec(requests=PodSpec().requests))
    add(cluster, [small])
    cluster.settle()
    large = encode_pod(msgspec.structs.replace(small, name="large"))
    large["spec"]["containers"][0] |= {"image": "app:1", "resources": {"requests": {"cpu": "2"}}}
    cluster.create(PODS, large)
    cluster.bind("large", "default", {"target": {"name": "n1"}})

    (finding,) = audit.findings()

    assert finding.startswith("default/large was bound to n1: resources")
