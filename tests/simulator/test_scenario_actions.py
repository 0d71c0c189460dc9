"""What a scenario says is done to the cluster, at once."""

from datetime import timedelta

import pytest

from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    REPLICA_SETS,
)
from dovetail.ports.kube_errors import ApiError, NotFound
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.model import Apply, Delete, Interrupt, Scale, SellOut
from dovetail.simulator.scenario_actions import act
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, an_app, scaled, wait
from tests.support.cluster import names

OURS = ListOptions(labels="karpenter.sh/nodepool")


def running(pods: int, *, capacity_type: str = "spot") -> Box:
    """A box in which so many pods run, each on a node of its own."""
    pool = a_pool(capacity_type=capacity_type)
    box = a_box(a_story(objects=(a_node_class(), pool, an_app(replicas=pods))))
    wait(box, 30)
    assert box.chronicle.running == pods
    return box


def replicas(box: Box, name: str = "web", namespace: str = "default") -> int:
    found: int = box.api.get(DEPLOYMENTS, name, namespace)["spec"]["replicas"]
    return found


# Apply.


def test_objects_are_created_in_namespaces_that_are_made_for_them() -> None:
    box = a_box()

    act(Apply((an_app("api", replicas=2, namespace="shop"),)), box)

    assert replicas(box, "api", "shop") == 2
    assert "shop" in names(box.api.list(NAMESPACES).items)


def test_objects_that_are_there_become_like_those_applied() -> None:
    box = a_box()

    act(Apply((an_app(replicas=2),)), box)
    act(Apply((an_app(replicas=3),)), box)

    assert replicas(box) == 3
    assert names(box.api.list(DEPLOYMENTS).items) == ["web"]


def test_what_is_not_valid_is_refused() -> None:
    broken = a_pool()
    broken["spec"]["weight"] = 1000

    with pytest.raises(ApiError, match="weight"):
        act(Apply((broken,)), a_box())


# Scale.


def test_a_workload_is_scaled() -> None:
    box = a_box()

    act(scaled(5), box)

    assert replicas(box) == 5


def test_a_workload_of_another_namespace_and_kind_is_scaled() -> None:
    box = a_box(a_story(objects=(an_app("api", replicas=1, namespace="shop"),)))
    wait(box, 1)
    [name] = names(box.api.list(REPLICA_SETS, ListOptions(namespace="shop")).items)

    act(Scale(kind="ReplicaSet", name=name, namespace="shop", replicas=0), box)

    assert box.api.get(REPLICA_SETS, name, "shop")["spec"]["replicas"] == 0


def test_a_static_pool_is_scaled_without_a_namespace() -> None:
    box = a_box(a_story(objects=(a_node_class(), a_pool(replicas=0))))

    act(Scale(kind="NodePool", name="default", namespace="default", replicas=2), box)

    assert box.api.get(NODE_POOLS, "default")["spec"]["replicas"] == 2


def test_what_is_not_there_cannot_be_scaled() -> None:
    with pytest.raises(NotFound, match="nobody"):
        act(scaled(1, "nobody"), a_box())


# Delete.


def test_an_object_is_deleted_by_name() -> None:
    box = a_box()

    act(Delete(kind="Deployment", name="web"), box)
    wait(box, 1)

    assert box.api.list(DEPLOYMENTS).items == []


def test_an_object_of_another_namespace_is_deleted() -> None:
    both = an_app(), an_app(namespace="shop")
    box = a_box(a_story(objects=both))

    act(Delete(kind="Deployment", name="web", namespace="shop"), box)
    wait(box, 1)

    assert [one["metadata"]["namespace"] for one in box.api.list(DEPLOYMENTS).items] == ["default"]


def test_without_a_name_the_oldest_are_deleted() -> None:
    box = running(1)
    old = names(box.api.list(PODS).items)
    act(scaled(3), box)
    wait(box, 30)

    act(Delete(kind="Pod", count=2), box)

    going = [one for one in box.api.list(PODS).items if one["metadata"].get("deletionTimestamp")]
    assert len(going) == 2
    assert set(old) < set(names(going))


def test_of_nodes_only_those_that_were_bought_are_deleted() -> None:
    box = running(2)
    bought = names(box.api.list(NODES, OURS).items)

    act(Delete(kind="Node", count=10), box)

    going = [one for one in box.api.list(NODES).items if one["metadata"].get("deletionTimestamp")]
    assert names(going) == bought


def test_what_is_not_there_cannot_be_deleted() -> None:
    box = a_box()

    with pytest.raises(NotFound, match="nobody"):
        act(Delete(kind="Deployment", name="nobody"), box)
    with pytest.raises(NotFound, match="there is no Node to delete"):
        act(Delete(kind="Node"), box)


# Interrupt.


def interrupted(box: Box) -> int:
    """How many nodes are gone, once the notices have passed, that were there before."""
    before = set(names(box.api.list(NODE_CLAIMS).items))
    wait(box, 150)
    return len(before - set(names(box.api.list(NODE_CLAIMS).items)))


@pytest.mark.parametrize(("share", "count"), [(1.0, 4), (0.5, 2), (0.334, 1), (0.75, 3), (0.01, 1)])
def test_a_share_of_the_spot_instances_is_taken_back(share: float, count: int) -> None:
    box = running(4)

    act(Interrupt(share), box)

    assert interrupted(box) == count


def test_on_demand_instances_are_never_taken_back() -> None:
    box = running(2, capacity_type="on-demand")

    act(Interrupt(1.0), box)

    assert interrupted(box) == 0


# Sell out.


def test_what_is_sold_out_cannot_be_bought_until_it_can() -> None:
    box = a_box()

    act(SellOut(types="m5.*", lasts=timedelta(minutes=5)), box)
    act(scaled(1), box)
    wait(box, 240)
    assert box.ec2.ledger.machines == 1
    wait(box, 400)

    assert box.chronicle.running == 1


@pytest.mark.parametrize(
    "others",
    [SellOut(types="c5.*"), SellOut(zones="us-west-2*"), SellOut(capacity_types="on-demand")],
    ids=["types", "zones", "capacity types"],
)
def test_what_is_not_sold_out_can_be_bought(others: SellOut) -> None:
    box = a_box()

    act(others, box)
    act(scaled(1), box)
    wait(box, 30)

    assert box.chronicle.running == 1


def test_without_an_end_it_stays_sold_out() -> None:
    box = a_box()

    act(SellOut(), box)
    act(scaled(1), box)
    wait(box, 1800)

    assert box.ec2.ledger.machines == 1
