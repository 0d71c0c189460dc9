"""A day of ups and downs: nodes come and go with the load, and nothing is done in vain."""

from datetime import datetime

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices, scenario
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.simulator.apiserver.storage.watch import WatchEvent
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Scale, Scenario, Wait
from dovetail.simulator.scenario_runner import Driver
from dovetail.simulator.workqueue import follow


class Replacement(msgspec.Struct, kw_only=True):
    """A claim that was made to replace others, while it was there."""

    claim: str
    instead_of: tuple[str, ...]
    made: datetime


class Replacements:
    """Follows claims in a box, and keeps those that replace others."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self.kept: dict[str, Replacement] = {}
        follow(box.api, box.engine, NODE_CLAIMS, self._claim)

    def _claim(self, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        replaced = (meta.get("annotations") or {}).get(label_keys.REPLACES)
        if not replaced:
            return
        names = tuple(one.partition("/")[0] for one in replaced.split(","))
        self.kept.setdefault(
            meta["name"],
            Replacement(claim=meta["name"], instead_of=names, made=self._box.engine.now()),
        )


def undone(box: Box, replacements: Replacements, changes: list[datetime]) -> list[str]:
    """Replacements after which all is as dear as before an earlier one, the load unchanged.

    One that goes on where the other left off, and makes the same pods cheaper still,
    undoes nothing.
    """
    prices = {one.claim: one.price for one in box.ec2.ledger.purchases}
    moves: dict[tuple[str, ...], list[Replacement]] = {}
    for one in replacements.kept.values():
        moves.setdefault(one.instead_of, []).append(one)
    found = []
    for gone, bought in moves.items():
        for earlier in (replacements.kept[name] for name in gone if name in replacements.kept):
            if any(earlier.made < change <= bought[0].made for change in changes):
                continue
            others = sum(prices[name] for name in gone if name != earlier.claim)
            after = sum(prices[one.claim] for one in bought if one.claim in prices) - others
            before = sum(prices[name] for name in earlier.instead_of)
            if after >= before:
                found.append(f"{earlier.claim} for {earlier.instead_of}, by {bought[0].claim}")
    return found


def when_load_changes(story: Scenario, start: datetime) -> list[datetime]:
    """When the scenario scales something, by its own waits."""
    changes, now = [], start
    for action in story.phases[-1].actions:
        if isinstance(action, Scale):
            changes.append(now)
        elif isinstance(action, Wait):
            now += action.lasts
    return changes


@pytest.mark.slow
def test_over_a_day_no_replacement_undoes_another() -> None:
    story = read_scenario("churn.yaml", scenario("churn"))
    box = Box(story, catalog=bundled_catalog(), prices=bundled_prices())
    replacements = Replacements(box)
    driver = Driver(box, story)
    begins: list[datetime] = []
    driver.listeners.append(lambda _: begins.append(box.engine.now()))

    report = driver.run()

    assert report.reached
    assert box.invariants.violations == []
    assert replacements.kept
    assert undone(box, replacements, when_load_changes(story, begins[-2])) == []
