"""Launch: LA1–LA10 of the lifecycle checklist."""

import pytest
from msgspec.structs import replace

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import CpuCredits
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.ports.cloudprovider import (
    CloudError,
    CreateError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from dovetail.ports.kube_errors import InternalError
from dovetail.simulator.apiserver.options import PatchType
from tests.support.controllers.cloud_provider import SHAPE
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import a_type


def test_new_nodeclaim_gets_one_instance() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)

    env.add(NODE_CLAIMS, manifests.claim())

    assert env.cloud.launched == ["claim"]
    assert env.claim().provider_id in env.cloud.instances


def test_nodeclaim_of_another_provider_is_ignored() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)

    env.add(NODE_CLAIMS, manifests.claim(node_class=manifests.FOREIGN_NODE_CLASS))

    assert env.cloud.requests == []
    assert env.claim().finalizers == ()
    assert env.writes == []


def test_launched_nodeclaim_describes_its_instance() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)

    env.add(NODE_CLAIMS, manifests.claim())

    claim = env.claim()
    assert condition(claim.conditions, "Launched") == ("True", "Launched")
    assert claim.image_id == "ami-1"
    assert claim.capacity == claim.allocatable == SHAPE
    assert claim.labels[label_keys.INSTANCE_TYPE] == "m5.xlarge"
    (line,) = env.log.entries("launched nodeclaim")
    assert line["provider_id"] == claim.provider_id


def test_launched_burstable_instance_is_reported_with_expected_and_included_cpu() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_POOLS, manifests.pool())
    cpu_credits = CpuCredits(vcpus=4, baseline=400, surplus_price=0.05)
    env.cloud.types = (replace(a_type("m5.xlarge", cpu=4), cpu_credits=cpu_credits),)

    env.add(NODE_CLAIMS, manifests.claim(requests={"cpu": "1300m"}))

    assert env.events.reasons("claim") == ["BurstableInstanceType"]
    (event,) = env.events.published
    text = "burstable: 1.40 vCPU expected, 0.40 included, surplus credits add 0.0500 USD per hour"
    assert event.message == f"NodeClaim claim event: m5.xlarge is {text}"
    (line,) = env.log.entries("launched burstable instance type")
    assert line["cpu_credits"] == text


def test_existing_label_of_a_nodeclaim_is_kept() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.cloud.labels = FrozenDict({"team": "cloud", "rack": "7"})

    env.add(NODE_CLAIMS, manifests.claim(labels={"team": "mine"}))

    assert env.claim().labels["team"] == "mine"
    assert env.claim().labels["rack"] == "7"


@pytest.mark.parametrize(
    ("error", "reason", "events"),
    [
        (
            InsufficientCapacityError("m5.large/spot/us-east-1a has none"),
            "insufficient_capacity",
            ["InsufficientCapacityError"],
        ),
        (NodeClassNotReadyError("default is not ready"), "nodeclass_not_ready", []),
    ],
)
def test_insufficient_capacity_or_unready_node_class_deletes_the_nodeclaim(
    error: CloudError, reason: str, events: list[str]
) -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.cloud.fail("create", error)

    env.add(NODE_CLAIMS, manifests.claim())

    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.cloud.instances == {}
    assert env.events.reasons("claim") == events
    assert env.metrics.total("karpenter_nodeclaims_disrupted_total", reason=reason) == 1


def test_create_error_sets_its_reason_and_is_retried() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.cloud.fail("create", CreateError("Unauthorized", "not allowed to RunInstances"))

    env.add(NODE_CLAIMS, manifests.claim())
    failed = env.claim().conditions["Launched"]
    env.wait(1)

    assert (failed.status, failed.reason) == ("Unknown", "Unauthorized")
    assert failed.message == "not allowed to RunInstances"
    assert condition(env.claim().conditions, "Launched") == ("True", "Launched")


def test_other_errors_are_truncated_and_retried_with_backoff() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.cloud.fail("create", *[CloudError("x" * 500)] * 100)

    env.add(NODE_CLAIMS, manifests.claim())
    env.wait(62)

    failed = env.claim().conditions["Launched"]
    assert (failed.status, failed.reason) == ("Unknown", "LaunchFailed")
    assert failed.message == "x" * 300 + "…"
    # At 0, 1, 3, 7, 15, 31 seconds; the next at 63.
    assert len(env.cloud.calls("create")) == 6


def test_finalizer_is_added_before_the_launch() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.failing_client.fail("patch", NODE_CLAIMS, InternalError("etcd is away"))

    env.add(NODE_CLAIMS, manifests.claim())

    assert env.cloud.requests == []
    env.wait(1)
    assert env.claim().finalizers == (label_keys.TERMINATION_FINALIZER,)
    assert env.cloud.launched == ["claim"]


def test_failed_status_write_does_not_launch_again() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.failing_client.fail("patch status", NODE_CLAIMS, InternalError("etcd is away"))

    env.add(NODE_CLAIMS, manifests.claim())
    env.wait(1)

    assert env.claim().provider_id
    assert env.cloud.calls("create") == ["claim"]


def test_status_written_by_others_during_a_launch_is_kept() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    theirs = {
        "type": "Inspected",
        "status": "True",
        "reason": "Inspected",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    env.cloud.during_launch = lambda: env.api.patch(
        NODE_CLAIMS, "claim", {"status": {"conditions": [theirs]}}, PatchType.MERGE, subresource="status"
    )

    env.add(NODE_CLAIMS, manifests.claim())
    env.wait(1)

    conditions = {
        each["type"]: each["status"] for each in env.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    }
    assert conditions["Inspected"] == conditions["Launched"] == "True"
    assert env.cloud.launched == ["claim"]


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_controllers_that_crash_after_any_write_launch_no_second_instance(writes: int) -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.crash_after(writes)

    env.add(NODE_CLAIMS, manifests.claim())
    env.restart()

    assert env.cloud.launched == ["claim"]
    assert env.claim().provider_id in env.cloud.instances


def test_nodeclaim_deleted_after_a_failed_status_write_leaves_no_instance() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.failing_client.fail("patch status", NODE_CLAIMS, InternalError("etcd is away"))
    env.add(NODE_CLAIMS, manifests.claim())

    env.delete(NODE_CLAIMS, "claim")
    env.wait(10)

    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.cloud.instances == {}


def test_second_reconcile_changes_nothing() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_CLAIMS, manifests.claim())
    before = env.versions()

    env.manager.enqueue("nodeclaim.lifecycle", "claim")
    env.wait(0)

    assert env.versions() == before
