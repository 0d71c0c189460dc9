"""Nodes that are given back.

TM1, TM2, TM3, TM4, TM5, TM6, TM7, TM17, TM18, TM19, TM26, TM27, TM28, TM29, TM30, TM31.
Who is drained and in which order is in test_draining_nodes.py.
"""

from datetime import timedelta

import pytest

from dovetail.controllers.node import drain, eviction, termination
from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, VOLUME_ATTACHMENTS
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.kube_errors import Conflict
from tests.support import wire
from tests.support.fleet import (
    a_machine,
    a_pod,
    an_attached_volume,
    in_seconds,
    provider_id_of,
    stop_pod,
)
from tests.support.world import World, condition

BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"


def a_world(*nodes: str) -> World:
    world = World()
    for node in nodes or ("node",):
        a_machine(world, node)
    return world


def started(world: World) -> World:
    return world.run(termination.Termination, eviction.EvictionQueue)


def is_there(world: World, node: str = "node") -> bool:
    return world.get(NODES, node) is not None


def test_an_empty_node_goes_after_its_machine_has_gone() -> None:
    world = started(a_world())
    world.cloud.terminating_takes = timedelta(seconds=3)

    world.delete(NODES, "node").wait(2)
    there_while_the_machine_ends = is_there(world)
    world.wait(3)

    assert there_while_the_machine_ends
    assert not is_there(world)
    assert world.cloud.machines == {}
    assert world.log.said("deleted node") == [{"node": "node"}]


def test_deleting_a_node_deletes_its_claim() -> None:
    world = started(a_world())

    world.delete(NODES, "node")

    assert world.claim().deleting


def test_a_node_that_drains_is_kept_from_new_pods_and_new_connections() -> None:
    world = started(a_world())

    world.delete(NODES, "node")

    assert DISRUPTED in world.node().taints
    assert world.node().labels[BALANCERS] == "karpenter"


def test_a_taint_of_the_same_key_and_another_effect_is_replaced() -> None:
    world = a_world()
    other = {"key": DISRUPTED.key, "effect": "NoExecute"}
    foreign = {"key": "team", "value": "a", "effect": "NoSchedule"}
    world.patch(NODES, "node", {"spec": {"taints": [other, foreign]}})

    started(world).delete(NODES, "node")

    assert world.get(NODES, "node")["spec"]["taints"] == [
        foreign,
        {"key": DISRUPTED.key, "effect": "NoSchedule"},
    ]


def test_a_node_without_a_claim_is_let_go_and_no_machine_is_touched() -> None:
    world = a_world()
    world.patch(NODE_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    world.delete(NODE_CLAIMS, "claim")

    started(world).delete(NODES, "node").wait(1)

    assert not is_there(world)
    assert world.cloud.calls("delete") == []


def test_a_node_with_two_claims_is_let_go_and_no_machine_is_touched() -> None:
    world = a_world()
    twin = wire.claim("twin", provider_id=provider_id_of("node"), node_name="node")
    world.add(NODE_CLAIMS, twin)

    started(world).delete(NODES, "node").wait(1)

    assert not is_there(world)
    assert world.cloud.calls("delete") == []


def test_a_node_of_somebody_else_is_left_alone() -> None:
    world = a_world()
    world.patch(NODES, "node", {"metadata": {"labels": {label_keys.EC2_NODE_CLASS: None}}})

    started(world).delete(NODES, "node").wait(60)

    assert is_there(world)
    assert world.writes == []


def test_many_nodes_go_at_once_each_with_its_own_machine() -> None:
    names = [f"node-{number}" for number in range(30)]
    world = started(a_world(*names))

    for name in names:
        world.api.delete(NODES, name)
    world.wait(3)

    assert [name for name in names if is_there(world, name)] == []
    assert world.cloud.machines == {}
    assert world.log.said("reconciler error") == []


def test_a_node_waits_until_its_pods_have_gone_for_good() -> None:
    world = a_world()
    a_pod(world)

    started(world).delete(NODES, "node").wait(20)
    waiting = world.get(PODS, "pod", "default")["metadata"].get("deletionTimestamp")
    there_before = is_there(world)
    stop_pod(world)
    world.wait(2)

    assert waiting
    assert there_before
    assert not is_there(world)


def test_a_node_that_is_not_ready_goes_at_once_when_its_machine_is_gone() -> None:
    world = World()
    a_machine(world, ready=False)
    a_pod(world)
    world.cloud.vanish(provider_id_of("node"))

    started(world).delete(NODES, "node")

    assert not is_there(world)
    assert world.cloud.calls("delete") == []


def test_a_node_that_is_ready_is_drained_though_its_machine_is_said_to_be_gone() -> None:
    world = a_world()
    a_pod(world)
    world.cloud.vanish(provider_id_of("node"))

    started(world).delete(NODES, "node").wait(10)
    there_before = is_there(world)
    stop_pod(world)

    assert there_before
    assert not is_there(world)


def test_a_node_that_is_not_ready_is_drained_while_its_machine_is_there() -> None:
    world = World()
    a_machine(world, ready=False)
    a_pod(world)

    started(world).delete(NODES, "node").wait(10)

    assert is_there(world)


def test_an_empty_node_is_drained_after_a_second_where_nobody_waits_for_a_node() -> None:
    world = started(a_world())

    world.delete(NODES, "node")
    begun = condition(world.claim().conditions, "Drained")
    world.wait(0.9)
    shortly_before = condition(world.claim().conditions, "Drained")
    world.wait(0.1)

    assert begun == shortly_before == ("Unknown", "Draining")
    assert condition(world.claim().conditions, "Drained") == ("True", "Drained")


@pytest.mark.parametrize("who", ["a pod waits", "a pod was there", "a pod came just before"])
def test_an_empty_node_is_drained_after_five_seconds_where_a_pod_could_be_coming(who: str) -> None:
    world = a_world()
    if who == "a pod waits":
        a_pod(world, node="")
    elif who == "a pod was there":
        a_pod(world)
    else:
        event = {"status": {"lastPodEventTime": in_seconds(world, 0)}}
        world.patch(NODE_CLAIMS, "claim", event, subresource="status")
    started(world).delete(NODES, "node")
    if who == "a pod was there":
        stop_pod(world)

    world.wait(4.9)
    shortly_before = condition(world.claim().conditions, "Drained")
    world.wait(0.1)

    assert shortly_before == ("Unknown", "Draining")
    assert condition(world.claim().conditions, "Drained") == ("True", "Drained")


def test_a_pod_that_was_bound_while_the_taint_spread_is_drained_too() -> None:
    world = a_world()
    a_pod(world, "late", node="")
    started(world).delete(NODES, "node").wait(3)

    world.api.bind("late", "default", {"target": {"name": "node"}})
    world.wait(5)

    assert is_there(world)
    assert "deletionTimestamp" in world.get(PODS, "late", "default")["metadata"]


def test_attached_volumes_are_waited_for() -> None:
    world = a_world()
    an_attached_volume(world)

    started(world).delete(NODES, "node").wait(30)
    waiting = condition(world.claim().conditions, "VolumesDetached")
    world.delete(VOLUME_ATTACHMENTS, "attachment-volume").wait(2)

    assert waiting == ("Unknown", "AwaitingVolumeDetachment")
    assert "AwaitingVolumeDetachment" in world.events.about("node")
    assert not is_there(world)


def test_volumes_of_pods_that_stay_to_the_end_are_not_waited_for() -> None:
    world = a_world()
    an_attached_volume(world)
    a_pod(
        world,
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "volume"}}],
    )

    started(world).delete(NODES, "node").wait(3)

    assert not is_there(world)


def test_volumes_of_generic_ephemeral_kind_are_known_by_the_names_of_their_pods() -> None:
    world = a_world()
    an_attached_volume(world, "pod-scratch")
    a_pod(
        world,
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
    )

    started(world).delete(NODES, "node").wait(3)

    assert not is_there(world)


def test_volumes_are_not_waited_for_after_the_deadline() -> None:
    world = World()
    deadline = {label_keys.TERMINATION_TIMESTAMP: in_seconds(world, 20)}
    a_machine(world)
    world.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": deadline}})
    an_attached_volume(world)

    started(world).delete(NODES, "node").wait(20)
    before = condition(world.claim().conditions, "VolumesDetached")
    world.wait(2)

    assert before == ("Unknown", "AwaitingVolumeDetachment")
    assert condition(world.claim().conditions, "VolumesDetached") == (
        "False",
        "TerminationGracePeriodElapsed",
    )
    assert "TerminationGracePeriodExpiring" in world.events.about("node")
    assert not is_there(world)


def test_a_machine_is_asked_to_end_and_then_seen_to_have_ended() -> None:
    world = started(a_world())

    world.delete(NODES, "node").wait(1)
    asked = len(world.cloud.calls("delete"))
    ending = condition(world.claim().conditions, "InstanceTerminating")
    there_before = is_there(world)
    world.wait(1)

    assert (asked, ending, there_before) == (1, ("True", "InstanceTerminating"), True)
    assert len(world.cloud.calls("delete")) == 2
    assert not is_there(world)


def test_a_machine_that_takes_long_to_end_is_asked_about_less_often() -> None:
    world = a_world()
    world.cloud.terminating_takes = timedelta(seconds=300)
    started(world).delete(NODES, "node").wait(60)

    asked = len(world.cloud.calls("delete"))
    world.wait(60)

    assert len(world.cloud.calls("delete")) - asked == 12


def test_a_cloud_that_fails_keeps_the_node_and_what_was_reached() -> None:
    world = a_world()
    world.cloud.fail("delete", CloudError("throttled"))

    started(world).delete(NODES, "node").wait(1)
    drained = condition(world.claim().conditions, "Drained")
    there_before = is_there(world)
    world.wait(3)

    assert there_before
    assert drained == ("True", "Drained")
    assert not is_there(world)


def test_a_deadline_that_is_no_time_stops_the_node_from_being_drained() -> None:
    world = a_world()
    garbage = {"metadata": {"annotations": {label_keys.TERMINATION_TIMESTAMP: "soon"}}}
    world.patch(NODE_CLAIMS, "claim", garbage)
    a_pod(world)

    started(world).delete(NODES, "node").wait(1)

    assert not world.node().taints
    assert "is no time: 'soon'" in world.log.said("reconciler error")[0]["error"]


def test_somebody_elses_write_in_between_is_met_by_looking_again() -> None:
    world = a_world()
    world.faults.fail("patch", NODES, Conflict("changed"))
    world.faults.fail("patch status", NODE_CLAIMS, Conflict("changed"))

    started(world).delete(NODES, "node").wait(4)

    assert not is_there(world)
    assert world.log.said("reconciler error") == []


def test_finalizers_of_others_stay() -> None:
    world = a_world()
    both = ["example.com/other", label_keys.TERMINATION_FINALIZER]
    world.patch(NODES, "node", {"metadata": {"finalizers": both}})

    started(world).delete(NODES, "node").wait(3)

    assert world.get(NODES, "node")["metadata"]["finalizers"] == ["example.com/other"]


def test_what_it_took_is_measured() -> None:
    world = a_world().wait(100)

    started(world).delete(NODES, "node").wait(3)

    values = world.metrics.values
    labels = {"nodepool": "default", "zone": "us-east-1a"}
    assert values["karpenter_nodes_terminated_total"] == [(1, labels)]
    assert world.metrics.total("karpenter_nodes_drained_total", nodepool="default") == 1
    assert world.metrics.total("karpenter_nodes_termination_duration_seconds") == 2
    assert world.metrics.total("karpenter_nodes_lifetime_duration_seconds") == 102


def test_a_second_pass_changes_nothing() -> None:
    world = a_world()
    a_pod(world)
    started(world).delete(NODES, "node").wait(10)
    before = world.versions()

    world.runtime.ask(termination.NAME, "node")
    world.wait(0)

    assert world.versions() == before


def test_waiting_for_a_pod_costs_next_to_nothing() -> None:
    world = a_world()
    a_pod(world, tolerations=[{"key": "other", "operator": "Exists"}], grace=3000)
    started(world).delete(NODES, "node")
    told = len(world.events.told)

    world.wait(600)

    assert len(world.events.told) - told <= 600 / drain.LOOK_AGAIN.total_seconds() + 1
