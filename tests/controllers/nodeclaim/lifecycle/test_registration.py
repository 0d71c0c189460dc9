"""Registration: RG1–RG24 of the lifecycle checklist.

Karpenter adds startup taints again to a registered Node whose NodeClaim is not
updated yet. Dovetail does not: see the test with a crash in between.
"""

from datetime import timedelta

import msgspec
import pytest

from dovetail.controllers.context import HookResult
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint, TaintEffect
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.cloudprovider import CloudError
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests
from tests.support.simulator.api_server import START

TEAM = Taint("team", TaintEffect.NO_SCHEDULE, "a")
BOOTING = Taint("booting", TaintEffect.NO_SCHEDULE)


def launched(**claim: object) -> ControllerEnvironment:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_CLAIMS, manifests.claim(**claim))
    return env


def joined(env: ControllerEnvironment, name: str = "node", **node: object) -> ControllerEnvironment:
    env.add(NODES, manifests.node(name, provider_id=env.claim().provider_id, **node))
    return env


def test_node_is_found_by_provider_id() -> None:
    env = launched()

    joined(env)

    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")
    assert env.claim().node_name == "node"
    assert env.metrics.total("karpenter_nodes_created_total", nodepool="default") == 1
    assert [line["node"] for line in env.log.entries("registered nodeclaim")] == ["node"]


def test_node_of_another_provider_is_ignored() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_CLAIMS, manifests.claim(node_class=manifests.FOREIGN_NODE_CLASS, provider_id="aws:///a/i-1"))

    env.add(NODES, manifests.node(provider_id="aws:///a/i-1"))

    assert env.writes == []


def test_nodeclaim_owns_its_node_once() -> None:
    env = launched()
    claim = env.claim()
    known = manifests.owner("NodeClaim", "claim", uid=claim.uid, blockOwnerDeletion=True)

    joined(env)
    other = ControllerEnvironment().run(lifecycle.controller)
    other.add(NODE_CLAIMS, manifests.claim())
    joined(other, ownerReferences=[{**known, "uid": other.claim().uid}])

    assert env.get(NODES, "node")["metadata"]["ownerReferences"] == [known]
    assert len(other.node().owner_references) == 1


def test_registered_node_has_its_label_and_loses_the_unregistered_taint() -> None:
    env = joined(launched())

    assert env.node().labels[label_keys.REGISTERED] == "true"
    assert UNREGISTERED_TAINT not in env.node().taints
    assert label_keys.TERMINATION_FINALIZER in env.node().finalizers


def test_node_without_unregistered_taint_registers_with_a_warning() -> None:
    env = joined(launched(), taints=())

    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")
    assert env.events.reasons("claim") == ["UnregisteredTaintMissing"]


def test_labels_and_annotations_are_copied_to_the_node() -> None:
    env = launched(labels={"team": "a"}, annotations=FrozenDict({"note": "b"}))

    joined(env, labels={"team": "z", "kernel": "6.1"})

    assert env.node().labels["team"] == "a"
    assert env.node().labels["kernel"] == "6.1"
    assert env.node().annotations["note"] == "b"


@pytest.mark.parametrize("label", [None, "false", "yes"])
def test_taints_are_copied_to_the_node(label: str | None) -> None:
    env = launched(taints=(TEAM,), startup_taints=(BOOTING,))

    joined(env, labels={label_keys.DO_NOT_SYNC_TAINTS: label} if label else {})

    assert set(env.node().taints) == {TEAM, BOOTING}


def test_taint_with_the_same_key_and_effect_is_not_added_again() -> None:
    env = launched(taints=(TEAM,))

    joined(env, taints=(UNREGISTERED_TAINT, Taint("team", TaintEffect.NO_SCHEDULE, "z")))

    assert env.node().taints == (Taint("team", TaintEffect.NO_SCHEDULE, "z"),)


def test_do_not_sync_taints_label_skips_taints() -> None:
    env = launched(taints=(TEAM,), startup_taints=(BOOTING,))

    joined(env, labels={label_keys.DO_NOT_SYNC_TAINTS: "true"})

    assert env.node().taints == ()


def test_removed_startup_taints_are_not_added_again() -> None:
    env = joined(launched(startup_taints=(BOOTING,)))

    env.patch(NODES, "node", {"spec": {"taints": None}})
    env.wait(600)

    assert env.node().taints == ()


def test_startup_taints_are_not_added_again_after_a_crash_before_the_status_write() -> None:
    env = launched(startup_taints=(BOOTING,))
    env.crash_after(1)
    joined(env)
    assert env.node().labels[label_keys.REGISTERED] == "true"
    env.patch(NODES, "node", {"spec": {"taints": None}})

    env.restart()

    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")
    assert env.node().taints == ()


def test_nodeclaim_waits_for_its_node() -> None:
    env = launched()

    assert condition(env.claim().conditions, "Registered") == ("Unknown", "NodeNotFound")


def test_instance_with_two_nodes_is_never_registered() -> None:
    env = ControllerEnvironment().run()
    env.add(NODE_CLAIMS, manifests.claim())
    first = env.api.get(NODE_CLAIMS, "claim")["metadata"]["uid"]
    provider_id = "aws:///us-east-1a/i-00000000000000000"
    for name in ("one", "two"):
        env.add(NODES, manifests.node(name, provider_id=provider_id))

    env.crash().run(lifecycle.controller)

    assert env.claim().uid == first
    assert condition(env.claim().conditions, "Registered") == ("False", "MultipleNodesFound")
    env.delete(NODES, "two")
    assert condition(env.claim().conditions, "Registered") == ("False", "MultipleNodesFound")


def test_write_conflict_on_the_node_is_retried() -> None:
    env = launched()
    stale = manifests.node(provider_id=env.claim().provider_id)
    env.api.create(NODES, stale)
    env.clock.step()

    env.wait(1)

    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")


# What the pool hears of it.


def in_pool(env: ControllerEnvironment, name: str, *, uid: str = "") -> None:
    known = uid or env.pool().uid
    owner = manifests.owner("NodePool", "default", uid=known)
    env.add(NODE_CLAIMS, manifests.claim(name, owners=[owner]))
    env.add(NODES, manifests.node(f"{name}-node", provider_id=env.claim(name).provider_id))


def healthy(env: ControllerEnvironment) -> tuple[str, str]:
    return condition(env.pool().conditions, "NodeRegistrationHealthy")


def test_registration_makes_the_nodepool_healthy() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_POOLS, manifests.pool())

    in_pool(env, "one")

    assert healthy(env) == ("True", "NodeRegistrationHealthy")


def test_unhealthy_nodepool_needs_several_successes() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    unhealthy = {"type": "NodeRegistrationHealthy", "status": "False", "reason": "x"}
    env.add(NODE_POOLS, {**manifests.pool(), "status": {"conditions": [unhealthy]}})

    in_pool(env, "one")
    after_one = healthy(env)
    in_pool(env, "two")
    in_pool(env, "three")

    assert after_one == ("False", "x")
    assert healthy(env) == ("True", "NodeRegistrationHealthy")


def test_recreated_nodepool_ignores_outcomes_of_old_nodeclaims() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_POOLS, manifests.pool())

    in_pool(env, "old", uid=env.add(NODE_POOLS, manifests.pool("other"))["metadata"]["uid"])

    assert healthy(env) == ("", "")
    assert condition(env.claim("old").conditions, "Registered") == ("True", "Registered")


# Registration hooks.


class FakeHook:
    """Hook that is ready ``after`` seconds, after a number of failures."""

    def __init__(self, name: str, after: float = 0, *, fails: int = 0, label: str = "") -> None:
        self.name = name
        self.env: ControllerEnvironment
        self._after = timedelta(seconds=after)
        self._fails = fails
        self._label = label

    async def before_registration(self, claim: NodeClaim) -> HookResult:
        if self._fails:
            self._fails -= 1
            raise CloudError("throttled")
        if self._label:
            labels = claim.labels.with_items({self._label: "yes"})
            claim = msgspec.structs.replace(claim, labels=labels)
        delay = START + self._after - self.env.now
        return HookResult(claim, delay if delay > timedelta() else None)


def with_hooks(*hooks: FakeHook) -> ControllerEnvironment:
    env = ControllerEnvironment()
    for hook in hooks:
        hook.env = env
    env.run(lifecycle.controller, registration_hooks=hooks)
    env.add(NODE_CLAIMS, manifests.claim())
    node = manifests.node(provider_id=env.claim().provider_id)
    env.api.create(NODES, node)
    return env.wait(0)


def test_hooks_without_delay_do_not_block_registration() -> None:
    env = with_hooks(FakeHook("partition"), FakeHook("other"))

    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")


def test_hook_delays_registration_until_it_is_ready() -> None:
    env = with_hooks(FakeHook("partition"), FakeHook("network", 5))

    held = env.claim().conditions["Registered"]
    assert (held.status, held.reason) == ("Unknown", "RegistrationHookPending")
    assert held.message == "network"
    assert UNREGISTERED_TAINT in env.node().taints
    assert label_keys.REGISTERED not in env.node().labels
    assert label_keys.TERMINATION_FINALIZER in env.node().finalizers
    env.wait(5)
    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")
    assert UNREGISTERED_TAINT not in env.node().taints


def test_failed_hook_is_retried() -> None:
    env = with_hooks(FakeHook("network", fails=1))

    assert condition(env.claim().conditions, "Registered")[1] == "RegistrationHookPending"
    assert [line["error"] for line in env.log.entries("reconciler error")] == ["throttled"]
    env.wait(1)
    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")


def test_pending_hooks_are_named_and_the_shortest_delay_counts() -> None:
    env = with_hooks(FakeHook("slow", 60), FakeHook("quick", 2))

    assert env.claim().conditions["Registered"].message == "slow, quick"
    env.wait(2)
    assert env.claim().conditions["Registered"].message == "slow"
    env.wait(58)
    assert condition(env.claim().conditions, "Registered") == ("True", "Registered")


def test_labels_from_a_hook_are_set_on_nodeclaim_and_node() -> None:
    env = with_hooks(FakeHook("partition", label="example.com/partition"))

    assert env.claim().labels["example.com/partition"] == "yes"
    assert env.node().labels["example.com/partition"] == "yes"
