"""Node classes: 37, 47, 55–57 and 62 of the AWS checklist, with a fake cloud provider."""

from typing import Any

import pytest

from dovetail.controllers.nodeclass import controller as nodeclass
from dovetail.model.frozen import FrozenDict
from dovetail.model.settings import SchedulingSettings
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from dovetail.ports.cloudprovider import CloudError, NodeClassStatus
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

RESOLVED: dict[str, Any] = {
    "subnets": [{"id": "subnet-1", "zone": "us-east-1a"}],
    "securityGroups": [{"id": "sg-1", "name": "nodes"}],
    "amis": [{"id": "ami-1", "name": "al2023"}],
    "instanceProfile": "nodes",
}
EVENT = "WaitingOnNodeClaimTermination"


def an_environment(**problems: tuple[str, str]) -> ControllerEnvironment:
    env = ControllerEnvironment()
    env.cloud.resolved = NodeClassStatus(status=RESOLVED, false_conditions=FrozenDict(problems))
    env.run(nodeclass.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class(ready=None))
    return env


def conditions(env: ControllerEnvironment) -> dict[str, tuple[str, str]]:
    listed = env.get(EC2_NODE_CLASSES, "default")["status"]["conditions"]
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in listed}


def test_resolved_node_class_is_ready() -> None:
    env = an_environment()

    status = env.get(EC2_NODE_CLASSES, "default")["status"]
    assert {field: value for field, value in status.items() if field != "conditions"} == RESOLVED
    assert {status for status, _ in conditions(env).values()} == {"True"}
    assert list(conditions(env)) == sorted(conditions(env), key=lambda name: name == "Ready")
    assert set(conditions(env)) == {
        "SubnetsReady",
        "SecurityGroupsReady",
        "AMIsReady",
        "InstanceProfileReady",
        "PlacementGroupReady",
        "CapacityReservationsReady",
        "ValidationSucceeded",
        "Ready",
    }


def test_unresolved_resources_are_named_and_removed_from_the_status() -> None:
    env = an_environment()
    remaining = {field: value for field, value in RESOLVED.items() if field != "subnets"}
    missing = FrozenDict({"SubnetsReady": ("SubnetsNotFound", "nothing matches team=a")})
    env.cloud.resolved = NodeClassStatus(status=remaining, false_conditions=missing)

    env.wait(60)

    assert "subnets" not in env.get(EC2_NODE_CLASSES, "default")["status"]
    assert conditions(env)["SubnetsReady"] == ("False", "SubnetsNotFound")
    assert conditions(env)["ValidationSucceeded"] == ("False", "DependenciesNotReady")
    assert conditions(env)["Ready"] == ("False", "UnhealthyDependents")
    node_class = env.cache.node_class("default")
    assert node_class is not None
    assert not node_class.ready


def test_node_class_that_fails_validation_has_a_reason() -> None:
    env = an_environment(ValidationSucceeded=("CreateFleetAuthCheckFailed", "not allowed"))

    assert conditions(env)["ValidationSucceeded"] == ("False", "CreateFleetAuthCheckFailed")
    assert conditions(env)["Ready"] == ("False", "UnhealthyDependents")


def test_changed_node_class_is_resolved_at_once_and_every_minute() -> None:
    env = an_environment()
    assert len(env.cloud.calls("resolve")) == 1

    env.patch(EC2_NODE_CLASSES, "default", {"spec": {"role": "others"}})
    assert len(env.cloud.calls("resolve")) == 2
    env.wait(60)

    assert len(env.cloud.calls("resolve")) == 3


def test_cloud_error_keeps_the_status() -> None:
    env = an_environment()
    env.cloud.fail("resolve", *[CloudError("throttled")] * 3)

    env.wait(62)

    assert conditions(env)["Ready"] == ("True", "Ready")
    assert len(env.log.entries("reconciler error")) == 3


def test_deleted_node_class_is_kept_until_its_last_nodeclaim_is_gone() -> None:
    env = an_environment()
    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODE_CLAIMS, manifests.claim("unsupported", node_class=manifests.FOREIGN_NODE_CLASS))

    env.delete(EC2_NODE_CLASSES, "default")
    assert env.get(EC2_NODE_CLASSES, "default") is not None
    assert env.events.reasons("default") == [EVENT]
    env.delete(NODE_CLAIMS, "claim")

    assert env.get(EC2_NODE_CLASSES, "default") is None


def test_aws_resources_are_deleted_after_the_last_nodeclaim() -> None:
    env = an_environment()
    env.add(NODE_CLAIMS, manifests.claim())

    env.delete(EC2_NODE_CLASSES, "default")
    assert env.cloud.calls("forget") == []
    env.delete(NODE_CLAIMS, "claim")

    assert len(env.cloud.calls("forget")) == 1


def test_node_class_is_kept_while_its_aws_resources_cannot_be_deleted() -> None:
    env = an_environment()
    env.cloud.fail("forget", CloudError("DeleteLaunchTemplate: UnauthorizedOperation"))

    env.delete(EC2_NODE_CLASSES, "default")
    assert env.get(EC2_NODE_CLASSES, "default") is not None
    env.wait(60)

    assert env.get(EC2_NODE_CLASSES, "default") is None


OUTAGE = FrozenDict({"SubnetsReady": ("SubnetsResolutionFailed", "DescribeSubnets: Unreachable")})


def test_unknown_condition_keeps_its_status_field() -> None:
    env = an_environment()
    remaining = {field: value for field, value in RESOLVED.items() if field != "subnets"}
    env.cloud.resolved = NodeClassStatus(status=remaining, unknown_conditions=OUTAGE)

    env.wait(180)

    assert env.get(EC2_NODE_CLASSES, "default")["status"]["subnets"] == RESOLVED["subnets"]
    assert conditions(env)["Ready"] == ("True", "Ready")


def test_node_class_that_was_never_resolved_has_unknown_conditions() -> None:
    env = ControllerEnvironment()
    env.cloud.resolved = NodeClassStatus(status={}, unknown_conditions=OUTAGE)
    env.run(nodeclass.controller)

    env.add(EC2_NODE_CLASSES, manifests.node_class(ready=None))

    assert conditions(env)["SubnetsReady"] == ("Unknown", "SubnetsResolutionFailed")
    assert conditions(env)["ValidationSucceeded"] == ("Unknown", "DependenciesNotReady")
    assert conditions(env)["Ready"][0] == "Unknown"


def test_node_class_is_ready_seconds_after_the_cloud_responds_again() -> None:
    env = ControllerEnvironment()
    env.cloud.resolved = NodeClassStatus(status={}, unknown_conditions=OUTAGE)
    env.run(nodeclass.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class(ready=None))

    env.cloud.resolved = NodeClassStatus(status=RESOLVED)
    env.wait(5)

    assert conditions(env)["Ready"] == ("True", "Ready")


def test_each_problem_is_logged_once_with_the_cloud_error() -> None:
    env = an_environment(SubnetsReady=("SubnetsNotFound", "no subnet matches team=a"))

    env.wait(600)

    [line] = env.log.entries("failed resolving nodeclass")
    assert line["nodeclass"] == "default"
    assert line["condition"] == "SubnetsReady"
    assert line["error"] == "no subnet matches team=a"


def test_problems_with_the_same_cause_share_a_log_line() -> None:
    cause = "ExpiredToken: the token has expired; give the controller credentials"
    env = an_environment(
        SubnetsReady=("SubnetsResolutionFailed", f"DescribeSubnets: {cause}"),
        AMIsReady=("AMIsResolutionFailed", f"DescribeImages: {cause}"),
        InstanceProfileReady=("RoleNotFound", "GetInstanceProfile: NoSuchEntity: no such role"),
    )

    env.wait(600)

    shared, other = env.log.entries("failed resolving nodeclass")
    assert shared["condition"] == "AMIsReady, SubnetsReady"
    assert shared["error"] == f"DescribeImages: {cause}"
    assert other["condition"] == "InstanceProfileReady"


def test_reservations_are_no_condition_without_their_feature_gate() -> None:
    env = ControllerEnvironment()
    off = SchedulingSettings(reserved_capacity=False)
    env.run(nodeclass.controller, scheduling_settings=off)

    env.add(EC2_NODE_CLASSES, manifests.node_class(ready=None))

    assert "CapacityReservationsReady" not in conditions(env)
    assert conditions(env)["Ready"] == ("True", "Ready")


def test_changed_annotation_resolves_again_but_not_a_changed_hash() -> None:
    env = an_environment()
    hash_annotation = {"karpenter.k8s.aws/ec2nodeclass-hash": "1"}

    env.patch(EC2_NODE_CLASSES, "default", {"metadata": {"annotations": hash_annotation}})
    assert len(env.cloud.calls("resolve")) == 1
    env.patch(EC2_NODE_CLASSES, "default", {"metadata": {"annotations": {"try": "again"}}})

    assert len(env.cloud.calls("resolve")) == 2


@pytest.mark.parametrize("writes", [1, 2])
def test_controllers_that_crash_after_any_write_finish_after_a_restart(writes: int) -> None:
    env = ControllerEnvironment()
    env.crash_after(writes)
    env.run(nodeclass.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class(ready=None))

    env.restart()

    assert conditions(env)["Ready"] == ("True", "Ready")
    assert env.get(EC2_NODE_CLASSES, "default")["metadata"]["finalizers"] == [nodeclass.FINALIZER]


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment()
    before = env.versions()

    env.wait(3600)

    assert env.versions() == before
