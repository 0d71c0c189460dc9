"""Managed node groups."""

from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}


def test_failed_node_group_is_replaced(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    groups = account.eks.parts["dev"]["node-groups"]
    name, group = next(iter(groups.items()))
    account.eks.failed.add(name)
    plan = account.plan(config)

    account.apply(config)

    assert [step.id for step in plan.steps if step.kind == "eks-node-group"] == [
        f"delete eks-node-group/{name}",
        f"create eks-node-group/{name}",
    ]
    assert groups[name] is not group
