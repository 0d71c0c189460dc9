"""The Drifted condition: DF1–DF21, CN9 of the lifecycle checklist, 33 and 34 of the AWS one."""

from typing import Any

import pytest

from dovetail.controllers.nodeclaim import consolidatable, drift
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodepool import hash as nodepool_hash
from dovetail.core.nodeclass.drift import DriftUnknownError
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.cloudprovider import CloudError, InstanceNotFoundError
from tests.support.controllers.cloud_provider import TYPE, ZONE
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import a_type, offerings

ALL = (lifecycle.controller, consolidatable.controller, nodepool_hash.controller, drift.controller)


def an_environment(*claims: str, **pool: Any) -> ControllerEnvironment:
    """Return an environment with launched NodeClaims."""
    env = ControllerEnvironment().run(*ALL)
    env.add(EC2_NODE_CLASSES, manifests.node_class())
    env.add(NODE_POOLS, manifests.pool(**pool))
    annotations = env.pool().annotations
    for name in claims or ("claim",):
        env.add(NODE_CLAIMS, manifests.claim(name, annotations=annotations))
    return env


def drifted(env: ControllerEnvironment, name: str = "claim") -> tuple[str, str]:
    return condition(env.claim(name).conditions, "Drifted")


def template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": fields}}}


def only_in(zone: str) -> dict[str, Any]:
    requirement = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    return template(requirements=[requirement])


def test_drift_reported_by_the_cloud_provider_is_set_within_five_minutes() -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"

    env.wait(299)
    before = drifted(env)
    env.wait(1)

    assert before == ("", "")
    assert drifted(env) == ("True", "AMIDrift")
    assert env.claim().conditions["Drifted"].message == "AMIDrift"


def test_changed_node_class_is_checked_at_once() -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "SubnetDrift"

    status = {"subnets": [{"id": "subnet-9", "zone": ZONE}]}
    env.patch(EC2_NODE_CLASSES, "default", {"status": status}, subresource="status")

    assert drifted(env) == ("True", "SubnetDrift")


def test_order_of_subnets_triggers_no_check() -> None:
    env = an_environment()
    both = [{"id": "subnet-1", "zone": ZONE}, {"id": "subnet-2", "zone": ZONE}]
    env.patch(EC2_NODE_CLASSES, "default", {"status": {"subnets": both}}, subresource="status")
    calls = len(env.cloud.calls("drift"))

    reversed_status = {"status": {"subnets": both[::-1]}}
    env.patch(EC2_NODE_CLASSES, "default", reversed_status, subresource="status")

    assert len(env.cloud.calls("drift")) == calls


def test_condition_is_removed_when_there_is_no_drift() -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"
    env.wait(300)

    env.cloud.drifted.clear()
    env.wait(300)

    assert "Drifted" not in env.claim().conditions


def test_another_drift_reason_keeps_the_transition_time() -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"
    env.wait(300)
    since = env.claim().conditions["Drifted"].last_transition_time

    env.cloud.drifted["claim"] = "SubnetDrift"
    env.wait(300)

    assert drifted(env) == ("True", "SubnetDrift")
    assert env.claim().conditions["Drifted"].last_transition_time == since


def test_changed_template_is_drift_at_once_and_precedes_the_cloud_provider() -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"

    env.patch(NODE_POOLS, "default", template(expireAfter="1h"))

    assert drifted(env) == ("True", "NodePoolDrifted")


def test_unmet_requirements_are_drift_and_precede_the_cloud_provider() -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"

    env.patch(NODE_POOLS, "default", only_in("elsewhere"))
    first = drifted(env)
    env.patch(NODE_POOLS, "default", only_in(ZONE))

    assert first == ("True", "RequirementsDrifted")
    assert drifted(env) == ("True", "AMIDrift")


def test_changes_of_nodepool_fields_trigger_no_check() -> None:
    env = an_environment()
    calls = len(env.cloud.calls("drift"))

    env.patch(NODE_POOLS, "default", {"spec": {"weight": 7, "limits": {"cpu": "1000"}}})

    assert len(env.cloud.calls("drift")) == calls


def test_pod_events_trigger_no_check() -> None:
    env = an_environment()
    calls = len(env.cloud.calls("drift"))

    status = {"lastPodEventTime": "2026-01-01T00:00:00Z"}
    env.patch(NODE_CLAIMS, "claim", {"status": status}, subresource="status")

    assert len(env.cloud.calls("drift")) == calls


@pytest.mark.parametrize("offered", [[], ["spot"]])
def test_instance_type_that_is_not_offered_is_drift_after_an_hour(offered: list[str]) -> None:
    env = an_environment()
    env.cloud.types = (
        a_type(TYPE, offered=offerings(1, [(capacity_type, ZONE) for capacity_type in offered])),
    )

    env.wait(3599)
    before = drifted(env)
    env.wait(301)

    assert before == ("", "")
    assert drifted(env) == ("True", "InstanceTypeNotFound")


def test_offered_instance_type_is_checked_again_after_half_an_hour() -> None:
    env = an_environment()
    offered = (a_type(TYPE, offered=offerings(1, [("on-demand", ZONE)])),)
    env.cloud.types = offered
    env.wait(3900)

    env.cloud.types = (a_type("other"),)
    env.wait(1499)
    before = drifted(env)
    env.wait(600)

    assert before == ("", "")
    assert drifted(env) == ("True", "InstanceTypeNotFound")


def test_empty_catalog_is_no_drift() -> None:
    env = an_environment().wait(7200)

    assert "Drifted" not in env.claim().conditions


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_unlaunched_nodeclaim_has_not_drifted(status: str) -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"
    env.wait(300).crash()
    conditions = env.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    changed = [
        {**condition, "status": status} if condition["type"] == "Launched" else condition
        for condition in conditions
    ]
    env.patch(NODE_CLAIMS, "claim", {"status": {"conditions": changed}}, subresource="status")

    env.run(drift.controller)

    assert "Drifted" not in env.claim().conditions


@pytest.mark.parametrize("kind", [NODE_POOLS, EC2_NODE_CLASSES])
def test_nodeclaim_without_nodepool_or_node_class_is_not_checked(kind: Any) -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"

    env.delete(kind, "default").wait(600)

    assert "Drifted" not in env.claim().conditions
    assert not [line for line in env.log.lines if line.level == "error"]


def test_nodeclaim_of_another_provider_is_ignored() -> None:
    env = ControllerEnvironment().run(drift.controller)
    env.add(NODE_POOLS, manifests.pool())
    env.add(NODE_CLAIMS, manifests.claim(node_class=manifests.FOREIGN_NODE_CLASS))
    env.cloud.drifted["claim"] = "AMIDrift"

    env.wait(600)

    assert env.writes == []


@pytest.mark.parametrize("error", [DriftUnknownError("?"), CloudError("throttled")])
def test_unknown_drift_keeps_the_condition_and_is_retried(error: Exception) -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"
    env.wait(300)
    env.cloud.fail("drift", error)

    env.wait(300)
    during = drifted(env)
    env.cloud.drifted.clear()
    env.wait(300)

    assert during == ("True", "AMIDrift")
    assert "Drifted" not in env.claim().conditions
    assert not [line for line in env.log.lines if line.level == "error"]


def test_missing_instance_has_not_drifted() -> None:
    env = an_environment()
    env.cloud.drifted["claim"] = "AMIDrift"
    env.cloud.fail("drift", InstanceNotFoundError("gone"))

    env.wait(300)

    assert "Drifted" not in env.claim().conditions


def test_drifted_and_consolidatable_can_both_be_true() -> None:
    env = an_environment()
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id))
    env.cloud.drifted["claim"] = "AMIDrift"

    env.wait(300)

    assert drifted(env)[0] == "True"
    assert condition(env.claim().conditions, "Consolidatable")[0] == "True"


def test_only_drifted_nodeclaims_get_the_condition() -> None:
    env = an_environment("one", "two")
    env.cloud.drifted["two"] = "AMIDrift"

    env.wait(300)

    assert (drifted(env, "one")[0], drifted(env, "two")[0]) == ("", "True")


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment("one", "two")
    env.cloud.drifted["two"] = "AMIDrift"
    env.wait(300)
    before = env.versions()

    env.restart().wait(3600)

    assert env.versions() == before
