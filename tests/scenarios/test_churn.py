"""A day of load changes: no replacement reverts another, and it ends as it began."""

from datetime import datetime, timedelta

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_scenario
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.simulator.apiserver.storage.watch import WatchEvent
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Scale, Scenario, Wait
from dovetail.simulator.scenario_runner import ScenarioRunner
from dovetail.simulator.workqueue import start_watch


class Replacement(msgspec.Struct, kw_only=True):
    """A claim that replaces others."""

    claim: str
    instead_of: tuple[str, ...]
    created: datetime


class Replacements:
    """Watches the claims of a cluster and keeps those that replace others."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.kept: dict[str, Replacement] = {}
        start_watch(cluster.api, cluster.clock, NODE_CLAIMS, self._claim)

    def _claim(self, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        replaced = (meta.get("annotations") or {}).get(label_keys.REPLACES_ANNOTATION)
        if not replaced:
            return
        names = tuple(name.partition("/")[0] for name in replaced.split(","))
        self.kept.setdefault(
            meta["name"], Replacement(claim=meta["name"], instead_of=names, created=self._cluster.clock.now())
        )


def undone(cluster: SimulatedCluster, replacements: Replacements, changes: list[datetime]) -> list[str]:
    """Replacements that are reverted by a later one without a change of load.

    Reverted means that the price is as high as before. A later replacement that makes the
    same pods cheaper still reverts nothing.
    """
    prices = {launch.claim: launch.price for launch in cluster.ec2.billing.launches}
    moves: dict[tuple[str, ...], list[Replacement]] = {}
    for replacement in replacements.kept.values():
        moves.setdefault(replacement.instead_of, []).append(replacement)
    reverted = []
    for deleted, launched in moves.items():
        for earlier in (replacements.kept[name] for name in deleted if name in replacements.kept):
            if any(earlier.created < change <= launched[0].created for change in changes):
                continue
            others = sum(prices[name] for name in deleted if name != earlier.claim)
            after = (
                sum(prices[replacement.claim] for replacement in launched if replacement.claim in prices)
                - others
            )
            before = sum(prices[name] for name in earlier.instead_of)
            if after >= before:
                reverted.append(f"{earlier.claim} for {earlier.instead_of}, by {launched[0].claim}")
    return reverted


def when_load_changes(scenario: Scenario, start: datetime) -> list[datetime]:
    """Times at which the scenario scales something, by its own waits."""
    changes, now = [], start
    for action in scenario.phases[-1].actions:
        if isinstance(action, Scale):
            changes.append(now)
        elif isinstance(action, Wait):
            now += action.duration
    return changes


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 2])
def test_over_a_day_no_replacement_reverts_another_and_it_ends_with_the_nodes_of_its_start(seed: int) -> None:
    scenario = msgspec.structs.replace(read_scenario("churn.yaml", bundled_scenario("churn")), seed=seed)
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    replacements = Replacements(cluster)
    runner = ScenarioRunner(cluster, scenario)
    begins: list[datetime] = []
    runner.listeners.append(lambda _: begins.append(cluster.clock.now()))

    report = runner.run()

    assert report.reached
    assert cluster.invariants.violations == []
    assert replacements.kept
    assert undone(cluster, replacements, when_load_changes(scenario, begins[-2])) == []
    first, last = report.phases[0], report.phases[-1]
    assert (first.pods_running, first.nodes) == (24, 5)
    assert (last.pods_running, last.nodes) == (24, 5)
    assert last.price_per_hour <= 1.01 * first.price_per_hour


@pytest.mark.slow
def test_move_that_kube_scheduler_defeats_is_repeated_ever_more_rarely() -> None:
    """Pods that fill nodes of 4 vCPUs exactly: a node less fits on paper only.

    kube-scheduler binds an ``api`` pod to the emptiest node, where a ``web`` pod then has no
    room. Without a growing rest, the same four pods move every six minutes.
    """
    scenario = read_scenario("churn.yaml", tightly_packed(bundled_scenario("churn")))
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    runner = ScenarioRunner(cluster, scenario)
    runner.run()
    launches = len(cluster.ec2.billing.launches)

    cluster.clock.run(until=cluster.clock.now() + timedelta(hours=6))

    assert len(cluster.ec2.billing.launches) - launches <= 12


def tightly_packed(text: bytes) -> bytes:
    """Return the scenario with larger pods, in three zones."""
    changes = {
        b"{cpu: 800m, memory: 1Gi}": b"{cpu: 900m, memory: 1Gi}",
        b"{cpu: 400m, memory: 1Gi}": b"{cpu: 450m, memory: 2Gi}",
        b"requirements:\n": b"requirements:\n            - {key: topology.kubernetes.io/zone, operator: In,"
        b" values: [us-east-1a, us-east-1b, us-east-1c]}\n",
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text
