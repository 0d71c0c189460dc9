"""Prices out of what the Pricing API and EC2 answer."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

_NO_PRICE: Final = 0.0
_PRICING_REGIONS: Final = (
    ("ap-", "ap-south-1"),
    ("cn-", "cn-northwest-1"),
    ("eu-", "eu-central-1"),
)
_ELSEWHERE: Final = "us-east-1"
KINDS: Final = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))
"""(tenancy, product family): the two queries that find all prices together."""


class _Attributes(msgspec.Struct, rename="camel"):
    instance_type: str = ""


class _Product(msgspec.Struct):
    attributes: _Attributes = msgspec.field(default_factory=_Attributes)


class _Dimension(msgspec.Struct, rename="camel"):
    price_per_unit: dict[str, str] = {}


class _Term(msgspec.Struct, rename="camel"):
    price_dimensions: dict[str, _Dimension] = {}


class _Terms(msgspec.Struct):
    on_demand: dict[str, _Term] = msgspec.field(default_factory=dict, name="OnDemand")


class _Entry(msgspec.Struct):
    product: _Product = msgspec.field(default_factory=_Product)
    terms: _Terms = msgspec.field(default_factory=_Terms)


_ENTRIES: Final = msgspec.json.Decoder(_Entry)


def pricing_region(region: str) -> str:
    """Return where the Pricing API that knows a region is to be found."""
    return next(
        (home for prefix, home in _PRICING_REGIONS if region.startswith(prefix)), _ELSEWHERE
    )


def has_pricing_api(region: str) -> bool:
    """Tell whether there is one for the region at all."""
    return not region.startswith("us-gov-")


def currency_of(region: str) -> str:
    """Return what prices are told in."""
    return "CNY" if region.startswith("cn-") else "USD"


def product_filters(region: str, tenancy: str, family: str) -> list[dict[str, str]]:
    """Return the filters of GetProducts for plain Linux on-demand prices."""
    wanted = {
        "regionCode": region,
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": tenancy,
        "productFamily": family,
    }
    return [{"Type": "TERM_MATCH", "Field": key, "Value": text} for key, text in wanted.items()]


def on_demand_prices(products: Iterable[str], currency: str) -> dict[str, float]:
    """Return machine type → price per hour; what has none, or zero, is left out."""
    prices: dict[str, float] = {}
    for product in products:
        try:
            entry = _ENTRIES.decode(product)
            price = _price_of(entry, currency)
        except (msgspec.MsgspecError, ValueError):
            continue  # One entry that nobody can read is no reason to do without the others.
        name = entry.product.attributes.instance_type
        if name and price > 0:
            prices[name] = price
    return prices


def _price_of(entry: _Entry, currency: str) -> float:
    for term in entry.terms.on_demand.values():
        for dimension in term.price_dimensions.values():
            told = dimension.price_per_unit.get(currency)
            if told is not None:
                return float(told)
    return _NO_PRICE


def spot_prices(history: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return (machine type, zone) → price per hour, the newest of those told."""
    newest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for one in history:
        price = float(one["SpotPrice"])
        if price <= 0:
            continue
        place, told = (one["InstanceType"], one["AvailabilityZone"]), (one["Timestamp"], price)
        if place not in newest or newest[place] < told:
            newest[place] = told
    return {place: price for place, (_, price) in newest.items()}
