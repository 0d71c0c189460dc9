"""P8: two pools could both serve a pod, and nothing says which."""

from collections.abc import Iterator
from itertools import combinations

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import pools
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.api_resources import NODE_POOLS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out pairs of equal weight whose requirements meet and whose taints are alike."""
    chosen = sorted(
        (one for one in pools(facts) if one.replicas is None and not one.deleting),
        key=lambda one: one.name,
    )
    for one, other in combinations(chosen, 2):
        if one.weight != other.weight or set(one.template.taints) != set(other.template.taints):
            continue
        if _meet(one, other):
            yield Symptom(
                about=f"NodePool/{one.name}",
                seen=f"it and {other.name} have weight {one.weight}, and requirements that meet",
                wrong="pods that both could serve go to the one whose name comes last",
                fix=f"kubectl patch nodepool {one.name} --type merge -p "
                f'\'{{"spec":{{"weight":{min(100, one.weight + 10)}}}}}\'',
            )


def _meet(one: NodePool, other: NodePool) -> bool:
    keys = (label_keys.NODEPOOL, one.template.node_class.label[0])
    return one.requirements().without(*keys).clash(other.requirements().without(*keys)) is None


CHECK = Check(
    code="P8",
    title="overlapping pools of equal weight",
    severity=Severity.ADVICE,
    how="requirements, taints and weights of every two NodePools",
    mend="give them weights",
    needs=(NODE_POOLS,),
    find=find,
)
