"""Clusters under a budget that are scaled, changed and killed at random."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import pytest

from dovetail.data.bundled import bundled_prices
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.environment import SeededRandomSource
from dovetail.simulator.scenario.model import CapacityOutage, Delete, Interrupt
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import scaled, wait
from tests.support.simulator.disruption import (
    a_catalog,
    a_small_app,
    change_labels,
    claims,
    consolidating_pool,
    disruption_budget,
    disruption_scenario,
)

pytestmark = pytest.mark.slow

T = TypeVar("T")
RUNS = 8
BUDGET = 2
APPS = ("web", "api", "job")
REST = 25 * 60
"""Seconds in which a cluster without further events converges."""


class RandomChoices(SeededRandomSource):
    def choice(self, things: Sequence[T]) -> T:
        return things[int(self.random() * len(things))]


def build_cluster(random: RandomChoices) -> SimulatedCluster:
    after = random.choice(["0s", "20s", "1m"])
    pool = consolidating_pool(budget=str(BUDGET), after=after)
    apps = [
        a_small_app(name, cpu=random.choice(["300m", "700m", "1500m"]), replicas=random.choice((2, 6)))
        for name in APPS
    ]
    budgets = [disruption_budget(name) for name in APPS[:2]]
    scenario = disruption_scenario(pool, *apps, *budgets)
    seeded = msgspec.structs.replace(scenario, seed=random.choice(range(1, 1001)))
    return SimulatedCluster(seeded, catalog=a_catalog(), prices=bundled_prices())


def die(random: RandomChoices, cluster: SimulatedCluster) -> None:
    cluster.operator.kill()
    wait(cluster, random.choice([0, 0.1, 3, 20]))
    cluster.restart()


def doing(choose: Callable[[RandomChoices], Any]) -> Callable[[RandomChoices, SimulatedCluster], None]:
    def do(random: RandomChoices, cluster: SimulatedCluster) -> None:
        try:
            perform(choose(random), cluster)
        except NotFound:
            return  # No such object exists at the moment.

    return do


def rescale(random: RandomChoices, cluster: SimulatedCluster) -> None:
    perform(scaled(random.choice(range(0, 12)), random.choice(APPS)), cluster)


EVENTS: tuple[Callable[[RandomChoices, SimulatedCluster], None], ...] = (
    die,
    rescale,
    rescale,
    rescale,
    lambda random, cluster: change_labels(cluster, tier=random.choice(["gold", "silver", "iron"])),
    doing(lambda random: Delete(kind=random.choice(["Node", "NodeClaim", "Pod"]))),
    doing(lambda random: Interrupt(0.3)),
    doing(
        lambda random: CapacityOutage(types=random.choice(["m5.large", "*"]), duration=timedelta(minutes=2))
    ),
)


def count_disrupted(cluster: SimulatedCluster) -> int:
    """Number of nodes that are voluntarily disrupted now."""
    alive = {
        get_field(node, "spec", "providerID")
        for node in cluster.api.list(NODES).items
        if get_field(node, "metadata", "labels", "karpenter.sh/initialized") == "true"
    }
    count = 0
    for claim in cluster.api.list(NODE_CLAIMS).items:
        kinds = {condition["type"] for condition in get_field(claim, "status", "conditions") or ()}
        if get_field(claim, "status", "providerID") in alive and "DisruptionReason" in kinds:
            count += "InstanceTerminating" not in kinds
    return count


def watched(cluster: SimulatedCluster, seconds: float) -> int:
    """Advance the clock; return the maximum number of voluntarily disrupted nodes."""
    most = 0
    while seconds > 0:
        wait(cluster, min(seconds, 1))
        most = max(most, count_disrupted(cluster))
        seconds -= 1
    return most


@pytest.mark.parametrize("seed", range(RUNS))
def test_budgets_hold_and_the_cluster_converges_after_random_events(seed: int) -> None:
    random = RandomChoices(seed)
    cluster = build_cluster(random)

    most = 0
    for _ in range(random.choice(range(5, 20))):
        random.choice(EVENTS)(random, cluster)
        most = max(most, watched(cluster, random.choice([2, 10, 30, 90])))
    replicas_by_app = {name: random.choice(range(0, 5)) for name in APPS}
    for name, replicas in replicas_by_app.items():
        perform(scaled(replicas, name), cluster)
    most = max(most, watched(cluster, REST))
    launched = len(cluster.ec2.billing.launches)
    there = {claim["metadata"]["name"] for claim in claims(cluster)}
    wait(cluster, 30 * 60)

    assert most <= BUDGET
    assert cluster.invariants.violations == []
    assert (cluster.recorder.running, cluster.recorder.unsettled) == (sum(replicas_by_app.values()), 0)
    assert len(cluster.ec2.billing.launches) == launched
    assert {claim["metadata"]["name"] for claim in claims(cluster)} == there
    assert len(cluster.api.list(NODE_CLAIMS).items) == len(there) == cluster.ec2.billing.instance_count - 1
