"""Recording a catalogue from EC2, spoken to over HTTP."""

import pytest
from click.testing import CliRunner

from dovetail.aws.instancetype.record import ec2_clients, record_catalog
from dovetail.cli.catalog.command import catalog
from dovetail.codec.catalog.instance_types import decode_catalog
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog
from tests.aws.ec2 import FAKE_CREDENTIALS


@pytest.fixture(scope="module")
def recorded(ec2_url: str, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """What ``dovetail catalog record`` wrote; made once, for it takes seconds."""
    file = tmp_path_factory.mktemp("recorded") / "catalog.bin"
    command = ["record", "--region", "sa-east-1", "-o", str(file), "--endpoint-url", ec2_url]

    result = CliRunner(env=FAKE_CREDENTIALS).invoke(catalog, command)

    assert result.exit_code == 0, result.output
    assert f"{file}: " in result.stderr
    return decode_catalog(file.read_bytes())


def test_every_type_that_a_zone_offers_is_recorded_and_no_other(recorded: Catalog) -> None:
    region = recorded.regions["sa-east-1"]

    assert len(recorded.machines) > 700
    assert {one.name for one in recorded.machines} == set(region.offered)
    assert all(sold <= region.zones.keys() for sold in region.offered.values())


def test_only_machines_that_kubernetes_nodes_can_be_are_recorded(recorded: Catalog) -> None:
    assert {one.architectures[0] for one in recorded.machines} == {"x86_64", "arm64"}
    assert not [one.name for one in recorded.machines if one.name.startswith("mac")]


def test_zones_come_with_their_ids(recorded: Catalog) -> None:
    assert recorded.regions["sa-east-1"].zones == {
        "sa-east-1a": "sae1-az1",
        "sa-east-1b": "sae1-az2",
        "sa-east-1c": "sae1-az3",
    }


def test_the_day_is_the_one_on_the_answers(recorded: Catalog) -> None:
    year, month, day = recorded.recorded.split("-")

    assert (len(year), len(month), len(day)) == (4, 2, 2)


def test_what_is_recorded_agrees_with_the_bundled_catalogue(recorded: Catalog) -> None:
    bundled = {one.name: one for one in bundled_catalog().machines}

    m5 = next(one for one in recorded.machines if one.name == "m5.xlarge")
    assert (m5.vcpus, m5.memory_mib, m5.enis, m5.ipv4_per_eni) == (4, 16384, 4, 15)
    assert m5 == bundled["m5.xlarge"]


@pytest.mark.usefixtures("aws_credentials")
def test_a_region_in_which_nothing_is_sold_is_refused(ec2_url: str) -> None:
    with pytest.raises(CatalogError, match="region mx-central-1: EC2 offers no instance type"):
        record_catalog(["mx-central-1"], clients=ec2_clients(ec2_url))


@pytest.mark.usefixtures("aws_credentials")
def test_an_address_that_is_no_url_is_refused_in_a_sentence() -> None:
    with pytest.raises(CatalogError, match="region us-east-1: Invalid endpoint"):
        record_catalog(["us-east-1"], clients=ec2_clients("not a url"))
