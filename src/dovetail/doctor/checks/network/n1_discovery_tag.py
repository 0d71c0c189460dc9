"""N1: one selector term finds several security groups."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import class_called, many, tags_of
from dovetail.ports.api_resources import EC2_NODE_CLASSES


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out terms by tags that more than one group has."""
    for name, groups in sorted(facts.aws.groups.items()):
        for term in many(class_called(facts, name), "spec", "securityGroupSelectorTerms"):
            tags = {str(key): str(value) for key, value in (term.get("tags") or {}).items()}
            found = [one for one in groups if tags and _has(tags_of(one), tags)]
            if len(found) < 2:
                continue
            said = ", ".join(f"{key}={value}" for key, value in tags.items())
            ids = [str(one["GroupId"]) for one in found]
            key = next(iter(tags))
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"the term {said} finds {len(ids)} security groups: {', '.join(ids)}",
                wrong="all of them are put on every node; load balancers want one of the cluster",
                fix=f"aws ec2 delete-tags --resources {' '.join(ids[1:])} --tags Key={key}  "
                "# leave it on the nodes' group",
            )


def _has(tags: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(key in tags and value in ("*", tags[key]) for key, value in wanted.items())


CHECK = Check(
    code="N1",
    title="discovery tag on more than one security group",
    severity=Severity.RISK,
    how="security groups that each term of an EC2NodeClass finds are counted",
    mend="tag only the nodes' group",
    needs=(EC2_NODE_CLASSES, Part.NETWORK),
    find=find,
)
