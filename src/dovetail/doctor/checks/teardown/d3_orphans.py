"""D3: things in the account that belong to nothing in the cluster."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part, Raw
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import age, at, name_of, tags_of
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS

_YOUNG: Final = timedelta(minutes=5)
"""What was just bought may not stand in its claim yet."""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out instances, interfaces, launch templates and instance profiles."""
    claimed = {
        str(at(one, "status", "providerID") or "").rpartition("/")[2]
        for one in facts.of(NODE_CLAIMS)
    }
    for one in facts.aws.instances:
        if one["InstanceId"] not in claimed and age(facts, one.get("LaunchTime")) > _YOUNG:
            name = one["InstanceId"]
            pool = tags_of(one).get(label_keys.NODEPOOL, "?")
            yield _symptom(
                f"instance/{name}",
                f"bought for NodePool {pool}, and no NodeClaim has it",
                f"aws ec2 terminate-instances --instance-ids {name}",
            )
    for one in facts.aws.interfaces:
        name = one["NetworkInterfaceId"]
        yield _symptom(
            f"interface/{name}",
            "the CNI made it for a node; it is attached to nothing",
            f"aws ec2 delete-network-interface --network-interface-id {name}",
        )
    classes = {name_of(one) for one in facts.of(EC2_NODE_CLASSES)}
    for one in facts.aws.templates:
        if _class(one) not in classes:
            name = one["LaunchTemplateName"]
            yield _symptom(
                f"launchtemplate/{name}",
                f"made for EC2NodeClass {_class(one)}, which is not there",
                f"aws ec2 delete-launch-template --launch-template-name {name}",
            )
    for one in facts.aws.profiles:
        if _is_of(facts, one) and _class(one) and _class(one) not in classes:
            yield _profile(one)


def _class(thing: Raw) -> str:
    return tags_of(thing).get(label_keys.EC2_NODE_CLASS, "")


def _is_of(facts: Facts, profile: Raw) -> bool:
    """Tell whether a profile is this cluster's: IAM has those of all regions."""
    tags = tags_of(profile)
    here = tags.get(label_keys.REGION, facts.region) == facts.region
    return here and f"kubernetes.io/cluster/{facts.cluster}" in tags


def _profile(one: Raw) -> Symptom:
    name = one["InstanceProfileName"]
    undo = "".join(
        f"aws iam remove-role-from-instance-profile --instance-profile-name {name} "
        f"--role-name {role['RoleName']} && "
        for role in one.get("Roles") or ()
    )
    return _symptom(
        f"instanceprofile/{name}",
        f"made for EC2NodeClass {_class(one)}, which is not there",
        f"{undo}aws iam delete-instance-profile --instance-profile-name {name}",
    )


def _symptom(about: str, seen: str, fix: str) -> Symptom:
    wrong = "nobody uses it, it may cost money, and it is in the way of deleting what it is in"
    return Symptom(about=about, seen=seen, wrong=wrong, fix=fix)


CHECK = Check(
    code="D3",
    title="orphans",
    severity=Severity.RISK,
    how="instances, interfaces, launch templates and instance profiles by the cluster's tags, "
    "against NodeClaims and EC2NodeClasses",
    mend="terminate or delete them",
    needs=(NODE_CLAIMS, EC2_NODE_CLASSES, Part.MACHINES, Part.PROFILES),
    find=find,
)
