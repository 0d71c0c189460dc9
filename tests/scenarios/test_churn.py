"""A day of ups and downs: nodes come and go with the load, and nothing is done in vain."""

from datetime import datetime

import msgspec
import pytest

from dovetail.data import bundled_catalog, bundled_prices, scenario
from dovetail.model import labels as label_keys
from dovetail.ports.resources import NODE_CLAIMS
from dovetail.sim.apiserver.watching import EventType, WatchEvent
from dovetail.sim.box import Box
from dovetail.sim.desk import follow
from dovetail.sim.driver import Driver
from dovetail.sim.scenario.model import Scale, Scenario, Wait
from dovetail.sim.scenario.reading import read_scenario


class Replacement(msgspec.Struct, kw_only=True):
    """A claim that was made to replace others, while it was there."""

    claim: str
    instead_of: tuple[str, ...]
    made: datetime
    ended: datetime | None = None
    why: str = ""


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
        known = self.kept.setdefault(
            meta["name"],
            Replacement(claim=meta["name"], instead_of=names, made=self._box.engine.now()),
        )
        leaving = meta.get("deletionTimestamp") or event.type is EventType.DELETED
        if leaving and known.ended is None:
            known.ended = self._box.engine.now()
            known.why = next(
                (
                    one["reason"]
                    for one in event.object.get("status", {}).get("conditions", ())
                    if one["type"] == "DisruptionReason"
                ),
                "",
            )


def in_vain(replacements: Replacements, changes: list[datetime]) -> list[str]:
    """Replacements that were given up again although the load had not changed since."""
    found = []
    for one in replacements.kept.values():
        if one.ended is None or one.why not in ("Underutilized", "Empty"):
            continue
        if not any(one.made < change <= one.ended for change in changes):
            found.append(f"{one.claim} for {', '.join(one.instead_of)}: {one.made} to {one.ended}")
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
def test_over_a_day_no_replacement_is_given_up_while_the_load_stays_the_same() -> None:
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
    assert in_vain(replacements, when_load_changes(story, begins[-2])) == []
