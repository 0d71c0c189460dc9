"""Decodes prices of the Pricing API and of EC2's spot price history."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

_NO_PRICE: Final = 0.0
_DEFAULT_PRICING_REGION: Final = "us-east-1"
"""Of continents without a Pricing API."""
PRODUCT_QUERIES: Final = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))
"""(tenancy, product family) of the two queries that return all prices together."""


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


def pricing_region(region: str, endpoints: Sequence[str]) -> str:
    """Return the nearest of the regions with a Pricing API; empty if there is none.

    ``endpoints`` are those of the partition: credentials are not valid in another one.
    """
    continent = region.partition("-")[0]
    near = [endpoint for endpoint in endpoints if endpoint.partition("-")[0] == continent]
    if near:
        return near[0]
    return _DEFAULT_PRICING_REGION if _DEFAULT_PRICING_REGION in endpoints else ""


def product_filters(region: str, tenancy: str, family: str) -> list[dict[str, str]]:
    """Return the filters of GetProducts for plain Linux on-demand prices."""
    fields = {
        "regionCode": region,
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": tenancy,
        "productFamily": family,
    }
    return [{"Type": "TERM_MATCH", "Field": key, "Value": text} for key, text in fields.items()]


def decode_on_demand_prices(products: Iterable[str], currency: str) -> dict[str, float]:
    """Return instance type → price per hour, without missing and zero prices."""
    prices: dict[str, float] = {}
    for product in products:
        try:
            entry = _ENTRIES.decode(product)
            price = _price_of(entry, currency)
        except (msgspec.MsgspecError, ValueError):
            continue  # One malformed entry must not discard the others.
        name = entry.product.attributes.instance_type
        if name and price > 0:
            prices[name] = price
    return prices


def _price_of(entry: _Entry, currency: str) -> float:
    for term in entry.terms.on_demand.values():
        for dimension in term.price_dimensions.values():
            price = dimension.price_per_unit.get(currency)
            if price is not None:
                return float(price)
    return _NO_PRICE


def decode_spot_prices(history: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return (instance type, zone) → newest price per hour."""
    newest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for entry in history:
        price = float(entry["SpotPrice"])
        if price <= 0:
            continue
        key = (entry["InstanceType"], entry["AvailabilityZone"])
        dated_price = (entry["Timestamp"], price)
        if key not in newest or newest[key] < dated_price:
            newest[key] = dated_price
    return {key: price for key, (_, price) in newest.items()}
