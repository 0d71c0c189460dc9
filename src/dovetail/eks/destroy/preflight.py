"""What other people have put into our cluster and VPC: a destroy would end halfway at it.

AWS removes no cluster that has a node group, and no VPC in which something
still has an address. That shows only after the better part of a cluster is gone,
the controllers that could have cleaned up among it; so it is looked for first.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from dovetail.eks.aws_client import Raw, if_there
from dovetail.eks.destroy.leftovers import Left
from dovetail.eks.plan.resource import Observed, Resource
from dovetail.eks.session import Site
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import SERVICES

_BALANCER: Final = "ELB "
_OF_SERVICES: Final = {
    "RDSNetworkInterface": "a database of RDS",
    "EFS mount target": "a file system of EFS",
    "AWS Lambda VPC ENI": "a Lambda function",
    "ElastiCache": "a cache of ElastiCache",
}
"""How network interfaces are described that AWS's services have put there for somebody."""
_PARTS: Final = (
    ("eks-node-group", "managed node group", "list_nodegroups", "nodegroups"),
    ("eks-fargate-profile", "Fargate profile", "list_fargate_profiles", "fargateProfileNames"),
)


class InTheWay(DovetailError):
    """Something of others would keep the cluster or its VPC from going."""


async def check_way(site: Site, observed: Observed) -> None:
    """Refuse to begin what could not be ended; raises ``InTheWay`` with all of it."""
    found = [f"{one}" async for one in _obstacles(site, observed)]
    if found:
        told = ["these were not made by this file, and would be in the way; remove them first:"]
        raise InTheWay("\n".join([*told, *(f"  {one}" for one in found), "nothing was changed"]))


async def _obstacles(site: Site, observed: Observed) -> AsyncIterator[Left]:
    if f"eks-cluster/{site.spec.name}" in observed.resources and not site.is_guest:
        async for part in _parts(site, observed):
            yield part
        async for service in _services(site):
            yield service
    vpc = observed.resources.get("vpc/main")
    if vpc is not None:
        async for interface in _interfaces(site, str(vpc.attributes["id"])):
            yield interface


async def _parts(site: Site, observed: Observed) -> AsyncIterator[Left]:
    """Hand out what machines and profiles somebody else gave to our cluster."""
    for kind, called, method, key in _PARTS:
        work = site.reach.ask_all("eks", method, key, clusterName=site.spec.name)
        for name in await if_there(work) or ():
            if f"{kind}/{name}" not in observed.resources:
                yield Left(called, name, "a cluster that has one does not go")


async def _services(site: Site) -> AsyncIterator[Left]:
    """Hand out Services whose load balancers nobody would remove any more."""
    api = await site.door.open()
    if api is None:
        return
    named = {one.name for one in site.wanted if one.kind == "kubernetes-object"}
    for one in await api.kube.list(SERVICES):
        meta = one["metadata"]
        address = f"Service/{meta.get('namespace', '')}/{meta['name']}"
        if one.get("spec", {}).get("type") == "LoadBalancer" and address not in named:
            name = f"{meta.get('namespace', '')}/{meta['name']}"
            yield Left("Service", name, "its load balancer would stay, and hold the VPC")


async def _interfaces(site: Site, vpc: str) -> AsyncIterator[Left]:
    """Hand out whose interfaces hold the VPC's subnets, those that go by themselves left out."""
    where = [{"Name": "vpc-id", "Values": [vpc]}]
    interfaces = await site.reach.ask_all(
        "ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=where
    )
    theirs = await _machines_of_others(site, vpc)
    balanced = any(_makes_balancers(one) for one in site.wanted)
    for one in interfaces:
        id_, told = one["NetworkInterfaceId"], str(one.get("Description", ""))
        machine = (one.get("Attachment") or {}).get("InstanceId")
        if machine in theirs:
            yield Left("instance", machine, f"with {id_}")
        elif told.startswith(_BALANCER) and not balanced:
            yield Left("load balancer", told.removeprefix(_BALANCER), f"with {id_}")
        elif owner := _owner(told):
            yield Left("network interface", id_, f"of {owner} ({told})")


async def _machines_of_others(site: Site, vpc: str) -> set[str]:
    """Return the machines in the VPC that are no nodes of this cluster."""
    reservations = await site.reach.ask_all(
        "ec2",
        "describe_instances",
        "Reservations",
        Filters=[
            {"Name": "vpc-id", "Values": [vpc]},
            {"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]},
        ],
    )
    machines: Iterable[Raw] = (one for found in reservations for one in found["Instances"])
    return {one["InstanceId"] for one in machines if not _is_node(one, site.spec.name)}


def _is_node(machine: Raw, cluster: str) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in machine.get("Tags", ())}
    names = ("eks:cluster-name", "eks:eks-cluster-name")
    return f"kubernetes.io/cluster/{cluster}" in tags or cluster in (tags.get(one) for one in names)


def _makes_balancers(one: Resource) -> bool:
    """Tell whether the file itself asks for load balancers, which go with its objects."""
    if one.kind != "kubernetes-object":
        return False
    body: Any = one.properties.get("spec")
    kind = one.properties.get("kind")
    is_balanced = isinstance(body, dict) and body.get("type") == "LoadBalancer"
    return kind == "Ingress" or (kind == "Service" and is_balanced)


def _owner(description: str) -> str | None:
    return next((who for start, who in _OF_SERVICES.items() if description.startswith(start)), None)
