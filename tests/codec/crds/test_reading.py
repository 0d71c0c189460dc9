"""What the definitions refuse, reading refuses as well: the two have the same rules."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.capacitybuffers import decode_buffer
from dovetail.codec.karpenter.nodeclaims import decode_node_claim
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.codec.karpenter.nodeoverlays import decode_overlay
from dovetail.codec.karpenter.nodepools import decode_node_pool
from tests.codec.crds.accepted import ACCEPTED
from tests.codec.crds.objects import Object, Refused
from tests.codec.crds.refused import REFUSED

DECODERS: dict[str, Callable[[Field], Any]] = {
    "NodePool": decode_node_pool,
    "NodeClaim": decode_node_claim,
    "EC2NodeClass": decode_node_class,
    "NodeOverlay": decode_overlay,
    "CapacityBuffer": decode_buffer,
}


def mistakes(obj: Object) -> list[str]:
    findings = Findings(by_the_letter=True)
    DECODERS[obj["kind"]](Field(obj, findings))
    return [message for _, message in findings.found]


@pytest.mark.parametrize("one", REFUSED, ids=[one.what for one in REFUSED])
def test_what_the_api_refuses_is_a_mistake_in_a_file(one: Refused) -> None:
    assert mistakes(one.object) != []


@pytest.mark.parametrize("obj", [obj for _, obj in ACCEPTED], ids=[what for what, _ in ACCEPTED])
def test_what_the_api_takes_is_right_in_a_file(obj: Object) -> None:
    assert mistakes(obj) == []
