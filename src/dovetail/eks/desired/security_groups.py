"""Desired security groups and their ingress rules."""

from collections.abc import Iterator
from typing import Any

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.network import Ingress
from dovetail.eks.config.node_groups import ControllerNodeGroup
from dovetail.eks.desired.names import DISCOVERY, Names, recorded_keys, uses_existing_cluster
from dovetail.eks.desired.network import ALL_ADDRESSES, ALL_IPV6_ADDRESSES, Network
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource


def creates_node_security_group(config: ClusterConfig) -> bool:
    """Return True if we create the security group of nodes."""
    existing = config.vpc.existing if config.vpc else None
    if existing is not None:
        return existing.security_groups is None
    return not uses_existing_cluster(config)


def security_group_addresses(config: ClusterConfig, names: Names) -> list[str]:
    """Return the addresses that nodes need to communicate with the cluster."""
    if not creates_node_security_group(config):
        return []
    rules = ("nodes-from-nodes", "nodes-from-cluster", "cluster-from-nodes")
    return [f"security-group/{names.node_security_group}", *(f"security-group-rule/{rule}" for rule in rules)]


def desired_security_groups(
    config: ClusterConfig, names: Names, network: Network
) -> Iterator[DesiredResource]:
    """Yield the security group of nodes, and rules of it and of the cluster's."""
    cluster_ref = names.cluster_ref("security-group")
    for number, cidr in enumerate(config.endpoint.vpn_cidrs):
        yield _rule(f"vpn-{number}", cluster_ref, {**_ports("443"), "CidrIp": cidr}, "the VPN")
    if has_ingress_group(config):
        yield from _ingress_group(config, names, network)
    if not creates_node_security_group(config):
        return
    node_group = ref(f"security-group/{names.node_security_group}", "id")
    egress = [{"IpProtocol": "-1", "CidrIp": ALL_ADDRESSES}]
    if config.ip_family == "ipv6":
        egress.append({"IpProtocol": "-1", "CidrIpv6": ALL_IPV6_ADDRESSES})
    yield DesiredResource(
        kind="security-group",
        name=names.node_security_group,
        properties={
            "GroupName": names.node_security_group,
            "GroupDescription": f"Nodes of {names.cluster}",
            "VpcId": network.vpc,
            "SecurityGroupEgress": egress,
        },
        tags=_node_tags(config, names),
        purpose="nodes that NodePools launch",
    )
    for name, group, source, description in (
        ("nodes-from-nodes", node_group, node_group, "other nodes"),
        ("nodes-from-cluster", node_group, cluster_ref, "control plane, node groups and Fargate"),
        ("cluster-from-nodes", cluster_ref, node_group, "nodes"),
    ):
        traffic = {"IpProtocol": "-1", "SourceSecurityGroupId": source}
        yield _rule(name, group, traffic, description)
    for rule in config.ingress:
        yield from _ingress_rules("nodes", rule, node_group)


def has_ingress_group(config: ClusterConfig) -> bool:
    """Return True if managed node groups get a security group for ``ingress``."""
    groups = [*config.node_groups, *([config.home] if isinstance(config.home, ControllerNodeGroup) else [])]
    return bool(config.ingress) and any(group.launch_template for group in groups)


def _ingress_group(config: ClusterConfig, names: Names, network: Network) -> Iterator[DesiredResource]:
    """Yield a group for managed node groups, beside the cluster's.

    The cluster's group is that of the control plane too: rules there would open
    the API server. The tag of the cluster is on that group, so not on this one.
    """
    group = ref(f"security-group/{names.ingress_security_group}", "id")
    yield DesiredResource(
        kind="security-group",
        name=names.ingress_security_group,
        properties={
            "GroupName": names.ingress_security_group,
            "GroupDescription": f"Ingress of managed node groups of {names.cluster}",
            "VpcId": network.vpc,
            "SecurityGroupEgress": [{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}],
        },
        purpose="traffic that managed node groups accept",
    )
    for rule in config.ingress:
        yield from _ingress_rules("node-groups", rule, group)


def _ingress_rules(prefix: str, rule: Ingress, group: str) -> Iterator[DesiredResource]:
    for number, cidr in enumerate(rule.cidrs):
        name = f"{prefix}-{rule.protocol}-{rule.ports}" + (f"-{number}" if number else "")
        traffic = {**_ports(str(rule.ports), rule.protocol), "CidrIp": cidr}
        yield _rule(name, group, traffic, f"{rule.protocol} {rule.ports}")


def _ports(ports: str, protocol: str = "tcp") -> dict[str, Any]:
    low, _, high = ports.partition("-")
    return {"IpProtocol": protocol, "FromPort": int(low), "ToPort": int(high or low)}


def _rule(name: str, group: str, traffic: dict[str, Any], description: str) -> DesiredResource:
    return DesiredResource(
        kind="security-group-rule",
        name=name,
        properties={"GroupId": group, **traffic, "Description": description},
    )


def _node_tags(config: ClusterConfig, names: Names) -> dict[str, str]:
    additional = config.node_security_group.tags
    return {
        **additional,
        **(recorded_keys({**config.tags, **additional}) if additional else {}),
        # Load balancer controllers require exactly one group with this tag per node.
        f"kubernetes.io/cluster/{names.cluster}": "owned",
        DISCOVERY: names.cluster,
    }
