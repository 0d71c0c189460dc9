"""Data that comes with the program, read once."""

from collections.abc import Iterable
from functools import cache
from importlib import resources

from dovetail.codec.catalog.instance_types import decode_catalog
from dovetail.codec.catalog.list_prices import comment_value, decode_table
from dovetail.core.instancetypes.price_estimates import Relative, estimated_prices
from dovetail.model.cloud.ec2_catalog import Catalog, Machine
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict

SPOT_SHARE = 0.38
"""Spot over on-demand, where no spot price is known.

The median over all types and zones of us-east-1, us-west-2 and eu-west-1 in
mid-2026; half of all pools lay between 0.31 and 0.46.
"""
_CATALOG = "catalog.bin"
_LIST = "list-prices.csv"
_RELATIVES = "price-relatives.csv"
_REGIONS = "price-regions.csv"


@cache
def bundled_catalog() -> Catalog:
    """Return the catalogue recorded with this release."""
    return decode_catalog(_read(_CATALOG), file=f"bundled {_CATALOG}")


@cache
def bundled_prices() -> PriceBook:
    """Return list prices for every machine of the bundled catalogue."""
    return list_prices(bundled_catalog().machines)


def list_prices(machines: Iterable[Machine]) -> PriceBook:
    """Return list prices for ``machines``, estimated where the list has a gap."""
    text = _text(_LIST)
    listed = {
        name: float(price)
        for name, (price, _) in decode_table(
            text, columns=("instance_type", "usd_per_hour", "basis"), file=_LIST
        ).items()
    }
    relatives = {
        family: Relative(like, float(factor))
        for family, (like, factor, _) in decode_table(
            _text(_RELATIVES), columns=("family", "like", "factor", "why"), file=_RELATIVES
        ).items()
    }
    factors = decode_table(_text(_REGIONS), columns=("region", "factor"), file=_REGIONS)
    estimates = estimated_prices(listed, machines, relatives)
    return PriceBook(
        source=comment_value(text, "source"),
        date=comment_value(text, "date"),
        list_prices=FrozenDict({**listed, **estimates}),
        region_factors=FrozenDict({name: float(factor) for name, (factor,) in factors.items()}),
        spot_share=SPOT_SHARE,
        estimated=frozenset(estimates),
    )


def _read(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()


def _text(name: str) -> str:
    return _read(name).decode()


def scenarios() -> list[str]:
    """Return the names of the scenarios that come with the program, sorted."""
    folder = resources.files(__package__).joinpath("scenarios")
    return sorted(one.name.removesuffix(".yaml") for one in folder.iterdir())


def scenario(name: str) -> bytes:
    """Return one of them as it is written."""
    return _read(f"scenarios/{name}.yaml")


def sandbox() -> bytes:
    """Return the scenario that ``dovetail sandbox`` starts with."""
    return _read("sandbox.yaml")
