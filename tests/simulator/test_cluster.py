"""The cluster in a box: what is there at the start, and what outlives its controllers."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from dovetail.data.bundled import bundled_prices
from dovetail.errors import BadInput, ScenarioError
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.simulator.cluster import START, Box
from dovetail.simulator.scenario.model import Delete, Home
from dovetail.simulator.scenario_actions import act
from tests.support.boxes import (
    a_box,
    a_node_class,
    a_pool,
    a_story,
    an_app,
    scaled,
    small_catalog,
    wait,
)
from tests.support.cluster import a_config_map, names


def versions(box: Box) -> dict[str, str]:
    """Every claim, node and pod with its resourceVersion: the same if nothing was written."""
    return {
        one["metadata"]["uid"]: one["metadata"]["resourceVersion"]
        for resource in (NODE_CLAIMS, NODES, PODS)
        for one in box.api.list(resource).items
    }


def standing(box: Box) -> tuple[int, int, int, int]:
    """Pods that run, machines paid for, claims, nodes."""
    return (
        box.chronicle.running,
        box.ec2.ledger.machines,
        len(box.api.list(NODE_CLAIMS).items),
        len(box.api.list(NODES).items),
    )


# At the start.


def test_an_empty_box_has_no_nodes_and_starts_when_it_is_told() -> None:
    start = datetime(2030, 5, 1, tzinfo=UTC)

    box = a_box(a_story(objects=(), home=0), start=start)

    assert box.engine.now() == start
    assert standing(box) == (0, 0, 0, 0)


def test_home_nodes_are_ready_when_the_story_begins_and_cost_from_the_start() -> None:
    box = a_box(a_story(home=3))

    homes = box.api.list(NODES).items
    assert names(homes) == [f"ip-10-250-0-{number}.ec2.internal" for number in (10, 11, 12)]
    assert set(box.chronicle.node_ready) == set(names(homes))
    assert box.ec2.ledger.machines == 3
    hourly = 3 * bundled_prices().list_prices["t3.small"]
    assert box.ec2.ledger.price_per_hour() == pytest.approx(hourly)
    assert box.ec2.ledger.cost(START + timedelta(hours=1)) == pytest.approx(hourly)


def test_home_nodes_are_spread_over_zones_and_say_what_they_are() -> None:
    box = a_box(a_story(home=3))

    labels = [one["metadata"]["labels"] for one in box.api.list(NODES).items]
    assert len({one["topology.kubernetes.io/zone"] for one in labels}) == 3
    assert {one["node.kubernetes.io/instance-type"] for one in labels} == {"t3.small"}
    assert {one["kubernetes.io/arch"] for one in labels} == {"amd64"}
    assert not any("karpenter.sh/nodepool" in one for one in labels)


def test_hundreds_of_home_nodes_all_have_addresses() -> None:
    box = a_box(a_story(home=300, objects=()))

    assert len(box.api.list(NODES).items) == 300
    assert "ip-10-250-1-0.ec2.internal" in names(box.api.list(NODES).items)


def test_home_nodes_are_left_alone_and_used() -> None:
    box = a_box(a_story(objects=(a_node_class(), a_pool(), an_app(replicas=0)), home=2))
    tiny = an_app("tiny", replicas=2)
    requests = tiny["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    requests.update({"cpu": "100m", "memory": "128Mi"})

    box.apply([tiny])
    wait(box, 300)

    assert standing(box) == (2, 2, 0, 2)
    assert box.invariants.violations == []


def test_a_home_of_machines_that_are_not_sold_is_a_mistake() -> None:
    story = msgspec.structs.replace(a_story(), home=Home(count=1, instance_type="m5.tiny"))

    with pytest.raises(BadInput, match=r"'m5\.tiny' is not sold in us-east-1"):
        a_box(story)


def test_manifests_that_the_api_server_refuses_are_told_as_such() -> None:
    broken = a_pool(weight=1000)

    with pytest.raises(ScenarioError, match=r"^manifests: .*weight"):
        a_box(a_story(objects=(broken,)))


# Applying.


def test_applying_twice_changes_nothing() -> None:
    box = a_box()
    settings = {"apiVersion": "v1", "kind": "ConfigMap", **a_config_map("a", b="c")}
    objects = (a_node_class(), a_pool(), an_app(), settings)
    box.apply(objects)
    wait(box, 5)
    before = box.api.resource_version

    box.apply(objects)

    assert box.api.resource_version == before


def test_what_a_user_applies_over_a_pool_can_take_fields_away() -> None:
    """Kubectl knows them by the note that the box leaves, as kubectl itself would."""
    box = a_box()

    notes = box.api.get(NODE_POOLS, "default")["metadata"]["annotations"]

    assert "consolidateAfter" in notes["kubectl.kubernetes.io/last-applied-configuration"]


def test_a_kind_that_is_not_served_cannot_be_applied() -> None:
    gadget = {"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "a"}}

    with pytest.raises(ValueError, match="v1 Gadget is not served"):
        a_box().apply([gadget])


# Restarting.


def test_a_restart_keeps_the_world() -> None:
    box = a_box()
    act(scaled(2), box)
    wait(box, 30)
    before, was = standing(box), versions(box)

    box.restart()

    assert standing(box) == before == (2, 3, 2, 3)
    assert versions(box) == was


def test_a_restart_of_a_cluster_at_rest_changes_no_pod_and_no_claim() -> None:
    box = a_box()
    act(scaled(2), box)
    wait(box, 120)
    was = {uid: version for uid, version in versions(box).items() if uid in _uids(box)}

    box.restart()
    wait(box, 5)

    now = versions(box)
    assert {uid: now.get(uid) for uid in was} == was


def _uids(box: Box) -> set[str]:
    """Claims and pods; nodes have hearts that beat."""
    return {
        one["metadata"]["uid"]
        for resource in (NODE_CLAIMS, PODS)
        for one in box.api.list(resource).items
    }


@pytest.mark.parametrize("moment", [0.5, 1.1, 1.3, 2, 5, 8, 9.3, 11])
def test_whatever_was_begun_is_finished_after_a_restart(moment: float) -> None:
    box = a_box()
    act(scaled(2), box)

    wait(box, moment)
    box.restart()
    wait(box, 40)

    assert standing(box) == (2, 3, 2, 3)
    assert box.ec2.ledger.bought_twice() == []
    assert box.invariants.violations == []


@pytest.mark.parametrize("moment", [0.5, 2, 4, 7, 12])
def test_a_node_on_its_way_out_goes_after_a_restart(moment: float) -> None:
    box = a_box()
    act(scaled(2), box)
    wait(box, 30)
    before = set(names(box.api.list(NODE_CLAIMS).items))
    act(Delete(kind="Node"), box)

    wait(box, moment)
    box.restart()
    wait(box, 60)

    assert standing(box) == (2, 3, 2, 3)
    assert len(before & set(names(box.api.list(NODE_CLAIMS).items))) == 1
    assert box.invariants.violations == []


def test_the_dead_write_nothing() -> None:
    box = a_box()

    box.operator.kill()
    act(scaled(2), box)
    wait(box, 600)

    assert standing(box) == (0, 1, 0, 1)
    assert box.chronicle.unsettled == 2


def test_counts_go_on_from_one_life_to_the_next() -> None:
    box = a_box()
    act(scaled(1), box)
    wait(box, 30)
    made = box.metrics.total("karpenter_nodeclaims_created_total")

    box.restart()
    act(scaled(2), box)
    wait(box, 30)

    assert made == 1
    assert box.metrics.total("karpenter_nodeclaims_created_total") == 2


def test_two_boxes_of_one_seed_tell_the_same() -> None:
    told = []
    for _ in range(2):
        box = Box(a_story(), catalog=small_catalog(), prices=bundled_prices())
        act(scaled(3), box)
        wait(box, 40)
        told.append([line.as_json() for line in box.log.lines])

    assert told[0] == told[1]
    assert told[0]
