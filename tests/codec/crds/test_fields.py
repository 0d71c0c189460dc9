"""Schemas and decoders know the same fields."""

from typing import Any

import pytest

from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.codec.fields import Field, Findings
from tests.codec.crds.test_reading import DECODERS
from tests.codec.crds.walking import Path, example, fields, schema_of

EACH = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind)
MOVED = "consolidationPolicy consolidateAfter budgets labels annotations requirements taints "
MOVED += "startupTaints nodeClassRef expireAfter terminationGracePeriod"
NOT_IN_THE_SCHEMA: dict[str, dict[str, str]] = {
    "NodePool": {
        **{f"spec.{name}": "told where it belongs" for name in MOVED.split()},
        "spec.template.spec.nodeClassRef.apiVersion": "told to write the group instead",
    },
    "NodeClaim": {"spec.nodeClassRef.apiVersion": "told to write the group instead"},
    "EC2NodeClass": {
        **{
            f"spec.{name}": "all terms are read by one function"
            for name in (
                "subnetSelectorTerms.alias subnetSelectorTerms.instanceMatchCriteria "
                "subnetSelectorTerms.name subnetSelectorTerms.owner subnetSelectorTerms.ownerID "
                "subnetSelectorTerms.ssmParameter securityGroupSelectorTerms.alias "
                "securityGroupSelectorTerms.instanceMatchCriteria securityGroupSelectorTerms.owner "
                "securityGroupSelectorTerms.ownerID securityGroupSelectorTerms.ssmParameter "
                "amiSelectorTerms.instanceMatchCriteria "
                "capacityReservationSelectorTerms.alias capacityReservationSelectorTerms.name "
                "capacityReservationSelectorTerms.owner "
                "capacityReservationSelectorTerms.ssmParameter placementGroupSelector.alias "
                "placementGroupSelector.instanceMatchCriteria placementGroupSelector.owner "
                "placementGroupSelector.ownerID placementGroupSelector.ssmParameter "
                "placementGroupSelector.tags"
            ).split()
        },
        "status.amis.requirements.minValues": "requirements are read by one function",
    },
    "NodeOverlay": {"spec.requirements.minValues": "requirements are read by one function"},
    "CapacityBuffer": {},
}
NOT_READ: dict[str, dict[str, str]] = {
    "NodePool": {
        "spec.template.spec.taints.timeAdded": "of no meaning to a node to be",
        "spec.template.spec.startupTaints.timeAdded": "of no meaning to a node to be",
    },
    "NodeClaim": {
        "spec.taints.timeAdded": "of no meaning to a node to be",
        "spec.startupTaints.timeAdded": "of no meaning to a node to be",
    },
    "EC2NodeClass": {
        "status.securityGroups.name": "for people",
        "status.capacityReservations.ownerID": "for people",
        "status.capacityReservations.instanceMatchCriteria": "for people",
        "status.capacityReservations.endTime": "for people",
    },
    "NodeOverlay": {},
    "CapacityBuffer": {
        "status.podTemplateRef": "for people",
        "status.podTemplateRef.name": "for people",
        "status.podTemplateGeneration": "for people",
        "status.provisioningStrategy": "for people",
    },
}


class Watched(dict[str, Any]):
    """A map that notes which of its fields were asked for."""

    def __init__(self, value: dict[str, Any], at: Path, seen: set[Path]) -> None:
        super().__init__({name: watched(one, (*at, name), seen) for name, one in value.items()})
        self._at, self._seen = at, seen

    def get(self, key: str, default: Any = None) -> Any:
        self._seen.add((*self._at, key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._seen.add((*self._at, key))
        return super().__getitem__(key)


def watched(value: Any, at: Path, seen: set[Path]) -> Any:
    if isinstance(value, dict):
        return Watched(value, at, seen)
    if isinstance(value, list):
        return [watched(one, at, seen) for one in value]
    return value


def fields_read(definition: Definition) -> set[str]:
    """Return every field of spec and status that is asked for when an object is read."""
    whole = example(schema_of(definition))
    whole["metadata"] = {"name": "one", "namespace": "default"}
    seen: set[Path] = set()
    for by_hand in (True, False):
        root = Field(watched(whole, (), seen), Findings(written_by_hand=by_hand))
        DECODERS[definition.kind](root)
    maps = {path for path, one in fields(schema_of(definition)) if "additionalProperties" in one}
    return {".".join(one) for one in seen if one[0] in ("spec", "status") and one[:-1] not in maps}


def fields_known(definition: Definition) -> set[str]:
    paths = [path for path, _ in fields(schema_of(definition))]
    return {".".join(one) for one in paths if one[:1] in (("spec",), ("status",))}


@EACH
def test_every_field_that_is_read_is_in_the_schema(definition: Definition) -> None:
    unknown = fields_read(definition) - fields_known(definition)

    assert unknown == set(NOT_IN_THE_SCHEMA[definition.kind])


@EACH
def test_every_field_of_the_schema_is_read(definition: Definition) -> None:
    unread = fields_known(definition) - fields_read(definition)

    assert unread == set(NOT_READ[definition.kind])
