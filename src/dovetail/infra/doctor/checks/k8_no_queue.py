"""K8: spot is allowed, and nobody hears AWS's warnings."""

import json
from collections.abc import Iterator
from typing import Final

from dovetail.infra.desired.interruption import RULES
from dovetail.infra.doctor.checking import Check
from dovetail.infra.doctor.controller import controller_of
from dovetail.infra.doctor.facts import Facts, Part
from dovetail.infra.doctor.finding import Severity, Symptom
from dovetail.infra.doctor.seeing import allows_spot, shown
from dovetail.ports.resources import NODE_POOLS

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
    elif not any(_SPOT in _kinds(str(one.get("EventPattern") or "")) for one in facts.aws.rules):
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


def _kinds(pattern: str) -> list[str]:
    try:
        told = json.loads(pattern)
    except ValueError:
        return []
    return list(told.get("detail-type") or ()) if isinstance(told, dict) else []


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
