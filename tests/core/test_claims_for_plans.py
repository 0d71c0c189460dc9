"""NodeClaims built from a NodePool: P13, P20, P27, P32 and P33 as decisions."""

from datetime import timedelta

import msgspec
import pytest

from dovetail.core.nodepool.hash import HASH_VERSION, compute_nodepool_hash
from dovetail.core.provisioning import build_planned_claim
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool
from dovetail.model.kube.pod import OwnerReference
from tests.support.scheduling.builders import a_pod, a_pool, cluster
from tests.support.scheduling.solver import solved


def claim_of(pool: NodePool) -> NodeClaim:
    """The claim for a pod that only this NodePool can serve."""
    (planned,) = solved(cluster([a_pod("web")], [pool])).nodes
    return build_planned_claim(planned, pool, name="web-1")


def with_template(pool: NodePool, **fields: object) -> NodePool:
    template = msgspec.structs.replace(pool.template, **fields)
    return msgspec.structs.replace(pool, template=template)


def test_claim_has_the_template_annotations_and_the_nodepool_hash() -> None:
    pool = a_pool(annotations={"note": "a"})

    claim = claim_of(pool)

    assert claim.annotations["note"] == "a"
    assert claim.annotations[label_keys.NODEPOOL_HASH] == compute_nodepool_hash(pool)
    assert claim.annotations[label_keys.NODEPOOL_HASH_VERSION] == HASH_VERSION


@pytest.mark.parametrize("grace", [None, timedelta(minutes=5)])
def test_claim_has_the_termination_grace_period_and_expiration_of_its_nodepool(
    grace: timedelta | None,
) -> None:
    pool = with_template(a_pool(), termination_grace_period=grace, expire_after=timedelta(hours=2))

    claim = claim_of(pool)

    assert claim.termination_grace_period == grace
    assert claim.expire_after == timedelta(hours=2)


def test_claim_is_owned_by_its_nodepool() -> None:
    claim = claim_of(a_pool("shop"))

    assert claim.owner_references == (
        OwnerReference("karpenter.sh/v1", "NodePool", "shop", "uid-shop", False),
    )


def test_claim_has_the_node_class_of_its_nodepool() -> None:
    reference = NodeClassRef(name="gpus")

    claim = claim_of(with_template(a_pool(), node_class=reference))

    assert claim.node_class == reference
    assert claim.labels[label_keys.EC2_NODE_CLASS] == "gpus"
