"""Whatever the cluster: bindings are valid, and nobody waits who need not."""

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
from dovetail.simulator.apiserver.delete import DeleteOptions
from tests.support.auditing import Auditor
from tests.support.catalog import GPU_A, ON_DEMAND, SPOT, ZONES
from tests.support.pod_strategies import TEAM, TIER, maybe, workloads
from tests.support.scheduled import Scheduled, host

LATER = 400
"""Seconds after which every refused pod has been looked at again."""

TAINTS = [["team=x:NoSchedule"], ["gpu=:NoExecute"], ["soft=:PreferNoSchedule"]]
SIZES = st.sampled_from(
    [
        {"cpu": cpu, "pods": pods, "zone": zone, "kind": kind}
        for cpu, pods, zone, kind in product(
            ("4", "2", "8"), ("110", "4"), ZONES, (ON_DEMAND, SPOT)
        )
    ]
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    size = dict(draw(SIZES))
    labels = {label_keys.CAPACITY_TYPE: size.pop("kind"), label_keys.ARCH: "amd64"}
    labels |= maybe(draw, [{TEAM: "x"}, {TIER: "2"}, {TIER: "5"}], {})
    node = host(
        name,
        labels=labels,
        taints=maybe(draw, TAINTS, []),
        **maybe(draw, [{GPU_A: "2"}], {}),
        **size,
    )
    return {**node, "spec": {**node["spec"], **maybe(draw, [cordoned(node)], {})}}


def cordoned(node: Mapping[str, Any]) -> dict[str, Any]:
    """What cordoning changes: the node controller adds the taint that goes with it."""
    mark = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    taints = [one for one in node["spec"].get("taints") or () if one != mark]
    return {"unschedulable": True, "taints": [*taints, mark]}


def uncordoned(node: Mapping[str, Any]) -> dict[str, Any]:
    return {"unschedulable": False, "taints": cordoned(node)["taints"][:-1]}


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, int]:
    what = draw(st.sampled_from(["kill pod", "cordon", "uncordon", "add node", "kill node"]))
    return what, draw(st.integers(0, 5))


def a_cluster(pods: list[Pod], hosts: list[dict[str, Any]]) -> Scheduled:
    cluster = Scheduled()
    cluster.create(NAMESPACES, {"metadata": {"name": "other"}})
    for node in hosts:
        cluster.create(NODES, node)
    add(cluster, pods)
    return cluster


def add(cluster: Scheduled, pods: list[Pod]) -> None:
    for pod in pods:
        # Volumes are another matter; what Kubernetes would not accept is nobody's problem.
        spec = msgspec.structs.replace(pod.spec, volumes=())
        wire = encode_pod(msgspec.structs.replace(pod, spec=spec, uid="", created=None))
        wire["spec"]["containers"][0]["image"] = "app:1"
        for port in wire["spec"]["containers"][0].get("ports") or ():
            port["containerPort"] = port["hostPort"]
        try:
            cluster.create(PODS, wire)
        except Invalid:
            continue


def change(cluster: Scheduled, what: str, number: int, spare: dict[str, Any]) -> None:
    pods = [one["metadata"] for one in cluster.list(PODS).items if "nodeName" in one["spec"]]
    names = [one["metadata"]["name"] for one in cluster.list(NODES).items]
    if what == "kill pod" and pods:
        gone = pods[number % len(pods)]
        force = DeleteOptions(grace_seconds=0)
        cluster.delete(PODS, gone["name"], gone["namespace"], options=force)
    elif what == "add node":
        try:
            cluster.get(NODES, spare["metadata"]["name"])
        except NotFound:
            cluster.create(NODES, spare)
    elif names:
        name = names[number % len(names)]
        if what == "kill node":
            cluster.delete(NODES, name)
            for one in cluster.list(PODS).items:
                if one["spec"].get("nodeName") == name:
                    meta, force = one["metadata"], DeleteOptions(grace_seconds=0)
                    cluster.delete(PODS, meta["name"], meta["namespace"], options=force)
        else:
            node = cluster.get(NODES, name)
            how = cordoned if what == "cordon" else uncordoned
            cluster.change_node(name, **how(node))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_binding_is_valid_and_nobody_waits_who_need_not(data: st.DataObject) -> None:
    hosts = [data.draw(nodes(f"n{i}")) for i in range(data.draw(st.integers(1, 5)))]
    cluster = a_cluster(data.draw(workloads(most=5)), hosts)
    audit = Auditor(cluster)
    cluster.wait(LATER)

    found = audit.findings()

    assert found == []


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_laws_hold_while_pods_and_nodes_come_and_go(data: st.DataObject) -> None:
    hosts = [data.draw(nodes(f"n{i}")) for i in range(data.draw(st.integers(1, 4)))]
    spare = data.draw(nodes("spare"))
    cluster = a_cluster(data.draw(workloads(most=4)), hosts)
    audit = Auditor(cluster)
    cluster.wait(data.draw(st.sampled_from([0, 0.5, 20])))

    for what, number in data.draw(st.lists(changes(), max_size=6)):
        change(cluster, what, number, spare)
        cluster.wait(data.draw(st.sampled_from([0, 0.5, 20])))
    cluster.wait(LATER)

    assert audit.findings() == []


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_binder_that_comes_to_a_running_cluster_binds_as_validly(data: st.DataObject) -> None:
    hosts = [data.draw(nodes(f"n{i}")) for i in range(data.draw(st.integers(1, 4)))]
    first = a_cluster(data.draw(workloads(most=3)), hosts)
    first.wait(1)
    later = a_cluster([], hosts)
    for one in first.list(PODS).items:
        if "nodeName" in one["spec"]:
            meta = {key: one["metadata"].get(key) for key in ("name", "namespace", "labels")}
            later.create(PODS, {"metadata": meta, "spec": one["spec"]})
    audit = Auditor(later)

    more = data.draw(workloads(most=3))
    add(later, [msgspec.structs.replace(pod, name=f"late-{pod.name}") for pod in more])
    later.wait(LATER)

    assert audit.findings() == []


def test_the_laws_bite() -> None:
    cluster = a_cluster([], [host("n1", cpu="1")])
    audit = Auditor(cluster)
    small = Pod(name="small", spec=PodSpec(requests=PodSpec().requests))
    add(cluster, [small])
    cluster.settle()
    large = encode_pod(msgspec.structs.replace(small, name="large"))
    large["spec"]["containers"][0] |= {"image": "app:1", "resources": {"requests": {"cpu": "2"}}}
    cluster.create(PODS, large)
    cluster.bind("large", "default", {"target": {"name": "n1"}})

    (finding,) = audit.findings()

    assert finding.startswith("default/large was bound to n1: room")
