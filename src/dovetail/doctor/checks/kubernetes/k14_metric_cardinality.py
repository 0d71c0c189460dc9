"""K14: a scrape of the controller is mostly prices."""

from collections.abc import Iterator
from typing import Final

from dovetail.doctor.api_resources import SERVICE_MONITORS
from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of, namespace_of

_FLOOD: Final = "karpenter_cloudprovider_instance_type_offering_"
_MANY: Final = 2000


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out monitors that store a series for each price."""
    found = controller_of(facts)
    series = sum(one.startswith(_FLOOD) for one in facts.metrics)
    if found is None or series < _MANY:
        return
    wanted = at(found.deployment, "spec", "selector", "matchLabels") or {}
    for one in facts.of(SERVICE_MONITORS):
        chosen = at(one, "spec", "selector", "matchLabels") or {}
        if not chosen or not chosen.items() <= wanted.items() or _drops(one):
            continue
        yield Symptom(
            about=f"ServiceMonitor/{namespace_of(one)}/{name_of(one)}",
            seen=f"{series:,} of {len(facts.metrics):,} lines are {_FLOOD}…, and all are kept",
            wrong="each replica fills the store with series that nobody asks for",
            fix="add to each endpoint: metricRelabelings: [{sourceLabels: [__name__], regex: "
            f"'{_FLOOD}.*', action: drop}}]",
        )


def _drops(monitor: object) -> bool:
    rules = [
        rule
        for endpoint in many(monitor, "spec", "endpoints")
        for rule in many(endpoint, "metricRelabelings")
    ]
    return any(rule.get("action") in ("drop", "keep") for rule in rules)


CHECK = Check(
    code="K14",
    title="metric flood",
    severity=Severity.ADVICE,
    how="price series in the controller's scrape, and ServiceMonitors that drop none",
    mend="drop them by relabelling",
    needs=(Part.CONTROLLER, Part.METRICS, SERVICE_MONITORS),
    find=find,
)
