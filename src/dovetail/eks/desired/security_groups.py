"""Security groups: who talks to whom."""

from collections.abc import Iterator
from typing import Any

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.network import Ingress
from dovetail.eks.desired.names import DISCOVERY, Names, is_existing
from dovetail.eks.desired.network import Network
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import Resource


def makes_node_group(spec: ClusterSpec) -> bool:
    """Tell whether nodes get a security group of our making."""
    existing = spec.vpc.existing if spec.vpc else None
    if existing is not None:
        return existing.security_groups is None
    return not is_existing(spec)


def security_addresses(spec: ClusterSpec, names: Names) -> list[str]:
    """Return what must be there before a node can talk to the cluster, and stay that long."""
    if not makes_node_group(spec):
        return []
    rules = ("nodes-from-nodes", "nodes-from-cluster", "cluster-from-nodes")
    return [f"security-group/{names.node_group}", *(f"security-group-rule/{one}" for one in rules)]


def security(spec: ClusterSpec, names: Names, network: Network) -> Iterator[Resource]:
    """Hand out the nodes' security group, and the rules of that and the cluster's own."""
    of_cluster = names.of_cluster("security-group")
    for number, cidr in enumerate(spec.endpoint.vpn_cidrs):
        yield _rule(f"vpn-{number}", of_cluster, {**_ports("443"), "CidrIp": cidr}, "the VPN")
    if not makes_node_group(spec):
        return
    of_nodes = ref(f"security-group/{names.node_group}", "id")
    yield Resource(
        kind="security-group",
        name=names.node_group,
        properties={
            "GroupName": names.node_group,
            "GroupDescription": f"Nodes of {names.cluster} that pods call for",
            "VpcId": network.vpc,
            "SecurityGroupEgress": [{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}],
        },
        # The only group of a node with this tag: load balancers want exactly one.
        tags={
            f"kubernetes.io/cluster/{names.cluster}": "owned",
            DISCOVERY: names.cluster,
        },
        why="nodes that pods call for",
    )
    for name, group, source, who in (
        ("nodes-from-nodes", of_nodes, of_nodes, "other nodes"),
        ("nodes-from-cluster", of_nodes, of_cluster, "control plane, node groups and Fargate"),
        ("cluster-from-nodes", of_cluster, of_nodes, "nodes"),
    ):
        everything = {"IpProtocol": "-1", "SourceSecurityGroupId": source}
        yield _rule(name, group, everything, who)
    for one in spec.ingress:
        yield from _ingress(one, of_nodes)


def _ingress(one: Ingress, group: str) -> Iterator[Resource]:
    for number, cidr in enumerate(one.cidrs):
        name = f"nodes-{one.protocol}-{one.ports}" + (f"-{number}" if number else "")
        what = {**_ports(str(one.ports), one.protocol), "CidrIp": cidr}
        yield _rule(name, group, what, f"{one.protocol} {one.ports}")


def _ports(ports: str, protocol: str = "tcp") -> dict[str, Any]:
    low, _, high = ports.partition("-")
    return {"IpProtocol": protocol, "FromPort": int(low), "ToPort": int(high or low)}


def _rule(name: str, group: str, what: dict[str, Any], who: str) -> Resource:
    return Resource(
        kind="security-group-rule",
        name=name,
        properties={"GroupId": group, **what, "Description": who},
    )
