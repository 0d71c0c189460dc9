"""Replacing nodes, cut short after every single write and every purchase, and resumed."""

import pytest

from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.model import SellOut
from dovetail.simulator.scenario_actions import act
from tests.support.boxes import scaled, wait
from tests.support.mortal import Fate, a_mortal_box, for_every_step
from tests.support.thinned import (
    a_catalog,
    a_disruption_budget,
    a_replacing_pool,
    a_replacing_story,
    a_small_app,
    change_template,
    claims,
    types_of,
)

pytestmark = pytest.mark.slow


def marks(box: Box) -> list[str]:
    """Nodes and claims that bear a mark of disruption."""
    nodes = [
        one["metadata"]["name"]
        for one in box.api.list(NODES).items
        if any(it["key"] == "karpenter.sh/disrupted" for it in look(one, "spec", "taints") or ())
    ]
    return nodes + [
        one["metadata"]["name"]
        for one in box.api.list(NODE_CLAIMS).items
        if any(it["type"] == "DisruptionReason" for it in look(one, "status", "conditions") or ())
    ]


def a_drifting_box(fate: Fate) -> Box:
    pool = a_replacing_pool(types=("m5.large",), after="Never")
    app = a_small_app("web", cpu="1", memory="4Gi")
    story = a_replacing_story(pool, app, a_disruption_budget("web"))
    return a_mortal_box(story, a_catalog(), fate)


def two_nodes(box: Box) -> None:
    act(scaled(2), box)
    wait(box, 30)


def test_drifted_nodes_are_replaced_once_wherever_that_is_cut_short() -> None:
    def check(box: Box, when: str) -> None:
        old = {one["metadata"]["name"] for one in claims(box)}
        change_template(box, tier="gold")
        wait(box, 240)
        new = {one["metadata"]["name"] for one in claims(box)}
        assert (len(old), len(new), old & new) == (2, 2, set()), when
        assert len(box.ec2.ledger.purchases) == 1 + 2 + 2, when
        assert box.ec2.ledger.machines == 1 + 2, when
        assert (box.chronicle.running, marks(box)) == (2, []), when

    steps = for_every_step(a_drifting_box, two_nodes, check)

    assert steps > 30


def an_oversized_box(fate: Fate) -> Box:
    story = a_replacing_story(a_replacing_pool(), a_small_app("web"), a_small_app("api"))
    return a_mortal_box(story, a_catalog(), fate)


def one_large_node(box: Box) -> None:
    act(scaled(13, "web"), box)
    act(scaled(1, "api"), box)
    wait(box, 30)
    act(scaled(1, "web"), box)
    wait(box, 45)


def test_an_oversized_node_is_replaced_once_wherever_that_is_cut_short() -> None:
    def check(box: Box, when: str) -> None:
        wait(box, 300)
        assert types_of(box) == ["m5.large"], when
        assert len(box.ec2.ledger.purchases) == 1 + 1 + 1, when
        assert box.ec2.ledger.machines == 1 + 1, when
        assert (box.chronicle.running, marks(box)) == (2, []), when

    steps = for_every_step(an_oversized_box, one_large_node, check)

    assert steps > 15


def test_nodes_whose_replacement_cannot_be_had_are_freed_wherever_that_is_cut_short() -> None:
    def check(box: Box, when: str) -> None:
        old = {one["metadata"]["name"] for one in claims(box)}
        act(SellOut(), box)
        change_template(box, tier="gold")
        wait(box, 120)
        assert {one["metadata"]["name"] for one in claims(box)} == old, when
        assert (box.chronicle.running, marks(box)) == (2, []), when
        assert box.ec2.ledger.machines == 1 + 2, when

    steps = for_every_step(a_drifting_box, two_nodes, check)

    assert steps > 10
