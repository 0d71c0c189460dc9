"""A cluster with random events whose controllers are killed again and again."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_scenario
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.environment import SeededRandomSource
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Action, CapacityOutage, Delete, Interrupt
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import (
    a_node_class,
    a_pool,
    an_app,
    build_cluster,
    build_scenario,
    scaled,
    wait,
)

pytestmark = pytest.mark.slow

T = TypeVar("T")
RUNS = 12
SETTLED = 16 * 60
"""Seconds to converge without further events: claims time out after 15 min."""
PAUSES = (0.05, 0.5, 1, 1.15, 2, 5, 13, 40)
"""Some are just before or after batching, launching and readiness."""


class RandomChoices(SeededRandomSource):
    """Random source with a choice among any number of values."""

    def choice(self, things: Sequence[T]) -> T:
        return things[int(self.random() * len(things))]


def a_budget(random: RandomChoices) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": random.choice([1, "50%"]), "selector": {"matchLabels": {"app": "web"}}},
    }


def random_cluster(random: RandomChoices) -> SimulatedCluster:
    """An application with a PDB, on nodes that may expire, under a limit."""
    pool = a_pool(limits={"cpu": str(random.choice([20, 60]))})
    template = pool["spec"]["template"]["spec"]
    if random.random() < 0.5:
        template["terminationGracePeriod"] = random.choice(["30s", "2m"])
    if random.random() < 0.3:
        template["expireAfter"] = random.choice(["90s", "3m"])
    app = an_app(replicas=random.choice(range(0, 6)))
    app["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = random.choice([0, 5, 30])
    scenario = build_scenario(objects=(a_node_class(), pool, a_budget(random), app))
    return build_cluster(msgspec.structs.replace(scenario, seed=random.choice(range(1, 1001))))


def die(random: RandomChoices, cluster: SimulatedCluster) -> None:
    """Kill the controllers; restart them after a while."""
    cluster.operator.kill()
    wait(cluster, random.choice([0, 0, 0.1, 3, 20]))
    cluster.restart()


def doing(choose: Callable[[RandomChoices], Action]) -> Callable[[RandomChoices, SimulatedCluster], None]:
    def do(random: RandomChoices, cluster: SimulatedCluster) -> None:
        try:
            perform(choose(random), cluster)
        except NotFound:
            return  # No such object exists at the moment.

    return do


EVENTS = (
    die,
    die,
    die,
    doing(lambda random: scaled(random.choice(range(0, 9)))),
    doing(lambda random: Delete(kind=random.choice(["Node", "NodeClaim"]))),
    doing(lambda random: Delete(kind="Pod", count=random.choice(range(1, 4)))),
    doing(lambda random: Interrupt(random.choice([0.3, 1.0]))),
    doing(lambda random: CapacityOutage(duration=timedelta(seconds=20))),
)


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_cluster_converges_after_random_events_and_crashes(seed: int) -> None:
    random = RandomChoices(seed)
    cluster = random_cluster(random)

    for _ in range(random.choice(range(5, 41))):
        random.choice(EVENTS)(random, cluster)
        wait(cluster, random.choice(PAUSES))
    cluster.apply([a_pool()])  # Nothing expires from now on.
    replicas = random.choice(range(0, 5))
    perform(scaled(replicas), cluster)
    wait(cluster, SETTLED)

    claims = len(cluster.api.list(NODE_CLAIMS).items)
    assert cluster.invariants.violations == []
    assert (cluster.recorder.running, cluster.recorder.unsettled) == (replicas, 0)
    assert claims == replicas  # Each pod fills a node; empty nodes have been deleted.
    assert cluster.ec2.billing.instance_count == len(cluster.api.list(NODES).items) == 1 + claims


@pytest.mark.parametrize("seconds", [1.2, 5, 20, 38])
def test_a_restart_while_nodes_boot_launches_no_more_instances_for_their_pods(seconds: float) -> None:
    def launched_types(restarted: bool) -> list[str]:
        scenario = read_scenario("spot-storm.yaml", bundled_scenario("spot-storm"))
        cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
        if restarted:
            cluster.clock.call_later(timedelta(seconds=seconds), cluster.restart)
        cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=100))
        return sorted(launch.instance_type for launch in cluster.ec2.billing.launches)

    assert launched_types(restarted=True) == launched_types(restarted=False)
