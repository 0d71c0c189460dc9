"""Nodes are replaced in a whole cluster: consolidation, drift, and what may go wrong."""

import math

import pytest

from dovetail.data.bundled import bundled_prices
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.model import SellOut
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
    told,
    types_of,
)

pytestmark = pytest.mark.slow


def a_box(pool: dict[str, object], *others: dict[str, object]) -> Box:
    box = Box(a_replacing_story(pool, *others), catalog=a_catalog(), prices=bundled_prices())
    wait(box, 3)
    return box


def tainted(box: Box) -> int:
    found = box.api.list(NODES).items
    return sum(
        any(one["key"] == "karpenter.sh/disrupted" for one in look(node, "spec", "taints") or ())
        for node in found
    )


def test_a_half_empty_cluster_is_packed_onto_fewer_nodes() -> None:
    apps = [a_small_app(name) for name in ("web", "api", "job")]
    box = a_box(a_replacing_pool(types=("m5.large", "m5.xlarge")), *apps)
    for name, replicas in (("web", 12), ("api", 12), ("job", 6)):
        act(scaled(replicas, name), box)
    wait(box, 60)
    before = len(claims(box))

    act(scaled(2, "web"), box)
    act(scaled(1, "api"), box)
    wait(box, 300)
    bought = len(box.ec2.ledger.purchases)
    wait(box, 600)

    assert before == 5
    assert box.chronicle.running == 9
    assert types_of(box) == ["m5.large", "m5.xlarge"]
    assert len(box.ec2.ledger.purchases) == bought  # It has come to rest.
    assert box.invariants.violations == []


def test_an_oversized_node_is_replaced_by_a_smaller_one_that_is_there_first() -> None:
    box = a_box(a_replacing_pool(), a_small_app("web"), a_small_app("api"))
    act(scaled(13, "web"), box)
    act(scaled(1, "api"), box)
    wait(box, 60)
    before = types_of(box)

    act(scaled(1, "web"), box)
    fewest = 2
    for _ in range(120):
        wait(box, 2)
        fewest = min(fewest, len(box.api.list(NODES).items))

    assert before == ["m5.2xlarge"]
    assert types_of(box) == ["m5.large"]
    assert fewest == 2  # That on which others run, and one of ours.
    assert box.chronicle.running == 2
    for reason in ("DisruptionLaunching", "DisruptionWaitingReadiness", "DisruptionTerminating"):
        assert told(box, reason) != []
    assert box.invariants.violations == []


def test_drifted_nodes_are_replaced_never_more_at_once_than_the_budget_allows() -> None:
    pool = a_replacing_pool(types=("m5.large",), budget="2", after="Never")
    app = a_small_app("web", cpu="1", memory="4Gi")
    box = a_box(pool, app, a_disruption_budget("web"))
    act(scaled(6), box)
    wait(box, 60)
    old = {one["metadata"]["name"] for one in claims(box)}

    change_template(box, tier="gold")
    most = 0
    for _ in range(200):
        wait(box, 2)
        most = max(most, tainted(box))

    assert len(old) == 6
    assert most == 2
    assert len(claims(box)) == 6
    assert not old & {one["metadata"]["name"] for one in claims(box)}
    assert all(one["metadata"]["labels"]["tier"] == "gold" for one in claims(box))
    assert box.chronicle.running == 6
    assert len(box.ec2.ledger.purchases) == 1 + 6 + 6
    assert box.invariants.violations == []


def test_a_replacement_that_cannot_be_had_leaves_the_node_as_it_was() -> None:
    pool = a_replacing_pool(types=("m5.large",), after="Never")
    box = a_box(pool, a_small_app("web", cpu="1", memory="4Gi"))
    act(scaled(1), box)
    wait(box, 60)
    (old,) = [one["metadata"]["name"] for one in claims(box)]

    act(SellOut(), box)
    change_template(box, tier="gold")
    wait(box, 120)

    (left,) = box.api.list(NODE_CLAIMS).items
    assert left["metadata"]["name"] == old
    assert tainted(box) == 0
    kinds = {one["type"] for one in left["status"]["conditions"]}
    assert "DisruptionReason" not in kinds
    assert box.chronicle.running == 1


def test_a_day_of_ups_and_downs_ends_at_rest_and_replaces_nothing_like_with_like() -> None:
    sizes = {"web": ("700m", 40), "api": ("300m", 60), "job": ("1500m", 16)}
    apps = [a_small_app(name, cpu=cpu) for name, (cpu, _) in sizes.items()]
    box = a_box(a_replacing_pool(budget="10%"), *apps)

    most = 0
    for quarter in range(96):
        share = (1 - math.cos(2 * math.pi * quarter / 96)) / 2
        for name, (_, peak) in sizes.items():
            act(scaled(int(4 + peak * share), name), box)
        wait(box, 900)
        most = max(most, len(claims(box)))
    wait(box, 3 * 3600)
    bought = len(box.ec2.ledger.purchases)
    wait(box, 4 * 3600)

    assert bought <= 3 * most
    assert len(box.ec2.ledger.purchases) == bought
    assert (box.chronicle.running, box.chronicle.unsettled) == (12, 0)
    assert types_of(box) == ["m5.2xlarge", "m5.large"]
    assert box.invariants.violations == []
