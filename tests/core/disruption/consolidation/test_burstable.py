"""Consolidation with burstable nodes, whose price depends on their pods."""

from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.core.disruption.consolidation.consolidate import ConsolidationResult, consolidate
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BurstablePolicy, CpuCredits
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.settings import ConsolidationSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import a_pool_node, after, context_of, cost
from tests.support.scheduling.builders import a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, a_type

POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])
ALLOW, BASELINE, AVOID = BurstablePolicy.ALLOW, BurstablePolicy.BASELINE, BurstablePolicy.AVOID


def burstable(name: str = "t", policy: BurstablePolicy = BASELINE, **fields: Any) -> InstanceType:
    """Return a type of two vCPUs with a baseline of 400m, at 0.05 USD per vCPU-hour above."""
    built = a_type(name, **{"cpu": 2, "memory": "4Gi", "pods": 10, "price": 0.02, **fields})
    cpus = built.capacity["cpu"] // 1000
    cpu_credits = CpuCredits(vcpus=cpus, baseline=200 * cpus, surplus_price=0.05, policy=policy)
    return replace(built, cpu_credits=cpu_credits)


FIXED = a_type("fixed", cpu=2, memory="4Gi", pods=10, price=0.06)


def run_pass(snapshot: ClusterSnapshot, **choices: Any) -> ConsolidationResult:
    allowed = {pool.name: 10 for pool in snapshot.nodepools}
    return consolidate(context_of(snapshot), allowed, settings=ConsolidationSettings(**choices))


def replaced_by(result: ConsolidationResult) -> list[str]:
    return [node.instance_type.name for command in result.commands for node in command.replacements]


def test_node_far_above_its_baseline_is_replaced_by_a_type_without_credits() -> None:
    types = (burstable(), FIXED)
    snapshot = cluster((), [POOL], types, nodes=[a_pool_node("n", types[0], [a_pod("p", cpu="1800m")])])

    (command,) = run_pass(snapshot).commands

    assert [node.instance_type.name for node in command.replacements] == ["fixed"]
    assert command.saving == pytest.approx(0.02 + 0.05 * (1.8 + 0.1 - 0.4) - 0.06)


def test_allowed_node_far_above_its_baseline_is_kept() -> None:
    types = (burstable(policy=ALLOW), FIXED)
    snapshot = cluster((), [POOL], types, nodes=[a_pool_node("n", types[0], [a_pod("p", cpu="1800m")])])

    assert run_pass(snapshot).commands == ()


@pytest.mark.parametrize("cpu", ["100m", "300m", "700m", "1200m", "1800m"])
def test_replacement_is_final_and_never_adds_to_the_bill(cpu: str) -> None:
    types = (burstable(), FIXED, burstable("t.large", cpu=4, memory="8Gi", price=0.04))
    for start in types:
        snapshot = cluster((), [POOL], types, nodes=[a_pool_node("n", start, [a_pod("p", cpu=cpu)])])

        first = run_pass(snapshot, min_saving_per_pod=0.0)
        later = after(snapshot, first.commands)

        assert cost(later) <= cost(snapshot)
        assert run_pass(later, min_saving_per_pod=0.0).commands == ()


def test_node_is_kept_if_credits_on_the_other_node_would_cost_more() -> None:
    cheap = a_type("cheap", cpu=2, memory="4Gi", pods=10, price=0.03)
    types = (burstable("t", cpu=8, memory="16Gi", price=0.05), cheap)
    nodes = [
        a_pool_node("burstable", types[0], [a_pod("large", cpu=4)]),
        a_pool_node("cheap", cheap, [a_pod("p", cpu="1500m")]),
    ]

    result = run_pass(cluster((), [POOL], types, nodes=nodes))

    assert result.commands == ()


def test_node_is_deleted_if_credits_on_the_other_node_cost_less() -> None:
    expensive = a_type("expensive", cpu=2, memory="4Gi", pods=10, price=0.3)
    types = (burstable("t", cpu=8, memory="16Gi", price=0.1), expensive)
    nodes = [
        a_pool_node("burstable", types[0], pods(2, "a", cpu=1)),
        a_pool_node("expensive", expensive, [a_pod("p", cpu="1500m")]),
    ]

    (command,) = run_pass(cluster((), [POOL], types, nodes=nodes)).commands

    assert [node.name for node in command.candidates] == ["expensive"]
    assert command.saving == pytest.approx(0.3 - 0.05 * 1.5, abs=1e-6)


def test_avoided_node_is_replaced_by_a_smaller_one_where_nothing_else_exists() -> None:
    types = (burstable("t", AVOID), burstable("t.large", AVOID, cpu=4, memory="8Gi", price=0.04))
    nodes = [a_pool_node("n", types[1], [a_pod("p", cpu="200m")])]

    assert replaced_by(run_pass(cluster((), [POOL], types, nodes=nodes))) == ["t"]
