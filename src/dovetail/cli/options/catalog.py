"""Options for catalogue and prices; the bundled ones by default."""

from dovetail.cli.files import read_bytes
from dovetail.codec.catalog.instance_types import decode_catalog
from dovetail.codec.catalog.prices import read_prices
from dovetail.data.bundled import bundled_catalog, list_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook


def catalog_in(file: str | None) -> Catalog:
    """Return the catalogue of a file, else the bundled one."""
    return bundled_catalog() if file is None else decode_catalog(read_bytes(file), file=file)


def prices_in(file: str | None, catalog: Catalog) -> PriceBook:
    """Return the bundled list prices, after those of a file for what it has."""
    listed = list_prices(catalog.instance_types)
    return listed if file is None else read_prices(file, read_bytes(file)).with_list(listed)
