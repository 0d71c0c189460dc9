"""The catalogue file: a line that says what it is, then compressed columns.

The first line is JSON that a person can read with ``head -1``. The rest is
zlib over JSON: one array per field of ``Machine``, in the machines' order, and
per region one number per machine whose bits are the zones that sell it. A
column that is missing gets the field's default, one that is unknown is
ignored, so that files outlive small changes of ``Machine``.
"""

import zlib
from typing import Any

import msgspec

from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog, Machine, Region
from dovetail.model.frozen import FrozenDict

_FORMAT = "dovetail-catalog"
_VERSION = 1
_LARGEST_BYTES = 256 * 1024 * 1024
"""Of the unpacked columns; more than a real catalogue could need."""


class _Header(msgspec.Struct, kw_only=True):
    format: str
    version: int
    recorded: str
    source: str


class _RegionColumns(msgspec.Struct):
    zones: list[tuple[str, str]]
    """(name, id)"""
    sold: list[int]
    """Per machine: bit i is set when zones[i] sells it."""


class _Body(msgspec.Struct):
    columns: dict[str, list[Any]]
    regions: dict[str, _RegionColumns]


def encode_catalog(catalog: Catalog) -> bytes:
    """Write a catalogue; the same catalogue always gives the same bytes."""
    machines = sorted(catalog.machines, key=lambda one: one.name)
    columns = {
        field: [msgspec.to_builtins(getattr(one, field)) for one in machines]
        for field in Machine.__struct_fields__
    }
    names = columns["name"]
    regions = {
        name: _region_columns(catalog.regions[name], names) for name in sorted(catalog.regions)
    }
    header = _Header(
        format=_FORMAT, version=_VERSION, recorded=catalog.recorded, source=catalog.source
    )
    body = msgspec.json.encode(_Body(columns, regions))
    return msgspec.json.encode(header) + b"\n" + zlib.compress(body, 9)


def decode_catalog(data: bytes, *, file: str = "catalogue") -> Catalog:
    """Read a catalogue; raises ``CatalogError`` naming ``file`` if it is none."""
    first, _, packed = data.partition(b"\n")
    header = _read_header(first, file)
    try:
        body = msgspec.json.decode(_unpack(packed), type=_Body)
        machines = _machines(body.columns)
        regions = {name: _region(name, columns, machines) for name, columns in body.regions.items()}
    except (zlib.error, msgspec.MsgspecError, ValueError) as error:
        raise CatalogError(
            f"{file}: damaged ({error}); record it again with `dovetail catalog record`"
        ) from error
    return Catalog(
        recorded=header.recorded,
        source=header.source,
        machines=machines,
        regions=FrozenDict(regions),
    )


def _read_header(line: bytes, file: str) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except msgspec.MsgspecError:
        header = None
    if header is None or header.format != _FORMAT:
        raise CatalogError(f"{file}: this is no catalogue; make one with `dovetail catalog record`")
    if header.version != _VERSION:
        raise CatalogError(
            f"{file}: written in version {header.version} of the format, this program reads"
            f" version {_VERSION}; record it again with `dovetail catalog record`"
        )
    return header


def _unpack(packed: bytes) -> bytes:
    """Decompress, but never more than a real catalogue could need."""
    unpacking = zlib.decompressobj()
    body = unpacking.decompress(packed, _LARGEST_BYTES)
    if not unpacking.eof:
        raise ValueError("cut short or too large")
    return body


def _machines(columns: dict[str, list[Any]]) -> tuple[Machine, ...]:
    known = [field for field in Machine.__struct_fields__ if field in columns]
    rows = zip(*(columns[field] for field in known), strict=True)
    described = [dict(zip(known, row, strict=True)) for row in rows]
    return msgspec.convert(described, tuple[Machine, ...])


def _region_columns(region: Region, names: list[str]) -> _RegionColumns:
    zones = sorted(region.zones.items())
    bits = {zone: 1 << place for place, (zone, _) in enumerate(zones)}
    nowhere: frozenset[str] = frozenset()
    sold = [sum(bits[zone] for zone in region.offered.get(name, nowhere)) for name in names]
    return _RegionColumns(zones, sold)


def _region(name: str, columns: _RegionColumns, machines: tuple[Machine, ...]) -> Region:
    zones = [zone for zone, _ in columns.zones]
    by_bits = {bits: _zones_of(bits, zones) for bits in set(columns.sold)}
    offered = {
        machine.name: by_bits[bits]
        for machine, bits in zip(machines, columns.sold, strict=True)
        if bits
    }
    return Region(name=name, zones=FrozenDict(columns.zones), offered=FrozenDict(offered))


def _zones_of(bits: int, zones: list[str]) -> frozenset[str]:
    if bits >> len(zones):
        raise ValueError("an offering in a zone that is not listed")
    return frozenset(zone for place, zone in enumerate(zones) if bits >> place & 1)
