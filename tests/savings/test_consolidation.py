"""Consolidation of a copy: what holds for every end, and agreement with the controllers."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.candidates import CandidateContext
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.model.node import Node, NodeObject
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.savings.adoption import AdoptedCluster
from dovetail.savings.analysis import SavingsInput, analyse
from dovetail.savings.consolidation import FleetCopy, ManagedNode
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.disruption.consolidation import a_pool_node, attack, cost, running_clusters
from tests.support.savings.clusters import cluster_with_rules
from tests.support.scheduling.builders import a_pool, cluster, pods, selector
from tests.support.scheduling.instance_types import ON_DEMAND, incremental

NOW = datetime(2026, 11, 1, 12, 5, tzinfo=UTC)
TYPES = incremental(8)
POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])

Object = dict[str, Any]


def copy_of(snapshot: ClusterSnapshot) -> FleetCopy:
    """Return a copy in which all nodes of NodePools are managed."""
    pools = {pool.name: pool for pool in snapshot.nodepools}
    types = {
        name: {instance_type.name: instance_type for instance_type in of_pool}
        for name, of_pool in snapshot.instance_types.items()
    }
    initialized = {label_keys.INITIALIZED: "true"}
    managed = {
        node.name: ManagedNode(
            claim=NodeClaim(name=node.claim or node.name, labels=node.labels),
            node=NodeObject(name=node.name, labels=FrozenDict({**node.labels, **initialized})),
        )
        for node in snapshot.nodes
        if node.pool in pools and node.initialized
    }

    def get_pdbs(pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        return tuple(
            pdb
            for pdb in snapshot.pod_disruption_budgets
            if pdb.selector is not None and pdb.selector.matches(pod.labels)
        )

    context = CandidateContext(
        now=NOW,
        get_nodepool=pools.get,
        get_instance_types=lambda pool: types[pool.name],
        get_pdbs=get_pdbs,
        is_nominated=lambda provider_id, at: False,
    )
    return FleetCopy(replace(snapshot, now=NOW), managed, context, SchedulingSettings())


def moving_pods(nodes: tuple[Node, ...]) -> Counter[str]:
    return Counter(pod.key for node in nodes for pod in node.pods if is_reschedulable(pod))


def an_idle_cluster(**more: Any) -> ClusterSnapshot:
    """Return three large nodes with a small pod each."""
    nodes = [a_pool_node(f"node-{number}", TYPES[7], pods(1, f"web-{number}")) for number in range(3)]
    return cluster((), [more.pop("pool", POOL)], TYPES, nodes=nodes, **more)


# --- What holds for every end ------------------------------------------------------------------


@attack
@given(running_clusters())
def test_every_pod_keeps_a_node_with_room_and_the_bill_does_not_grow(snapshot: ClusterSnapshot) -> None:
    copy = copy_of(snapshot)
    before = copy.nodes

    copy.consolidate()

    assert moving_pods(copy.nodes) == moving_pods(before)
    assert all(amount >= 0 for node in copy.nodes for amount in node.available().values())
    assert all(pod.node_name == node.name for node in copy.nodes for pod in node.pods)
    end, start = replace(snapshot, nodes=copy.nodes), replace(snapshot, nodes=before)
    assert cost(end) <= cost(start) + 1e-9


@attack
@given(running_clusters(), st.integers(0, 5))
def test_nodes_of_protected_pods_stay_with_all_their_pods(snapshot: ClusterSnapshot, number: int) -> None:
    nodes = list(snapshot.nodes)
    index = number % max(1, len(nodes))
    if not nodes or not nodes[index].pods or nodes[index].pods[0].deleting:
        return  # A pod that is ending protects no node.
    annotated = replace(nodes[index].pods[0], annotations=FrozenDict({label_keys.DO_NOT_DISRUPT: "true"}))
    nodes[index] = replace(nodes[index], pods=(annotated, *nodes[index].pods[1:]))
    copy = copy_of(replace(snapshot, nodes=tuple(nodes)))

    copy.consolidate()

    after = next(node for node in copy.nodes if node.name == nodes[index].name)
    assert set(nodes[index].pods) <= set(after.pods)


@attack
@given(running_clusters())
def test_second_consolidation_changes_nothing(snapshot: ClusterSnapshot) -> None:
    copy = copy_of(snapshot)
    copy.consolidate()
    nodes = copy.nodes

    assert copy.consolidate() == 0
    assert copy.nodes == nodes


# --- Cases -------------------------------------------------------------------------------------


def test_underutilized_nodes_are_consolidated_in_several_passes() -> None:
    copy = copy_of(an_idle_cluster())

    passes = copy.consolidate()

    assert len(copy.nodes) == 1
    assert copy.nodes[0].labels[label_keys.INSTANCE_TYPE] != TYPES[7].name
    assert passes > 1
    assert copy.price_launched() == [pytest.approx(cost(replace(an_idle_cluster(), nodes=copy.nodes)))]


def test_a_budget_of_no_nodes_keeps_all_nodes() -> None:
    disruption = replace(POOL.disruption, budgets=(Budget(nodes="0"),))

    copy = copy_of(an_idle_cluster(pool=replace(POOL, disruption=disruption)))

    assert copy.consolidate() == 0
    assert len(copy.nodes) == 3


def test_a_budget_with_a_schedule_ends_some_time() -> None:
    budget = Budget(nodes="0", schedule="0 0 * * *", duration=timedelta(hours=24))
    disruption = replace(POOL.disruption, budgets=(budget,))

    copy = copy_of(an_idle_cluster(pool=replace(POOL, disruption=disruption)))
    copy.consolidate()

    assert len(copy.nodes) == 1


def test_a_poddisruptionbudget_that_allows_no_eviction_keeps_its_node() -> None:
    snapshot = an_idle_cluster()
    first = snapshot.nodes[0]
    labeled = replace(first.pods[0], labels=FrozenDict({"app": "db"}))
    nodes = (replace(first, pods=(labeled,)), *snapshot.nodes[1:])
    pdb = PodDisruptionBudget(
        namespace=labeled.namespace, name="db", selector=selector({"app": "db"}), disruptions_allowed=0
    )

    copy = copy_of(replace(snapshot, nodes=nodes, pod_disruption_budgets=(pdb,)))
    copy.consolidate()

    assert [node.name for node in copy.nodes] == [first.name]


def test_pending_pods_get_nodes_before_consolidation() -> None:
    copy = copy_of(cluster(pods(3, "web"), [POOL], TYPES))

    copy.consolidate()

    assert sum(len(node.pods) for node in copy.nodes) == 3


def test_a_node_that_is_being_deleted_ends_and_its_pods_move() -> None:
    snapshot = an_idle_cluster()
    deleting = replace(snapshot.nodes[0], deleting=True)

    copy = copy_of(replace(snapshot, nodes=(deleting, *snapshot.nodes[1:])))

    assert [node.name for node in copy.nodes] == ["node-1", "node-2"]
    assert moving_pods(copy.nodes) == moving_pods(snapshot.nodes)


# --- Agreement with the controllers ------------------------------------------------------------

MARGIN_OF_ONE = 0.05
"""Difference of one bill, as a share of today's bill: kube-scheduler binds pods elsewhere."""
MARGIN_OF_ALL = 0.02
"""Difference of the sum of all bills after consolidation."""

_MIXED = ("old", "separate", "protect", "volumes", "spread")
CLUSTERS = [
    *[(15, 220, seed, _MIXED) for seed in range(11, 14)],
    *[(25, 400, seed, ("no-budgets", "separate", "volumes")) for seed in (11, 12)],
    *[(20, 300, seed, ("old", "spread", "no-budgets")) for seed in (11, 12)],
    *[(30, 450, seed, ("protect",)) for seed in range(11, 14)],
    (50, 1000, 22, _MIXED),
]
"""Nodes, pods, seed and rules."""


def savings_input(objects: list[Object]) -> SavingsInput:
    catalog = bundled_catalog()
    region = catalog.regions["us-east-1"]
    return SavingsInput(objects=objects, now=NOW, catalog=catalog, prices=bundled_prices(), region=region)


def play(source: SavingsInput, adopted: AdoptedCluster) -> float:
    """Return the bill after the controllers have consolidated a fork, until an hour is quiet."""
    fork = SimulatedCluster.from_snapshot(
        map(_without_drift, adopted.objects),
        now=source.now,
        catalog=source.catalog,
        prices=source.prices,
        region=source.region.name,
    )
    price, quiet_since, now = 0.0, source.now, source.now
    while now - quiet_since < timedelta(hours=1):
        now += timedelta(minutes=10)
        fork.clock.run(until=now)
        current = fork.ec2.billing.price_per_hour()
        if abs(current - price) > 1e-9:
            price, quiet_since = current, now
    return price + sum(record.price for record in fork.unmanaged.values())


def _without_drift(obj: Object) -> Object:
    """Return a NodePool that does not replace drifted nodes; other objects as they are."""
    if obj["kind"] != "NodePool":
        return obj
    disruption = obj["spec"].get("disruption") or {}
    budgets = [*(disruption.get("budgets") or [{"nodes": "10%"}]), {"nodes": "0", "reasons": ["Drifted"]}]
    return {**obj, "spec": {**obj["spec"], "disruption": {**disruption, "budgets": budgets}}}


@pytest.mark.parametrize("rules", [(), _MIXED], ids=["plain", "rules"])
def test_the_bill_is_the_one_that_the_controllers_reach(rules: tuple[str, ...]) -> None:
    source = savings_input(cluster_with_rules(12, 160, 1, rules))
    result = analyse(source)

    played = play(source, result.adopted)

    assert result.report.consolidated == pytest.approx(played, abs=MARGIN_OF_ONE * result.report.today)


@pytest.mark.slow
def test_bills_of_many_clusters_are_those_that_the_controllers_reach() -> None:
    bills = []
    for nodes, pod_count, seed, rules in CLUSTERS:
        source = savings_input(cluster_with_rules(nodes, pod_count, seed, rules))
        result = analyse(source)
        bills.append((result.report.today, result.report.consolidated, play(source, result.adopted)))

    for today, consolidated, played in bills:
        assert consolidated == pytest.approx(played, abs=MARGIN_OF_ONE * today)
    total = sum(consolidated for _, consolidated, _ in bills)
    assert total == pytest.approx(sum(played for _, _, played in bills), rel=MARGIN_OF_ALL)
