"""The catalogue file."""

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.catalog.instance_types import decode_catalog, encode_catalog
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog, Gpu, Machine, NeuronDevice, Region
from dovetail.model.frozen import FrozenDict

SMALL = Catalog(
    recorded="2026-08-01",
    source="a test",
    machines=(
        Machine(
            name="g4dn.xlarge", vcpus=4, memory_mib=16384, gpus=(Gpu("T4", "NVIDIA", 1, 16384),)
        ),
        Machine(name="inf2.xlarge", vcpus=4, memory_mib=16384, neuron=(NeuronDevice("I2", 1, 2),)),
    ),
    regions=FrozenDict(
        {
            "eu-west-1": Region(
                name="eu-west-1",
                zones=FrozenDict({"eu-west-1a": "euw1-az3", "eu-west-1b": "euw1-az1"}),
                offered=FrozenDict({"g4dn.xlarge": frozenset({"eu-west-1b"})}),
            )
        }
    ),
)


def test_a_catalogue_survives_being_written_and_read() -> None:
    assert decode_catalog(encode_catalog(SMALL)) == SMALL


def test_the_bundled_catalogue_survives_too_and_is_small() -> None:
    packed = encode_catalog(bundled_catalog())

    assert decode_catalog(packed) == bundled_catalog()
    assert len(packed) < 250_000


def test_the_order_in_which_things_were_recorded_does_not_change_the_bytes() -> None:
    shuffled = msgspec.structs.replace(SMALL, machines=SMALL.machines[::-1])

    assert encode_catalog(shuffled) == encode_catalog(SMALL)


def test_the_first_line_tells_a_person_what_the_file_is() -> None:
    first = msgspec.json.decode(encode_catalog(SMALL).split(b"\n")[0])

    assert first == {
        "format": "dovetail-catalog",
        "version": 1,
        "recorded": "2026-08-01",
        "source": "a test",
    }


def test_only_types_that_a_zone_sells_are_in_a_region() -> None:
    assert [one.name for one in SMALL.machines_in("eu-west-1")] == ["g4dn.xlarge"]
    assert SMALL.machines_in("mars-north-1") == ()


def body_of(catalog: Catalog) -> tuple[bytes, dict[str, dict[str, list[object]]]]:
    header, _, packed = encode_catalog(catalog).partition(b"\n")
    return header, msgspec.json.decode(zlib.decompress(packed))


def packed_again(header: bytes, body: object) -> bytes:
    return header + b"\n" + zlib.compress(msgspec.json.encode(body))


def test_a_field_that_the_file_does_not_know_yet_gets_its_default() -> None:
    header, body = body_of(SMALL)
    del body["columns"]["gpus"]

    older = decode_catalog(packed_again(header, body))

    assert older.machines[0].gpus == ()


def test_a_column_from_a_newer_program_is_ignored() -> None:
    header, body = body_of(SMALL)
    body["columns"]["flux_capacitors"] = [1, 2]

    assert decode_catalog(packed_again(header, body)) == SMALL


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "no catalogue"),
        (b"kind: List\nitems: []\n", "no catalogue"),
        (b'{"format":"something-else","version":1,"recorded":"","source":""}\n', "no catalogue"),
        (encode_catalog(SMALL).replace(b'"version":1', b'"version":9'), "version 9"),
        (encode_catalog(SMALL)[:-20], "damaged"),
        (encode_catalog(SMALL).partition(b"\n")[0] + b"\nrubbish", "damaged"),
        (packed_again(encode_catalog(SMALL).partition(b"\n")[0], {"columns": 1}), "damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(data: bytes, told: str) -> None:
    with pytest.raises(CatalogError, match=told) as caught:
        decode_catalog(data, file="mine.bin")

    assert str(caught.value).startswith("mine.bin: ")
    assert "dovetail catalog record" in str(caught.value)


@given(st.binary(max_size=200))
def test_whatever_follows_the_first_line_is_read_or_called_damaged(rest: bytes) -> None:
    header = encode_catalog(SMALL).partition(b"\n")[0]

    with pytest.raises(CatalogError, match="damaged"):
        decode_catalog(header + b"\n" + rest)


def test_columns_of_different_length_are_damage() -> None:
    header, body = body_of(SMALL)
    body["columns"]["vcpus"].pop()

    with pytest.raises(CatalogError, match="damaged"):
        decode_catalog(packed_again(header, body))
