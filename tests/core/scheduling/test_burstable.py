"""Burstable types in plans: priced by CPU credits, avoided or allowed; and types with little memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.core.scheduling.arrays.instance_types import compile_instance_types
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import Resources
from dovetail.model.plan import Plan
from tests.core.instancetypes.builders import ec2_type, with_kubelet
from tests.support.scheduling.builders import a_daemon_set, a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, Z1, a_type, reserved
from tests.support.scheduling.plans import type_names, unplaced
from tests.support.scheduling.solver import solved

ALLOW, BASELINE, AVOID = BurstablePolicy.ALLOW, BurstablePolicy.BASELINE, BurstablePolicy.AVOID
T4G = tuple(f"t4g.{size}" for size in ("nano", "micro", "small", "medium", "large", "xlarge", "2xlarge"))
C6G = tuple(f"c6g.{size}" for size in ("medium", "large", "xlarge", "2xlarge", "4xlarge"))
DEMAND = (label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])
OVERHEAD = 0.07
"""vCPU reserved for the system on types with two vCPUs."""


def types_of(
    *names: str, policy: BurstablePolicy = BASELINE, node_class: EC2NodeClass | None = None
) -> tuple[InstanceType, ...]:
    return build_instance_types(
        [ec2_type(name) for name in names],
        region=bundled_catalog().regions["us-east-1"],
        node_class=node_class or EC2NodeClass(),
        prices=bundled_prices(),
        settings=InstanceTypeSettings(burstable=policy),
    )


def plan_for(
    pending: list[Pod],
    *names: str,
    policy: BurstablePolicy = BASELINE,
    daemon_sets: Any = (),
    requirements: Any = (DEMAND,),
    **settings: Any,
) -> Plan:
    pool = a_pool(requirements=list(requirements))
    snapshot = cluster(pending, [pool], types_of(*names, policy=policy), daemon_sets=daemon_sets)
    return solved(snapshot, **settings)


# --- Price ------------------------------------------------------------------------------------


def test_pods_that_use_whole_cpus_get_types_that_deliver_them() -> None:
    plan = plan_for(pods(20, cpu=1, memory="0"), *T4G, *C6G)

    nanos = 20 * (0.0042 + 0.04 * (1 + OVERHEAD - 0.1))
    assert "t4g.nano" not in type_names(plan)
    assert plan.price < nanos


def test_allowed_burstable_types_are_chosen_by_list_price_alone() -> None:
    plan = plan_for(pods(20, cpu=1, memory="0"), *T4G, *C6G, policy=ALLOW, min_node_memory=0)

    assert type_names(plan) == ["t4g.nano"] * 20
    assert plan.price == pytest.approx(20 * 0.0042)


def test_pods_within_the_baseline_get_a_burstable_type_at_list_price() -> None:
    plan = plan_for([a_pod("p", cpu="500m", memory="5Gi")], "t4g.large", "m6g.large")

    (node,) = plan.nodes
    assert node.instance_type.name == "t4g.large"
    assert node.price == node.offering.price == 0.0672


def test_cpu_above_the_baseline_is_part_of_the_price_of_a_planned_node() -> None:
    (node,) = plan_for([a_pod("p", cpu=1, memory="100Mi")], "t4g.small").nodes

    assert node.offering.price == 0.0168
    assert node.surplus_price == pytest.approx(0.04 * (1 + OVERHEAD - 0.4))
    assert node.price == node.offering.price + node.surplus_price


def test_daemonsets_use_credits_too() -> None:
    daemon = a_daemon_set("agent", cpu="500m", memory="100Mi")

    (node,) = plan_for([a_pod("p", cpu="100m", memory="100Mi")], "t4g.small", daemon_sets=[daemon]).nodes

    assert node.surplus_price == pytest.approx(0.04 * (0.6 + OVERHEAD - 0.4))


def test_a_spot_price_does_not_hide_the_price_of_credits() -> None:
    capacity = (label_keys.CAPACITY_TYPE, "In", [SPOT])

    plan = plan_for(pods(2, cpu=1, memory="100Mi"), "t4g.micro", "c6g.xlarge", requirements=[capacity])

    assert type_names(plan) == ["c6g.xlarge"]


def test_a_reservation_does_not_hide_the_price_of_credits() -> None:
    cpu_credits = types_of("t4g.small")[0].cpu_credits
    slots = replace(a_type("t", cpu=2, offered=[reserved(Z1, "cr-1", 5)]), cpu_credits=cpu_credits)

    (node,) = solved(cluster([a_pod("p", cpu=1, memory="100Mi")], [a_pool()], [slots])).nodes

    assert node.reservation_ids == ("cr-1",)
    assert node.surplus_price > 0


@pytest.mark.parametrize("reserved_cpu", ["0", "50m", "300m"])
def test_no_row_of_the_solver_is_cheaper_than_the_node_it_stands_for(reserved_cpu: str) -> None:
    node_class = with_kubelet(system_reserved=Resources.parse({"cpu": reserved_cpu}))
    types = types_of(*T4G, "t2.nano", "t3.large", "t8i.nano", node_class=node_class)

    for row in compile_instance_types(types).rows:
        assert row.type.price_surplus(row.allocatable) <= row.surplus + 1e-12


@given(cpu=st.integers(1, 1900), memory=st.integers(1, 6000))
def test_the_type_of_a_node_is_the_cheapest_for_exactly_its_pods(cpu: int, memory: int) -> None:
    pod = a_pod("p", cpu=f"{cpu}m", memory=f"{memory}Mi")
    names = (*T4G, *C6G, "m6g.large", "r6g.medium")

    (node,) = plan_for([pod], *names, min_node_memory=0).nodes

    prices = [
        min(offering.price for offering in known.offerings if offering.capacity_type == ON_DEMAND)
        + known.price_surplus(node.requested)
        for known in types_of(*names)
        if pod.spec.requests.fits_in(known.allocatable)
    ]
    assert node.price == pytest.approx(min(prices))


# --- Standard mode ----------------------------------------------------------------------------


def test_in_standard_mode_a_plan_relies_on_the_baseline_only() -> None:
    plan = plan_for([a_pod("p", cpu="500m", memory="100Mi")], "t2.small", "c5.large")

    assert type_names(plan) == ["c5.large"]


def test_in_standard_mode_pods_within_the_baseline_are_accepted() -> None:
    plan = plan_for([a_pod("p", cpu="100m", memory="100Mi")], "t2.small", "c5.large")

    assert type_names(plan) == ["t2.small"]


def test_in_standard_mode_a_node_costs_its_list_price() -> None:
    (node,) = plan_for([a_pod("p", cpu="500m", memory="100Mi")], "t2.small").nodes

    assert node.price == node.offering.price


# --- Explicit choice --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", list(BurstablePolicy))
@pytest.mark.parametrize("name", ["t4g.nano", "t2.nano", "t3.2xlarge"])
def test_pod_that_selects_a_burstable_type_gets_it(name: str, policy: BurstablePolicy) -> None:
    pod = a_pod("p", cpu="900m", memory="0", node_selector={label_keys.INSTANCE_TYPE: name})

    plan = plan_for([pod], name, "c6g.4xlarge", "c5.4xlarge", policy=policy)

    assert type_names(plan) == [name]


@pytest.mark.parametrize("policy", list(BurstablePolicy))
def test_nodepool_of_burstable_types_places_what_fits(policy: BurstablePolicy) -> None:
    family = ("karpenter.k8s.aws/instance-family", "In", ["t4g"])

    plan = plan_for(
        pods(10, cpu="1500m", memory="500Mi"), *T4G, *C6G, policy=policy, requirements=[DEMAND, family]
    )

    assert unplaced(plan) == []
    assert all(name.startswith("t4g.") for name in type_names(plan))


def test_avoided_types_are_used_if_no_other_type_is_large_enough() -> None:
    plan = plan_for([a_pod("p", cpu=6, memory="1Gi")], "t4g.2xlarge", "c6g.xlarge", policy=AVOID)

    (node,) = plan.nodes
    assert node.instance_type.name == "t4g.2xlarge"
    assert node.price < 1.0  # Without the amount that only plans add.


def test_avoided_types_are_not_used_otherwise_even_within_their_baseline() -> None:
    plan = plan_for([a_pod("p", cpu="100m", memory="200Mi")], *T4G, "m6g.large", policy=AVOID)

    (node,) = plan.nodes
    assert [known.name for known in node.instance_types] == ["m6g.large"]


# --- Types that EC2 may choose ----------------------------------------------------------------


def test_claim_does_not_list_types_that_seem_cheaper_by_list_price() -> None:
    (node,) = plan_for([a_pod("p", cpu="1800m", memory="200Mi")], *T4G, *C6G, "m6g.large").nodes

    listed = {known.name for known in node.instance_types}
    assert node.instance_type.name == "c6g.large"
    assert "m6g.large" in listed
    assert not listed & {"t4g.nano", "t4g.micro", "t4g.small", "t4g.medium"}
    assert "t4g.2xlarge" in listed  # Within its baseline: its list price is its price.


def test_claim_of_a_burstable_type_lists_other_types() -> None:
    (node,) = plan_for([a_pod("p", cpu=1, memory="200Mi")], "t3.nano", "t4g.micro", "c6g.large").nodes

    # A t3.nano has a lower list price than the c6g.large, and costs more than the t4g.micro.
    assert [known.name for known in node.instance_types] == ["t4g.micro", "c6g.large"]


def test_min_values_keep_types_in_the_claim() -> None:
    key = ("karpenter.k8s.aws/instance-family", "Exists", [], 2)

    (node,) = plan_for(
        [a_pod("p", cpu="1800m", memory="200Mi")], "t4g.small", "c6g.large", requirements=[DEMAND, key]
    ).nodes

    assert [known.name for known in node.instance_types] == ["c6g.large", "t4g.small"]


# --- Memory left for pods ---------------------------------------------------------------------


def test_type_with_hardly_any_memory_left_is_not_planned() -> None:
    plan = plan_for([a_pod("p", cpu="10m", memory="0")], "t4g.nano", "t4g.micro")

    assert type_names(plan) == ["t4g.micro"]


def test_type_with_hardly_any_memory_left_is_used_if_no_other_fits() -> None:
    (node,) = plan_for([a_pod("p", cpu="10m", memory="0")], "t4g.nano").nodes

    assert node.price == 0.0042


def test_memory_of_daemonsets_counts_as_used() -> None:
    daemon = a_daemon_set("agent", cpu="1m", memory="450Mi")

    plan = plan_for([a_pod("p", cpu="10m", memory="0")], "t4g.micro", "t4g.small", daemon_sets=[daemon])

    assert type_names(plan) == ["t4g.small"]


def test_minimum_memory_of_zero_accepts_every_type() -> None:
    plan = plan_for([a_pod("p", cpu="10m", memory="0")], "t4g.nano", "t4g.micro", min_node_memory=0)

    assert type_names(plan) == ["t4g.nano"]


# --- Every policy places what Karpenter places -------------------------------------------------


@given(
    sizes=st.lists(
        st.tuples(
            st.sampled_from(["0", "100m", "900m", "1900m", "6"]), st.sampled_from(["0", "200Mi", "6Gi"])
        ),
        min_size=1,
        max_size=6,
    ),
    names=st.sets(
        st.sampled_from(
            ["t4g.nano", "t4g.small", "t4g.2xlarge", "t2.nano", "t2.large", "t3.large", "c5.large"]
        ),
        min_size=1,
    ),
    policy=st.sampled_from([BASELINE, AVOID]),
)
def test_every_policy_places_the_same_pods(
    sizes: list[tuple[str, str]], names: set[str], policy: BurstablePolicy
) -> None:
    pending = [a_pod(f"p{i}", cpu=cpu, memory=memory) for i, (cpu, memory) in enumerate(sizes)]

    as_karpenter = plan_for(pending, *sorted(names), policy=ALLOW, min_node_memory=0)
    plan = plan_for(pending, *sorted(names), policy=policy)

    assert unplaced(plan) == unplaced(as_karpenter)
