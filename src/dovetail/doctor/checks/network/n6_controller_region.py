"""N6: the controller has to ask the instance metadata for its region."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of, variables
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import many
from dovetail.ports.api_resources import PODS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out a controller that nobody tells the region: neither chart nor identity."""
    found = controller_of(facts)
    if found is None or found.setting("REGION"):
        return
    told = [found.container, *(c for pod in found.pods for c in many(pod, "spec", "containers"))]
    known = {name for one in told for name in variables(one)}
    if known & {"AWS_REGION", "AWS_DEFAULT_REGION"}:
        return
    yield Symptom(
        about=found.about,
        seen="neither the Deployment nor its pods have AWS_REGION",
        wrong="it asks the instance metadata, and ends where that does not answer",
        fix=f"kubectl set env deployment {found.name} -n {found.namespace} "
        f"AWS_REGION={facts.region or 'REGION'}",
    )


CHECK = Check(
    code="N6",
    title="controller asks instance metadata for the region",
    severity=Severity.RISK,
    how="AWS_REGION in the environment of the controller and of its pods",
    mend="set the region by a variable",
    needs=(Part.CONTROLLER, PODS),
    find=find,
)
