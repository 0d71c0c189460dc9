"""Registration: RG1–RG24 of the lifecycle checklist.

Where upstream syncs startup taints again to a node that is registered while its
claim does not say so yet, we do not: see the test on being killed in between.
"""

from datetime import timedelta
from functools import partial

import msgspec
import pytest

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodeclaim.lifecycle.registration import Answer
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.taints import UNREGISTERED, Effect, Taint
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.cloudprovider import CloudError
from tests.support import wire
from tests.support.cluster import START
from tests.support.world import World, condition

TEAM = Taint("team", Effect.NO_SCHEDULE, "a")
BOOTING = Taint("booting", Effect.NO_SCHEDULE)


def launched(**claim: object) -> World:
    world = World().run(lifecycle.registration)
    world.add(NODE_CLAIMS, wire.claim(**claim))
    return world


def joined(world: World, name: str = "node", **node: object) -> World:
    world.add(NODES, wire.node(name, provider_id=world.claim().provider_id, **node))
    return world


def test_the_node_of_the_machine_is_found_by_provider_id() -> None:
    world = launched()

    joined(world)

    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")
    assert world.claim().node_name == "node"
    assert world.metrics.total("karpenter_nodes_created_total", nodepool="default") == 1
    assert [line["node"] for line in world.log.said("registered nodeclaim")] == ["node"]


def test_a_node_of_somebody_elses_claim_is_left_alone() -> None:
    world = World().run(lifecycle.registration)
    world.add(
        NODE_CLAIMS,
        wire.claim(node_class=wire.SOMEBODY_ELSES, provider_id="aws:///a/i-1"),
    )

    world.add(NODES, wire.node(provider_id="aws:///a/i-1"))

    assert world.writes == []


def test_the_claim_owns_its_node_once() -> None:
    world = launched()
    claim = world.claim()
    known = wire.owner("NodeClaim", "claim", uid=claim.uid, blockOwnerDeletion=True)

    joined(world)
    other = World().run(lifecycle.registration)
    other.add(NODE_CLAIMS, wire.claim())
    joined(other, ownerReferences=[{**known, "uid": other.claim().uid}])

    assert world.get(NODES, "node")["metadata"]["ownerReferences"] == [known]
    assert len(other.node().owners) == 1


def test_a_registered_node_says_so_and_is_open_to_pods() -> None:
    world = joined(launched())

    assert world.node().labels[label_keys.REGISTERED] == "true"
    assert UNREGISTERED not in world.node().taints
    assert label_keys.TERMINATION_FINALIZER in world.node().finalizers


def test_a_node_that_came_without_the_taint_registers_with_a_warning() -> None:
    world = joined(launched(), taints=())

    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")
    assert world.events.about("claim") == ["UnregisteredTaintMissing"]


def test_the_node_takes_over_labels_and_annotations_of_its_claim() -> None:
    world = launched(labels={"team": "a"}, annotations=FrozenDict({"note": "b"}))

    joined(world, labels={"team": "z", "kernel": "6.1"})

    assert world.node().labels["team"] == "a"
    assert world.node().labels["kernel"] == "6.1"
    assert world.node().annotations["note"] == "b"


@pytest.mark.parametrize("label", [None, "false", "yes"])
def test_taints_are_taken_over(label: str | None) -> None:
    world = launched(taints=(TEAM,), startup_taints=(BOOTING,))

    joined(world, labels={label_keys.DO_NOT_SYNC_TAINTS: label} if label else {})

    assert set(world.node().taints) == {TEAM, BOOTING}


def test_a_taint_with_the_same_key_and_effect_is_not_added_again() -> None:
    world = launched(taints=(TEAM,))

    joined(world, taints=(UNREGISTERED, Taint("team", Effect.NO_SCHEDULE, "z")))

    assert world.node().taints == (Taint("team", Effect.NO_SCHEDULE, "z"),)


def test_taints_are_not_taken_over_where_the_node_says_so() -> None:
    world = launched(taints=(TEAM,), startup_taints=(BOOTING,))

    joined(world, labels={label_keys.DO_NOT_SYNC_TAINTS: "true"})

    assert world.node().taints == ()


def test_startup_taints_taken_off_stay_off() -> None:
    world = joined(launched(startup_taints=(BOOTING,)))

    world.patch(NODES, "node", {"spec": {"taints": None}})
    world.wait(600)

    assert world.node().taints == ()


def test_startup_taints_stay_off_when_controllers_die_before_the_claim_says_registered() -> None:
    world = launched(startup_taints=(BOOTING,))
    world.die_after(1)
    joined(world)
    assert world.node().labels[label_keys.REGISTERED] == "true"
    world.patch(NODES, "node", {"spec": {"taints": None}})

    world.restart()

    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")
    assert world.node().taints == ()


def test_a_claim_without_a_node_waits_for_it() -> None:
    world = launched()

    assert condition(world.claim().conditions, "Registered") == ("Unknown", "NodeNotFound")


def test_a_machine_with_two_nodes_never_registers() -> None:
    world = World().run()
    world.add(NODE_CLAIMS, wire.claim())
    first = world.api.get(NODE_CLAIMS, "claim")["metadata"]["uid"]
    provider_id = "aws:///us-east-1a/i-00000000000000000"
    for name in ("one", "two"):
        world.add(NODES, wire.node(name, provider_id=provider_id))

    world.crash().run(lifecycle.registration)

    assert world.claim().uid == first
    assert condition(world.claim().conditions, "Registered") == ("False", "MultipleNodesFound")
    world.delete(NODES, "two")
    assert condition(world.claim().conditions, "Registered") == ("False", "MultipleNodesFound")


def test_a_node_written_by_somebody_else_in_between_is_tried_again() -> None:
    world = launched()
    stale = wire.node(provider_id=world.claim().provider_id)
    world.api.create(NODES, stale)
    world.engine.step()

    world.wait(1)

    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")


# What the pool hears of it.


def in_pool(world: World, name: str, *, uid: str = "") -> None:
    known = uid or world.pool().uid
    owner = wire.owner("NodePool", "default", uid=known)
    world.add(NODE_CLAIMS, wire.claim(name, owners=[owner]))
    world.add(NODES, wire.node(f"{name}-node", provider_id=world.claim(name).provider_id))


def healthy(world: World) -> tuple[str, str]:
    return condition(world.pool().conditions, "NodeRegistrationHealthy")


def test_a_node_that_registers_makes_its_pool_healthy() -> None:
    world = World().run(lifecycle.registration)
    world.add(NODE_POOLS, wire.pool())

    in_pool(world, "one")

    assert healthy(world) == ("True", "NodeRegistrationHealthy")


def test_enough_successes_make_an_unhealthy_pool_healthy_and_one_does_not() -> None:
    world = World().run(lifecycle.registration)
    unhealthy = {"type": "NodeRegistrationHealthy", "status": "False", "reason": "x"}
    world.add(NODE_POOLS, {**wire.pool(), "status": {"conditions": [unhealthy]}})

    in_pool(world, "one")
    after_one = healthy(world)
    in_pool(world, "two")
    in_pool(world, "three")

    assert after_one == ("False", "x")
    assert healthy(world) == ("True", "NodeRegistrationHealthy")


def test_a_pool_that_was_made_anew_hears_nothing_of_old_claims() -> None:
    world = World().run(lifecycle.registration)
    world.add(NODE_POOLS, wire.pool())

    in_pool(world, "old", uid=world.add(NODE_POOLS, wire.pool("other"))["metadata"]["uid"])

    assert healthy(world) == ("", "")
    assert condition(world.claim("old").conditions, "Registered") == ("True", "Registered")


# Hooks of the cloud's.


class ScriptedHook:
    """Is ready so many seconds after the world began; fails as often as it is told."""

    def __init__(self, name: str, after: float = 0, *, fails: int = 0, label: str = "") -> None:
        self.name = name
        self.world: World
        self._after = timedelta(seconds=after)
        self._fails = fails
        self._label = label

    async def before_registration(self, claim: NodeClaim) -> Answer:
        if self._fails:
            self._fails -= 1
            raise CloudError("throttled")
        if self._label:
            labels = claim.labels.with_items({self._label: "yes"})
            claim = msgspec.structs.replace(claim, labels=labels)
        left = START + self._after - self.world.now
        return Answer(claim, left if left > timedelta() else None)


def with_hooks(*hooks: ScriptedHook) -> World:
    world = World()
    for hook in hooks:
        hook.world = world
    world.run(partial(lifecycle.registration, hooks=hooks))
    world.add(NODE_CLAIMS, wire.claim())
    node = wire.node(provider_id=world.claim().provider_id)
    world.api.create(NODES, node)
    return world.wait(0)


def test_hooks_that_have_nothing_to_wait_for_let_the_node_register() -> None:
    world = with_hooks(ScriptedHook("partition"), ScriptedHook("other"))

    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")


def test_a_hook_holds_the_node_back_until_it_is_ready() -> None:
    world = with_hooks(ScriptedHook("partition"), ScriptedHook("network", 5))

    held = world.claim().conditions["Registered"]
    assert (held.status, held.reason) == ("Unknown", "RegistrationHookPending")
    assert held.message == "network"
    assert UNREGISTERED in world.node().taints
    assert label_keys.REGISTERED not in world.node().labels
    assert label_keys.TERMINATION_FINALIZER in world.node().finalizers
    world.wait(5)
    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")
    assert UNREGISTERED not in world.node().taints


def test_a_hook_that_fails_is_asked_again() -> None:
    world = with_hooks(ScriptedHook("network", fails=1))

    assert condition(world.claim().conditions, "Registered")[1] == "RegistrationHookPending"
    assert [line["error"] for line in world.log.said("reconciler error")] == ["throttled"]
    world.wait(1)
    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")


def test_all_hooks_that_hold_back_are_named_and_the_soonest_is_waited_for() -> None:
    world = with_hooks(ScriptedHook("slow", 60), ScriptedHook("quick", 2))

    assert world.claim().conditions["Registered"].message == "slow, quick"
    world.wait(2)
    assert world.claim().conditions["Registered"].message == "slow"
    world.wait(58)
    assert condition(world.claim().conditions, "Registered") == ("True", "Registered")


def test_labels_that_a_hook_finds_out_are_on_claim_and_node() -> None:
    world = with_hooks(ScriptedHook("partition", label="example.com/partition"))

    assert world.claim().labels["example.com/partition"] == "yes"
    assert world.node().labels["example.com/partition"] == "yes"
