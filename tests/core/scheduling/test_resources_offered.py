"""Resources that depend on the offering, and devices of resource claims."""

from typing import Any

import msgspec

from dovetail.model.cloud.instance_type import Offering
from dovetail.model.kube.resources import Resources
from dovetail.model.plan import Constraint
from tests.support.scheduling.builders import a_pod, cluster
from tests.support.scheduling.instance_types import Z1, Z2, a_type
from tests.support.scheduling.plans import new_node_of, placed, reasons, reasons_of, unplaced
from tests.support.scheduling.solver import checked as solve

EXTRA = "example.com/extra"


def offered(zone: str, price: float, **fields: Any) -> Offering:
    return Offering(zone=zone, capacity_type="on-demand", price=price, **fields)


def types(*, available: bool) -> list[Any]:
    more = Resources({EXTRA: 2})
    return [
        a_type("plain", offered=[offered(Z1, 1.0)]),
        a_type(
            "equipped",
            offered=[offered(Z1, 2.0), offered(Z2, 3.0, capacity_override=more, available=available)],
        ),
    ]


# --- S67 --------------------------------------------------------------------------------------


def test_s67_a_resource_of_one_offering_is_launched_through_it() -> None:
    plan = solve(cluster([a_pod("p", more={EXTRA: 1})], types=types(available=True)))

    node = new_node_of(plan, "p")
    assert [kind.name for kind in node.instance_types] == ["equipped"]
    assert (node.offering.zone, node.price) == (Z2, 3.0)


def test_s67_when_that_offering_is_not_available_nothing_is_launched() -> None:
    plan = solve(cluster([a_pod("p", more={EXTRA: 1})], types=types(available=False)))

    assert unplaced(plan) == ["p"]


def test_s67_pods_that_do_not_need_it_take_the_cheapest_offering() -> None:
    plan = solve(cluster([a_pod("p")], types=types(available=True)))

    assert new_node_of(plan, "p").price == 1.0


def test_s67_more_overhead_through_one_offering_leaves_less_room_there() -> None:
    heavy = Resources.parse({"cpu": "3", "memory": "10Mi"})
    kinds = [a_type("t", offered=[offered(Z1, 1.0, overhead_override=heavy), offered(Z2, 2.0)])]

    plan = solve(cluster([a_pod("p", cpu="2")], types=kinds))

    assert new_node_of(plan, "p").offering.zone == Z2


# --- S66 --------------------------------------------------------------------------------------


def test_s66_a_pod_with_device_claims_is_unschedulable_and_others_are_not() -> None:
    plan = solve(cluster([a_pod("p", needs_devices=True), a_pod("other")]))

    [reason] = reasons_of(plan, "p")
    assert (reason.nodepool, reason.constraint) == ("", Constraint.DEVICES)
    assert placed(plan) == ["other"]


def test_a_pod_without_cpu_request_is_scheduled() -> None:
    pod = a_pod("p")
    nothing = msgspec.structs.replace(pod.spec, requests=Resources({"cpu": 0, "pods": 1}))

    plan = solve(cluster([msgspec.structs.replace(pod, spec=nothing)]))

    assert reasons(plan) == {}
