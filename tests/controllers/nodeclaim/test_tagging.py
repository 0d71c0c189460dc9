"""Tags of instances: 137 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.controllers.nodeclaim import tagging
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import InstanceNotFoundError
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

PROVIDER_ID = "aws:///us-east-1a/i-1"
TAGGED = "karpenter.k8s.aws/tagged"


class FakeTagger:
    """Instance tagger that records tags; the instance ``missing`` does not exist."""

    def __init__(self, missing: str = "") -> None:
        self.tagged: list[tuple[str, str, str]] = []
        self._missing = missing

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        if provider_id == self._missing:
            raise InstanceNotFoundError(provider_id)
        self.tagged.append((provider_id, node, claim))


def an_environment(tagger: FakeTagger, **claim: Any) -> ControllerEnvironment:
    env = ControllerEnvironment().run(tagging.controller, instance_tagger=tagger)
    fields: dict[str, Any] = {"provider_id": PROVIDER_ID, "node_name": "node-1", **claim}
    env.add(NODE_CLAIMS, manifests.claim(finalizers=["test/held"], **fields))
    return env.wait(5)


def test_instance_is_tagged_once_its_node_has_a_name_and_the_nodeclaim_is_annotated() -> None:
    tagger = FakeTagger()

    env = an_environment(tagger)

    assert tagger.tagged == [(PROVIDER_ID, "node-1", "claim")]
    assert env.claim().annotations[TAGGED] == "true"
    assert "compatibility.karpenter.k8s.aws/cluster-name-tagged" in env.claim().annotations


def test_second_reconcile_changes_nothing() -> None:
    tagger = FakeTagger()
    env = an_environment(tagger)

    env.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": {"else": "x"}}})
    env.wait(5)

    assert len(tagger.tagged) == 1


@pytest.mark.parametrize(
    "claim",
    [
        {"node_name": ""},
        {"provider_id": ""},
        {"provider_id": "gce://somewhere/else"},
        {"node_class": manifests.FOREIGN_NODE_CLASS},
    ],
)
def test_nodeclaim_without_node_or_ec2_instance_is_not_tagged(claim: dict[str, object]) -> None:
    tagger = FakeTagger()

    env = an_environment(tagger, **claim)

    assert tagger.tagged == []
    assert TAGGED not in env.claim().annotations


def test_deleting_nodeclaim_is_not_tagged() -> None:
    tagger = FakeTagger()
    env = an_environment(tagger, node_name="")
    env.delete(NODE_CLAIMS, "claim")

    env.patch(NODE_CLAIMS, "claim", {"status": {"nodeName": "node-1"}}, subresource="status")
    env.wait(5)

    assert tagger.tagged == []


def test_missing_instance_is_no_error() -> None:
    env = an_environment(FakeTagger(missing=PROVIDER_ID))

    assert TAGGED not in env.claim().annotations
    assert not env.claim().deleting


def test_without_instance_tagger_there_is_no_controller() -> None:
    env = ControllerEnvironment().run(tagging.controller)
    claim = manifests.claim(finalizers=["test/held"], provider_id=PROVIDER_ID, node_name="node-1")
    env.add(NODE_CLAIMS, claim)

    env.wait(5)

    assert TAGGED not in env.claim().annotations


def test_missing_nodeclaim_is_no_error() -> None:
    tagger = FakeTagger()
    env = an_environment(tagger)
    env.delete(NODE_CLAIMS, "claim")

    env.patch(NODE_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    env.wait(5)

    assert env.log.entries("reconciler error") == []
    assert len(tagger.tagged) == 1
