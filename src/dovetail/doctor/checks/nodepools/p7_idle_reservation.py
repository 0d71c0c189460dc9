"""P7: capacity is reserved and paid for, and nobody selects it."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.instance_types import machines_of
from dovetail.doctor.object_fields import class_called, many, pools
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS

_SINCE = (1, 6)


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out open reservations with room, where no class has a selector."""
    found = controller_of(facts)
    if found is None or found.version < _SINCE:
        return
    if not found.gate("ReservedCapacity", usually=True):
        return
    wanted: dict[str, str] = {}
    for pool in pools(facts):
        node_class = class_called(facts, pool.template.node_class.name)
        if many(node_class, "spec", "capacityReservationSelectorTerms"):
            return  # Somebody has thought of it.
        for machine in machines_of(facts, pool):
            wanted.setdefault(machine.name, pool.template.node_class.name)
    for one in facts.aws.reservations:
        left = int(one.get("AvailableInstanceCount") or 0)
        kind = str(one.get("InstanceType"))
        if one.get("InstanceMatchCriteria") != "open" or not left or kind not in wanted:
            continue
        name = one["CapacityReservationId"]
        yield Symptom(
            about=f"reservation/{name}",
            seen=f"{left} of {one.get('TotalInstanceCount')} {kind} are unused; no EC2NodeClass "
            "has capacityReservationSelectorTerms",
            wrong="launches do not take open reservations by themselves since 1.6",
            fix=f"kubectl patch ec2nodeclass {wanted[kind]} --type merge -p "
            f'\'{{"spec":{{"capacityReservationSelectorTerms":[{{"id":"{name}"}}]}}}}\'',
        )


CHECK = Check(
    code="P7",
    title="open capacity reservation and no selector",
    severity=Severity.RISK,
    how="active open reservations with room, of types that NodePools may buy",
    mend="add a selector, or switch ReservedCapacity off",
    needs=(
        Part.CONTROLLER,
        Part.VERSION,
        Part.RESERVATIONS,
        NODE_POOLS,
        EC2_NODE_CLASSES,
        Part.TYPES,
    ),
    find=find,
)
