"""Check before destroy: resources of others that would block it halfway.

AWS deletes no cluster that has a node group, and no VPC with a network interface
in use. That error would come after most of the cluster is gone, including the
controllers that could have cleaned up. So the check runs before the first step.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

from dovetail.eks.aws_client import Raw, none_if_not_found
from dovetail.eks.destroy.leftovers import Leftover
from dovetail.eks.plan.resource import DesiredResource, ObservedState
from dovetail.eks.session import ClusterSession
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import SERVICES

_LOAD_BALANCER_PREFIX: Final = "ELB "
_INTERFACE_OWNERS: Final = {
    "RDSNetworkInterface": "an RDS database",
    "EFS mount target": "an EFS file system",
    "AWS Lambda VPC ENI": "a Lambda function",
    "ElastiCache": "an ElastiCache cache",
}
"""Start of an interface's description → the AWS resource that owns the interface."""
_NODE_LISTS: Final = (
    ("eks-node-group", "managed node group", "list_nodegroups", "nodegroups"),
    ("eks-fargate-profile", "Fargate profile", "list_fargate_profiles", "fargateProfileNames"),
)
"""Kind, display name, boto3 method, key of the list in its response."""


class DestroyBlockedError(DovetailError):
    """Resources of others would block the deletion of the cluster or its VPC."""


async def check_blockers(session: ClusterSession, observed: ObservedState) -> None:
    """Raise ``DestroyBlockedError`` with all resources that would block destroy."""
    blockers = [f"  {blocker}" async for blocker in _find_blockers(session, observed)]
    if blockers:
        head = "these resources are not in the file and would block destroy; delete them first:"
        raise DestroyBlockedError("\n".join([head, *blockers, "nothing was changed"]))


async def _find_blockers(session: ClusterSession, observed: ObservedState) -> AsyncIterator[Leftover]:
    cluster_exists = f"eks-cluster/{session.config.name}" in observed.resources
    if cluster_exists and not session.uses_existing_cluster:
        async for group in _find_node_groups(session, observed):
            yield group
        async for service in _find_services(session):
            yield service
    vpc = observed.resources.get("vpc/main")
    if vpc is not None:
        async for interface in _find_interfaces(session, str(vpc.attributes["id"])):
            yield interface


async def _find_node_groups(session: ClusterSession, observed: ObservedState) -> AsyncIterator[Leftover]:
    """Yield node groups and Fargate profiles that others added to the cluster."""
    for kind, display_name, method, key in _NODE_LISTS:
        work = session.aws.list_all("eks", method, key, clusterName=session.config.name)
        for name in await none_if_not_found(work) or ():
            if f"{kind}/{name}" not in observed.resources:
                yield Leftover(display_name, name, "EKS does not delete a cluster that has one")


async def _find_services(session: ClusterSession) -> AsyncIterator[Leftover]:
    """Yield Services whose load balancers would outlive the cluster."""
    api = await session.api_access.connect()
    if api is None:
        return
    names = {resource.name for resource in session.desired if resource.kind == "kubernetes-object"}
    for service in await api.client.list(SERVICES):
        metadata = service["metadata"]
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        is_load_balancer = service.get("spec", {}).get("type") == "LoadBalancer"
        if is_load_balancer and f"Service/{name}" not in names:
            yield Leftover("Service", name, "its load balancer would remain and block the VPC")


async def _find_interfaces(session: ClusterSession, vpc: str) -> AsyncIterator[Leftover]:
    """Yield owners of interfaces that would block the VPC.

    Interfaces that are deleted together with the cluster are left out.
    """
    in_vpc = {"Name": "vpc-id", "Values": [vpc]}
    interfaces = await session.aws.describe_ec2("NetworkInterfaces", in_vpc)
    foreign_instances = await _find_foreign_instances(session, vpc)
    has_load_balancers = any(_creates_load_balancer(resource) for resource in session.desired)
    for interface in interfaces:
        interface_id = interface["NetworkInterfaceId"]
        description = str(interface.get("Description", ""))
        instance = (interface.get("Attachment") or {}).get("InstanceId")
        if instance in foreign_instances:
            yield Leftover("instance", instance, f"with {interface_id}")
        elif description.startswith(_LOAD_BALANCER_PREFIX) and not has_load_balancers:
            name = description.removeprefix(_LOAD_BALANCER_PREFIX)
            yield Leftover("load balancer", name, f"with {interface_id}")
        elif owner := _interface_owner(description):
            yield Leftover("network interface", interface_id, f"of {owner} ({description})")


async def _find_foreign_instances(session: ClusterSession, vpc: str) -> set[str]:
    """Return the instances in the VPC that are not nodes of this cluster."""
    instances = await session.aws.describe_instances(
        {"Name": "vpc-id", "Values": [vpc]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]},
    )
    return {instance["InstanceId"] for instance in instances if not _is_node(instance, session.config.name)}


def _is_node(instance: Raw, cluster: str) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    cluster_names = (tags.get("eks:cluster-name"), tags.get("eks:eks-cluster-name"))
    return f"kubernetes.io/cluster/{cluster}" in tags or cluster in cluster_names


def _creates_load_balancer(resource: DesiredResource) -> bool:
    """Return True if an object of the file creates a load balancer.

    The load balancer is deleted together with the object.
    """
    if resource.kind != "kubernetes-object":
        return False
    body: Any = resource.properties.get("spec")
    kind = resource.properties.get("kind")
    is_load_balancer = isinstance(body, dict) and body.get("type") == "LoadBalancer"
    return kind == "Ingress" or (kind == "Service" and is_load_balancer)


def _interface_owner(description: str) -> str | None:
    return next((owner for start, owner in _INTERFACE_OWNERS.items() if description.startswith(start)), None)
