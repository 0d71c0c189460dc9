"""Clusters that are thinned, filled, changed and killed at random, under a budget."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import pytest

from dovetail.data.bundled import bundled_prices
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.cluster import Box
from dovetail.simulator.randomness import SeededChance
from dovetail.simulator.scenario.model import Delete, Interrupt, SellOut
from dovetail.simulator.scenario_actions import act
from tests.support.boxes import scaled, wait
from tests.support.thinned import (
    a_catalog,
    a_disruption_budget,
    a_replacing_pool,
    a_replacing_story,
    a_small_app,
    change_template,
    claims,
)

pytestmark = pytest.mark.slow

T = TypeVar("T")
RUNS = 8
BUDGET = 2
APPS = ("web", "api", "job")
REST = 25 * 60
"""Seconds in which a cluster that is left alone comes to rest."""


class Dice(SeededChance):
    def choice(self, things: Sequence[T]) -> T:
        return things[int(self.fraction() * len(things))]


def a_box(dice: Dice) -> Box:
    after = dice.choice(["0s", "20s", "1m"])
    pool = a_replacing_pool(budget=str(BUDGET), after=after)
    apps = [
        a_small_app(name, cpu=dice.choice(["300m", "700m", "1500m"]), replicas=dice.choice((2, 6)))
        for name in APPS
    ]
    budgets = [a_disruption_budget(name) for name in APPS[:2]]
    story = a_replacing_story(pool, *apps, *budgets)
    seeded = msgspec.structs.replace(story, seed=dice.choice(range(1, 1001)))
    return Box(seeded, catalog=a_catalog(), prices=bundled_prices())


def die(dice: Dice, box: Box) -> None:
    box.operator.kill()
    wait(box, dice.choice([0, 0.1, 3, 20]))
    box.restart()


def doing(choose: Callable[[Dice], Any]) -> Callable[[Dice, Box], None]:
    def do(dice: Dice, box: Box) -> None:
        try:
            act(choose(dice), box)
        except NotFound:
            return  # There is nothing of the kind just now.

    return do


def rescale(dice: Dice, box: Box) -> None:
    act(scaled(dice.choice(range(0, 12)), dice.choice(APPS)), box)


EVENTS: tuple[Callable[[Dice, Box], None], ...] = (
    die,
    rescale,
    rescale,
    rescale,
    lambda dice, box: change_template(box, tier=dice.choice(["gold", "silver", "iron"])),
    doing(lambda dice: Delete(kind=dice.choice(["Node", "NodeClaim", "Pod"]))),
    doing(lambda dice: Interrupt(0.3)),
    doing(lambda dice: SellOut(types=dice.choice(["m5.large", "*"]), lasts=timedelta(minutes=2))),
)


def under_our_hand(box: Box) -> int:
    """How many nodes we disrupt by our own choice just now."""
    alive = {
        look(node, "spec", "providerID")
        for node in box.api.list(NODES).items
        if look(node, "metadata", "labels", "karpenter.sh/initialized") == "true"
    }
    count = 0
    for claim in box.api.list(NODE_CLAIMS).items:
        kinds = {one["type"] for one in look(claim, "status", "conditions") or ()}
        if look(claim, "status", "providerID") in alive and "DisruptionReason" in kinds:
            count += "InstanceTerminating" not in kinds
    return count


def watched(box: Box, seconds: float) -> int:
    """Let time pass; return the most nodes that were under our hand."""
    most = 0
    while seconds > 0:
        wait(box, min(seconds, 1))
        most = max(most, under_our_hand(box))
        seconds -= 1
    return most


@pytest.mark.parametrize("seed", range(RUNS))
def test_budgets_hold_and_the_cluster_comes_to_rest_whatever_happened(seed: int) -> None:
    dice = Dice(seed)
    box = a_box(dice)

    most = 0
    for _ in range(dice.choice(range(5, 20))):
        dice.choice(EVENTS)(dice, box)
        most = max(most, watched(box, dice.choice([2, 10, 30, 90])))
    wanted = {name: dice.choice(range(0, 5)) for name in APPS}
    for name, replicas in wanted.items():
        act(scaled(replicas, name), box)
    most = max(most, watched(box, REST))
    bought = len(box.ec2.ledger.purchases)
    there = {one["metadata"]["name"] for one in claims(box)}
    wait(box, 30 * 60)

    assert most <= BUDGET
    assert box.invariants.violations == []
    assert (box.chronicle.running, box.chronicle.unsettled) == (sum(wanted.values()), 0)
    assert len(box.ec2.ledger.purchases) == bought
    assert {one["metadata"]["name"] for one in claims(box)} == there
    assert len(box.api.list(NODE_CLAIMS).items) == len(there) == box.ec2.ledger.machines - 1
