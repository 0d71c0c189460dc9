"""Default spread constraints of the kube-scheduler configuration."""

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, TopologySpreadConstraint
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import Service, WorkloadController
from dovetail.model.plan import Plan
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import (
    a_node,
    a_pod,
    a_pool,
    cluster,
    host_spread,
    owned_by,
    pods,
    selector,
)
from tests.support.scheduling.instance_types import Z1, Z2, Z3
from tests.support.scheduling.plans import pods_per_node, skew, unplaced, zones_of
from tests.support.scheduling.solver import packed

APP = {"app": "web"}
OVER_ZONES = TopologySpreadConstraint(topology_key=label_keys.ZONE)
OVER_HOSTS = TopologySpreadConstraint(topology_key=label_keys.HOSTNAME)


def replicas(count: int, name: str = "web", labels: dict[str, str] = APP) -> list[Pod]:
    return pods(count, name, labels=labels, owner=owned_by("ReplicaSet", name))


def controller(
    name: str = "web", select: LabelSelector | None = None, kind: str = "ReplicaSet"
) -> WorkloadController:
    return WorkloadController(kind=kind, namespace="default", name=name, selector=select or selector(APP))


def service(name: str = "web", namespace: str = "default", **labels: str) -> Service:
    return Service(namespace=namespace, name=name, selector=FrozenDict(labels or APP))


def planned(snapshot: ClusterSnapshot, *defaults: TopologySpreadConstraint) -> Plan:
    return packed(snapshot, default_spreads=defaults)


def test_owned_pods_without_a_spread_get_the_default_one_over_zones() -> None:
    # T27
    snapshot = cluster(replicas(4), workload_controllers=[controller()])

    assert skew(zones_of(planned(snapshot, OVER_ZONES))) == [1, 1, 2]


def test_owned_pods_without_a_spread_get_the_default_one_over_nodes() -> None:
    # T27
    snapshot = cluster(replicas(3), workload_controllers=[controller()])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [1, 1, 1]


def test_a_spread_of_its_own_replaces_the_default() -> None:
    # T27
    own = pods(4, labels=APP, owner=owned_by("ReplicaSet", "web"), spreads=[host_spread(APP, 4)])
    snapshot = cluster(own, workload_controllers=[controller()])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [4]


def test_min_domains_of_a_default_counts() -> None:
    # T28
    pool = a_pool(requirements=[(label_keys.ZONE, "In", [Z1, Z2])])
    snapshot = cluster(replicas(3), [pool], workload_controllers=[controller()])
    strict = TopologySpreadConstraint(topology_key=label_keys.ZONE, min_domains=3)

    plan = planned(snapshot, strict)

    assert zones_of(plan) == {Z1: 1, Z2: 1}
    assert len(unplaced(plan)) == 1


def test_a_soft_default_yields_where_a_hard_one_does_not() -> None:
    # T28
    pool = a_pool(requirements=[(label_keys.ZONE, "In", [Z1])])
    other = a_node("empty", zone=Z2, room=0)
    snapshot = cluster(replicas(3), [pool], workload_controllers=[controller()], nodes=[other])
    soft = TopologySpreadConstraint(topology_key=label_keys.ZONE, required=False)

    assert len(unplaced(planned(snapshot, OVER_ZONES))) == 2
    assert unplaced(planned(snapshot, soft)) == []


def test_without_configuration_nothing_is_spread() -> None:
    # T29
    snapshot = cluster(replicas(3), workload_controllers=[controller()], services=[service()])

    assert pods_per_node(planned(snapshot)) == [3]


def test_a_pod_without_owner_and_service_is_not_spread() -> None:
    # T29
    snapshot = cluster(pods(3, labels=APP), workload_controllers=[controller()])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [3]


def test_running_pods_count_through_the_deduced_selector() -> None:
    # T30
    old = a_node("old", zone=Z1, room=1, pods=[a_pod("r", labels=APP)])
    snapshot = cluster(replicas(2), workload_controllers=[controller()], nodes=[old])

    assert zones_of(planned(snapshot, OVER_ZONES)) == {Z2: 1, Z3: 1}


def test_each_workload_spreads_for_itself() -> None:
    # T30
    snapshot = cluster(
        [*replicas(2, "a", {"app": "a"}), *replicas(2, "b", {"app": "b"})],
        workload_controllers=[
            controller("a", selector({"app": "a"})),
            controller("b", selector({"app": "b"})),
        ],
    )

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [2, 2]


def test_each_revision_of_a_deployment_spreads_for_itself() -> None:
    # T30
    def revision(rev: str) -> dict[str, str]:
        return {**APP, "pod-template-hash": rev}

    snapshot = cluster(
        [*replicas(2, "web-1", revision("1")), *replicas(2, "web-2", revision("2"))],
        workload_controllers=[
            controller("web-1", selector(revision("1"))),
            controller("web-2", selector(revision("2"))),
        ],
    )

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [2, 2]


def test_a_service_alone_is_enough() -> None:
    # T30
    jobs = pods(3, labels=APP, owner=owned_by("Job", "batch"))
    snapshot = cluster(jobs, services=[service()])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [1, 1, 1]


def test_the_controllers_selector_counts_not_the_pods_labels() -> None:
    # T31: two pods that differ by a label the controller does not look at are one series.
    mixed = [
        a_pod(f"p{i}", labels={**APP, "extra": str(i)}, owner=owned_by("StatefulSet", "web"))
        for i in range(2)
    ]
    snapshot = cluster(mixed, workload_controllers=[controller(kind="StatefulSet")])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [1, 1]


def test_the_selector_of_a_replication_controller_overrides_that_of_a_service() -> None:
    # T31
    owner = owned_by("ReplicationController", "web")
    series = pods(2, labels=APP, owner=owner)
    old = controller(kind="ReplicationController", select=selector({"app": "renamed"}))
    snapshot = cluster(series, workload_controllers=[old], services=[service()])

    # The selector requires app=renamed, which these pods are not: nothing to spread.
    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [2]


def test_a_service_and_a_replica_set_that_contradict_each_other_select_no_pod() -> None:
    # T31
    other = selector({}, ("app", "In", ["other"]))
    snapshot = cluster(replicas(2), workload_controllers=[controller(select=other)], services=[service()])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [2]


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    # T31
    owner = owned_by("ReplicaSet", "web", controller=False)
    snapshot = cluster(pods(2, labels=APP, owner=owner), workload_controllers=[controller()])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [2]


def test_a_service_of_another_namespace_does_not_count() -> None:
    # T31
    snapshot = cluster(pods(2, labels=APP), services=[service(namespace="other")])

    assert pods_per_node(planned(snapshot, OVER_HOSTS)) == [2]
