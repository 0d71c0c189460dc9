"""Facts from EC2: network, and resources created by controllers."""

from collections.abc import Sequence
from typing import Any

from dovetail.aws.filters import Filters, selector_filters
from dovetail.doctor.sources.query import AwsFields, AwsQuery
from dovetail.doctor.sources.read_only_client import ReadOnlyAws


async def network(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the subnets and security groups that node classes select."""
    subnets: dict[str, tuple[Any, ...]] = {}
    groups: dict[str, tuple[Any, ...]] = {}
    for node_class in query.classes:
        subnets[node_class.name] = await _selected(
            account, "Subnets", "SubnetId", selector_filters(node_class.subnets, id_key="subnet-id")
        )
        groups[node_class.name] = await _selected(
            account,
            "SecurityGroups",
            "GroupId",
            selector_filters(node_class.groups, id_key="group-id", name_key="group-name"),
        )
    return {"subnets": subnets, "groups": groups}


async def cluster_groups(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the security groups of the control plane's network interfaces."""
    response = await account.request("eks", "DescribeCluster", name=query.cluster)
    network = response["cluster"].get("resourcesVpcConfig") or {}
    ids = {*(network.get("securityGroupIds") or ()), network.get("clusterSecurityGroupId") or ""} - {""}
    if not ids:
        return {}
    filters: Filters = [{"Name": "group-id", "Values": sorted(ids)}]
    groups = await account.list_items("ec2", "DescribeSecurityGroups", "SecurityGroups", Filters=filters)
    return {"cluster_groups": groups}


async def _selected(
    account: ReadOnlyAws, resources: str, key: str, queries: Sequence[Filters]
) -> tuple[Any, ...]:
    by_id = {}
    for filters in queries:
        for resource in await account.list_items("ec2", f"Describe{resources}", resources, Filters=filters):
            by_id[resource[key]] = resource
    return tuple(by_id[resource_id] for resource_id in sorted(by_id))


async def routes(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the route tables of the node classes' VPCs."""
    filters = await _in_vpcs(account, query)
    if not filters:
        return {}
    tables = await account.list_items("ec2", "DescribeRouteTables", "RouteTables", Filters=filters)
    return {"route_tables": tables}


async def endpoints(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the VPC endpoints of the node classes' VPCs."""
    filters = await _in_vpcs(account, query)
    if not filters:
        return {}
    endpoints = await account.list_items("ec2", "DescribeVpcEndpoints", "VpcEndpoints", Filters=filters)
    return {"endpoints": tuple(sorted(str(endpoint["ServiceName"]) for endpoint in endpoints))}


async def _in_vpcs(account: ReadOnlyAws, query: AwsQuery) -> Filters:
    selected = await network(account, query)
    vpcs = {subnet["VpcId"] for subnets in selected["subnets"].values() for subnet in subnets}
    return [{"Name": "vpc-id", "Values": sorted(vpcs)}] if vpcs else []


async def instances(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read instances, interfaces and launch templates of controllers, by tag."""
    by_cluster: Filters = [
        {"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{query.cluster}"]},
        {"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]},
    ]
    alive = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping"]}]
    reservations = await account.list_items(
        "ec2", "DescribeInstances", "Reservations", Filters=[*by_cluster, *alive]
    )
    interfaces = await account.list_items(
        "ec2",
        "DescribeNetworkInterfaces",
        "NetworkInterfaces",
        Filters=[
            {"Name": "tag-key", "Values": ["node.k8s.amazonaws.com/instance_id"]},
            {"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [query.cluster]},
            {"Name": "status", "Values": ["available"]},
        ],
    )
    templates = await account.list_items(
        "ec2",
        "DescribeLaunchTemplates",
        "LaunchTemplates",
        Filters=[
            {"Name": "tag-key", "Values": ["karpenter.k8s.aws/ec2nodeclass"]},
            {"Name": "tag:eks:eks-cluster-name", "Values": [query.cluster]},
        ],
    )
    return {
        "instances": tuple(instance for reservation in reservations for instance in reservation["Instances"]),
        "interfaces": interfaces,
        "templates": templates,
    }


async def reservations(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the active capacity reservations."""
    reservations = await account.list_items(
        "ec2",
        "DescribeCapacityReservations",
        "CapacityReservations",
        Filters=[{"Name": "state", "Values": ["active"]}],
    )
    return {"reservations": reservations}
