"""A cluster to which everything happens, whose controllers die again and again."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices, scenario
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.cluster import Box
from dovetail.simulator.randomness import SeededChance
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Action, Delete, Interrupt, SellOut
from dovetail.simulator.scenario_actions import act
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, an_app, scaled, wait

pytestmark = pytest.mark.slow

T = TypeVar("T")
RUNS = 12
SETTLED = 16 * 60
"""Seconds in which a cluster that is left alone comes to rest: claims are given up after 15 min."""
PAUSES = (0.05, 0.5, 1, 1.15, 2, 5, 13, 40)
"""Among others, just before and after pods are gathered for, bought for, and nodes are ready."""


class Dice(SeededChance):
    """Dice with any number of sides."""

    def choice(self, things: Sequence[T]) -> T:
        return things[int(self.fraction() * len(things))]


def a_budget(dice: Dice) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "maxUnavailable": dice.choice([1, "50%"]),
            "selector": {"matchLabels": {"app": "web"}},
        },
    }


def a_world(dice: Dice) -> Box:
    """An application behind a budget, on nodes that may expire, under a limit."""
    pool = a_pool(limits={"cpu": str(dice.choice([20, 60]))})
    template = pool["spec"]["template"]["spec"]
    if dice.fraction() < 0.5:
        template["terminationGracePeriod"] = dice.choice(["30s", "2m"])
    if dice.fraction() < 0.3:
        template["expireAfter"] = dice.choice(["90s", "3m"])
    app = an_app(replicas=dice.choice(range(0, 6)))
    app["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = dice.choice([0, 5, 30])
    story = a_story(objects=(a_node_class(), pool, a_budget(dice), app))
    return a_box(msgspec.structs.replace(story, seed=dice.choice(range(1, 1001))))


def die(dice: Dice, box: Box) -> None:
    """Kill the controllers; the world may go on without any for a while."""
    box.operator.kill()
    wait(box, dice.choice([0, 0, 0.1, 3, 20]))
    box.restart()


def doing(choose: Callable[[Dice], Action]) -> Callable[[Dice, Box], None]:
    def do(dice: Dice, box: Box) -> None:
        try:
            act(choose(dice), box)
        except NotFound:
            return  # There is nothing of the kind just now.

    return do


EVENTS = (
    die,
    die,
    die,
    doing(lambda dice: scaled(dice.choice(range(0, 9)))),
    doing(lambda dice: Delete(kind=dice.choice(["Node", "NodeClaim"]))),
    doing(lambda dice: Delete(kind="Pod", count=dice.choice(range(1, 4)))),
    doing(lambda dice: Interrupt(dice.choice([0.3, 1.0]))),
    doing(lambda dice: SellOut(lasts=timedelta(seconds=20))),
)


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_cluster_comes_to_rest_whatever_happened_and_whoever_died_when(seed: int) -> None:
    dice = Dice(seed)
    box = a_world(dice)

    for _ in range(dice.choice(range(5, 41))):
        dice.choice(EVENTS)(dice, box)
        wait(box, dice.choice(PAUSES))
    box.apply([a_pool()])  # Nothing expires any more.
    wanted = dice.choice(range(0, 5))
    act(scaled(wanted), box)
    wait(box, SETTLED)

    claims = len(box.api.list(NODE_CLAIMS).items)
    assert box.invariants.violations == []
    assert (box.chronicle.running, box.chronicle.unsettled) == (wanted, 0)
    assert claims == wanted  # Each pod fills a node; what is empty has been given back.
    assert box.ec2.ledger.machines == len(box.api.list(NODES).items) == 1 + claims


@pytest.mark.parametrize("seconds", [1.2, 5, 20, 38])
def test_a_restart_while_nodes_boot_buys_nothing_for_the_pods_they_were_bought_for(
    seconds: float,
) -> None:
    def purchases(restarted: bool) -> list[str]:
        story = read_scenario("spot-storm.yaml", scenario("spot-storm"))
        box = Box(story, catalog=bundled_catalog(), prices=bundled_prices())
        if restarted:
            box.engine.after(timedelta(seconds=seconds), box.restart)
        box.engine.run(until=box.engine.now() + timedelta(seconds=100))
        return sorted(one.instance_type for one in box.ec2.ledger.purchases)

    assert purchases(restarted=True) == purchases(restarted=False)
