"""Every controller that deletes NodeClaims reports the same metric labels."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dovetail import controllers
from dovetail.controllers.interruption import controller as interruption
from dovetail.controllers.interruption import status_checks
from dovetail.controllers.node import health
from dovetail.controllers.nodeclaim import capacity_reservation, expiration, garbage_collection
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodeclaim.lifecycle import liveness
from dovetail.controllers.nodeclaim_deletion import termination_mode
from dovetail.controllers.nodepool import static
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.cloudprovider import (
    CloudError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    InterruptionKind,
    InterruptionMessage,
    NodeClassNotReadyError,
    UnhealthyInstance,
)
from dovetail.ports.metrics import NODECLAIMS_DISRUPTED, PODS_DISRUPTION_INITIATED
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

FINALIZERS = ["test/held"]
INSTANCE = "aws:///us-east-1a/i-0"
LABELS = {label_keys.CAPACITY_TYPE: label_keys.SPOT}
HOUR = 3600

Disrupt = Callable[[timedelta | None], ControllerEnvironment]


def add_claim(env: ControllerEnvironment, grace: timedelta | None, **fields: Any) -> None:
    claim = manifests.claim(
        "claim",
        finalizers=FINALIZERS,
        termination_grace_period=grace,
        **{"provider_id": INSTANCE, "labels": LABELS} | fields,
    )
    env.add(NODE_CLAIMS, claim)


def expire(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(expiration.controller)
    add_claim(env, grace, expire_after=timedelta(hours=2))
    return env.wait(3 * HOUR)


def repair(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(health.controller, feature_gates=FeatureGates(NodeRepair=True))
    for number in range(6):  # More than 20% unhealthy nodes would block the repair.
        env.add(NODES, manifests.node(f"node-{number}", provider_id=f"aws:///us-east-1a/i-{number}"))
        fields = {"finalizers": FINALIZERS, "termination_grace_period": grace, "labels": LABELS}
        if number:
            name, provider_id = f"claim-{number}", f"aws:///us-east-1a/i-{number}"
            env.add(NODE_CLAIMS, manifests.claim(name, provider_id=provider_id, **fields))
    add_claim(env, grace)
    since = f"{env.now:%Y-%m-%dT%H:%M:%SZ}"
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    status = {"status": {"conditions": [condition]}}
    env.patch(NODES, "node-0", status, subresource="status")
    return env.wait(HOUR)


def interrupt(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(interruption.controller)
    add_claim(env, grace)
    message = InterruptionMessage(id="1", kind=InterruptionKind.SPOT_INTERRUPTED, instance_ids=("i-0",))
    env.interruptions.messages.append(message)
    return env.wait(1)


def fail_status_check(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment()
    failure = UnhealthyInstance(instance_id="i-0", kind=InterruptionKind.SYSTEM_STATUS, since=env.now)
    env.run(status_checks.controller, instance_status=FakeStatusProvider(failure))
    add_claim(env, grace)
    return env.wait(300)


class FakeStatusProvider:
    """``InstanceStatusProvider`` with one unhealthy instance."""

    def __init__(self, failure: UnhealthyInstance) -> None:
        self._failure = failure

    async def list_unhealthy(self) -> list[UnhealthyInstance]:
        return [self._failure]


def expire_reservation(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(capacity_reservation.controller)
    node_class = manifests.node_class()
    block = {
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "reservationType": "capacity-block",
    }
    node_class["status"]["capacityReservations"] = [{"id": "cr-1", "state": "expiring", **block}]
    env.add(EC2_NODE_CLASSES, node_class)
    labels = {label_keys.CAPACITY_TYPE: label_keys.RESERVED, label_keys.CAPACITY_RESERVATION_ID: "cr-1"}
    add_claim(env, grace, labels=labels)
    return env.wait(60)


def collect_garbage(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(garbage_collection.nodeclaim_controller)
    registered = [{"type": "Registered", "status": "True", "reason": "Registered"}]
    add_claim(env, grace)
    status = {"status": {"conditions": registered}}
    env.patch(NODE_CLAIMS, "claim", status, subresource="status")
    return env.wait(HOUR)


def fail_launch(grace: timedelta | None, error: CloudError | None = None) -> ControllerEnvironment:
    env = ControllerEnvironment()
    env.cloud.fail("create", error or InsufficientCapacityError("none left"))
    env.run(lifecycle.controller)
    add_claim(env, grace, provider_id="")
    return env.wait(1)


def fail_launch_of_unready_class(grace: timedelta | None) -> ControllerEnvironment:
    return fail_launch(grace, NodeClassNotReadyError("default is not ready"))


def time_out_registration(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(liveness.controller)
    add_claim(env, grace)
    since = f"{env.now:%Y-%m-%dT%H:%M:%SZ}"
    conditions = [
        {"type": kind, "status": status, "reason": kind, "lastTransitionTime": since}
        for kind, status in (("Launched", "True"), ("Registered", "Unknown"))
    ]
    env.patch(NODE_CLAIMS, "claim", {"status": {"conditions": conditions}}, subresource="status")
    return env.wait(HOUR)


def time_out_launch(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment()
    env.cloud.fail("create", *[InstanceNotFoundError("no answer")] * 1000)
    env.run(lifecycle.controller, liveness.controller)
    add_claim(env, grace, provider_id="")
    return env.wait(600)


def scale_down(grace: timedelta | None) -> ControllerEnvironment:
    env = ControllerEnvironment().run(
        static.deprovisioning_controller, feature_gates=FeatureGates(StaticCapacity=True)
    )
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    env.add(NODE_POOLS, {**manifests.pool(replicas=0), "status": ready})
    add_claim(env, grace)
    return env.wait(60)


def delete_empty_node(grace: timedelta | None) -> ControllerEnvironment:
    env = DisruptionEnvironment()
    env.add_pool(rules={"policy": ConsolidationPolicy.WHEN_EMPTY})
    env.add_node(termination_grace_period=grace)
    return env.start().wait(30)


def replace_drifted_node(grace: timedelta | None) -> ControllerEnvironment:
    env = DisruptionEnvironment()
    env.add_pool(after=None)
    env.add_node(drifted=env.now - timedelta(minutes=5), termination_grace_period=grace)
    env.add_app_pod("web", cpu="3")
    env.start()
    (replacement,) = env.replacements()
    env.make_ready(replacement)
    return env


CALLERS: list[tuple[Disrupt, dict[str, str]]] = [
    (expire, {"reason": "expired"}),
    (repair, {"reason": "unhealthy"}),
    (interrupt, {"reason": "spot_interrupted"}),
    (fail_status_check, {"reason": "system_status"}),
    (expire_reservation, {"reason": "capacity_reservation_expiring", "capacity_type": "reserved"}),
    (collect_garbage, {"reason": "garbage_collected"}),
    (fail_launch, {"reason": "insufficient_capacity"}),
    (fail_launch_of_unready_class, {"reason": "nodeclass_not_ready"}),
    (time_out_launch, {"reason": "launch_timeout"}),
    (time_out_registration, {"reason": "registration_timeout"}),
    (scale_down, {"reason": "scaled_down"}),
    (
        delete_empty_node,
        {"reason": "empty", "capacity_type": "on-demand", "consolidation_policy": "when_empty"},
    ),
    (replace_drifted_node, {"reason": "drifted", "capacity_type": "on-demand"}),
]
"""Every caller of ``delete_nodeclaim``, and the labels that it reports."""
MODES = pytest.mark.parametrize(
    ("grace", "mode"), [(None, "graceful"), (timedelta(minutes=5), "eventual"), (timedelta(), "forceful")]
)


@MODES
@pytest.mark.parametrize(("disrupt", "labels"), CALLERS, ids=[caller.__name__ for caller, _ in CALLERS])
def test_every_caller_reports_reason_pool_capacity_type_and_termination_mode(
    disrupt: Disrupt, labels: dict[str, str], grace: timedelta | None, mode: str
) -> None:
    env = disrupt(grace)

    common = {"nodepool": "default", "capacity_type": "spot", "consolidation_policy": ""}
    expected = {**common, **labels, "termination_mode": mode}
    assert env.metrics.values[NODECLAIMS_DISRUPTED.name] == [(1, expected)]


def test_no_other_module_deletes_nodeclaims() -> None:
    package = Path(controllers.__file__).parent
    deleting = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "kube.delete(NODE_CLAIMS" in path.read_text(encoding="utf-8")
    }

    # Node termination follows the deletion of a Node, which is no disruption of its own.
    assert deleting == {"nodeclaim_deletion.py", "node/termination.py"}


def test_instance_garbage_collection_counts_no_disruption() -> None:
    env = ControllerEnvironment().run(garbage_collection.instance_controller)
    env.cloud.add_instance(INSTANCE)

    env.wait(300)

    assert env.cloud.instances == {}
    assert NODECLAIMS_DISRUPTED.name not in env.metrics.values


@MODES
def test_termination_mode_depends_on_the_termination_grace_period(grace: timedelta | None, mode: str) -> None:
    assert termination_mode(NodeClaim(name="claim", termination_grace_period=grace)) == mode


def test_deletion_of_an_empty_node_initiates_no_pod_disruption() -> None:
    env = delete_empty_node(None)

    assert env.metrics.total(PODS_DISRUPTION_INITIATED.name) == 0
