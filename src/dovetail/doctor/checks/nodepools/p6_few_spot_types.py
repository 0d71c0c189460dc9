"""P6: spot is to be replaced by spot, and there are too few types to choose from."""

from collections.abc import Iterator
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.instance_types import machines_of
from dovetail.doctor.object_fields import allows_spot, pools
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS

_FEWEST: Final = 15


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out spot pools with fewer types than a replacement must have."""
    found = controller_of(facts)
    if found is None or not found.gate("SpotToSpotConsolidation"):
        return
    told = found.setting("SPOT_TO_SPOT_TYPES")
    fewest = int(told) if told.isdigit() else _FEWEST
    spot = set(allows_spot(facts))
    for pool in pools(facts):
        types = [one for one in machines_of(facts, pool) if label_keys.SPOT in one.usage_classes]
        if pool.name in spot and 0 < len(types) < fewest:
            yield Symptom(
                about=f"NodePool/{pool.name}",
                seen=f"{len(types)} types can be bought as spot; SpotToSpotConsolidation wants "
                f"{fewest}",
                wrong="no spot node of it is ever replaced by a cheaper one",
                fix=f"kubectl edit nodepool {pool.name}  # allow more families or sizes",
            )


CHECK = Check(
    code="P6",
    title="spot pool under 15 types with spot-to-spot on",
    severity=Severity.ADVICE,
    how="types that each spot NodePool may buy are counted, with SpotToSpotConsolidation on",
    mend="widen the requirements",
    needs=(Part.CONTROLLER, NODE_POOLS, EC2_NODE_CLASSES, Part.TYPES),
    find=find,
)
