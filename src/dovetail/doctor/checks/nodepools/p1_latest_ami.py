"""P1: the newest image rolls through the cluster by itself."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import many, name_of
from dovetail.ports.api_resources import EC2_NODE_CLASSES


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out classes with an alias of the latest image."""
    for one in facts.of(EC2_NODE_CLASSES):
        name = name_of(one)
        latest = [
            str(term["alias"])
            for term in many(one, "spec", "amiSelectorTerms")
            if str(term.get("alias") or "").endswith("@latest")
        ]
        if latest:
            family = latest[0].partition("@")[0]
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"alias {latest[0]}",
                wrong="each image that AWS publishes replaces every node, tried by nobody before",
                fix=f"kubectl patch ec2nodeclass {name} --type merge -p "
                f'\'{{"spec":{{"amiSelectorTerms":[{{"alias":"{family}@VERSION"}}]}}}}\'',
            )


CHECK = Check(
    code="P1",
    title="@latest image",
    severity=Severity.ADVICE,
    how="alias in amiSelectorTerms of each EC2NodeClass",
    mend="pin a version, and roll on purpose",
    needs=(EC2_NODE_CLASSES,),
    find=find,
)
