"""K6: a definition sends objects to a webhook that is not there."""

from collections.abc import Iterator

from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.crds import definitions
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, name_of


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out webhooks in another namespace, and any since there is none any more."""
    found = controller_of(facts)
    if found is None:
        return
    for one in definitions(facts):
        if at(one, "spec", "conversion", "strategy") != "Webhook":
            continue
        service = at(one, "spec", "conversion", "webhook", "clientConfig", "service") or {}
        where = f"{service.get('namespace')}/{service.get('name')}"
        gone = found.version >= (1, 1)
        if not gone and service.get("namespace") == found.namespace:
            continue
        name = name_of(one)
        version = ".".join(map(str, found.version)) if found.kind == "karpenter" else "Dovetail"
        yield Symptom(
            about=f"CustomResourceDefinition/{name}",
            seen=f"conversion by webhook {where}; the controller is in {found.namespace}"
            + (f", and {version} has none" if gone else ""),
            wrong="every list and write of these objects fails",
            fix=f"kubectl patch crd {name} --type merge "
            '-p \'{"spec":{"conversion":{"strategy":"None","webhook":null}}}\'',
        )


CHECK = Check(
    code="K6",
    title="conversion webhook points nowhere",
    severity=Severity.BROKEN,
    how="spec.conversion of the CustomResourceDefinitions against the controller's namespace",
    mend="set the namespace, or drop the webhook from 1.1 on",
    needs=(Part.CONTROLLER, Part.VERSION, CRDS),
    find=find,
)
