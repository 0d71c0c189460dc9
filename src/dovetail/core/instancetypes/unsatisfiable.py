"""Requirements of a NodePool that nothing sold in the region could ever meet."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator

_SHOWN = 3


def unmet(pool: NodePool, types: Sequence[InstanceType], region: Region) -> list[str]:
    """Return a remark for each requirement whose every value is unknown here.

    Such a pool buys nothing, and most often the reason is a letter too many
    or the zones of another region; the values that some type has are no news.
    """
    remarks = []
    for spec in pool.template.requirements:
        if spec.operator is not Operator.IN or not _is_about_machines(spec.key):
            continue
        known = _values(spec.key, types, region)
        if known and not known.intersection(spec.values):
            asked = ", ".join(spec.values[:_SHOWN]) + (", …" if len(spec.values) > _SHOWN else "")
            remarks.append(
                f"NodePool {pool.name} buys nothing: nothing in {region.name} has "
                f"{spec.key} {asked}{_guess(spec.key, spec.values, known)}"
            )
    return remarks


def _is_about_machines(key: str) -> bool:
    return key in (label_keys.ZONE, label_keys.ZONE_ID, label_keys.INSTANCE_TYPE) or (
        key in label_keys.AWS_INSTANCE_LABELS
    )


def _values(key: str, types: Iterable[InstanceType], region: Region) -> set[str]:
    if key == label_keys.ZONE:
        return set(region.zones)
    if key == label_keys.ZONE_ID:
        return set(region.zones.values())
    found = (one.requirements.get(key) for one in types)
    return {value for requirement in found if requirement for value in requirement.values}


def _guess(key: str, asked: Iterable[str], known: Iterable[str]) -> str:
    if key in (label_keys.ZONE, label_keys.ZONE_ID):
        return "; is it the right region?"
    words = sorted(known)
    for word in asked:
        close = get_close_matches(word, words, n=1)
        if close:
            return f"; did you mean {close[0]}?"
    return ""
