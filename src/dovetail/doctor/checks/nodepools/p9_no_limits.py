"""P9: a pool without an upper limit."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, name_of
from dovetail.ports.api_resources import NODE_POOLS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out pools that may buy without end; a static pool has its number."""
    for one in facts.of(NODE_POOLS):
        if at(one, "spec", "limits") or at(one, "spec", "replicas") is not None:
            continue
        yield Symptom(
            about=f"NodePool/{name_of(one)}",
            seen="spec.limits is absent",
            wrong="a workload that scales without end buys without end",
            fix=f"kubectl patch nodepool {name_of(one)} --type merge -p "
            '\'{"spec":{"limits":{"cpu":"1000","nodes":"100"}}}\'',
        )


CHECK = Check(
    code="P9",
    title="no pool limits",
    severity=Severity.RISK,
    how="spec.limits of each NodePool",
    mend="set cpu and nodes",
    needs=(NODE_POOLS,),
    find=find,
)
