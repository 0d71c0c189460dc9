"""Where in a short NodePool or node class a part of the whole object was written."""

from typing import Final

from dovetail.codec.paths import Path
from dovetail.infra.desired.pools import requirements_of
from dovetail.infra.spec.pools import Class, Pool

_TEMPLATE: Final = ("spec", "template", "spec")
_OF_POOLS: Final[tuple[tuple[Path, Path, bool], ...]] = (
    ((*_TEMPLATE, "expireAfter"), ("expireAfter",), False),
    ((*_TEMPLATE, "terminationGracePeriod"), ("terminationGracePeriod",), False),
    ((*_TEMPLATE, "taints"), ("taints",), True),
    ((*_TEMPLATE, "startupTaints"), ("startupTaints",), True),
    ((*_TEMPLATE, "nodeClassRef"), ("nodeClass",), False),
    (("spec", "template", "metadata", "labels"), ("labels",), True),
    (("spec", "disruption", "budgets"), ("budget",), False),
    (("spec", "limits"), ("limits",), True),
    (("spec", "weight"), ("weight",), False),
)
_OF_CLASSES: Final[tuple[tuple[Path, Path, bool], ...]] = (
    (("spec", "amiSelectorTerms"), ("image",), False),
    (("spec", "amiFamily"), ("imageFamily",), False),
    (("spec", "userData"), ("userData",), False),
    (("spec", "blockDeviceMappings"), ("diskGib",), False),
    (("spec", "metadataOptions"), ("hopLimit",), False),
    (("spec", "tags"), ("tags",), True),
)
"""A place in the object, the short field, and whether what is below is the same in both."""
_REQUIREMENTS: Final = (*_TEMPLATE, "requirements")
_GIVING_BACK: Final = ("spec", "disruption", "consolidateAfter")


def short_place(written: Pool | Class, place: Path) -> Path:
    """Return the short field that a part of the object came from; empty for none."""
    if isinstance(written, Class):
        return _mapped(_OF_CLASSES, place)
    if place[: len(_GIVING_BACK)] == _GIVING_BACK:
        return ("consolidateAfter",) if written.ttl_after_empty is None else ("ttlAfterEmpty",)
    if place[: len(_REQUIREMENTS)] == _REQUIREMENTS and len(place) > len(_REQUIREMENTS):
        number = place[len(_REQUIREMENTS)]
        own = int(number) - len(requirements_of(written))
        return ("requirements", own, *place[len(_REQUIREMENTS) + 1 :]) if own >= 0 else ()
    return _mapped(_OF_POOLS, place)


def _mapped(places: tuple[tuple[Path, Path, bool], ...], place: Path) -> Path:
    for whole, short, goes_on in places:
        if place[: len(whole)] == whole:
            return (*short, *place[len(whole) :]) if goes_on else short
    return ()
