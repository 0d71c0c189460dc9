"""N2: nodes have not exactly one security group that belongs to the cluster."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import tags_of
from dovetail.ports.api_resources import EC2_NODE_CLASSES


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out classes whose groups have the cluster's tag twice or never."""
    key = f"kubernetes.io/cluster/{facts.cluster}"
    for name, groups in sorted(facts.aws.groups.items()):
        ours = [str(one["GroupId"]) for one in groups if key in tags_of(one)]
        if len(ours) == 1 or not groups:
            continue
        seen = f"{len(ours)} of {len(groups)} security groups have the tag {key}"
        first = str(groups[0]["GroupId"])
        yield Symptom(
            about=f"EC2NodeClass/{name}",
            seen=seen + (f": {', '.join(ours)}" if ours else ""),
            wrong="Services of type LoadBalancer cannot tell which group to open",
            fix=f"aws ec2 delete-tags --resources {' '.join(ours[1:])} --tags Key={key}"
            if ours
            else f"aws ec2 create-tags --resources {first} --tags Key={key},Value=owned",
        )


CHECK = Check(
    code="N2",
    title="two cluster-owned groups on a node, or none",
    severity=Severity.RISK,
    how="groups with the tag kubernetes.io/cluster/CLUSTER among those of each EC2NodeClass",
    mend="have exactly one with the tag",
    needs=(EC2_NODE_CLASSES, Part.NETWORK),
    find=find,
)
