"""Schemas and decoders know the same fields."""

from typing import Any

import pytest

from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.codec.fields import DecodeContext, Field
from tests.codec.crds.schema_fields import Path, example, fields, schema_of
from tests.codec.crds.test_decoders import DECODERS

EACH = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
MOVED = "consolidationPolicy consolidateAfter budgets labels annotations requirements taints "
MOVED += "startupTaints nodeClassRef expireAfter terminationGracePeriod"
NOT_IN_THE_SCHEMA: dict[str, dict[str, str]] = {
    "NodePool": {
        **{f"spec.{name}": "an error names the right parent" for name in MOVED.split()},
        "spec.template.spec.nodeClassRef.apiVersion": "an error suggests the group",
    },
    "NodeClaim": {"spec.nodeClassRef.apiVersion": "an error suggests the group"},
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
        "spec.template.spec.taints.timeAdded": "set by the API server only",
        "spec.template.spec.startupTaints.timeAdded": "set by the API server only",
    },
    "NodeClaim": {
        "spec.taints.timeAdded": "set by the API server only",
        "spec.startupTaints.timeAdded": "set by the API server only",
    },
    "EC2NodeClass": {
        "status.securityGroups.name": "for users only",
        "status.capacityReservations.ownerID": "for users only",
        "status.capacityReservations.instanceMatchCriteria": "for users only",
        "status.capacityReservations.endTime": "for users only",
    },
    "NodeOverlay": {},
    "CapacityBuffer": {},
}


class RecordingDict(dict[str, Any]):
    """A map that records which of its fields are read."""

    def __init__(self, value: dict[str, Any], at: Path, seen: set[Path]) -> None:
        super().__init__({name: record_reads(inner, (*at, name), seen) for name, inner in value.items()})
        self._at, self._seen = at, seen

    def get(self, key: str, default: Any = None) -> Any:
        self._seen.add((*self._at, key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._seen.add((*self._at, key))
        return super().__getitem__(key)


def record_reads(value: Any, at: Path, seen: set[Path]) -> Any:
    if isinstance(value, dict):
        return RecordingDict(value, at, seen)
    if isinstance(value, list):
        return [record_reads(item, at, seen) for item in value]
    return value


def fields_read(definition: Definition) -> set[str]:
    """Return every field of spec and status that the decoder reads."""
    whole = example(schema_of(definition))
    whole["metadata"] = {"name": "one", "namespace": "default"}
    read: set[Path] = set()
    for by_hand in (True, False):
        root = Field(record_reads(whole, (), read), DecodeContext(strict=by_hand))
        DECODERS[definition.kind](root)
    maps = {path for path, schema in fields(schema_of(definition)) if "additionalProperties" in schema}
    return {".".join(path) for path in read if path[0] in ("spec", "status") and path[:-1] not in maps}


def fields_known(definition: Definition) -> set[str]:
    paths = [path for path, _ in fields(schema_of(definition))]
    return {".".join(path) for path in paths if path[:1] in (("spec",), ("status",))}


@EACH
def test_every_field_that_is_read_is_in_the_schema(definition: Definition) -> None:
    unknown = fields_read(definition) - fields_known(definition)

    assert unknown == set(NOT_IN_THE_SCHEMA[definition.kind])


@EACH
def test_every_field_of_the_schema_is_read(definition: Definition) -> None:
    unread = fields_known(definition) - fields_read(definition)

    assert unread == set(NOT_READ[definition.kind])
