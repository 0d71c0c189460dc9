"""Facts from EC2: the network, and what controllers have left in the account."""

from collections.abc import Sequence
from typing import Any

from dovetail.aws.filters import Filters, filters_of
from dovetail.doctor.sources.query import Asked
from dovetail.doctor.sources.read_only_client import Account

Found = dict[str, Any]


async def network(account: Account, asked: Asked) -> Found:
    """Read what the classes' terms select."""
    subnets: dict[str, tuple[Any, ...]] = {}
    groups: dict[str, tuple[Any, ...]] = {}
    for one in asked.classes:
        subnets[one.name] = await _selected(
            account, "Subnets", "SubnetId", filters_of(one.subnets, id_key="subnet-id")
        )
        groups[one.name] = await _selected(
            account,
            "SecurityGroups",
            "GroupId",
            filters_of(one.groups, id_key="group-id", name_key="group-name"),
        )
    return {"subnets": subnets, "groups": groups}


async def _selected(
    account: Account, what: str, key: str, queries: Sequence[Filters]
) -> tuple[Any, ...]:
    found = {}
    for filters in queries:
        for one in await account.listed("ec2", f"Describe{what}", what, Filters=filters):
            found[one[key]] = one
    return tuple(found[one] for one in sorted(found))


async def routes(account: Account, asked: Asked) -> Found:
    """Read the route tables of the classes' networks."""
    filters = await _in_vpcs(account, asked)
    if not filters:
        return {}
    told = await account.listed("ec2", "DescribeRouteTables", "RouteTables", Filters=filters)
    return {"route_tables": told}


async def endpoints(account: Account, asked: Asked) -> Found:
    """Read which services have an endpoint in the classes' networks."""
    filters = await _in_vpcs(account, asked)
    if not filters:
        return {}
    told = await account.listed("ec2", "DescribeVpcEndpoints", "VpcEndpoints", Filters=filters)
    return {"endpoints": tuple(sorted(str(one["ServiceName"]) for one in told))}


async def _in_vpcs(account: Account, asked: Asked) -> Filters:
    found = await network(account, asked)
    vpcs = {one["VpcId"] for every in found["subnets"].values() for one in every}
    return [{"Name": "vpc-id", "Values": sorted(vpcs)}] if vpcs else []


async def machines(account: Account, asked: Asked) -> Found:
    """Read what a controller makes, by the tags it puts on it."""
    ours: Filters = [
        {"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{asked.cluster}"]},
        {"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]},
    ]
    alive = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping"]}]
    reservations = await account.listed(
        "ec2", "DescribeInstances", "Reservations", Filters=[*ours, *alive]
    )
    interfaces = await account.listed(
        "ec2",
        "DescribeNetworkInterfaces",
        "NetworkInterfaces",
        Filters=[
            {"Name": "tag-key", "Values": ["node.k8s.amazonaws.com/instance_id"]},
            {"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [asked.cluster]},
            {"Name": "status", "Values": ["available"]},
        ],
    )
    templates = await account.listed(
        "ec2",
        "DescribeLaunchTemplates",
        "LaunchTemplates",
        Filters=[
            {"Name": "tag-key", "Values": ["karpenter.k8s.aws/ec2nodeclass"]},
            {"Name": "tag:eks:eks-cluster-name", "Values": [asked.cluster]},
        ],
    )
    return {
        "instances": tuple(one for every in reservations for one in every["Instances"]),
        "interfaces": interfaces,
        "templates": templates,
    }


async def reservations(account: Account, asked: Asked) -> Found:
    """Read the capacity that is reserved now."""
    told = await account.listed(
        "ec2",
        "DescribeCapacityReservations",
        "CapacityReservations",
        Filters=[{"Name": "state", "Values": ["active"]}],
    )
    return {"reservations": told}
