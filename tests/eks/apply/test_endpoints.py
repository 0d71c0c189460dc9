"""VPC endpoints and a VPC without NAT gateway, applied, changed and destroyed."""

from typing import Any

import pytest

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.network import PRIVATE_SERVICES
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

pytestmark = pytest.mark.slow


def the_cluster(**network: Any) -> ClusterConfig:
    return a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": 2, **network}})


def services(account: TestAccount) -> dict[str, Any]:
    """Return the endpoints that exist, by service."""
    endpoints = account.client("ec2").describe_vpc_endpoints()["VpcEndpoints"]
    prefix = "com.amazonaws.us-east-1."
    return {
        endpoint["ServiceName"].removeprefix(prefix): endpoint
        for endpoint in endpoints
        if endpoint["State"] != "deleted"
    }


def test_private_cluster_is_created_and_destroyed(account: TestAccount) -> None:
    before = account.inventory("us-east-1")
    config = the_cluster(nat="none")

    account.apply(config)

    created = services(account)
    assert set(created) == set(PRIVATE_SERVICES)
    assert created["s3"]["VpcEndpointType"] == "Gateway"
    assert len(created["s3"]["RouteTableIds"]) == 2
    assert created["ec2"]["VpcEndpointType"] == "Interface"
    assert len(created["ec2"]["SubnetIds"]) == 2
    assert created["ec2"]["PrivateDnsEnabled"]
    assert account.client("ec2").describe_nat_gateways()["NatGateways"] == []
    assert account.plan(config).steps == ()
    assert account.destroy(config) == []
    assert account.inventory("us-east-1") == before


def test_endpoints_are_added_and_removed(account: TestAccount) -> None:
    plain, with_endpoints = the_cluster(), the_cluster(endpoints=["s3", "logs"])
    account.apply(plain)

    account.apply(with_endpoints)
    added = set(services(account))
    account.apply(the_cluster(endpoints=["s3"]))
    reduced = set(services(account))
    account.apply(plain)

    assert added == {"s3", "logs"}
    assert reduced == {"s3"}
    assert services(account) == {}
    assert account.plan(plain).steps == ()


def test_additional_zone_is_added_to_endpoints(account: TestAccount) -> None:
    account.apply(the_cluster(zones=["us-east-1a", "us-east-1b"], endpoints=["s3", "logs"]))
    three_zones = the_cluster(zones=["us-east-1a", "us-east-1b", "us-east-1c"], endpoints=["s3", "logs"])

    account.apply(three_zones)

    assert len(services(account)["logs"]["SubnetIds"]) == 3
    assert len(services(account)["s3"]["RouteTableIds"]) == 3
    assert account.plan(three_zones).steps == ()


def test_nat_gateway_is_replaced_by_endpoints_and_back(account: TestAccount) -> None:
    before = account.inventory("us-east-1")
    public, private = the_cluster(nat="single"), the_cluster(nat="none")
    account.apply(public)

    result = account.apply(private)

    order = [step.id for step in result.done]
    nat_gateway = next(step_id for step_id in order if step_id.startswith("delete nat-gateway/"))
    last_endpoint = max(order.index(f"create vpc-endpoint/{service}") for service in PRIVATE_SERVICES)
    assert last_endpoint < order.index(nat_gateway)
    assert set(services(account)) == set(PRIVATE_SERVICES)
    assert account.plan(private).steps == ()
    account.apply(public)
    assert services(account) == {}
    assert account.plan(public).steps == ()
    assert account.destroy(public) == []
    assert account.inventory("us-east-1") == before
