"""Partition placement groups: 139 of the AWS checklist."""

import msgspec

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model.labels import PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests


def an_environment(**labels: str) -> ControllerEnvironment:
    """Return an environment with a NodeClaim and its Node in a placement group."""
    env = ControllerEnvironment()
    env.cloud.labels = env.cloud.labels.with_items(labels)
    env.run(lifecycle.controller)
    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id))
    return env


def registered(env: ControllerEnvironment) -> str:
    return condition(env.claim().conditions, "Registered")[0]


def test_registration_waits_until_ec2_assigns_a_partition() -> None:
    env = an_environment(**{PLACEMENT_GROUP_ID: "pg-1", PLACEMENT_GROUP_PARTITION: ""})
    provider_id = env.claim().provider_id
    before = registered(env)

    instance = env.cloud.instances[provider_id]
    env.cloud.instances[provider_id] = msgspec.structs.replace(instance, placement_group_partition="2")
    env.wait(1)

    assert before == "Unknown"
    assert registered(env) == "True"
    assert env.claim().labels[PLACEMENT_GROUP_PARTITION] == "2"
    assert env.node().labels[PLACEMENT_GROUP_PARTITION] == "2"


def test_known_partition_needs_no_cloud_call() -> None:
    env = an_environment(**{PLACEMENT_GROUP_ID: "pg-1", PLACEMENT_GROUP_PARTITION: "3"})

    assert registered(env) == "True"
    assert env.cloud.calls("get") == []


def test_placement_group_without_partitions_does_not_delay_registration() -> None:
    env = an_environment(**{PLACEMENT_GROUP_ID: "pg-1"})

    assert registered(env) == "True"
    assert env.cloud.calls("get") == []
