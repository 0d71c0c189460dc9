"""Invariants: each violation is recorded, and nothing else."""

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

import pytest

from dovetail.codec.quantities import encode_time
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import TooManyRequests
from dovetail.simulator.apiserver.options import DeleteOptions, PatchType
from dovetail.simulator.checks.invariants import CheckedKubeClient, Invariants
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.billing import LaunchRecord
from tests.simulator.ec2.harness import REGION, Steady
from tests.support.kube.manifests import claim, node, pool
from tests.support.simulator.api_server import START, Cluster, a_pod, owned_by, run_pod

AT_ONCE = DeleteOptions(grace_period_seconds=0)
MINUTE = 60
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


class Careless(Cluster):
    """An API server that evicts pods regardless of PodDisruptionBudgets."""

    def evict(self, name: str, namespace: str, *, options: DeleteOptions = AT_ONCE) -> None:
        self.delete(PODS, name, namespace, options=options)


class Watched:
    """A cluster without components, an EC2 account, and the invariants."""

    def __init__(self, api: Cluster | None = None) -> None:
        self.api = api or Cluster()
        self.ec2 = Ec2Account(self.api.clock, region=REGION, random=Steady())
        self.invariants = Invariants(self.api, self.api.clock, self.ec2)
        self.kube = CheckedKubeClient(self.api, self.invariants)

    @property
    def violations(self) -> list[str]:
        return self.invariants.violations

    def wait(self, seconds: float = 0) -> None:
        self.api.wait(seconds)

    def claim(self, name: str = "claim", *, cpu: int = 0, **metadata: Any) -> str:
        """Create a claim, launched if ``cpu`` is given; return its UID."""
        nodeclaim = claim(name)
        nodeclaim["metadata"].update(metadata)
        uid: str = self.api.create(NODE_CLAIMS, nodeclaim)["metadata"]["uid"]
        if cpu:
            self.claim_status(name, capacity={"cpu": str(cpu)})
        self.wait()
        return uid

    def claim_status(self, name: str = "claim", **status: Any) -> None:
        self.api.patch(NODE_CLAIMS, name, {"status": status}, PatchType.MERGE, subresource="status")
        self.wait()

    def launch(self, uid: str, number: int = 1, *, name: str = "claim") -> LaunchRecord:
        record = LaunchRecord(
            claim=name,
            claim_uid=uid,
            provider_id=provider(number),
            instance_type="m5.large",
            zone="eu-west-1a",
            capacity_type="spot",
            price=0.1,
            launched=self.now,
        )
        self.ec2.billing.record_launch(record)
        return record

    def terminate(self, launch: LaunchRecord) -> None:
        self.ec2.billing.record_shutdown(launch, now=self.now)

    @property
    def now(self) -> datetime:
        return self.api.clock.now()


def provider(number: int) -> str:
    return f"aws:///eu-west-1a/i-{number}"


def occupied(pod: dict[str, Any] | None = None, **metadata: Any) -> tuple[Watched, LaunchRecord]:
    """An instance registered as node n1, with a running pod."""
    world = Watched()
    launched = world.launch(world.claim(**metadata))
    world.api.create(NODES, node("n1", provider_id=launched.provider_id))
    run_pod(world.api, pod or a_pod("web"), node="n1")
    world.wait(1)
    return world, launched


def driven(work: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that never waits."""
    with pytest.raises(StopIteration):
        work.send(None)


# Launches.


def test_a_second_instance_for_a_claim_is_a_violation() -> None:
    world = Watched()
    uid = world.claim()

    world.launch(uid, 1)
    world.launch(uid, 2)

    assert world.violations == [
        f"09:00:00 nodeclaim claim got two instances: {provider(1)} and {provider(2)}"
    ]


def test_one_instance_per_claim_is_allowed_even_for_equal_names() -> None:
    world = Watched()

    first = world.launch(world.claim())
    world.terminate(first)
    world.api.delete(NODE_CLAIMS, "claim")
    world.launch(world.claim(), 2)
    world.wait(10 * MINUTE)

    assert world.violations == []


# Orphans.


def test_an_instance_that_outlives_its_claim_is_a_violation() -> None:
    world = Watched()
    world.launch(world.claim())
    world.wait(10 * MINUTE)

    world.api.delete(NODE_CLAIMS, "claim")
    world.wait(3 * MINUTE)

    assert world.violations == [f"09:13:00 {provider(1)} has no nodeclaim for over 0:03:00"]


def test_an_instance_launched_after_its_claim_was_deleted_is_a_violation() -> None:
    world = Watched()
    uid = world.claim()
    world.api.delete(NODE_CLAIMS, "claim")
    world.wait(1)

    world.launch(uid)
    world.wait(3 * MINUTE)

    assert world.violations == [f"09:03:01 {provider(1)} has no nodeclaim for over 0:03:00"]


def test_an_orphaned_instance_may_run_for_three_minutes() -> None:
    world = Watched()
    launched = world.launch(world.claim())

    # Shortly before the check scheduled by the launch.
    world.wait(3 * MINUTE - 1)
    world.api.delete(NODE_CLAIMS, "claim")
    world.wait(2 * MINUTE)
    world.terminate(launched)
    world.wait(10 * MINUTE)

    assert world.violations == []


def test_nodes_of_the_node_group_need_no_claim() -> None:
    world = Watched()

    world.launch("whatever", name="")
    world.wait(10 * MINUTE)

    assert world.violations == []


# Limits.


def limited(**limits: str) -> Watched:
    world = Watched()
    nodepool = pool()
    nodepool["spec"]["limits"] = limits
    world.api.create(NODE_POOLS, nodepool)
    return world


def test_a_nodepool_over_its_limit_is_a_violation() -> None:
    world = limited(cpu="6")

    world.claim("a", cpu=4)
    assert world.violations == []
    world.claim("b", cpu=4)

    assert world.violations == ["09:00:00 nodepool default has 8000 of cpu, its limit is 6000"]


def test_nodes_can_be_limited_in_number() -> None:
    world = limited(nodes="1")

    world.claim("a", cpu=4)
    world.claim("b", cpu=4)

    [violation] = world.violations
    assert "has 2 of nodes, its limit is 1" in violation


def test_a_nodepool_may_reach_its_limit() -> None:
    world = limited(cpu="8", memory="1Gi")

    world.claim("a", cpu=4)
    world.claim("b", cpu=4)
    world.claim_status("a", capacity={"cpu": "4"})

    assert world.violations == []


@pytest.mark.parametrize(
    "end",
    [
        lambda api: api.delete(NODE_CLAIMS, "old"),
        lambda api: api.patch(NODES, "old", {"spec": {"taints": [DISRUPTED]}}, PatchType.MERGE),
    ],
)
def test_replaced_nodes_and_deleted_claims_do_not_count_towards_the_limit(end: Any) -> None:
    world = at_its_limit()

    end(world.api)
    world.claim("new", cpu=4)

    assert world.violations == []


def test_a_deleted_node_counts_towards_the_limit_until_its_claim_is_deleted() -> None:
    world = at_its_limit()

    world.api.delete(NODES, "old")
    world.claim("new", cpu=4)

    [violation] = world.violations
    assert "has 8000 of cpu, its limit is 4000" in violation


def at_its_limit() -> Watched:
    world = limited(cpu="4")
    world.claim("old", cpu=4, finalizers=["karpenter.sh/termination"])
    world.claim_status("old", nodeName="old")
    world.api.create(NODES, {"metadata": {"name": "old", "finalizers": ["karpenter.sh/termination"]}})
    return world


def test_a_nodepool_without_limits_or_that_is_deleted_may_have_any_size() -> None:
    without, deleted = Watched(), Watched()
    without.api.create(NODE_POOLS, pool())

    for world in (without, deleted):
        world.claim("a", cpu=1_000_000)

    assert without.violations == deleted.violations == []


# PodDisruptionBudgets.


def a_budget(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def guarded(api: Cluster, **spec: Any) -> Watched:
    """Two pods that must both stay available."""
    world = Watched(api)
    world.claim()
    world.claim_status(nodeName="n1")
    api.create(NODES, node("n1", provider_id=provider(1)))
    api.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=2))
    for name in ("a", "b"):
        run_pod(api, a_pod(name, labels={"app": "web"}, **spec))
    world.wait()
    return world


@pytest.mark.parametrize("grace", [0, 30], ids=["gone at once", "with grace"])
def test_an_eviction_that_violates_a_budget_is_a_violation(grace: int) -> None:
    world = guarded(Careless(), terminationGracePeriodSeconds=grace)

    driven(world.kube.evict("a", "default", uid=""))

    assert world.violations == [
        "09:00:00 eviction of pod default/a violates budget default/budget: 1 healthy, 2 required"
    ]


def test_a_rejected_eviction_is_no_violation() -> None:
    world = guarded(Cluster())

    with pytest.raises(TooManyRequests):
        world.kube.evict("a", "default", uid="").send(None)

    assert world.violations == []


def test_a_terminating_pod_can_be_evicted_again() -> None:
    world = guarded(Careless())
    world.api.delete(PODS, "a", "default")

    driven(world.kube.evict("a", "default", uid=""))

    assert world.violations == []


def test_a_pod_that_is_not_ready_does_not_count_for_a_budget() -> None:
    world = guarded(Careless())
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    world.api.patch(PODS, "a", unready, PatchType.MERGE, "default", subresource="status")

    driven(world.kube.evict("a", "default", uid=""))

    assert world.violations == []


def test_a_deletion_that_violates_a_budget_is_a_violation() -> None:
    world = guarded(Cluster())

    driven(world.kube.delete(PODS, "a", "default", grace_seconds=1))

    assert world.violations == [
        "09:00:00 deletion of pod default/a violates budget default/budget: 1 healthy, 2 required"
    ]


def test_pods_of_a_node_with_a_deadline_may_be_deleted_in_time_for_it() -> None:
    world = guarded(Cluster())
    soon = {label_keys.TERMINATION_TIMESTAMP: encode_time(START + timedelta(seconds=30))}
    world.api.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": soon}}, PatchType.MERGE)
    world.wait()

    driven(world.kube.delete(PODS, "a", "default", grace_seconds=1))

    assert world.violations == []


def test_deletions_of_other_kinds_are_not_checked() -> None:
    world = guarded(Cluster())

    driven(world.kube.delete(NODES, "n1"))

    assert world.violations == []


# Terminations.


def test_an_instance_terminated_with_a_pod_on_it_is_a_violation() -> None:
    world, launched = occupied()

    world.terminate(launched)

    assert world.violations == ["09:00:01 n1 was terminated with pod default/web on it"]


def test_a_termination_deadline_counts_only_once_it_has_passed() -> None:
    at = {label_keys.TERMINATION_TIMESTAMP: encode_time(START + timedelta(minutes=5))}
    early, late = occupied(annotations=at), occupied(annotations=at)

    early[0].wait(299 - 1)
    early[0].terminate(early[1])
    late[0].wait(300 - 1)
    late[0].terminate(late[1])

    assert early[0].violations == ["09:04:59 n1 was terminated with pod default/web on it"]
    assert late[0].violations == []


def test_instances_reclaimed_by_ec2_may_have_pods() -> None:
    world, launched = occupied()

    world.ec2.reclaimed.add(launched.provider_id)
    world.terminate(launched)

    assert world.violations == []


def test_an_instance_that_never_registered_can_be_terminated() -> None:
    world = Watched()
    launched = world.launch(world.claim())

    world.terminate(launched)

    assert world.violations == []


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "karpenter.sh/disrupted"},
        {"key": "karpenter.sh/disrupted", "operator": "Exists"},
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "effect": "NoSchedule"},
    ],
    ids=str,
)
def test_pods_that_tolerate_the_disrupted_taint_may_stay(toleration: dict[str, Any]) -> None:
    world, launched = occupied(a_pod("web", tolerations=[toleration]))

    world.terminate(launched)

    assert world.violations == []


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "other", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute"},
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "value": "yes"},
    ],
    ids=str,
)
def test_other_tolerations_do_not_exempt_a_pod(toleration: dict[str, Any]) -> None:
    world, launched = occupied(a_pod("web", tolerations=[toleration]))

    world.terminate(launched)

    assert len(world.violations) == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminated_pods_do_not_block_termination(phase: str) -> None:
    world, launched = occupied()
    over = {"status": {"phase": phase}}
    world.api.patch(PODS, "web", over, PatchType.MERGE, "default", subresource="status")

    world.terminate(launched)

    assert world.violations == []


def test_static_pods_do_not_block_termination() -> None:
    world, launched = occupied()
    world.api.delete(PODS, "web", "default", options=AT_ONCE)
    run_pod(world.api, owned_by(a_pod("static"), world.api.get(NODES, "n1")), node="n1")

    world.terminate(launched)

    assert world.violations == []


def test_a_stuck_pod_blocks_termination_until_a_minute_after_its_grace_period() -> None:
    worlds = occupied(), occupied()

    for (world, launched), wait in zip(worlds, (30 + 59, 30 + 60), strict=True):
        world.api.delete(PODS, "web", "default")  # Its grace period is thirty seconds.
        world.wait(wait)
        world.terminate(launched)

    (early, _), (late, _) = worlds
    assert early.violations == ["09:01:30 n1 was terminated with pod default/web on it"]
    assert late.violations == []


def test_pods_on_a_later_node_of_the_same_name_do_not_count() -> None:
    world, launched = occupied()
    world.api.delete(NODES, "n1")
    world.api.create(NODES, node("n1", provider_id=provider(2)))
    world.wait()

    world.terminate(launched)

    assert world.violations == []


# Pods left behind.


def test_a_pod_left_behind_on_a_deleted_node_is_a_violation() -> None:
    world, _ = occupied()

    world.api.delete(NODES, "n1")
    world.wait(2 * MINUTE - 1)
    assert world.violations == []
    world.wait(1)

    assert world.violations == ["09:02:01 pod default/web is left behind: n1 is deleted"]


def test_a_pod_deleted_with_its_node_is_no_violation() -> None:
    world, _ = occupied()

    world.api.delete(NODES, "n1")
    world.wait(MINUTE)
    world.api.delete(PODS, "web", "default", options=AT_ONCE)
    world.wait(10 * MINUTE)

    assert world.violations == []


def test_a_pod_whose_node_registers_again_is_no_violation() -> None:
    world, launched = occupied()

    world.api.delete(NODES, "n1")
    world.wait(MINUTE)
    world.api.create(NODES, node("n1", provider_id=launched.provider_id))
    world.wait(10 * MINUTE)

    assert world.violations == []
