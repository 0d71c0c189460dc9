"""Node repair: NH1–NH16 of the lifecycle checklist."""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.controllers.node import health
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, Disruption
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

MINUTE = 60
GATES = FeatureGates(NodeRepair=True)
UNHEALTHY = "karpenter_nodeclaims_unhealthy_disrupted_total"
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def an_environment(nodes: int = 6, *, pool: str = "default") -> ControllerEnvironment:
    env = ControllerEnvironment().run(health.controller, feature_gates=GATES)
    for number in range(nodes):
        provider_id = f"aws:///us-east-1a/i-{number}"
        claim = manifests.claim(
            f"claim-{number}",
            pool=pool,
            finalizers=["test/held"],
            provider_id=provider_id,
            termination_grace_period=timedelta(hours=9),
        )
        env.add(NODE_CLAIMS, claim)
        env.add(NODES, manifests.node(f"node-{number}", provider_id=provider_id))
    return env


def report(env: ControllerEnvironment, kind: str, status: str, *, node: str = "node-0", **more: str) -> None:
    """Report a condition with a transition now, as a kubelet or agent does."""
    conditions = env.get(NODES, node)["status"]["conditions"]
    others = [condition for condition in conditions if condition["type"] != kind]
    new = {"type": kind, "status": status, "lastTransitionTime": f"{env.now:%Y-%m-%dT%H:%M:%SZ}"}
    patch: dict[str, Any] = {"conditions": [*others, {**new, **more}]}
    env.patch(NODES, node, {"status": patch}, subresource="status")


def annotate(env: ControllerEnvironment, when: timedelta) -> str:
    """Set the NodeClaim's termination deadline."""
    text = f"{env.now + when:%Y-%m-%dT%H:%M:%SZ}"
    annotations = {label_keys.TERMINATION_TIMESTAMP: text}
    env.patch(NODE_CLAIMS, "claim-0", {"metadata": {"annotations": annotations}})
    return text


def deleting_claims(env: ControllerEnvironment) -> list[str]:
    return sorted(claim.name for claim in env.cache.claims() if claim.deleting)


@pytest.mark.parametrize(
    ("kind", "status", "minutes"),
    [
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("AcceleratedHardwareReady", "False", 10),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
    ],
)
def test_unhealthy_node_is_repaired_when_its_toleration_ends(kind: str, status: str, minutes: int) -> None:
    env = an_environment()
    report(env, kind, status)

    env.wait(minutes * MINUTE - 1)
    before = deleting_claims(env)
    env.wait(1)

    assert before == []
    assert deleting_claims(env) == ["claim-0"]
    assert env.metrics.total(DISRUPTED, reason="unhealthy", nodepool="default") == 1


def test_condition_is_a_metric_label_in_snake_case() -> None:
    env = an_environment()
    report(env, "AcceleratedHardwareReady", "False")

    env.wait(10 * MINUTE)

    labels = {"condition": "accelerated_hardware_ready", "nodepool": "default"}
    assert env.metrics.total(UNHEALTHY, **labels) == 1


@pytest.mark.parametrize(("kind", "status"), [("DiskPressure", "True"), ("StorageReady", "Unknown")])
def test_condition_without_repair_policy_is_ignored(kind: str, status: str) -> None:
    env = an_environment()
    report(env, kind, status)

    env.wait(24 * 60 * MINUTE)

    assert deleting_claims(env) == []


def test_node_that_recovers_in_time_is_kept() -> None:
    env = an_environment()
    report(env, "Ready", "False")
    env.wait(29 * MINUTE)
    report(env, "Ready", "True")

    env.wait(60 * MINUTE)

    assert deleting_claims(env) == []


def test_of_two_unhealthy_conditions_the_earlier_deadline_counts() -> None:
    env = an_environment()
    report(env, "Ready", "False")
    env.wait(5 * MINUTE)
    report(env, "AcceleratedHardwareReady", "False")

    env.wait(10 * MINUTE)

    assert deleting_claims(env) == ["claim-0"]
    assert env.metrics.total(UNHEALTHY, condition="accelerated_hardware_ready") == 1


def test_heartbeats_do_not_restart_the_toleration() -> None:
    env = an_environment()
    report(env, "Ready", "False")
    since = f"{env.now:%Y-%m-%dT%H:%M:%SZ}"

    for _ in range(6):
        env.wait(5 * MINUTE)
        report(env, "Ready", "False", lastHeartbeatTime="x", lastTransitionTime=since)

    assert deleting_claims(env) == ["claim-0"]


def test_repair_ignores_pods_budgets_and_annotations() -> None:
    env = an_environment()
    disruption = Disruption(budgets=(Budget(nodes="0"),))
    env.add(NODE_POOLS, manifests.pool(disruption=disruption))
    env.patch(NODES, "node-0", {"metadata": {"annotations": {label_keys.DO_NOT_DISRUPT: "true"}}})
    env.add(PODS, manifests.pod(node="node-0"))
    report(env, "Ready", "False")

    env.wait(30 * MINUTE)

    claim = env.claim("claim-0")
    assert claim.deleting
    assert claim.annotations[label_keys.TERMINATION_TIMESTAMP] == f"{env.now:%Y-%m-%dT%H:%M:%SZ}"
    assert env.metrics.total("karpenter_pods_disruption_initiated_total") == 1


def test_future_termination_deadline_becomes_now() -> None:
    env = an_environment()
    annotate(env, timedelta(days=2))
    report(env, "Ready", "False")

    env.wait(30 * MINUTE)

    deadline = env.claim("claim-0").annotations[label_keys.TERMINATION_TIMESTAMP]
    assert deadline == f"{env.now:%Y-%m-%dT%H:%M:%SZ}"


def test_past_termination_deadline_is_kept() -> None:
    env = an_environment()
    text = annotate(env, timedelta(minutes=-5))
    report(env, "Ready", "False")

    env.wait(30 * MINUTE)

    claim = env.claim("claim-0")
    assert claim.deleting
    assert claim.annotations[label_keys.TERMINATION_TIMESTAMP] == text


@pytest.mark.parametrize("pool", ["default", ""])
def test_more_than_twenty_percent_unhealthy_nodes_block_repair_with_an_event(pool: str) -> None:
    env = an_environment(10, pool=pool)
    for number in range(3):
        report(env, "Ready", "False", node=f"node-{number}")

    env.wait(30 * MINUTE)

    assert deleting_claims(env) == []
    assert env.events.reasons("node-0") == ["NodeRepairBlocked"]


def test_repair_continues_within_five_minutes_when_enough_nodes_recovered() -> None:
    env = an_environment(10)
    for number in range(3):
        report(env, "Ready", "False", node=f"node-{number}")
    env.wait(31 * MINUTE)
    report(env, "Ready", "True", node="node-2")

    env.wait(5 * MINUTE)

    assert deleting_claims(env) == ["claim-0", "claim-1"]


def test_one_of_three_nodes_may_be_unhealthy_because_the_share_is_rounded_up() -> None:
    env = an_environment(3)
    report(env, "Ready", "False")

    env.wait(30 * MINUTE)

    assert deleting_claims(env) == ["claim-0"]


def test_other_nodepools_do_not_count() -> None:
    env = an_environment(3)
    for number in range(10, 15):
        provider_id = f"aws:///us-east-1a/i-{number}"
        env.add(NODE_CLAIMS, manifests.claim(f"other-{number}", pool="other", provider_id=provider_id))
        env.add(NODES, manifests.node(f"node-{number}", provider_id=provider_id))
        report(env, "Ready", "False", node=f"node-{number}")
    report(env, "Ready", "False")

    env.wait(30 * MINUTE)

    assert deleting_claims(env) == ["claim-0"]


def test_controllers_that_crash_after_any_write_finish_after_a_restart() -> None:
    for writes in (1, 2):
        env = an_environment()
        report(env, "Ready", "False")
        env.crash_after(writes)
        env.wait(30 * MINUTE)

        env.restart().wait(MINUTE)

        assert env.claim("claim-0").deleting


def test_controller_is_off_without_its_feature_gate() -> None:
    env = ControllerEnvironment()

    assert health.controller(env.context()) is None
