"""Static NodePools: headroom of limits, and surplus NodeClaims."""

from dovetail.core.nodepool.static import (
    ClaimPods,
    StaticPoolClaims,
    count_missing,
    limit_to_headroom,
    select_surplus,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import OwnerReference, Pod, PodPhase
from dovetail.model.kube.resources import NODES, Resources
from tests.support.simulator.api_server import START


def a_claim(name: str) -> NodeClaim:
    return NodeClaim(name=name, provider_id=f"aws:///{name}")


def a_pod(**annotations: str) -> Pod:
    return Pod(name="pod", uid="1", phase=PodPhase.RUNNING, annotations=FrozenDict(annotations))


def test_claims_are_missing_up_to_the_replicas_unless_others_are_being_replaced() -> None:
    pool = NodePool(name="static", replicas=3)
    a, b, c = a_claim("a"), a_claim("b"), a_claim("c")

    assert count_missing(pool, StaticPoolClaims((a,))) == 2
    assert count_missing(pool, StaticPoolClaims((a, b, c))) == 0
    assert count_missing(pool, StaticPoolClaims((a, b), (c,))) == 0
    assert count_missing(pool, StaticPoolClaims((a, b), deleting=(c,))) == 1


def test_missing_claims_are_reduced_to_the_limit_less_all_claims_there_are() -> None:
    pool = NodePool(name="static", replicas=9, limits=Resources({NODES: 4}))
    claims = StaticPoolClaims((a_claim("a"),), (a_claim("b"),), (a_claim("c"),))

    assert limit_to_headroom(pool, claims, 8) == 1
    assert limit_to_headroom(pool, StaticPoolClaims(claims.active * 5), 8) == 0
    assert limit_to_headroom(NodePool(name="static", replicas=9), claims, 8) == 8


def test_surplus_is_not_launched_then_empty_then_with_pods_then_with_protected_pods() -> None:
    protected = a_pod(**{label_keys.DO_NOT_DISRUPT: "true"})
    entries = [
        ClaimPods(a_claim("a-protected"), (protected,)),
        ClaimPods(a_claim("b-with-pod"), (a_pod(),)),
        ClaimPods(a_claim("c-empty")),
        ClaimPods(NodeClaim(name="d-not-launched")),
    ]

    selected = select_surplus(NodePool(name="static", replicas=0), entries, START)

    assert [claim.name for claim in selected] == ["d-not-launched", "c-empty", "b-with-pod", "a-protected"]
    assert select_surplus(NodePool(name="static", replicas=3), entries, START) == selected[:1]


def test_a_node_with_pods_of_daemonsets_only_goes_before_one_with_another_pod() -> None:
    agent = Pod(
        name="agent", uid="2", phase=PodPhase.RUNNING, owner=OwnerReference("apps/v1", "DaemonSet", "agent")
    )
    entries = [ClaimPods(a_claim("a-with-pod"), (agent, a_pod())), ClaimPods(a_claim("b-empty"), (agent,))]

    selected = select_surplus(NodePool(name="static", replicas=1), entries, START)

    assert [claim.name for claim in selected] == ["b-empty"]
