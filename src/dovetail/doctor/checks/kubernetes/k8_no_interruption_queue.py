"""K8: spot is allowed, and nobody hears AWS's warnings."""

import json
from collections.abc import Iterator
from typing import Any, Final

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part, Raw
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import allows_spot, shown
from dovetail.eks.desired.interruption_queue import RULES
from dovetail.ports.api_resources import NODE_POOLS

_SPOT: Final = RULES[1][2]


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out a queue that is not set, not there, or that no rule writes to."""
    found, pools = controller_of(facts), allows_spot(facts)
    if found is None or not pools:
        return
    queue = found.setting("INTERRUPTION_QUEUE")
    if not queue:
        seen = "INTERRUPTION_QUEUE is empty"
    elif Part.QUEUE in facts.unseen:
        return
    elif facts.aws.queue is None:
        seen = f"SQS has no queue {queue}"
    elif not any(_sends_warnings(one) for one in facts.aws.rules):
        seen = f"no rule of EventBridge sends spot warnings to {queue}"
    else:
        return
    yield Symptom(
        about=found.about,
        seen=f"{seen}; NodePools that allow spot: {shown(pools)}",
        wrong="instances are taken away after two minutes with their pods still on them",
        fix=f"dovetail cluster apply -f cluster.yaml  # makes queue, rules and policy; then: "
        f"kubectl set env deployment {found.name} -n {found.namespace} "
        f"INTERRUPTION_QUEUE={queue or facts.cluster or 'QUEUE'}",
    )


def _sends_warnings(rule: Raw) -> bool:
    """Tell whether a rule that is on matches spot warnings; what it leaves out, it matches."""
    try:
        pattern = json.loads(str(rule.get("EventPattern") or ""))
    except ValueError:
        return False
    if not isinstance(pattern, dict) or rule.get("State", "ENABLED") == "DISABLED":
        return False
    return _matches(pattern.get("source"), "aws.ec2") and _matches(
        pattern.get("detail-type"), _SPOT
    )


def _matches(wanted: Any, value: str) -> bool:
    if wanted is None:
        return True
    return any(
        value.startswith(str(one.get("prefix", value))) if isinstance(one, dict) else one == value
        for one in (wanted if isinstance(wanted, list) else [])
    )


CHECK = Check(
    code="K8",
    title="no interruption queue while spot is allowed",
    severity=Severity.RISK,
    how="the controller's interruptionQueue, that queue in SQS, and rules that write to it",
    mend="create queue, rules and policy, and set the name",
    needs=(Part.CONTROLLER, NODE_POOLS),
    helped_by=(Part.QUEUE,),
    find=find,
)
