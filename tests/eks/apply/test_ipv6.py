"""IPv6 clusters: their VPC, and what cannot be changed."""

from ipaddress import IPv6Network
from typing import Any

import pytest

from dovetail.eks.apply.preflight import ReplacementError, SubnetError
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

pytestmark = pytest.mark.slow


def cluster(zones: list[str] | int = 2, **fields: Any) -> Any:
    return a_cluster(ipFamily="ipv6", vpc={"create": {"zones": zones}}, **fields)


def test_ipv6_cluster_is_created_and_destroyed(account: TestAccount) -> None:
    config = cluster()
    before = account.inventory("us-east-1")
    ec2 = account.client("ec2")

    account.apply(config)
    again = account.plan(config)
    subnets = _subnets(account)
    gateways = ec2.describe_egress_only_internet_gateways()["EgressOnlyInternetGateways"]
    routes = _default_ipv6_routes(account)
    group = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["dev-node"]}])
    left = account.destroy(config)

    assert again.steps == ()
    assert account.eks.clusters == {}
    assert [IPv6Network(block).prefixlen for block in subnets.values()] == [64] * 4
    assert len(set(subnets.values())) == 4
    assert sorted(routes.values()) == ["eigw", "eigw", "igw"]
    assert len(gateways) == 1
    egress = group["SecurityGroups"][0]["IpPermissionsEgress"]
    assert [r["CidrIpv6"] for permission in egress for r in permission.get("Ipv6Ranges", ())] == ["::/0"]
    assert left == []
    assert account.inventory("us-east-1") == before
    assert ec2.describe_egress_only_internet_gateways()["EgressOnlyInternetGateways"] == []


def test_zone_that_is_added_keeps_the_blocks_of_the_others(account: TestAccount) -> None:
    account.apply(cluster(["us-east-1a", "us-east-1c"]))
    before = _subnets(account)

    account.apply(cluster(["us-east-1a", "us-east-1b", "us-east-1c"]))

    after = _subnets(account)
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == 6


def test_address_family_and_service_block_of_a_cluster_cannot_change(account: TestAccount) -> None:
    account.apply(a_cluster(vpc={"create": {"zones": 2}}, serviceCidr="10.100.0.0/16"))

    with pytest.raises(ReplacementError, match=r"^ipFamily: the cluster has ipv4, and EKS cannot change it"):
        account.plan(cluster())
    with pytest.raises(ReplacementError, match=r"^serviceCidr: the cluster has 10\.100\.0\.0/16"):
        account.plan(a_cluster(vpc={"create": {"zones": 2}}, serviceCidr="10.101.0.0/16"))
    # A block that the file does not name stays.
    assert account.plan(a_cluster(vpc={"create": {"zones": 2}})).steps == ()


def test_existing_subnets_need_ipv6_blocks(account: TestAccount) -> None:
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    ids = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{n}.0/24", AvailabilityZone=f"us-east-1{zone}")[
            "Subnet"
        ]["SubnetId"]
        for n, zone in enumerate("ab")
    ]

    with pytest.raises(SubnetError, match=f"vpc.existing.subnets: {ids[0]} has no IPv6 block"):
        account.plan(a_cluster(ipFamily="ipv6", vpc={"existing": {"subnets": {"ids": ids}}}))


def _subnets(account: TestAccount) -> dict[str, str]:
    """Return the IPv6 block of each subnet of the cluster, by name."""
    filters = [{"Name": "tag:dovetail.sh/cluster", "Values": ["dev"]}]
    subnets = account.client("ec2").describe_subnets(Filters=filters)["Subnets"]
    assert all(subnet["AssignIpv6AddressOnCreation"] for subnet in subnets)
    return {
        next(tag["Value"] for tag in subnet["Tags"] if tag["Key"] == "dovetail.sh/resource"): subnet[
            "Ipv6CidrBlockAssociationSet"
        ][0]["Ipv6CidrBlock"]
        for subnet in subnets
    }


def _default_ipv6_routes(account: TestAccount) -> dict[str, str]:
    """Return the kind of gateway of each default route, by route table."""
    filters = [{"Name": "tag:dovetail.sh/cluster", "Values": ["dev"]}]
    return {
        table["RouteTableId"]: (route.get("EgressOnlyInternetGatewayId") or route["GatewayId"]).split("-")[0]
        for table in account.client("ec2").describe_route_tables(Filters=filters)["RouteTables"]
        for route in table["Routes"]
        if route.get("DestinationIpv6CidrBlock") == "::/0"
    }
