"""Instance types, offerings and NodePools."""

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering, compute_allocatable
from dovetail.model.karpenter.nodepool import NodePool, sort_by_weight
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import Resources
from tests.support.scheduling.builders import a_pool
from tests.support.scheduling.instance_types import DEFAULT_TYPES


def test_allocatable_is_capacity_without_overhead() -> None:
    small = next(kind for kind in DEFAULT_TYPES if kind.name == "small")

    assert small.allocatable["cpu"] == 1900
    assert small.allocatable["memory"] == 2 * 2**30 - 10 * 2**20
    assert small.allocatable["pods"] == 5


def test_p47_huge_pages_reduce_memory() -> None:
    capacity = Resources.parse({"memory": "4Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "1Gi"})

    left = compute_allocatable(capacity, Resources.parse({"memory": "1Gi"}))

    assert left["memory"] == 2**30
    assert left["hugepages-2Mi"] == 2**30


def test_p47_huge_pages_never_make_memory_negative() -> None:
    capacity = Resources.parse({"memory": "1Gi", "hugepages-1Gi": "4Gi"})

    assert compute_allocatable(capacity, Resources.parse({"memory": "1Mi"}))["memory"] == 0


def test_s29_computing_allocatable_changes_neither_capacity_nor_overhead() -> None:
    kind = InstanceType(
        name="t",
        requirements=Requirements(),
        capacity=Resources({"cpu": 4000, "hugepages-2Mi": 5, "memory": 10}),
        overhead=Resources({"cpu": 100}),
    )

    assert kind.allocatable == {"cpu": 3900, "memory": 5, "hugepages-2Mi": 5}
    assert kind.capacity == {"cpu": 4000, "hugepages-2Mi": 5, "memory": 10}
    assert kind.overhead == {"cpu": 100}


def test_an_offering_determines_labels_of_a_node_launched_from_it() -> None:
    offering = Offering(zone="z", zone_id="z-id", capacity_type="reserved", price=1.0, reservation_id="cr-1")

    assert offering.requirements() == {
        label_keys.ZONE: Requirement.one_of(label_keys.ZONE, "z"),
        label_keys.ZONE_ID: Requirement.one_of(label_keys.ZONE_ID, "z-id"),
        label_keys.CAPACITY_TYPE: Requirement.one_of(label_keys.CAPACITY_TYPE, "reserved"),
        label_keys.CAPACITY_RESERVATION_ID: Requirement.one_of(label_keys.CAPACITY_RESERVATION_ID, "cr-1"),
    }


def test_a_pool_requires_its_requirements_labels_and_name() -> None:
    pool = a_pool("blue", [("team", "In", ["a", "b"])], labels={"team": "a", "tier": "front"})

    requirements = pool.requirements()

    assert requirements["team"] == Requirement.one_of("team", "a")
    assert requirements["tier"] == Requirement.one_of("tier", "front")
    assert requirements[label_keys.NODEPOOL] == Requirement.one_of(label_keys.NODEPOOL, "blue")
    assert requirements[label_keys.EC2_NODE_CLASS] == Requirement.one_of(label_keys.EC2_NODE_CLASS, "default")


def test_p70_the_heaviest_pool_comes_first_and_ties_go_by_name_descending() -> None:
    pools = (
        a_pool("a"),
        a_pool("heavy", weight=100),
        a_pool("c"),
        a_pool("b", weight=10),
        a_pool("d", weight=10),
    )

    ordered = [pool.name for pool in sort_by_weight(pools)]

    assert ordered == ["heavy", "d", "b", "c", "a"]


def test_a1_a_pool_has_the_defaults_of_the_api() -> None:
    pool = NodePool(name="p")

    assert pool.disruption.consolidate_after is not None
    assert pool.disruption.consolidate_after.total_seconds() == 0
    assert pool.disruption.policy == "WhenEmptyOrUnderutilized"
    assert [budget.nodes for budget in pool.disruption.budgets] == ["10%"]
    assert pool.template.expire_after is not None
    assert pool.template.expire_after.total_seconds() == 720 * 3600
