"""K11: no instance type does what a pool asks for."""

from collections.abc import Iterator
from typing import Final

from dovetail.codec.text.suggestions import nearest
from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.instance_types import machines_of
from dovetail.doctor.object_fields import pools
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS

_ARCHITECTURES: Final = ("amd64", "arm64")


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out values that nothing has, and pools that nothing satisfies."""
    for pool in pools(facts):
        if pool.replicas == 0 or pool.deleting:
            continue
        odd = list(_odd_values(facts, pool))
        if not odd and machines_of(facts, pool):
            continue
        yield Symptom(
            about=f"NodePool/{pool.name}",
            seen="; ".join(odd)
            or f"no instance type of {facts.region} satisfies all its requirements",
            wrong="nothing is ever bought for it" if not odd else "such a value never matches",
            fix=f"kubectl edit nodepool {pool.name}  # spec.template.spec.requirements",
        )


def _odd_values(facts: Facts, pool: NodePool) -> Iterator[str]:
    region = facts.catalog.regions.get(facts.region)
    known = {
        label_keys.CAPACITY_TYPE: set(label_keys.CAPACITY_TYPES),
        label_keys.ARCH: set(_ARCHITECTURES),
        # A zone without a subnet of ours may stand in the list, as long as another has one.
        label_keys.ZONE: set(region.zones) if region is not None else set(),
        label_keys.INSTANCE_TYPE: {one.name for one in facts.catalog.machines},
    }
    for one in pool.template.requirements:
        there = known.get(label_keys.stable_key(one.key))
        if there is None or one.operator is not Operator.IN:
            continue
        for value in one.values:
            if value not in there:
                guess = nearest(value, sorted(there))
                hint = f"; did you mean {guess!r}?" if guess else ""
                yield f"{one.key}: nothing has {value!r}{hint}"


CHECK = Check(
    code="K11",
    title="requirement that can never match",
    severity=Severity.BROKEN,
    how="requirements of each NodePool against the catalogue of instance types",
    mend="correct the value",
    needs=(NODE_POOLS, EC2_NODE_CLASSES, Part.TYPES),
    find=find,
)
