"""Printer columns of custom resources, derived from their CRDs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, Resource, find_resource
from dovetail.simulator.rest.tables.render import encode_row, printer_columns

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CREATED = "2026-01-01T11:30:00Z"


def cells(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    columns = printer_columns(resource)
    row = encode_row(columns, obj, NOW, "None")["cells"]
    return {column.name: cell for column, cell in zip(columns, row, strict=True)}


@pytest.mark.parametrize("crd", DEFINITIONS, ids=lambda crd: crd.plural)
def test_the_columns_are_the_name_and_the_printer_columns_of_the_crd(crd: Any) -> None:
    resource = find_resource(f"{crd.group}/{crd.version}", crd.kind)
    assert resource is not None

    definitions = [column.encode_definition() for column in printer_columns(resource)]

    assert [definition["name"] for definition in definitions] == [
        "Name",
        *(column.name for column in crd.columns),
    ]
    assert [definition["priority"] for definition in definitions[1:]] == [
        int(column.wide) for column in crd.columns
    ]


def test_cells_come_from_fields_labels_conditions_and_timestamps() -> None:
    claim = {
        "metadata": {
            "name": "default-x7k2p",
            "creationTimestamp": CREATED,
            "labels": {"node.kubernetes.io/instance-type": "m5.large"},
        },
        "status": {
            "nodeName": "ip-10-0-0-1",
            "conditions": [{"type": "Launched", "status": "True"}, {"type": "Ready", "status": "Unknown"}],
        },
    }

    shown = cells(NODE_CLAIMS, claim)

    assert shown["Name"] == "default-x7k2p"
    assert shown["Type"] == "m5.large"
    assert shown["Node"] == "ip-10-0-0-1"
    assert shown["Ready"] == "Unknown"
    assert shown["Age"] == "30m"


def test_integers_stay_numbers_and_missing_values_are_null() -> None:
    pool = {"metadata": {"name": "default", "creationTimestamp": CREATED}, "status": {"nodes": 3}}

    shown = cells(NODE_POOLS, pool)

    assert shown["Nodes"] == 3
    assert shown["Weight"] is None
    assert shown["Ready"] is None
