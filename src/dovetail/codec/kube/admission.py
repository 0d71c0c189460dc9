"""Decoders of LimitRanges and RuntimeClasses, which admission applies to new pods."""

from dovetail.codec.fields import Field
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.codec.kube.requirements import decode_tolerations
from dovetail.codec.quantities import decode_resources
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.admission import LimitRange, LimitRangeItem, LimitType, RuntimeClass
from dovetail.model.kube.quantity import parse_amount
from dovetail.model.kube.resources import CPU

_ITEM_FIELDS = "type default defaultRequest min max maxLimitRequestRatio".split()
_TYPES = (*LimitType, "PersistentVolumeClaim")


def decode_limit_range(root: Field) -> LimitRange:
    """Decode a core/v1 LimitRange; items for volume claims are left out."""
    meta = decode_metadata(root)
    items = (_decode_item(item) for item in root["spec"]["limits"].items())
    return LimitRange(
        namespace=meta.namespace, name=meta.name, items=tuple(item for item in items if item is not None)
    )


def _decode_item(field: Field) -> LimitRangeItem | None:
    field.check_known_keys(_ITEM_FIELDS)
    field["type"].check_required()
    kind = field["type"].choice(_TYPES, "", "type of a LimitRange item")
    if kind not in tuple(LimitType):
        return None
    item = LimitRangeItem(
        type=LimitType(kind),
        default_limits=decode_resources(field["default"]),
        default_requests=decode_resources(field["defaultRequest"]),
        min=decode_resources(field["min"]),
        max=decode_resources(field["max"]),
        max_ratio=_decode_ratios(field["maxLimitRequestRatio"]),
    )
    return item.with_defaults()


def _decode_ratios(field: Field) -> FrozenDict[str, float]:
    """Decode quantities without a unit: milli-units, for all resources."""
    ratios = {}
    for entry in field.entries():
        try:
            ratios[str(entry.key)] = parse_amount(CPU, entry.value) / 1000
        except ValueError as error:
            entry.add_error(str(error))
    return FrozenDict(ratios)


def decode_runtime_class(root: Field) -> RuntimeClass:
    """Decode a node.k8s.io/v1 RuntimeClass."""
    scheduling = root["scheduling"]
    return RuntimeClass(
        name=decode_metadata(root).name,
        overhead=decode_resources(root.at("overhead", "podFixed")),
        node_selector=scheduling["nodeSelector"].labels(),
        tolerations=decode_tolerations(scheduling["tolerations"]),
    )
