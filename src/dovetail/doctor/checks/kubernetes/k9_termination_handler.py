"""K9: the node termination handler drains as well."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of, variables
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import label, many, name_of, namespace_of
from dovetail.ports.api_resources import DAEMON_SETS, DEPLOYMENTS

_HANDLER = "aws-node-termination-handler"
_DRAINING = (
    ("ENABLE_SPOT_INTERRUPTION_DRAINING", "true"),
    ("ENABLE_REBALANCE_DRAINING", "false"),
    ("ENABLE_SQS_TERMINATION_DRAINING", "false"),
)
"""Settings that drain, and what they are when nobody sets them."""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out handlers that do what the controller does from its queue."""
    found = controller_of(facts)
    if found is None or not found.setting("INTERRUPTION_QUEUE"):
        return
    for kind in (DAEMON_SETS, DEPLOYMENTS):
        for one in facts.of(kind):
            if _HANDLER not in (name_of(one), label(one, "app.kubernetes.io/name")):
                continue
            told: dict[str, str] = {}
            for container in many(one, "spec", "template", "spec", "containers"):
                told |= variables(container)
            on = [key for key, usual in _DRAINING if told.get(key, usual).lower() == "true"]
            if on:
                where = f"{kind.kind.lower()} {name_of(one)} -n {namespace_of(one)}"
                yield Symptom(
                    about=f"{kind.kind}/{namespace_of(one)}/{name_of(one)}",
                    seen=f"{', '.join(on)} while {found.about} listens to a queue",
                    wrong="both drain the same node, and it goes before its replacement is there",
                    fix=f"kubectl set env {where} " + " ".join(f"{key}=false" for key in on),
                )


CHECK = Check(
    code="K9",
    title="termination handler drains as well",
    severity=Severity.RISK,
    how="aws-node-termination-handler with draining on, beside an interruption queue",
    mend="turn it off",
    needs=(Part.CONTROLLER, DAEMON_SETS, DEPLOYMENTS),
    find=find,
)
