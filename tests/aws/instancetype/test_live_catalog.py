"""The catalogue as EC2 tells it, kept current; moto is the EC2."""

from collections.abc import Iterator

import pytest

from dovetail.aws.instancetype.catalog import LiveCatalog
from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.ports.cloudprovider import CloudError
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from tests.aws.pricelists import Process
from tests.support.cluster import START
from tests.support.moto.door import Fault
from tests.support.moto.server import MotoAws

REGION = "sa-east-1"
BOOK = PriceBook(
    source="given",
    list_prices=FrozenDict({one.name: 0.1 for one in bundled_catalog().machines}),
    region_factors=FrozenDict({REGION: 1.0}),
    spot_share=0.4,
)


@pytest.fixture
def process(moto: MotoAws, aws_credentials: None) -> Iterator[Process]:
    one = Process(moto.url, region=REGION)
    yield one
    one.end()
    moto.door.reset()


def a_catalog(process: Process) -> LiveCatalog:
    return LiveCatalog(aws=process.aws, loop=process.loop, log=process.log)


def a_shelf(catalog: LiveCatalog) -> Shelf:
    return Shelf(catalog.machines, region=catalog.region, prices=BOOK, scarcity=Scarcity())


def test_what_ec2_sells_is_on_the_shelf_and_a_refresh_that_brings_nothing_new_changes_nothing(
    process: Process,
) -> None:
    catalog = a_catalog(process)
    shelf = a_shelf(catalog)

    process.do(catalog.start())
    shelf.supply(catalog.machines, region=catalog.region, prices=BOOK)
    first = shelf.instance_types(NodeClass(), now=START)
    process.do(catalog.refresh())
    shelf.supply(catalog.machines, region=catalog.region, prices=BOOK)

    assert {one.name for one in first} == set(catalog.region.offered)
    assert {"m5.large", "t4g.small"} <= {one.name for one in first}
    assert set(catalog.region.zones) == {"sa-east-1a", "sa-east-1b", "sa-east-1c"}
    assert shelf.instance_types(NodeClass(), now=START) is first
    assert len(process.log.said("discovered instance types")) == 1


def test_an_ec2_that_does_not_answer_at_the_start_is_an_error_and_later_no_harm(
    process: Process, moto: MotoAws
) -> None:
    catalog = a_catalog(process)
    refused = Fault(
        operation="DescribeInstanceTypeOfferings",
        code="UnauthorizedOperation",
        status=403,
        times=3,
    )
    moto.door.script(refused)

    with pytest.raises(CloudError, match="DescribeInstanceTypeOfferings"):
        process.do(catalog.start())
    assert catalog.machines == ()

    assert [process.do(catalog.refresh()) for _ in range(2)] == [False, False]
    assert len(process.log.said("updating instance types failed")) == 1
    assert process.do(catalog.refresh())
    assert catalog.machines
