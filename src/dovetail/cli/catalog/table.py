"""Instance types as text: a table, a page each, or JSON."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import msgspec

from dovetail.cli.output.console import columns
from dovetail.cli.output.plan_report import price_source
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.kube.resources import CPU, MEMORY, PODS, Resources

_GIB = 1 << 30
_NUMBERS = frozenset({1, 2, 3, 5, 6})
"""Right-aligned columns of the overview."""
_PER_OFFERING = frozenset({label_keys.ZONE, label_keys.ZONE_ID, label_keys.CAPACITY_TYPE})
_BASIC = frozenset({CPU, MEMORY, PODS, "ephemeral-storage"})


def overview_lines(
    instance_types: Sequence[InstanceType], prices: PriceBook, region: str, width: int | None = None
) -> list[str]:
    """Return one line per type: allocatable resources and cheapest prices.

    A terminal of ``width`` columns that is too narrow gets no column of other resources.
    """
    head = ["TYPE", "CPU", "MEMORY", "PODS", "ARCH", "ON-DEMAND", "SPOT", "ZONES", "ALSO"]
    rows = [head, *(_overview(instance_type, prices, region) for instance_type in instance_types)]
    lines = [line.rstrip() for line in columns(rows, _NUMBERS)]
    if width is None or max(map(len, lines)) <= width:
        return lines
    lines = [line.rstrip() for line in columns([row[:-1] for row in rows], _NUMBERS)]
    return [*lines, "", f"ALSO (other resources) does not fit {width} columns; a pipe and -o json have it."]


def _overview(instance_type: InstanceType, prices: PriceBook, region: str) -> list[str]:
    allocatable = instance_type.allocatable
    available = [offering for offering in instance_type.offerings if offering.available]
    also = (f"{name}={amount}" for name, amount in sorted(allocatable.items()) if name not in _BASIC)
    return [
        instance_type.name,
        f"{allocatable.get(CPU, 0) / 1000:.2f}",
        f"{allocatable.get(MEMORY, 0) / _GIB:.2f}Gi",
        str(allocatable.get(PODS, 0)),
        ",".join(sorted(instance_type.requirements.get_or_exists(label_keys.ARCH).values)),
        _cheapest(available, label_keys.ON_DEMAND)
        + ("~" if prices.is_estimated(instance_type.name, region) else " "),
        _cheapest(available, label_keys.SPOT),
        str(len({offering.zone for offering in available})),
        " ".join(also),
    ]


def _cheapest(offerings: Sequence[Offering], capacity_type: str) -> str:
    prices = [offering.price for offering in offerings if offering.capacity_type == capacity_type]
    return f"{min(prices):.4f}" if prices else "-"


def detail_lines(instance_types: Sequence[InstanceType], prices: PriceBook, region: str) -> list[str]:
    """Return all details of each type, one page after the other."""
    return [line for instance_type in instance_types for line in _page(instance_type, prices, region)][:-1]


def _page(instance_type: InstanceType, prices: PriceBook, region: str) -> Iterator[str]:
    yield instance_type.name
    rows = [["resource", "capacity", "overhead", "allocatable"]]
    amounts = (instance_type.capacity, instance_type.overhead, instance_type.allocatable)
    quantity_maps = [amount.to_quantities() for amount in amounts]
    rows += [
        [name, *(quantities.get(name, "0") for quantities in quantity_maps)] for name in quantity_maps[0]
    ]
    yield from _indented(columns(rows, frozenset({1, 2, 3})))
    yield ""
    labels = [[key, value] for key, value in _labels(instance_type).items()]
    yield from _indented(columns([["label", "value"], *labels]))
    yield ""
    offers = [[zone, *cells] for zone, cells in _offers(instance_type).items()]
    yield from _indented(columns([["zone", "on-demand $/h", "spot $/h"], *offers]))
    if prices.is_estimated(instance_type.name, region):
        yield f"  ({_estimate_note(instance_type.name, prices, region)})"
    yield ""


def _estimate_note(name: str, prices: PriceBook, region: str) -> str:
    if name in prices.estimated:
        return "no list price: estimated from related types"
    return f"no list price for {region}: estimated from that of {prices.list_region}"


def _indented(lines: list[str]) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in lines)


def _labels(instance_type: InstanceType) -> dict[str, str]:
    """Return the node labels that do not depend on the offering."""
    return {
        key: ",".join(sorted(requirement.values))
        for key, requirement in sorted(instance_type.requirements.items())
        if requirement.values and key not in _PER_OFFERING
    }


def _offers(instance_type: InstanceType) -> dict[str, list[str]]:
    columns_by_type = {label_keys.ON_DEMAND: 0, label_keys.SPOT: 1}
    table: dict[str, list[str]] = {}
    for offering in instance_type.offerings:
        cells = table.setdefault(f"{offering.zone} ({offering.zone_id})", ["-", "-"])
        if offering.available and offering.capacity_type in columns_by_type:
            cells[columns_by_type[offering.capacity_type]] = f"{offering.price:.4f}"
    return table


def types_json(
    instance_types: Sequence[InstanceType], catalog: Catalog, prices: PriceBook, region: str
) -> str:
    """Return the types as JSON, with the sources of facts and prices."""
    document = {
        "catalog": {"source": catalog.source, "recorded": catalog.recorded},
        "prices": {
            **msgspec.to_builtins(price_source(prices, region)),
            "assumed_spot_share": prices.spot_ratio,
        },
        "types": [_as_json(instance_type, prices, region) for instance_type in instance_types],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _as_json(instance_type: InstanceType, prices: PriceBook, region: str) -> dict[str, Any]:
    return {
        "name": instance_type.name,
        "labels": _labels(instance_type),
        "capacity": instance_type.capacity.to_quantities(),
        "overhead": instance_type.overhead.to_quantities(),
        "allocatable": Resources(instance_type.allocatable).to_quantities(),
        "price_estimated": prices.is_estimated(instance_type.name, region),
        "offerings": [
            {
                "zone": offering.zone,
                "zone_id": offering.zone_id,
                "capacity_type": offering.capacity_type,
                "price_per_hour": offering.price if isfinite(offering.price) else None,
                "available": offering.available,
            }
            for offering in instance_type.offerings
        ],
    }
