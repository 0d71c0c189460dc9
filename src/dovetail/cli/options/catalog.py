"""The catalogue and the prices that a command goes by: those given, else the bundled ones."""

from dovetail.cli.files import read_bytes
from dovetail.codec.catalog.instance_types import decode_catalog
from dovetail.codec.catalog.prices import read_prices
from dovetail.data.bundled import bundled_catalog, list_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook


def catalog_in(file: str | None) -> Catalog:
    """Read the catalogue, if one is named."""
    return bundled_catalog() if file is None else decode_catalog(read_bytes(file), file=file)


def prices_in(file: str | None, catalog: Catalog) -> PriceBook:
    """Read the price book, if one is named."""
    return list_prices(catalog.machines) if file is None else read_prices(file, read_bytes(file))
