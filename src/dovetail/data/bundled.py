"""Bundled data: instance type catalogue, prices and scenarios; decoded once."""

from collections.abc import Iterable
from functools import cache
from importlib import resources

from dovetail.codec.catalog.instance_types import decode_catalog
from dovetail.codec.catalog.prices import comment_value, decode_table
from dovetail.core.instancetypes.price_estimates import PriceReference, estimate_prices
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict

SPOT_SHARE = 0.38
"""Spot price as a share of on-demand, where no spot price is known.

The median over all types and zones of us-east-1, us-west-2 and eu-west-1 in mid-2026;
half of all pools were between 0.31 and 0.46.
"""
DEFAULT_FACTOR = 1.0
"""On-demand prices of a region that the table of factors lacks, relative to the list."""
_LIST_REGION = "us-east-1"
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
    """Return list prices for every instance type of the bundled catalogue."""
    return list_prices(bundled_catalog().instance_types)


def list_prices(instance_types: Iterable[Ec2InstanceType]) -> PriceBook:
    """Return list prices, estimated where the list has a gap."""
    text = _text(_LIST)
    listed = {
        name: float(price)
        for name, (price, _) in decode_table(
            text, columns=("instance_type", "usd_per_hour", "basis"), file=_LIST
        ).items()
    }
    relatives = {
        family: PriceReference(like, float(factor))
        for family, (like, factor, _) in decode_table(
            _text(_RELATIVES), columns=("family", "like", "factor", "why"), file=_RELATIVES
        ).items()
    }
    factors = decode_table(_text(_REGIONS), columns=("region", "factor"), file=_REGIONS)
    estimates = estimate_prices(listed, instance_types, relatives)
    return PriceBook(
        source=comment_value(text, "source"),
        date=comment_value(text, "date"),
        list_prices=FrozenDict({**listed, **estimates}),
        list_region=_LIST_REGION,
        default_factor=DEFAULT_FACTOR,
        region_factors=FrozenDict({name: float(factor) for name, (factor,) in factors.items()}),
        spot_ratio=SPOT_SHARE,
        estimated=frozenset(estimates),
    )


def _read(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()


def _text(name: str) -> str:
    return _read(name).decode()


def bundled_scenario_names() -> list[str]:
    """Return the names of the bundled scenarios, sorted."""
    folder = resources.files(__package__).joinpath("scenarios")
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())


def bundled_scenario(name: str) -> bytes:
    """Return the text of a bundled scenario."""
    return _read(f"scenarios/{name}.yaml")


def bundled_sandbox_scenario() -> bytes:
    """Return the scenario that ``dovetail sandbox`` starts with."""
    return _read("sandbox.yaml")
