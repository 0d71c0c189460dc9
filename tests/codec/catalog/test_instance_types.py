"""The catalogue file."""

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.catalog.instance_types import decode_catalog, encode_catalog
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Gpu, NeuronDevice, Region
from dovetail.model.frozen import FrozenDict

SMALL = Catalog(
    recorded="2026-08-01",
    source="a test",
    instance_types=(
        Ec2InstanceType(name="g4dn.xlarge", vcpus=4, memory_mib=16384, gpus=(Gpu("T4", "NVIDIA", 1, 16384),)),
        Ec2InstanceType(name="inf2.xlarge", vcpus=4, memory_mib=16384, neuron=(NeuronDevice("I2", 1, 2),)),
    ),
    regions=FrozenDict(
        {
            "eu-west-1": Region(
                name="eu-west-1",
                zones=FrozenDict({"eu-west-1a": "euw1-az3", "eu-west-1b": "euw1-az1"}),
                offered_zones=FrozenDict({"g4dn.xlarge": frozenset({"eu-west-1b"})}),
            )
        }
    ),
)


def test_a_catalogue_round_trips() -> None:
    assert decode_catalog(encode_catalog(SMALL)) == SMALL


def test_the_bundled_catalogue_round_trips_and_is_small() -> None:
    packed = encode_catalog(bundled_catalog())

    assert decode_catalog(packed) == bundled_catalog()
    assert len(packed) < 250_000


def test_recording_order_does_not_change_the_bytes() -> None:
    shuffled = msgspec.structs.replace(SMALL, instance_types=SMALL.instance_types[::-1])

    assert encode_catalog(shuffled) == encode_catalog(SMALL)


def test_the_first_line_is_a_readable_header() -> None:
    first = msgspec.json.decode(encode_catalog(SMALL).split(b"\n")[0])

    assert first == {"format": "dovetail-catalog", "version": 1, "recorded": "2026-08-01", "source": "a test"}


def test_only_types_that_a_zone_offers_are_in_a_region() -> None:
    assert [facts.name for facts in SMALL.instance_types_in("eu-west-1")] == ["g4dn.xlarge"]
    assert SMALL.instance_types_in("mars-north-1") == ()


def body_of(catalog: Catalog) -> tuple[bytes, dict[str, dict[str, list[object]]]]:
    header, _, packed = encode_catalog(catalog).partition(b"\n")
    return header, msgspec.json.decode(zlib.decompress(packed))


def packed_again(header: bytes, body: object) -> bytes:
    return header + b"\n" + zlib.compress(msgspec.json.encode(body))


def test_a_field_missing_in_an_older_file_gets_its_default() -> None:
    header, body = body_of(SMALL)
    del body["columns"]["gpus"]

    older = decode_catalog(packed_again(header, body))

    assert older.instance_types[0].gpus == ()


def test_a_column_of_a_newer_version_is_ignored() -> None:
    header, body = body_of(SMALL)
    body["columns"]["flux_capacitors"] = [1, 2]

    assert decode_catalog(packed_again(header, body)) == SMALL


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a catalogue"),
        (b"kind: List\nitems: []\n", "not a catalogue"),
        (b'{"format":"something-else","version":1,"recorded":"","source":""}\n', "not a catalogue"),
        (encode_catalog(SMALL).replace(b'"version":1', b'"version":9'), "version 9"),
        (encode_catalog(SMALL)[:-20], "damaged"),
        (encode_catalog(SMALL).partition(b"\n")[0] + b"\nrubbish", "damaged"),
        (packed_again(encode_catalog(SMALL).partition(b"\n")[0], {"columns": 1}), "damaged"),
    ],
)
def test_an_invalid_catalogue_error_names_the_file_and_the_action(data: bytes, message: str) -> None:
    with pytest.raises(CatalogError, match=message) as caught:
        decode_catalog(data, file="mine.bin")

    assert str(caught.value).startswith("mine.bin: ")
    assert "dovetail catalog record" in str(caught.value)


@given(st.binary(max_size=200))
def test_any_content_after_the_header_is_read_or_reported_as_corrupt(rest: bytes) -> None:
    header = encode_catalog(SMALL).partition(b"\n")[0]

    with pytest.raises(CatalogError, match="damaged"):
        decode_catalog(header + b"\n" + rest)


def test_columns_of_different_length_are_reported_as_corrupt() -> None:
    header, body = body_of(SMALL)
    body["columns"]["vcpus"].pop()

    with pytest.raises(CatalogError, match="damaged"):
        decode_catalog(packed_again(header, body))
