"""P3: a PodDisruptionBudget that never allows anything."""

from collections.abc import Iterator

from dovetail.doctor.blocking_pdbs import blocking
from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, name_of, namespace_of
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out budgets that allow nothing although every pod is well."""
    for one in blocking(facts):
        name, namespace = name_of(one), namespace_of(one)
        spec = {key: at(one, "spec", key) for key in ("minAvailable", "maxUnavailable")}
        said = ", ".join(f"{key} {value}" for key, value in spec.items() if value is not None)
        yield Symptom(
            about=f"PodDisruptionBudget/{namespace}/{name}",
            seen=f"{said}; all {at(one, 'status', 'expectedPods')} pods are healthy and 0 may go",
            wrong="no node with one of its pods can be drained: not to save, not to update",
            fix=f"kubectl patch pdb {name} -n {namespace} --type merge -p "
            '\'{"spec":{"minAvailable":null,"maxUnavailable":1}}\'',
        )


CHECK = Check(
    code="P3",
    title="PodDisruptionBudget that allows nothing",
    severity=Severity.RISK,
    how="disruptionsAllowed is 0 while all pods of a budget are healthy",
    mend="correct it, or set terminationGracePeriod on the NodePool",
    needs=(POD_DISRUPTION_BUDGETS,),
    find=find,
)
