"""N7: a private network without a way to the price list, and nobody says so."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import shown
from dovetail.doctor.routes import closed_subnets
from dovetail.ports.api_resources import EC2_NODE_CLASSES


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out a controller that waits for prices which cannot come."""
    found, closed = controller_of(facts), closed_subnets(facts)
    if found is None or not closed or found.setting("ISOLATED_VPC").lower() == "true":
        return
    if any(one.endswith(".pricing.api") for one in facts.aws.endpoints):
        return
    yield Symptom(
        about=found.about,
        seen=f"no way out of {shown(closed)}, no endpoint for prices, ISOLATED_VPC is not true",
        wrong="each look at prices waits for a time-out; they are those of the release",
        fix=f"kubectl set env deployment {found.name} -n {found.namespace} ISOLATED_VPC=true",
    )


CHECK = Check(
    code="N7",
    title="private network: no way to prices",
    severity=Severity.RISK,
    how="routes out of the classes' subnets, endpoints, and the setting isolatedVPC",
    mend="set settings.isolatedVPC, and know that prices age",
    needs=(EC2_NODE_CLASSES, Part.CONTROLLER, Part.NETWORK, Part.ROUTES, Part.ENDPOINTS),
    find=find,
)
