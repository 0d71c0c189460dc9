"""P10: consolidation does not get to its end in time."""

import re
from collections.abc import Iterator
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom

_COUNT: Final = re.compile(r"^\w*consolidation_timeouts_total(?:\{([^}]*)\})?\s+([0-9.eE+]+)")


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out that passes were cut off since the controller started."""
    found = controller_of(facts)
    counts = [one for line in facts.metrics if (one := _COUNT.match(line))]
    total = sum(float(one.group(2)) for one in counts)
    if found is None or total < 1:
        return
    told = ", ".join(
        f"{one.group(1) or 'all'}: {float(one.group(2)):g}" for one in counts if float(one.group(2))
    )
    yield Symptom(
        about=found.about,
        seen=f"consolidation_timeouts_total is {total:g} ({told})",
        wrong="savings behind the point where a pass is cut off are never found",
        fix=f"kubectl set resources deployment {found.name} -n {found.namespace} "
        "--requests=cpu=2  # and fewer pools, bigger nodes",
    )


CHECK = Check(
    code="P10",
    title="consolidation timeouts",
    severity=Severity.RISK,
    how="…consolidation_timeouts_total in the controller's metrics",
    mend="fewer pools, bigger nodes, faster CPU",
    needs=(Part.CONTROLLER, Part.METRICS),
    find=find,
)
