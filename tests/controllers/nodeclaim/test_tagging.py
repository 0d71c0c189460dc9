"""Machines say which node they are: 137 of the AWS checklist."""

from functools import partial
from typing import Any

import pytest

from dovetail.controllers.nodeclaim import tagging
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import InstanceNotFound
from tests.support import wire
from tests.support.world import World

MACHINE = "aws:///us-east-1a/i-1"
TAGGED = "karpenter.k8s.aws/tagged"


class Labels:
    """What was written on machines; ``gone`` ones cannot be written on."""

    def __init__(self, gone: str = "") -> None:
        self.written: list[tuple[str, str, str]] = []
        self._gone = gone

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        if provider_id == self._gone:
            raise InstanceNotFound(provider_id)
        self.written.append((provider_id, node, claim))


def a_world(labels: Labels, **claim: Any) -> World:
    world = World().run(partial(tagging.registration, tagging=labels))
    known: dict[str, Any] = {"provider_id": MACHINE, "node_name": "node-1", **claim}
    world.add(NODE_CLAIMS, wire.claim(finalizers=["test/held"], **known))
    return world.wait(5)


def test_a_machine_is_tagged_once_its_node_has_a_name_and_the_claim_says_so() -> None:
    labels = Labels()

    world = a_world(labels)

    assert labels.written == [(MACHINE, "node-1", "claim")]
    assert world.claim().annotations[TAGGED] == "true"
    assert "compatibility.karpenter.k8s.aws/cluster-name-tagged" in world.claim().annotations


def test_a_second_pass_changes_nothing() -> None:
    labels = Labels()
    world = a_world(labels)

    world.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": {"else": "x"}}})
    world.wait(5)

    assert len(labels.written) == 1


@pytest.mark.parametrize(
    "claim",
    [
        {"node_name": ""},
        {"provider_id": ""},
        {"provider_id": "gce://somewhere/else"},
        {"node_class": wire.SOMEBODY_ELSES},
    ],
)
def test_nothing_is_tagged_without_a_node_or_a_machine_of_ours(claim: dict[str, object]) -> None:
    labels = Labels()

    world = a_world(labels, **claim)

    assert labels.written == []
    assert TAGGED not in world.claim().annotations


def test_a_claim_that_goes_is_not_tagged() -> None:
    labels = Labels()
    world = a_world(labels, node_name="")
    world.delete(NODE_CLAIMS, "claim")

    world.patch(NODE_CLAIMS, "claim", {"status": {"nodeName": "node-1"}}, subresource="status")
    world.wait(5)

    assert labels.written == []


def test_a_machine_that_is_gone_is_no_trouble() -> None:
    world = a_world(Labels(gone=MACHINE))

    assert TAGGED not in world.claim().annotations
    assert not world.claim().deleting


def test_without_somebody_who_tags_nothing_happens() -> None:
    world = World().run(tagging.registration)
    made = wire.claim(finalizers=["test/held"], provider_id=MACHINE, node_name="node-1")
    world.add(NODE_CLAIMS, made)

    world.wait(5)

    assert TAGGED not in world.claim().annotations


def test_a_claim_that_vanishes_is_no_trouble() -> None:
    labels = Labels()
    world = a_world(labels)
    world.delete(NODE_CLAIMS, "claim")

    world.patch(NODE_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    world.wait(5)

    assert world.log.said("reconciler error") == []
    assert len(labels.written) == 1
