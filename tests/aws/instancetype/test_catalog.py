"""Live catalogue against moto."""

from collections.abc import Iterator

import pytest

from dovetail.aws.instancetype.catalog import LiveCatalog
from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.ports.cloudprovider import CloudError
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.support.aws.pricelists import Process
from tests.support.moto.instance_types import few_instance_types
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws
from tests.support.simulator.api_server import START

REGION = "sa-east-1"
REFUSAL = "cannot read availability zones; zone ids are those of the subnets of node classes"
BOOK = PriceBook(
    source="given",
    list_prices=FrozenDict({instance_type.name: 0.1 for instance_type in bundled_catalog().instance_types}),
    region_factors=FrozenDict({REGION: 1.0}),
    spot_ratio=0.4,
)


@pytest.fixture(scope="module", autouse=True)
def instance_types() -> Iterator[None]:
    with few_instance_types():
        yield


@pytest.fixture
def process(moto: MotoAws, aws_credentials: None) -> Iterator[Process]:
    entry = Process(moto.url, region=REGION)
    yield entry
    entry.end()
    moto.middleware.reset()


def a_catalog(process: Process) -> LiveCatalog:
    return LiveCatalog(aws=process.aws, log=process.log)


def instance_type_provider(catalog: LiveCatalog) -> InstanceTypeProvider:
    return InstanceTypeProvider(
        catalog.instance_types, region=catalog.region, prices=BOOK, unavailable=UnavailableOfferings()
    )


def test_a_refresh_without_changes_keeps_the_instance_types(process: Process) -> None:
    catalog = a_catalog(process)
    provider = instance_type_provider(catalog)

    process.do(catalog.start())
    provider.update_catalog(catalog.instance_types, region=catalog.region, prices=BOOK)
    first = provider.instance_types(EC2NodeClass(), now=START)
    process.do(catalog.refresh())
    provider.update_catalog(catalog.instance_types, region=catalog.region, prices=BOOK)

    assert {entry.name for entry in first} == set(catalog.region.offered_zones)
    assert {"m5.large", "t4g.small"} <= {entry.name for entry in first}
    assert set(catalog.region.zones) == {"sa-east-1a", "sa-east-1b", "sa-east-1c"}
    assert provider.instance_types(EC2NodeClass(), now=START) is first
    assert len(process.log.entries("discovered instance types")) == 1


def test_an_unavailable_ec2_fails_at_startup_only(process: Process, moto: MotoAws) -> None:
    catalog = a_catalog(process)
    refused = ScriptedError(
        operation="DescribeInstanceTypeOfferings", code="UnauthorizedOperation", status=403, times=3
    )
    moto.middleware.add_error(refused)

    with pytest.raises(CloudError, match="DescribeInstanceTypeOfferings"):
        process.do(catalog.start())
    assert catalog.instance_types == ()

    assert [process.do(catalog.refresh()) for _ in range(2)] == [False, False]
    assert len(process.log.entries("updating instance types failed")) == 1
    assert process.do(catalog.refresh())
    assert catalog.instance_types


def forbid_zones(moto: MotoAws) -> None:
    moto.middleware.is_forbidden = lambda operation: operation == "DescribeAvailabilityZones"


def test_without_permission_to_read_zones_they_are_those_of_the_offerings(
    process: Process, moto: MotoAws
) -> None:
    catalog = a_catalog(process)
    forbid_zones(moto)
    process.do(catalog.start())
    process.do(catalog.refresh())
    types, region = catalog.instance_types, catalog.region

    moto.middleware.reset()
    process.do(catalog.refresh())

    refusals = process.log.entries(REFUSAL)
    assert len(refusals) == 1
    assert "DescribeAvailabilityZones: UnauthorizedOperation" in refusals[0]["error"]
    assert set(region.zones.values()) == {""}
    # With the permission, EC2 adds the zone ids and nothing else.
    assert all(catalog.region.zones.values())
    assert set(catalog.region.zones) == set(region.zones)
    assert catalog.region.offered_zones == region.offered_zones
    assert catalog.instance_types is types


def test_zone_ids_are_kept_if_the_permission_is_taken_away(process: Process, moto: MotoAws) -> None:
    catalog = a_catalog(process)
    process.do(catalog.start())
    known = catalog.region

    forbid_zones(moto)
    refreshed = process.do(catalog.refresh())

    assert refreshed
    assert catalog.region is known
    assert all(known.zones.values())


def test_zones_that_cannot_be_read_now_fail_the_start(process: Process, moto: MotoAws) -> None:
    moto.middleware.add_error(ScriptedError(operation="DescribeAvailabilityZones", times=9))

    with pytest.raises(CloudError, match="DescribeAvailabilityZones: RequestLimitExceeded"):
        process.do(a_catalog(process).start())
