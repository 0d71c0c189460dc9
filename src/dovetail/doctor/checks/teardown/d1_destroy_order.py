"""D1: a plan takes the cluster away while nodes are still to be given back."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import many
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out clusters that go before the machines that were bought for them."""
    pools, claims = len(facts.of(NODE_POOLS)), len(facts.of(NODE_CLAIMS))
    if not pools and not claims:
        return
    for change in facts.files.plan:
        actions = many(change, "change", "actions")
        if change.get("type") == "aws_eks_cluster" and "delete" in actions:
            yield Symptom(
                about=f"plan/{change.get('address')}",
                seen=f"the cluster is deleted while there are {pools} NodePools and {claims} "
                "NodeClaims",
                wrong="instances, interfaces and security groups stay behind and cost money",
                fix="kubectl delete nodepools --all && kubectl delete nodeclaims --all && "
                "kubectl delete ec2nodeclasses --all  # then the chart, then the cluster; or: "
                "dovetail cluster destroy",
            )


CHECK = Check(
    code="D1",
    title="destroy order",
    severity=Severity.BROKEN,
    how="a plan in JSON that deletes the cluster, while NodePools or NodeClaims exist",
    mend="pools, claims, classes first; wait; then chart, then cluster",
    needs=(Part.PLAN, NODE_POOLS, NODE_CLAIMS),
    find=find,
)
