"""Recording a catalogue from EC2, spoken to over HTTP."""

import boto3
import pytest
from click.testing import CliRunner

from dovetail.aws.instancetype.record import ec2_clients, record_catalog
from dovetail.cli.catalog.command import catalog
from dovetail.codec.catalog.instance_types import decode_catalog
from dovetail.core.instancetypes.labels import architecture_of
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog
from tests.support.aws.credentials import FAKE_CREDENTIALS
from tests.support.moto.server import MotoAws


@pytest.fixture(scope="module")
def recorded(ec2_url: str, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Output of ``dovetail catalog record``; created once, as it takes seconds."""
    file = tmp_path_factory.mktemp("recorded") / "catalog.bin"
    command = ["record", "--region", "sa-east-1", "-o", str(file), "--endpoint-url", ec2_url]

    result = CliRunner(env=FAKE_CREDENTIALS).invoke(catalog, command)

    assert result.exit_code == 0, result.output
    assert f"{file}: " in result.stderr
    return decode_catalog(file.read_bytes())


def test_every_type_that_a_zone_offers_is_recorded_and_no_other(recorded: Catalog) -> None:
    region = recorded.regions["sa-east-1"]

    assert len(recorded.instance_types) > 700
    assert {instance_type.name for instance_type in recorded.instance_types} == set(region.offered_zones)
    assert all(sold <= region.zones.keys() for sold in region.offered_zones.values())


def test_only_types_that_can_be_nodes_are_recorded(recorded: Catalog) -> None:
    assert {architecture_of(instance_type) for instance_type in recorded.instance_types} == {"amd64", "arm64"}
    assert not [
        instance_type.name
        for instance_type in recorded.instance_types
        if instance_type.name.startswith("mac")
    ]


def test_zones_come_with_their_ids(recorded: Catalog) -> None:
    assert recorded.regions["sa-east-1"].zones == {
        "sa-east-1a": "sae1-az1",
        "sa-east-1b": "sae1-az2",
        "sa-east-1c": "sae1-az3",
    }


def test_the_recorded_date_is_that_of_the_responses(recorded: Catalog) -> None:
    year, month, day = recorded.recorded.split("-")

    assert (len(year), len(month), len(day)) == (4, 2, 2)


def test_what_is_recorded_agrees_with_the_bundled_catalogue(recorded: Catalog) -> None:
    bundled = {instance_type.name: instance_type for instance_type in bundled_catalog().instance_types}

    m5 = next(instance_type for instance_type in recorded.instance_types if instance_type.name == "m5.xlarge")
    assert (m5.vcpus, m5.memory_mib, m5.enis, m5.ipv4_per_eni) == (4, 16384, 4, 15)
    assert m5.card_enis == (4,)
    added = {name for name in bundled if name.startswith(("g4ad.", "i7ie.", "i8ge."))}
    assert [
        entry.name
        for entry in recorded.instance_types
        if entry.name not in added and entry != bundled[entry.name]
    ] == []


def test_each_network_card_is_recorded_with_its_limit(recorded: Catalog) -> None:
    limits = {entry.name: entry.card_enis for entry in recorded.instance_types if entry.network_cards > 1}

    assert limits["m6in.32xlarge"] == (8, 8)
    assert all(len(cards) > 1 for cards in limits.values())


@pytest.mark.usefixtures("aws_credentials")
def test_types_with_two_architectures_are_recorded(recorded: Catalog) -> None:
    small = {entry.name: entry for entry in recorded.instance_types}["t2.nano"]

    assert small.architectures == ("i386", "x86_64")
    assert architecture_of(small) == "amd64"


@pytest.mark.usefixtures("aws_credentials")
def test_without_permission_for_zones_those_of_offerings_and_subnets_are_recorded(moto: MotoAws) -> None:
    moto.reset()
    ec2 = boto3.client("ec2", region_name="sa-east-1", endpoint_url=moto.url)
    for subnet in ec2.describe_subnets()["Subnets"]:
        if not subnet["AvailabilityZone"].endswith("a"):
            ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    moto.middleware.is_forbidden = lambda operation: operation == "DescribeAvailabilityZones"
    lines: list[str] = []

    catalog = record_catalog(["sa-east-1"], clients=ec2_clients(moto.url), progress=lines.append)

    moto.middleware.reset()
    assert catalog.regions["sa-east-1"].zones == {
        "sa-east-1a": "sae1-az1",
        "sa-east-1b": "",
        "sa-east-1c": "",
    }
    assert catalog.regions["sa-east-1"].offered_zones["m5.large"] == set(catalog.regions["sa-east-1"].zones)
    assert [line for line in lines if "no permission for DescribeAvailabilityZones" in line]
    assert catalog.recorded


@pytest.mark.usefixtures("aws_credentials")
def test_a_region_without_offerings_is_an_error(ec2_url: str) -> None:
    with pytest.raises(CatalogError, match="region mx-central-1: EC2 offers no instance type"):
        record_catalog(["mx-central-1"], clients=ec2_clients(ec2_url))


@pytest.mark.usefixtures("aws_credentials")
def test_an_invalid_endpoint_url_is_an_error() -> None:
    with pytest.raises(CatalogError, match="region us-east-1: Invalid endpoint"):
        record_catalog(["us-east-1"], clients=ec2_clients("not a url"))
