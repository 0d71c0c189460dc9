"""NodePool requirements that no instance type of the region can meet."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator

_MAX_SHOWN = 3


def find_unsatisfiable_requirements(
    pool: NodePool, types: Sequence[InstanceType], region: Region
) -> list[str]:
    """Return a warning for each requirement whose values are all unknown here.

    Such a NodePool launches nothing, usually because of a typo or zones of another
    region.
    """
    warnings = []
    for spec in pool.template.requirements:
        if spec.operator is not Operator.IN or not _is_instance_type_label(spec.key):
            continue
        values = _known_values(spec.key, types, region)
        if values and not values.intersection(spec.values):
            written = ", ".join(spec.values[:_MAX_SHOWN]) + (", …" if len(spec.values) > _MAX_SHOWN else "")
            warnings.append(
                f"NodePool {pool.name} launches nothing: no instance type in {region.name} has "
                f"{spec.key} {written}{_suggest(spec.key, spec.values, values)}"
            )
    return warnings


def _is_instance_type_label(key: str) -> bool:
    return key in (label_keys.ZONE, label_keys.ZONE_ID, label_keys.INSTANCE_TYPE) or (
        key in label_keys.AWS_INSTANCE_LABELS
    )


def _known_values(key: str, types: Iterable[InstanceType], region: Region) -> set[str]:
    if key == label_keys.ZONE:
        return set(region.zones)
    if key == label_keys.ZONE_ID:
        return set(region.zones.values())
    requirements = (instance_type.requirements.get(key) for instance_type in types)
    return {value for requirement in requirements if requirement for value in requirement.values}


def _suggest(key: str, written: Iterable[str], values: Iterable[str]) -> str:
    if key in (label_keys.ZONE, label_keys.ZONE_ID):
        return "; is it the right region?"
    words = sorted(values)
    for word in written:
        similar = get_close_matches(word, words, n=1)
        if similar:
            return f"; did you mean {similar[0]}?"
    return ""
