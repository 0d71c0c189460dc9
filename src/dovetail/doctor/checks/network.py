"""The VPC: subnets, security groups, endpoints and instance metadata."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.codec.text.suggestions import pluralize
from dovetail.core.instancetypes.capacity import eni_limited_pods
from dovetail.doctor.check import check, controller_check
from dovetail.doctor.controller_deployment import Controller, controller_of, variables
from dovetail.doctor.facts import Facts, Part, Raw
from dovetail.doctor.finding import Severity, Symptom, merge_patch
from dovetail.doctor.instance_types import instance_types_of
from dovetail.doctor.object_fields import (
    decode_nodepools,
    find_nodeclass,
    get_field,
    get_list,
    join_names,
    name_of,
    namespace_of,
    tags_of,
)
from dovetail.model.cloud.partitions import endpoint_service_prefix
from dovetail.ports.api_resources import DAEMON_SETS, DEPLOYMENTS, EC2_NODE_CLASSES, NODE_POOLS, PODS

_DEFAULT_ROUTES = ("0.0.0.0/0", "::/0")


def isolated_subnets(facts: Facts) -> list[str]:
    """Return the node classes' subnets without a route out of the VPC."""
    subnets = {subnet["SubnetId"]: subnet for selected in facts.aws.subnets.values() for subnet in selected}
    return [name for name, subnet in sorted(subnets.items()) if not _has_route_out(facts, subnet)]


def _has_route_out(facts: Facts, subnet: Raw) -> bool:
    table = _table_of(facts, subnet)
    if table is None:
        return True  # Unknown: do not report it.
    return any(
        route.get("DestinationCidrBlock") in _DEFAULT_ROUTES
        or route.get("DestinationIpv6CidrBlock") in _DEFAULT_ROUTES
        for route in get_list(table, "Routes")
        if route.get("State") != "blackhole"
    )


def _table_of(facts: Facts, subnet: Raw) -> Raw | None:
    """Return the subnet's route table, else the main one of its VPC."""
    main = None
    for table in facts.aws.route_tables:
        for association in get_list(table, "Associations"):
            if association.get("SubnetId") == subnet["SubnetId"]:
                return table
            if association.get("Main") and table.get("VpcId") == subnet.get("VpcId"):
                main = table
    return main


@check(
    code="N1",
    title="discovery tag on more than one security group",
    severity=Severity.RISK,
    detection="number of security groups that each term of an EC2NodeClass matches",
    remedy="tag only the nodes' group",
    needs=(EC2_NODE_CLASSES, Part.NETWORK),
)
def discovery_tag(facts: Facts) -> Iterator[Symptom]:
    """Yield selector terms that match more than one security group."""
    for name, groups in sorted(facts.aws.groups.items()):
        for term in get_list(find_nodeclass(facts, name), "spec", "securityGroupSelectorTerms"):
            tags = {str(key): str(value) for key, value in (term.get("tags") or {}).items()}
            matching = [group for group in groups if tags and _has(tags_of(group), tags)]
            if len(matching) < 2:
                continue
            selector = ", ".join(f"{key}={value}" for key, value in tags.items())
            ids = [str(group["GroupId"]) for group in matching]
            key = next(iter(tags))
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"the term {selector} matches {len(ids)} security groups: {', '.join(ids)}",
                wrong="every node gets all of them; load balancers need exactly one of the cluster",
                fix=f"aws ec2 delete-tags --resources {' '.join(ids[1:])} --tags Key={key}  "
                "# keep it on the nodes' group",
            )


def _has(tags: dict[str, str], required: dict[str, str]) -> bool:
    return all(key in tags and value in ("*", tags[key]) for key, value in required.items())


@check(
    code="N2",
    title="two cluster-owned groups on a node, or none",
    severity=Severity.RISK,
    detection="groups with the tag kubernetes.io/cluster/CLUSTER among those of each EC2NodeClass",
    remedy="have exactly one with the tag",
    needs=(EC2_NODE_CLASSES, Part.NETWORK),
)
def cluster_security_groups(facts: Facts) -> Iterator[Symptom]:
    """Yield node classes with no, or more than one, group with the cluster's tag."""
    key = f"kubernetes.io/cluster/{facts.cluster}"
    for name, groups in sorted(facts.aws.groups.items()):
        tagged = [str(group["GroupId"]) for group in groups if key in tags_of(group)]
        if len(tagged) == 1 or not groups:
            continue
        evidence = f"{len(tagged)} of {len(groups)} security groups have the tag {key}"
        first_id = str(groups[0]["GroupId"])
        yield Symptom(
            about=f"EC2NodeClass/{name}",
            seen=evidence + (f": {', '.join(tagged)}" if tagged else ""),
            wrong="the load balancer controller cannot decide which group to open",
            fix=f"aws ec2 delete-tags --resources {' '.join(tagged[1:])} --tags Key={key}"
            if tagged
            else f"aws ec2 create-tags --resources {first_id} --tags Key={key},Value=owned",
        )


_FIELDS = (("subnets", "subnetSelectorTerms"), ("securityGroups", "securityGroupSelectorTerms"))


@check(
    code="N3",
    title="selector matches nothing",
    severity=Severity.BROKEN,
    detection="subnets and groups that EC2 returns for each EC2NodeClass, else its status",
    remedy="correct the tag",
    needs=(EC2_NODE_CLASSES,),
)
def selects_nothing(facts: Facts) -> Iterator[Symptom]:
    """Yield terms that match nothing, by EC2 or else by the status."""
    has_network = Part.NETWORK not in facts.unseen
    for node_class in facts.of(EC2_NODE_CLASSES):
        name = name_of(node_class)
        for field, terms in _FIELDS:
            selected = facts.aws.subnets if field == "subnets" else facts.aws.groups
            if has_network:
                has_results, source = bool(selected.get(name)), "EC2"
            elif get_field(node_class, "status", "conditions"):
                has_results, source = bool(get_list(node_class, "status", field)), f"status.{field}"
            else:
                continue
            if not has_results:
                yield Symptom(
                    about=f"EC2NodeClass/{name}",
                    seen=f"{source}: no match for {terms} {get_list(node_class, 'spec', terms)}",
                    wrong="the node class is not ready, so nothing is launched with it",
                    fix=f"kubectl edit ec2nodeclass {name}  # or tag the resources that {terms} should match",
                )


_MIN_ADDRESSES: Final = 32
"""Addresses: about the need of one medium-sized node."""


@check(
    code="N4",
    title="subnets short of addresses, or maxPods above the ENI limit",
    severity=Severity.RISK,
    detection="free addresses of the node classes' subnets; maxPods against the types of each NodePool",
    remedy="prefix delegation, a bigger range, or no maxPods",
    needs=(EC2_NODE_CLASSES, NODE_POOLS, DAEMON_SETS, Part.NETWORK, Part.TYPES),
)
def ip_addresses(facts: Facts) -> Iterator[Symptom]:
    """Yield nearly full subnets, and node classes with maxPods above the ENI limit."""
    subnets = {subnet["SubnetId"]: subnet for selected in facts.aws.subnets.values() for subnet in selected}
    for name, subnet in sorted(subnets.items()):
        available = int(subnet.get("AvailableIpAddressCount", _MIN_ADDRESSES))
        if available < _MIN_ADDRESSES:
            yield Symptom(
                about=f"subnet/{name}",
                seen=f"{available} addresses are free in {subnet.get('CidrBlock')}",
                wrong="nodes or pods there get no address",
                fix="kubectl set env daemonset aws-node -n kube-system ENABLE_PREFIX_DELEGATION="
                "true  # or add a subnet with the discovery tag",
            )
    if not _uses_prefixes(facts):
        yield from _too_many_pods(facts)


def _uses_prefixes(facts: Facts) -> bool:
    for daemon_set in facts.of(DAEMON_SETS):
        if name_of(daemon_set) == "aws-node":
            return any(
                variables(container).get("ENABLE_PREFIX_DELEGATION") == "true"
                for container in get_list(daemon_set, "spec", "template", "spec", "containers")
            )
    return True  # Another CNI: pods do not use addresses of the instance's ENIs.


def _too_many_pods(facts: Facts) -> Iterator[Symptom]:
    controller = controller_of(facts)
    reserved = int(controller.setting("RESERVED_ENIS") or 0) if controller is not None else 0
    for pool in decode_nodepools(facts):
        node_class = pool.template.node_class.name
        max_pods = get_field(find_nodeclass(facts, node_class), "spec", "kubelet", "maxPods")
        if not isinstance(max_pods, int):
            continue  # Not set, or an expression.
        too_small = [
            instance_type.name
            for instance_type in instance_types_of(facts, pool)
            if eni_limited_pods(instance_type, reserved) < max_pods
        ]
        if too_small:
            yield Symptom(
                about=f"EC2NodeClass/{node_class}",
                seen=f"maxPods is {max_pods}, and NodePool {pool.name} allows "
                f"{pluralize(len(too_small), 'type')} with fewer addresses: {join_names(too_small, 3)}",
                wrong="pods are bound to such a node and get no address",
                fix=merge_patch(f"ec2nodeclass {node_class}", {"spec": {"kubelet": {"maxPods": None}}})
                + "  # or prefix delegation",
            )


_BALANCER = "aws-load-balancer-controller"
_EBS = "ebs-csi-controller"


@check(
    code="N5",
    title="hop limit 1, and pods that need instance metadata",
    severity=Severity.RISK,
    detection="load balancer and EBS controllers without region or VPC, where an EC2NodeClass has "
    "httpPutResponseHopLimit 1",
    remedy="set the values; or hop limit 2 (3 with eBPF overlays)",
    needs=(DEPLOYMENTS, EC2_NODE_CLASSES),
)
def hop_limit(facts: Facts) -> Iterator[Symptom]:
    """Yield workloads that need instance metadata if a node class has hop limit 1."""
    class_names = [
        name_of(node_class)
        for node_class in facts.of(EC2_NODE_CLASSES)
        if int(get_field(node_class, "spec", "metadataOptions", "httpPutResponseHopLimit") or 1) < 2
    ]
    if not class_names:
        return
    for deployment in facts.of(DEPLOYMENTS):
        missing = _missing_settings(deployment)
        if missing and not get_field(deployment, "spec", "template", "spec", "hostNetwork"):
            yield Symptom(
                about=f"Deployment/{namespace_of(deployment)}/{name_of(deployment)}",
                seen=f"it has no {' and no '.join(missing)}, and nodes of {join_names(class_names)} have "
                "hop limit 1 for instance metadata",
                wrong="it cannot reach instance metadata and exits",
                fix=f"helm upgrade {name_of(deployment)} … --set region={facts.region or 'REGION'} "
                "--set vpcId=VPC"
                if name_of(deployment) == _BALANCER
                else f"kubectl set env deployment {name_of(deployment)} -n {namespace_of(deployment)} "
                f"AWS_REGION={facts.region or 'REGION'}",
            )


def _missing_settings(deployment: Any) -> list[str]:
    containers = get_list(deployment, "spec", "template", "spec", "containers")
    options = [str(arg).partition("=")[0] for container in containers for arg in get_list(container, "args")]
    variable_names = {name for container in containers for name in variables(container)}
    if name_of(deployment) == _BALANCER:
        required = {"--aws-region": "AWS_REGION", "--aws-vpc-id": "AWS_VPC_ID"}
        return [
            option
            for option, variable in required.items()
            if option not in options and variable not in variable_names
        ]
    if name_of(deployment) == _EBS and "AWS_REGION" not in variable_names:
        return ["AWS_REGION"]
    return []


@controller_check(
    code="N6",
    title="controller asks instance metadata for the region",
    severity=Severity.RISK,
    detection="AWS_REGION in the environment of the controller and of its pods",
    remedy="set AWS_REGION",
    needs=(PODS,),
)
def controller_region(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller without a region setting."""
    if controller.setting("REGION"):
        return
    containers = [
        controller.container,
        *(c for pod in controller.pods for c in get_list(pod, "spec", "containers")),
    ]
    variable_names = {name for container in containers for name in variables(container)}
    if variable_names & {"AWS_REGION", "AWS_DEFAULT_REGION"}:
        return
    yield Symptom(
        about=controller.about,
        seen="neither the Deployment nor its pods have AWS_REGION",
        wrong="it reads the region from instance metadata, and exits if that is not reachable",
        fix=f"kubectl set env {controller.target} AWS_REGION={facts.region or 'REGION'}",
    )


@controller_check(
    code="N7",
    title="private network without access to prices",
    severity=Severity.RISK,
    detection="routes of the node classes' subnets, endpoints, and the setting isolatedVPC",
    remedy="set settings.isolatedVPC; prices then age with the release",
    needs=(EC2_NODE_CLASSES, Part.NETWORK, Part.ROUTES, Part.ENDPOINTS),
)
def isolated_pricing(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller in an isolated network without ISOLATED_VPC."""
    isolated = isolated_subnets(facts)
    if not isolated or controller.setting("ISOLATED_VPC").lower() == "true":
        return
    if any(endpoint.endswith(".pricing.api") for endpoint in facts.aws.endpoints):
        return
    yield Symptom(
        about=controller.about,
        seen=f"no route out of {join_names(isolated)}, no pricing endpoint, ISOLATED_VPC is not true",
        wrong="each price update times out; prices are those of the release",
        fix=f"kubectl set env {controller.target} ISOLATED_VPC=true",
    )


_SERVICES = ("ec2", "ecr.api", "ecr.dkr", "s3", "sts", "ssm", "eks")


@check(
    code="N8",
    title="private network with missing endpoints",
    severity=Severity.BROKEN,
    detection="endpoints of a VPC whose subnets have no route out, against the required services",
    remedy="add them",
    needs=(EC2_NODE_CLASSES, Part.NETWORK, Part.ROUTES, Part.ENDPOINTS, Part.POD_IDENTITIES),
)
def vpc_endpoints(facts: Facts) -> Iterator[Symptom]:
    """Yield services that cannot be reached."""
    isolated, controller = isolated_subnets(facts), controller_of(facts)
    if not isolated:
        return
    services = list(_SERVICES)
    if controller is not None and controller.setting("INTERRUPTION_QUEUE"):
        services.append("sqs")
    if facts.aws.pod_identities:
        services.append("eks-auth")
    missing = [
        service
        for service in services
        if not any(endpoint.endswith(f".{facts.region}.{service}") for endpoint in facts.aws.endpoints)
    ]
    if missing:
        vpc = next(subnet for selected in facts.aws.subnets.values() for subnet in selected)["VpcId"]
        prefix = endpoint_service_prefix(facts.region, missing[0])
        service_name = f"{prefix}.{facts.region}.{missing[0]}"
        yield Symptom(
            about=f"vpc/{vpc}",
            seen=f"no route out of {join_names(isolated)}, and no endpoint for {', '.join(missing)}",
            wrong="nodes do not join or pull no images; requests of the controller time out",
            fix=f"aws ec2 create-vpc-endpoint --vpc-id {vpc} --vpc-endpoint-type Interface "
            f"--service-name {service_name} --subnet-ids {' '.join(isolated)}  # and so on for each",
        )


_HTTPS: Final = 443
_TARGETS: Final = ("IpRanges", "Ipv6Ranges", "PrefixListIds", "UserIdGroupPairs")


@check(
    code="N9",
    title="nodes cannot reach the control plane",
    severity=Severity.BROKEN,
    detection="egress of the security groups of each EC2NodeClass, and ingress of the control plane's groups",
    remedy="allow port 443 out of the nodes' group, and into the cluster's group",
    needs=(EC2_NODE_CLASSES, Part.NETWORK, Part.CLUSTER, Part.CLUSTER_GROUPS),
)
def unreachable_control_plane(facts: Facts) -> Iterator[Symptom]:
    """Yield node classes whose groups let no HTTPS out, or that the control plane rejects."""
    for name, groups in sorted(facts.aws.groups.items()):
        ids = [str(group["GroupId"]) for group in groups]
        if not groups:
            continue  # N3 reports it.
        if not any(_opens_https(rule) for group in groups for rule in get_list(group, "IpPermissionsEgress")):
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"no egress rule of {join_names(ids)} allows TCP port {_HTTPS}",
                wrong="kubelets reach neither the API server nor registries; nodes never join",
                fix=f"aws ec2 authorize-security-group-egress --group-id {ids[0]} --protocol=-1 "
                "--cidr 0.0.0.0/0",
            )
        elif not _accepted_by_cluster(facts, ids):
            cluster_group = str(facts.aws.cluster_groups[0]["GroupId"])
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"no group of the control plane accepts TCP port {_HTTPS} from {join_names(ids)}",
                wrong="kubelets do not reach the API server's private endpoint; nodes never join",
                fix=f"aws ec2 authorize-security-group-ingress --group-id {cluster_group} --protocol tcp "
                f"--port {_HTTPS} --source-group {ids[0]}",
            )


def _accepted_by_cluster(facts: Facts, node_groups: list[str]) -> bool:
    """Return False if the private endpoint is in use and accepts none of the groups."""
    if not get_field(facts.aws.cluster, "resourcesVpcConfig", "endpointPrivateAccess"):
        return True
    if not facts.aws.cluster_groups:
        return True
    # The cluster's own group accepts its members.
    if not {str(group["GroupId"]) for group in facts.aws.cluster_groups}.isdisjoint(node_groups):
        return True
    for group in facts.aws.cluster_groups:
        for rule in get_list(group, "IpPermissions"):
            sources = {str(pair.get("GroupId")) for pair in get_list(rule, "UserIdGroupPairs")}
            by_address = any(get_list(rule, target) for target in _TARGETS[:3])
            if _opens_https(rule) and (by_address or not sources.isdisjoint(node_groups)):
                return True
    return False


def _opens_https(rule: Raw) -> bool:
    """Return True if a rule covers HTTPS to or from anything."""
    if not any(get_list(rule, target) for target in _TARGETS):
        return False
    if rule.get("IpProtocol") == "-1":
        return True
    low, high = rule.get("FromPort", 0), rule.get("ToPort", 65535)
    return rule.get("IpProtocol") in ("tcp", "6") and low <= _HTTPS <= high


@check(
    code="N10",
    title="subnet or security group in another VPC",
    severity=Severity.BROKEN,
    detection="VPC of the subnets and groups of each EC2NodeClass against the cluster's",
    remedy="select those of the cluster's VPC",
    needs=(EC2_NODE_CLASSES, Part.NETWORK, Part.CLUSTER),
)
def other_vpc(facts: Facts) -> Iterator[Symptom]:
    """Yield node classes that select resources outside of the cluster's VPC."""
    vpc = str(get_field(facts.aws.cluster, "resourcesVpcConfig", "vpcId") or "")
    for selected, key, terms in (
        (facts.aws.subnets, "SubnetId", "subnetSelectorTerms"),
        (facts.aws.groups, "GroupId", "securityGroupSelectorTerms"),
    ):
        for name, resources in sorted(selected.items()):
            outside = [
                f"{resource[key]} in {resource['VpcId']}"
                for resource in resources
                if vpc and resource.get("VpcId", vpc) != vpc
            ]
            if outside:
                yield Symptom(
                    about=f"EC2NodeClass/{name}",
                    seen=f"{terms} select {join_names(outside)}; the cluster is in {vpc}",
                    wrong="EC2 rejects launches that mix VPCs, and nodes elsewhere cannot join",
                    fix=f"kubectl edit ec2nodeclass {name}  # {terms}; or remove the tag from them",
                )
