"""Encoder and decoder of the instance type catalogue file.

The first line is a JSON header, readable with ``head -1``. The rest is JSON
compressed with zlib: one array per field of ``Ec2InstanceType``, all in the order
of the instance types, and per region one integer per instance type whose bits are
the zones that offer it. A missing column reads as the default of the field and an
unknown column is ignored, so that small changes of the struct stay compatible.
"""

import zlib
from typing import Any

import msgspec

from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Region
from dovetail.model.frozen import FrozenDict

_FORMAT = "dovetail-catalog"
_VERSION = 1
_MAX_BYTES = 256 * 1024 * 1024
"""Limit of the decompressed columns, far above a real catalogue."""


class _Header(msgspec.Struct, kw_only=True):
    format: str
    version: int
    recorded: str
    source: str


class _RegionColumns(msgspec.Struct):
    zones: list[tuple[str, str]]
    """(name, ID)"""
    offered: list[int] = msgspec.field(name="sold")
    """Per instance type: bit i is set if zones[i] offers it."""


class _Body(msgspec.Struct):
    columns: dict[str, list[Any]]
    regions: dict[str, _RegionColumns]


def encode_catalog(catalog: Catalog) -> bytes:
    """Encode a catalogue; equal catalogues give equal bytes."""
    instance_types = sorted(catalog.instance_types, key=lambda facts: facts.name)
    columns = {
        field: [msgspec.to_builtins(getattr(facts, field)) for facts in instance_types]
        for field in Ec2InstanceType.__struct_fields__
    }
    names = columns["name"]
    regions = {name: _encode_region(catalog.regions[name], names) for name in sorted(catalog.regions)}
    header = _Header(format=_FORMAT, version=_VERSION, recorded=catalog.recorded, source=catalog.source)
    body = msgspec.json.encode(_Body(columns, regions))
    return msgspec.json.encode(header) + b"\n" + zlib.compress(body, 9)


def decode_catalog(data: bytes, *, file: str = "catalogue") -> Catalog:
    """Decode a catalogue; raises ``CatalogError`` with the name ``file`` if it is invalid."""
    header_line, _, packed = data.partition(b"\n")
    header = _read_header(header_line, file)
    try:
        body = msgspec.json.decode(_decompress(packed), type=_Body)
        instance_types = _decode_instance_types(body.columns)
        regions = {
            name: _decode_region(name, columns, instance_types) for name, columns in body.regions.items()
        }
    except (zlib.error, msgspec.MsgspecError, ValueError) as error:
        raise CatalogError(
            f"{file}: damaged ({error}); record it again with `dovetail catalog record`"
        ) from error
    return Catalog(
        recorded=header.recorded,
        source=header.source,
        instance_types=instance_types,
        regions=FrozenDict(regions),
    )


def _read_header(line: bytes, file: str) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except msgspec.MsgspecError:
        header = None
    if header is None or header.format != _FORMAT:
        raise CatalogError(f"{file}: this is not a catalogue; create one with `dovetail catalog record`")
    if header.version != _VERSION:
        raise CatalogError(
            f"{file}: written in version {header.version} of the format, this program reads"
            f" version {_VERSION}; record it again with `dovetail catalog record`"
        )
    return header


def _decompress(packed: bytes) -> bytes:
    """Decompress at most ``_MAX_BYTES``."""
    decompressor = zlib.decompressobj()
    body = decompressor.decompress(packed, _MAX_BYTES)
    if not decompressor.eof:
        raise ValueError("cut short or too large")
    return body


def _decode_instance_types(columns: dict[str, list[Any]]) -> tuple[Ec2InstanceType, ...]:
    names = [field for field in Ec2InstanceType.__struct_fields__ if field in columns]
    rows = zip(*(columns[field] for field in names), strict=True)
    described = [dict(zip(names, row, strict=True)) for row in rows]
    return msgspec.convert(described, tuple[Ec2InstanceType, ...])


def _encode_region(region: Region, names: list[str]) -> _RegionColumns:
    zones = sorted(region.zones.items())
    bits = {zone: 1 << index for index, (zone, _) in enumerate(zones)}
    no_zones: frozenset[str] = frozenset()
    offered = [sum(bits[zone] for zone in region.offered_zones.get(name, no_zones)) for name in names]
    return _RegionColumns(zones, offered)


def _decode_region(name: str, columns: _RegionColumns, instance_types: tuple[Ec2InstanceType, ...]) -> Region:
    zones = [zone for zone, _ in columns.zones]
    by_bits = {bits: _decode_zones(bits, zones) for bits in set(columns.offered)}
    offered = {
        facts.name: by_bits[bits] for facts, bits in zip(instance_types, columns.offered, strict=True) if bits
    }
    return Region(name=name, zones=FrozenDict(columns.zones), offered_zones=FrozenDict(offered))


def _decode_zones(bits: int, zones: list[str]) -> frozenset[str]:
    if bits >> len(zones):
        raise ValueError("an offering in a zone that is not listed")
    return frozenset(zone for index, zone in enumerate(zones) if bits >> index & 1)
