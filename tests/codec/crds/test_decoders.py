"""Decoders reject what the CustomResourceDefinitions reject: they share the rules."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.capacitybuffers import decode_capacitybuffer
from dovetail.codec.karpenter.nodeclaims import decode_nodeclaim
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.karpenter.nodeoverlays import decode_nodeoverlay
from dovetail.codec.karpenter.nodepools import decode_nodepool
from tests.codec.crds.accepted import ACCEPTED
from tests.codec.crds.objects import Object, Rejected
from tests.codec.crds.rejected import REJECTED

DECODERS: dict[str, Callable[[Field], Any]] = {
    "NodePool": decode_nodepool,
    "NodeClaim": decode_nodeclaim,
    "EC2NodeClass": decode_nodeclass,
    "NodeOverlay": decode_nodeoverlay,
    "CapacityBuffer": decode_capacitybuffer,
}


def decode_errors(obj: Object) -> list[str]:
    context = DecodeContext(api_rules_only=True)
    DECODERS[obj["kind"]](Field(obj, context))
    return [message for _, message in context.errors]


@pytest.mark.parametrize("rejected", REJECTED, ids=[rejected.description for rejected in REJECTED])
def test_objects_that_the_api_rejects_have_validation_errors(rejected: Rejected) -> None:
    assert decode_errors(rejected.object) != []


@pytest.mark.parametrize("obj", [obj for _, obj in ACCEPTED], ids=[what for what, _ in ACCEPTED])
def test_objects_that_the_api_accepts_have_no_validation_errors(obj: Object) -> None:
    assert decode_errors(obj) == []
