"""Labels, taints, types, requirements and requests of planned nodes."""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import Resources
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import (
    Entry,
    a_daemon_set,
    a_pod,
    a_pool,
    cluster,
    node_term,
    pods,
    taint,
)
from tests.support.scheduling.instance_types import (
    DEFAULT_TYPES,
    GPU_A,
    INTEGER,
    ON_DEMAND,
    SPOT,
    Z1,
    Z3,
    a_type,
    offerings,
)
from tests.support.scheduling.plans import new_node_of, node_of
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))


def names(types: object) -> list[str]:
    return [kind.name for kind in types]  # type: ignore[attr-defined]


# --- P21 to P23: labels and taints ------------------------------------------------------------


def test_p21_a_custom_requirement_with_values_becomes_one_of_them() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(requirements=[("team", "In", ["red", "blue"])])]))

    assert new_node_of(plan, "p").labels["team"] in {"red", "blue"}


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([("rank", "NotIn", ["0", "1"])], lambda value: value not in {"0", "1"}),
        ([("rank", "Gt", ["4"])], lambda value: int(value) > 4),
        ([("rank", "Lt", ["4"])], lambda value: int(value) < 4),
        ([("rank", "Gte", ["5"]), ("rank", "Lte", ["5"])], lambda value: int(value) == 5),
        ([("rank", "Gt", ["4"]), ("rank", "NotIn", ["5", "6"])], lambda value: int(value) > 6),
        ([("rank", "Exists")], lambda value: True),
    ],
    ids=["NotIn", "Gt", "Lt", "Gte+Lte", "Gt+NotIn", "Exists"],
)
def test_p21_a_custom_requirement_without_values_becomes_some_allowed_value(
    entries: list[Entry], allowed: object
) -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(requirements=entries)]))

    value = new_node_of(plan, "p").labels["rank"]
    assert 0 < len(value) <= 63
    assert allowed(value)  # type: ignore[operator]


def test_p21_a_label_that_must_not_exist_does_not() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(requirements=[("team", "DoesNotExist")])]))

    assert "team" not in new_node_of(plan, "p").labels


def test_p21_the_pool_and_the_node_class_are_labels() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool("blue")]))

    labels = new_node_of(plan, "p").labels
    assert labels[label_keys.NODEPOOL] == "blue"
    assert labels[label_keys.EC2_NODE_CLASS] == "default"


@pytest.mark.parametrize(
    "entry",
    [
        (label_keys.WINDOWS_BUILD, "NotIn", ["10.0.1"]),
        (label_keys.ZONE, "NotIn", [Z1]),
        (label_keys.ARCH, "Exists"),
        ("karpenter.k8s.aws/instance-hypervisor", "NotIn", ["xen"]),
    ],
)
def test_p22_no_value_is_made_up_for_a_well_known_key(entry: Entry) -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(requirements=[entry])]))

    assert entry[0] not in new_node_of(plan, "p").labels


def test_p23_pool_taints_are_on_the_node_and_startup_taints_need_no_toleration() -> None:
    soft, startup = taint("busy", effect="PreferNoSchedule"), taint("cilium", "starting")
    pool = a_pool(taints=[soft], startup_taints=[startup])

    node = new_node_of(solve(cluster([a_pod("p")], [pool])), "p")

    assert node.taints == (soft,)
    assert node.startup_taints == (startup,)


# --- P28 to P31, P38: types -------------------------------------------------------------------


@BOTH
def test_p28_every_type_that_fits_is_listed_cheapest_first(packing: Packing) -> None:
    plan = solve(cluster([a_pod("p")]), SchedulingSettings(packing=packing))

    node = new_node_of(plan, "p")
    assert sorted(names(node.instance_types)) == sorted(names(DEFAULT_TYPES))
    prices = [min(offering.price for offering in kind.offerings) for kind in node.instance_types]
    assert prices == sorted(prices)
    assert node.requirements[label_keys.NODEPOOL] == Requirement.one_of(label_keys.NODEPOOL, "default")


def test_p28_the_offering_is_the_cheapest_of_the_first_type() -> None:
    types = [a_type("t", offered=[*offerings(2.0, [(ON_DEMAND, Z1)]), *offerings(1.5, [(SPOT, Z3)])])]

    node = new_node_of(solve(cluster([a_pod("p")], types=types)), "p")

    assert (node.offering.capacity_type, node.offering.zone, node.price) == (SPOT, Z3, 1.5)


def test_p29_custom_requirements_of_the_pool_are_carried_over() -> None:
    pool = a_pool(requirements=[("team", "In", ["red", "blue"]), (INTEGER, "Gt", ["1"])])

    node = new_node_of(solve(cluster([a_pod("p")], [pool])), "p")

    assert node.requirements["team"] == Requirement.one_of("team", "red", "blue")
    assert node.requirements[INTEGER].gte == 2


@pytest.mark.parametrize(("key", "value"), [(label_keys.ARCH, "arm64"), (label_keys.OS, "ios")])
def test_p30_architecture_and_system_of_the_pool_narrow_the_types(key: str, value: str) -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(requirements=[(key, "In", [value])])]))

    assert names(new_node_of(plan, "p").instance_types) == ["arm"]


def test_p31_a_device_narrows_the_types() -> None:
    plan = solve(cluster([a_pod("p", more={GPU_A: 1})]))

    assert names(new_node_of(plan, "p").instance_types) == ["gpu-a"]


def test_p38_all_types_that_fit_are_listed_though_the_largest_is_the_cheapest() -> None:
    types = [
        a_type("large", cpu=4, memory="2Gi", price=1.0),
        a_type("medium", cpu=2, memory="1Gi", price=2.0),
        a_type("little", cpu=1, memory="0.5Gi", price=3.0),
    ]

    plan = solve(cluster([a_pod("p", cpu="1m", memory="1Mi")], types=types))

    assert names(new_node_of(plan, "p").instance_types) == ["large", "medium", "little"]


def test_no_more_types_are_listed_than_the_settings_allow() -> None:
    plan = solve(cluster([a_pod("p")]), SchedulingSettings(max_instance_types=2))

    assert len(new_node_of(plan, "p").instance_types) == 2
    assert new_node_of(plan, "p").instance_type.name == "small"


# --- P34 to P37 -------------------------------------------------------------------------------


def test_p34_the_requests_are_those_of_the_pod() -> None:
    pod = a_pod("p", cpu="1", memory="1Mi", more={GPU_A: 1})

    node = new_node_of(solve(cluster([pod])), "p")

    assert node.requested.without_zeros() == Resources.parse({"cpu": 1, "memory": "1Mi", GPU_A: 1, "pods": 1})


@BOTH
@pytest.mark.parametrize("count", [1, 2])
def test_p35_a_daemon_set_is_counted_once_for_each_node(count: int, packing: Packing) -> None:
    daemon = a_daemon_set("agent", cpu="1", memory="1Mi")
    snapshot = cluster(pods(count, cpu="1", memory="1Mi"), daemon_sets=[daemon])

    [node] = solve(snapshot, SchedulingSettings(packing=packing)).nodes

    expected: dict[str, str | int] = {"cpu": 1 + count, "memory": f"{1 + count}Mi", "pods": 1 + count}
    assert node.requested.without_zeros() == Resources.parse(expected)
    assert node.daemon_requests.without_zeros() == Resources.parse({"cpu": 1, "memory": "1Mi", "pods": 1})


def test_p36_what_only_the_simulation_knows_does_not_leak() -> None:
    daemon = a_daemon_set("agent", node_selector={label_keys.INITIALIZED: "true"})
    node = new_node_of(solve(cluster([a_pod("p")], daemon_sets=[daemon])), "p")

    hidden = {label_keys.HOSTNAME, label_keys.REGISTERED, label_keys.INITIALIZED}
    assert not hidden & set(node.requirements)
    assert not hidden & set(node.labels)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [({}, {SPOT, ON_DEMAND}), ({label_keys.ZONE: Z3}, {ON_DEMAND}), ({label_keys.ZONE: Z1}, None)],
)
def test_p37_the_available_capacity_types_are_listed(
    selector: dict[str, str], expected: set[str] | None
) -> None:
    plan = solve(cluster([a_pod("p", node_selector=selector)]))

    stated = new_node_of(plan, "p").requirements[label_keys.CAPACITY_TYPE]
    assert stated == Requirement.one_of(label_keys.CAPACITY_TYPE, *(expected or {SPOT, ON_DEMAND}))


def test_a_requirement_of_one_pod_narrows_the_node_for_all_of_its_pods() -> None:
    some = [a_pod("choosy", cpu="200m", node_terms=[node_term((label_keys.ZONE, "In", [Z3]))]), a_pod("easy")]

    plan = solve(cluster(some), SchedulingSettings(packing=Packing.FEWEST))

    assert node_of(plan, "choosy") == node_of(plan, "easy")
    assert new_node_of(plan, "easy").requirements[label_keys.ZONE] == Requirement.one_of(label_keys.ZONE, Z3)


def test_names_of_planned_nodes_are_made_of_the_pool_and_unique() -> None:
    plan = solve(cluster(pods(30, cpu="1"), [a_pool("blue")]))

    names = [node.name for node in plan.nodes]
    assert all(name.startswith("blue-") for name in names)
    assert len(set(names)) == len(names)
