"""Instance types as text: a table, a page each, or JSON."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import msgspec

from dovetail.cli.output.console import columns
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.kube.resources import CPU, MEMORY, PODS, Resources

_GIB = 1 << 30
_NUMBERS = frozenset({1, 2, 3, 5, 6})
"""Columns of the overview that are flush right."""
_PER_OFFERING = frozenset({label_keys.ZONE, label_keys.ZONE_ID, label_keys.CAPACITY_TYPE})
_BASIC = frozenset({CPU, MEMORY, PODS, "ephemeral-storage"})


def overview_lines(chosen: Sequence[InstanceType], prices: PriceBook) -> list[str]:
    """One line a type: what pods can have of it, and its cheapest prices."""
    head = ["TYPE", "CPU", "MEMORY", "PODS", "ARCH", "ON-DEMAND", "SPOT", "ZONES", "ALSO"]
    rows = [head, *(_overview(one, prices) for one in chosen)]
    return [line.rstrip() for line in columns(rows, _NUMBERS)]


def _overview(one: InstanceType, prices: PriceBook) -> list[str]:
    room = one.allocatable
    sold = [offering for offering in one.offerings if offering.available]
    also = (f"{name}={amount}" for name, amount in sorted(room.items()) if name not in _BASIC)
    return [
        one.name,
        f"{room.get(CPU, 0) / 1000:.2f}",
        f"{room.get(MEMORY, 0) / _GIB:.2f}Gi",
        str(room.get(PODS, 0)),
        ",".join(sorted(one.requirements.allowed(label_keys.ARCH).values)),
        _cheapest(sold, label_keys.ON_DEMAND) + ("~" if one.name in prices.estimated else " "),
        _cheapest(sold, label_keys.SPOT),
        str(len({offering.zone for offering in sold})),
        " ".join(also),
    ]


def _cheapest(sold: Sequence[Offering], capacity_type: str) -> str:
    known = [one.price for one in sold if one.capacity_type == capacity_type]
    return f"{min(known):.4f}" if known else "-"


def detail_lines(chosen: Sequence[InstanceType], prices: PriceBook) -> list[str]:
    """Everything about each type, one page after the other."""
    return [line for one in chosen for line in _page(one, prices)][:-1]


def _page(one: InstanceType, prices: PriceBook) -> Iterator[str]:
    yield one.name
    rows = [["resource", "capacity", "overhead", "allocatable"]]
    lists = (one.capacity.spelled(), one.overhead.spelled(), one.allocatable.spelled())
    rows += [[name, *(spelled.get(name, "0") for spelled in lists)] for name in lists[0]]
    yield from _indented(columns(rows, frozenset({1, 2, 3})))
    yield ""
    labels = [[key, value] for key, value in _labels(one).items()]
    yield from _indented(columns([["label", "value"], *labels]))
    yield ""
    offers = [[zone, *cells] for zone, cells in _offers(one).items()]
    yield from _indented(columns([["zone", "on-demand $/h", "spot $/h"], *offers]))
    if one.name in prices.estimated:
        yield "  (no listed price: estimated from its relatives)"
    yield ""


def _indented(lines: list[str]) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in lines)


def _labels(one: InstanceType) -> dict[str, str]:
    """Labels that a node would have, whichever offering it comes from."""
    return {
        key: ",".join(sorted(requirement.values))
        for key, requirement in sorted(one.requirements.items())
        if requirement.values and key not in _PER_OFFERING
    }


def _offers(one: InstanceType) -> dict[str, list[str]]:
    places = {label_keys.ON_DEMAND: 0, label_keys.SPOT: 1}
    table: dict[str, list[str]] = {}
    for offering in one.offerings:
        cells = table.setdefault(f"{offering.zone} ({offering.zone_id})", ["-", "-"])
        if offering.available and offering.capacity_type in places:
            cells[places[offering.capacity_type]] = f"{offering.price:.4f}"
    return table


def types_json(chosen: Sequence[InstanceType], known: Catalog, prices: PriceBook) -> str:
    """Return the same as JSON, with where the facts and the prices come from."""
    answer = {
        "catalog": {"source": known.source, "recorded": known.recorded},
        "prices": {
            "source": prices.source,
            "date": prices.date,
            "assumed_spot_share": prices.spot_share,
        },
        "types": [_as_json(one, prices) for one in chosen],
    }
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()


def _as_json(one: InstanceType, prices: PriceBook) -> dict[str, Any]:
    return {
        "name": one.name,
        "labels": _labels(one),
        "capacity": one.capacity.spelled(),
        "overhead": one.overhead.spelled(),
        "allocatable": Resources(one.allocatable).spelled(),
        "price_estimated": one.name in prices.estimated,
        "offerings": [
            {
                "zone": offering.zone,
                "zone_id": offering.zone_id,
                "capacity_type": offering.capacity_type,
                "price_per_hour": offering.price if isfinite(offering.price) else None,
                "available": offering.available,
            }
            for offering in one.offerings
        ],
    }
