"""In-flight NodeClaims: each pod gets one, and no pod waits for a failed one.

P11, P12, S44 to S49, S54, S57; crashes of the provisioner; failed launches.
"""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, STATEFUL_SETS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.state.nodes.initialization_stall import STALL_TIMEOUT
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import Z1, Z2, a_type, incremental

STARTING = Taint("example.com/starting", TaintEffect.NO_SCHEDULE)


def in_either_zone() -> dict[str, object]:
    """Return a node affinity for two zones, so that the NodeClaim allows both."""
    zones = [{"key": label_keys.ZONE, "operator": "In", "values": [Z1, Z2]}]
    terms = [{"matchExpressions": zones}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def test_second_pod_uses_an_unlaunched_nodeclaim() -> None:
    env = ProvisioningEnvironment([a_type("larger", cpu=8), a_type("smaller", cpu=4)]).start()
    env.add_pending_pod("first")
    env.wait(2)

    env.add_pending_pod("second", requests={"cpu": "2"})
    env.wait(2)

    assert len(env.live_claims()) == 1
    assert len(env.assignments) == 2


def test_unlaunched_nodeclaim_has_the_capacity_of_its_smallest_instance_type() -> None:
    env = ProvisioningEnvironment(incremental(8)).start()
    env.add_pending_pod("first", requests={"cpu": "1500m"})
    env.wait(2)

    env.add_pending_pod("second", requests={"cpu": "1"})
    env.wait(2)

    assert len(env.live_claims()) == 2


def test_pod_that_needs_another_zone_gets_another_nodeclaim() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("first")
    env.wait(2)
    env.launch(env.live_claims()[0], zone=Z1)

    env.add_pending_pod("there", nodeSelector={label_keys.ZONE: Z1})
    env.wait(2)
    before = len(env.live_claims())
    env.add_pending_pod("elsewhere", nodeSelector={label_keys.ZONE: Z2})
    env.wait(2)

    assert (before, len(env.live_claims())) == (1, 2)


def test_undetermined_zone_of_a_nodeclaim_is_not_used() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("first")
    env.wait(2)

    env.add_pending_pod("particular", nodeSelector={label_keys.ZONE: Z2})
    env.wait(2)

    assert len(env.live_claims()) == 2


def test_repeated_watch_events_of_a_pod_create_one_nodeclaim() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod()

    for number in range(60):
        env.patch(PODS, "pod", {"metadata": {"labels": {"seen": str(number)}}}, "default")
        env.wait(1)

    assert len(env.live_claims()) == 1


def test_pods_are_scheduled_at_once_after_insufficient_capacity() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pods(2)
    env.wait(1.5)
    (failed,) = env.live_claims()

    env.delete(NODE_CLAIMS, failed)
    env.wait(0.2)

    (after,) = env.live_claims()
    assert after != failed
    assert len(env.assignments) == 2


def test_repeated_launch_failures_wait_for_the_batch_window() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod()
    env.wait(1.5)

    for _ in range(100):
        for name in env.live_claims():
            env.delete(NODE_CLAIMS, name)
        env.wait(0.1)

    assert env.executor.passes < 25


def test_failed_launch_does_not_block_provisioning() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod("first", requests={"cpu": "3"})
    env.wait(2)
    (pending,) = env.live_claims()

    env.add_pending_pod("second", requests={"cpu": "3"})
    env.wait(2)

    assert env.claim(pending).provider_id == ""
    assert len(env.live_claims()) == 2


def test_pod_assignments_to_unlaunched_nodeclaims_survive_a_restart() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pods(7, **in_either_zone())
    env.add_pending_pods(2, prefix="arm", nodeSelector={label_keys.ARCH: "arm64"}, requests={"cpu": "9"})
    env.wait(2)
    before = env.live_claims()

    env.restart()
    env.wait(30)

    assert env.live_claims() == before
    assert len(env.assignments) == 9


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_provisioner_that_crashes_between_creations_creates_only_the_rest(writes: int) -> None:
    env = ProvisioningEnvironment().start()
    env.crash_after(writes)
    env.add_pending_pods(3, requests={"cpu": "3"})
    env.wait(3)
    assert len(env.live_claims()) == writes

    env.restart()
    env.wait(30)

    assert len(env.live_claims()) == 3
    assert len(env.assignments) == 3


@pytest.mark.parametrize("steps", range(4))
def test_restart_at_any_step_of_a_launch_creates_no_nodeclaim(steps: int) -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pods(3)
    env.wait(2)
    (name,) = env.live_claims()
    for step in (env.launch, env.register, env.initialize)[:steps]:
        step(name)

    env.restart()
    env.wait(30)

    assert env.live_claims() == [name]


def test_daemonset_overhead_does_not_displace_assigned_pods_after_a_restart() -> None:
    env = ProvisioningEnvironment().start()
    env.add_daemon_set("agent", {"cpu": "1"}, nodeSelector={label_keys.OS: "linux"})
    env.add_pending_pod(requests={"cpu": "2500m"})
    env.wait(2)
    before = env.live_claims()

    env.restart()
    env.wait(30)

    assert len(before) == 1
    assert env.live_claims() == before


def test_new_daemonset_reduces_the_capacity_of_pending_nodeclaims() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("first", requests={"cpu": "2"})
    env.wait(2)

    env.add_daemon_set("agent", {"cpu": "1"})
    env.add_pending_pod("second", requests={"cpu": "1"})
    env.wait(2)

    assert len(env.live_claims()) == 2


def test_pod_bound_during_the_simulation_gets_no_assignment() -> None:
    env = ProvisioningEnvironment().start()
    env.add(NODES, manifests.node("other", taints=()))
    env.patch(NODES, "other", {"spec": {"unschedulable": True, "taints": [_full()]}})
    env.add_pending_pod()
    env.executor.meanwhile = lambda: _bind_quietly(env)

    env.wait(2)

    assert len(env.live_claims()) == 1
    assert len(env.assignments) == 0


def _full() -> dict[str, str]:
    return {"key": "example.com/full", "effect": "NoSchedule"}


def _bind_quietly(env: ProvisioningEnvironment) -> None:
    bound = env.api.bind("pod", "default", {"target": {"name": "other"}})
    env.cache.apply_event(PODS, bound)


def test_node_deleted_during_the_simulation_keeps_no_assignments() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("first")
    env.wait(2)
    (name,) = env.live_claims()
    env.launch(name)

    def vanish() -> None:
        env.executor.meanwhile = lambda: None
        env.cache.mark_deleted(NODE_CLAIMS, name, uid=env.claim(name).uid)
        env.api.delete(NODE_CLAIMS, name)

    env.executor.meanwhile = vanish
    env.add_pending_pod("second")
    env.wait(4)

    assert env.log.entries("reconciler error") == []
    assert len(env.live_claims()) == 1
    assert len(env.assignments) == 2


def test_capacity_assigned_to_an_evicted_pod_serves_its_successor() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pods(3)
    env.wait(2)
    (old,) = env.live_claims()
    env.make_ready(old)
    env.bind_all()
    env.delete_claim(old)
    env.wait(2)
    (new,) = env.live_claims()

    for number in range(3):
        env.delete(PODS, f"pod-{number}", "default")  # Goes on for its grace period.
        env.add_pending_pod(f"successor-{number}")
        env.wait(5)

    assert env.cache.pods_on(f"n-{old}")[0].deleting
    assert env.live_claims() == [new]


def test_capacity_assigned_to_a_statefulset_pod_is_kept_until_it_is_gone() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    owner = manifests.owner("StatefulSet", "db", uid=_a_stateful_set(env, "db"), controller=True)
    env.add_pending_pod("db-0", owner=owner, requests={"cpu": "3"})
    env.wait(2)
    (old,) = env.live_claims()
    env.make_ready(old)
    env.bind_all()
    env.delete_claim(old)
    env.wait(2)

    env.delete(PODS, "db-0", "default")
    env.add_pending_pod("other", requests={"cpu": "3"})
    env.wait(2)

    assert len(env.live_claims()) == 2


def _a_stateful_set(env: ProvisioningEnvironment, name: str) -> str:
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    created = env.add(
        STATEFUL_SETS,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
    )
    return str(created["metadata"]["uid"])


def test_ephemeral_taints_of_starting_nodes_are_ignored() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)])
    env.add_pool(template=NodeTemplate(startup_taints=(STARTING,)))
    env.start(pool=False)
    env.add_pending_pod("first")
    env.wait(2)
    (name,) = env.live_claims()
    env.launch(name)
    not_ready = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE)
    env.register(name, taints=(STARTING, not_ready))

    env.add_pending_pod("second")
    env.wait(2)

    assert env.live_claims() == [name]


@pytest.mark.parametrize("taint", [STARTING, Taint("team", TaintEffect.NO_SCHEDULE, "a")])
def test_taint_of_an_initialized_node_counts(taint: Taint) -> None:
    env = ProvisioningEnvironment()
    env.add_pool(template=NodeTemplate(startup_taints=(STARTING,)))
    env.start(pool=False)
    env.add_pending_pod("first")
    env.wait(2)
    (name,) = env.live_claims()
    env.launch(name)
    env.register(name, taints=(taint,))
    env.initialize(name)

    env.add_pending_pod("second")
    env.wait(2)

    assert len(env.live_claims()) == 2


def test_pods_not_bound_to_their_ready_node_are_scheduled_again() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod()
    env.wait(2)
    (name,) = env.live_claims()
    node = env.make_ready(name)
    env.patch(NODES, node, {"spec": {"taints": [_full()]}})

    env.wait(40)

    assert len(env.live_claims()) == 2


def test_node_with_assigned_pods_is_not_disrupted() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod()
    env.wait(2)
    (name,) = env.live_claims()
    provider_id = env.launch(name).provider_id

    env.wait(20)

    for _ in range(30):
        env.wait(7)
        assert env.nominations.is_nominated(provider_id, env.now)


def test_assignments_to_a_stuck_node_expire() -> None:
    env = ProvisioningEnvironment()
    env.add_pool(template=NodeTemplate(startup_taints=(STARTING,)))
    env.start(pool=False)
    env.add_pending_pod("waits", requests={"cpu": "3"})
    env.wait(2)
    (stuck,) = env.live_claims()
    env.launch(stuck)
    env.register(stuck, taints=(STARTING,))
    env.wait(seconds=STALL_TIMEOUT.total_seconds() + 60)
    before = env.live_claims()

    env.add_pending_pod("other", requests={"cpu": "3"})
    env.wait(2)
    (works,) = env.claims_for("other")
    env.make_ready(works)
    env.bind("other", f"n-{works}")
    env.wait(15)

    assert before == [stuck]
    assert len(env.claims_for("waits")) == 2


def test_deleted_pod_frees_capacity_of_a_pending_nodeclaim() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("first", requests={"cpu": "3"})
    env.wait(2)

    env.delete(PODS, "first", "default")
    env.add_pending_pod("second", requests={"cpu": "3"})
    env.wait(2)

    assert len(env.live_claims()) == 1


def test_assigned_pods_are_current() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod(labels={"app": "a"})
    env.wait(2)
    patch = {"metadata": {"labels": {"app": "b"}}}
    env.api.patch(PODS, "pod", patch, PatchType.MERGE, "default")

    env.wait(0)

    (kept,) = env.assignments.pods_of(env.live_claims()[0])
    assert kept.labels["app"] == "b"
