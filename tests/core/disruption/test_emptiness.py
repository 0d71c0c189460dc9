"""Eligibility for deletion as empty."""

from datetime import timedelta

from dovetail.core.disruption.candidates import StateNode
from dovetail.core.disruption.emptiness import check_eligibility
from dovetail.core.disruption.method import ELIGIBLE, NOT_ELIGIBLE
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import CONSOLIDATABLE, INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.node import NodeObject
from tests.support.simulator.api_server import START

AN_HOUR_AGO = Condition(status=TRUE, last_transition_time=START - timedelta(hours=1))


def test_an_empty_node_is_eligible_unless_its_nodepool_is_gone() -> None:
    conditions = FrozenDict({INITIALIZED: AN_HOUR_AGO, CONSOLIDATABLE: AN_HOUR_AGO})
    state_node = StateNode(
        provider_id="i-1",
        claim=NodeClaim(name="claim", provider_id="i-1", conditions=conditions),
        node=NodeObject(name="node", provider_id="i-1"),
        pods=(),
    )

    assert check_eligibility(state_node, NodePool(name="default"), START) == ELIGIBLE
    assert check_eligibility(state_node, None, START) == NOT_ELIGIBLE
