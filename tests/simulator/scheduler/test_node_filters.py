"""Node filters: resources, labels, taints, ports."""

from typing import Any

import pytest

from dovetail.ports.api_resources import NODES, PODS
from tests.support.simulator.scheduler import SchedulerCluster, a_node, pod


def a_cluster(*nodes: dict[str, Any]) -> SchedulerCluster:
    cluster = SchedulerCluster()
    for node in nodes:
        cluster.create(NODES, node)
    return cluster


def terms(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"nodeAffinity": required}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [*values]}


def test_a_bound_pod_gets_an_event() -> None:
    cluster = a_cluster(a_node("n1"))

    cluster.add(pod("web", requests={"cpu": "1"}))
    cluster.settle()

    assert cluster.node_of("web") == "n1"
    assert cluster.events("web") == ["Normal Scheduled: Successfully assigned default/web to n1"]


def test_an_unschedulable_pod_has_a_condition_until_it_is_bound() -> None:
    cluster = a_cluster(
        a_node("full", cpu="1"),
        a_node("tainted", taints=["team=red:NoSchedule"]),
        a_node("cordoned", unschedulable=True),
        a_node("elsewhere", labels={"disk": "slow"}),
    )
    cluster.add(pod("web", requests={"cpu": "2"}, nodeSelector={"disk": "fast"}))
    cluster.settle()
    cluster.add(pod("any", requests={"cpu": "2"}))
    cluster.settle()

    first = cluster.unschedulable_message("web")
    cluster.create(NODES, a_node("right", labels={"disk": "fast"}))
    cluster.wait(1)

    assert first == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {team: red}, "
        "1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."
    )
    assert cluster.events("web")[0] == f"Warning FailedScheduling: {first}"
    assert cluster.node_of("any") == "elsewhere"
    assert (cluster.node_of("web"), cluster.unschedulable_message("web")) == ("right", "")


def test_the_message_without_any_node() -> None:
    cluster = a_cluster()

    cluster.add(pod("web"))
    cluster.settle()

    assert cluster.unschedulable_message("web") == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ({"cpu": "5"}, "1 Insufficient cpu"),
        ({"cpu": "5", "memory": "32Gi"}, "1 Insufficient cpu, 1 Insufficient memory"),
        ({"nvidia.com/gpu": "1"}, "1 Insufficient nvidia.com/gpu"),
    ],
)
def test_every_insufficient_resource_is_reported(requests: dict[str, str], message: str) -> None:
    cluster = a_cluster(a_node("n1"))

    cluster.add(pod("web", requests=requests))
    cluster.settle()

    assert cluster.unschedulable_message("web") == f"0/1 nodes are available: {message}."


def test_a_node_takes_no_more_pods_than_its_capacity() -> None:
    cluster = a_cluster(a_node("n1", pods="2"))

    cluster.add(*(pod(f"p{number}") for number in range(3)))
    cluster.settle()

    assert cluster.placements() == {"p0": "n1", "p1": "n1", "p2": None}
    assert cluster.unschedulable_message("p2") == "0/1 nodes are available: 1 Too many pods."


def test_init_containers_sidecars_and_overhead_count_as_requests() -> None:
    cluster = a_cluster(a_node("n1", cpu="2"))
    large = [{"name": "init", "image": "i", "resources": {"requests": {"cpu": "3"}}}]
    sidecar = [
        {"name": "side", "image": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1500m"}}}
    ]

    cluster.add(
        pod("init", requests={"cpu": "1"}, initContainers=large),
        pod("side", requests={"cpu": "1"}, initContainers=sidecar),
        pod("over", requests={"cpu": "1"}, overhead={"cpu": "1500m"}),
        pod("plain", requests={"cpu": "1"}),
    )
    cluster.settle()

    assert [name for name, node in cluster.placements().items() if node] == ["plain"]


@pytest.mark.parametrize(
    ("tolerations", "bound"),
    [
        ([], False),
        ([{"key": "team", "operator": "Equal", "value": "red"}], True),
        ([{"key": "team", "operator": "Equal", "value": "blue"}], False),
        ([{"operator": "Exists"}], True),
        ([{"key": "team", "operator": "Exists", "effect": "NoSchedule"}], False),
    ],
)
def test_no_schedule_taints_need_a_toleration(tolerations: list[dict[str, str]], bound: bool) -> None:
    cluster = a_cluster(a_node("n1", taints=["team=red:NoExecute"]))

    cluster.add(pod("web", tolerations=tolerations))
    cluster.settle()

    assert (cluster.node_of("web") == "n1") is bound


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    cluster = a_cluster(a_node("n1", unschedulable=True))
    daemon = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]

    cluster.add(pod("web"), pod("daemon", tolerations=daemon))
    cluster.settle()

    assert cluster.placements() == {"daemon": "n1", "web": None}


@pytest.mark.parametrize(
    ("expression", "bound"),
    [
        (expression("cores", "In", "8", "16"), True),
        (expression("cores", "In", "4"), False),
        (expression("cores", "NotIn", "4"), True),
        (expression("other", "NotIn", "4"), True),
        (expression("cores", "Exists"), True),
        (expression("other", "Exists"), False),
        (expression("other", "DoesNotExist"), True),
        (expression("cores", "Gt", "7"), True),
        (expression("cores", "Gt", "8"), False),
        (expression("cores", "Lt", "9"), True),
        (expression("other", "Lt", "9"), False),
    ],
)
def test_required_node_affinity_matches_as_in_kubernetes(expression: dict[str, Any], bound: bool) -> None:
    cluster = a_cluster(a_node("n1", labels={"cores": "8"}))

    cluster.add(pod("web", affinity=terms({"matchExpressions": [expression]})))
    cluster.settle()

    assert (cluster.node_of("web") == "n1") is bound


def test_one_matching_term_is_enough_and_an_empty_one_matches_nothing() -> None:
    cluster = a_cluster(a_node("n1"))
    fails = {"matchExpressions": [expression("x", "Exists")]}
    holds = {"matchExpressions": [expression("kubernetes.io/hostname", "Exists")]}

    cluster.add(pod("either", affinity=terms(fails, holds)), pod("empty", affinity=terms({})))
    cluster.settle()

    assert cluster.placements() == {"either": "n1", "empty": None}


def test_a_term_can_select_one_node_by_name_as_daemonsets_do() -> None:
    cluster = a_cluster(a_node("n1"), a_node("n2"), a_node("n3"))

    def only(name: str) -> dict[str, Any]:
        return terms({"matchFields": [expression("metadata.name", "In", name)]})

    def but(name: str) -> dict[str, Any]:
        return terms({"matchFields": [expression("metadata.name", "NotIn", name)]})

    cluster.add(
        *(pod(f"on-{name}", affinity=only(name)) for name in ("n1", "n2", "n3", "n4")),
        pod("not-1", affinity=but("n1")),
    )
    cluster.settle()
    missing = cluster.unschedulable_message("on-n4")
    cluster.create(NODES, a_node("n4"))
    cluster.wait(1)

    placements = cluster.placements()
    assert [placements[f"on-n{number}"] for number in (1, 2, 3, 4)] == ["n1", "n2", "n3", "n4"]
    assert placements["not-1"] != "n1"
    assert missing.startswith("0/3 nodes are available: 3 ")


def test_a_host_port_is_used_once_per_node() -> None:
    cluster = a_cluster(a_node("n1"))

    def listening(name: str, port: int, **more: Any) -> dict[str, Any]:
        created = pod(name)
        ports = [{"containerPort": port, "hostPort": port, **more}]
        created["spec"]["containers"][0]["ports"] = ports
        return created

    cluster.add(
        listening("p1", 80),
        listening("p2", 80),
        listening("p3", 80, protocol="UDP"),
        listening("p4", 81, hostIP="10.0.0.1"),
        listening("p5", 81, hostIP="10.0.0.2"),
    )
    cluster.settle()

    assert [name for name, node in cluster.placements().items() if not node] == ["p2"]
    assert "free ports" in cluster.unschedulable_message("p2")
    cluster.remove("p1")
    cluster.wait(1)
    assert cluster.node_of("p2") == "n1"


@pytest.mark.parametrize("spec", [{"schedulerName": "other"}, {"schedulingGates": [{"name": "wait"}]}])
def test_pods_of_other_schedulers_and_gated_pods_are_ignored(spec: dict[str, Any]) -> None:
    cluster = a_cluster(a_node("n1"))

    cluster.add(pod("web", **spec))
    cluster.settle()

    assert (cluster.node_of("web"), cluster.unschedulable_message("web")) == (None, "")


def test_a_pod_without_its_scheduling_gates_is_bound() -> None:
    cluster = a_cluster(a_node("n1"))
    cluster.add(pod("web", schedulingGates=[{"name": "wait"}]))
    cluster.settle()
    created = cluster.get(PODS, "web", "default")

    spec = {name: value for name, value in created["spec"].items() if name != "schedulingGates"}
    cluster.update(PODS, {**created, "spec": spec})
    cluster.settle()

    assert cluster.node_of("web") == "n1"
