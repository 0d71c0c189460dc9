"""The VPC: subnets, security groups, endpoints and instance metadata."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.core.instancetypes.capacity import eni_limited_pods
from dovetail.doctor.check import check, controller_check
from dovetail.doctor.controller_deployment import Controller, controller_of, variables
from dovetail.doctor.facts import Facts, Part, Raw
from dovetail.doctor.finding import Severity, Symptom, merge_patch
from dovetail.doctor.instance_types import instance_types_of
from dovetail.doctor.object_fields import at, class_called, many, name_of, namespace_of, pools, shown, tags_of
from dovetail.ports.api_resources import DAEMON_SETS, DEPLOYMENTS, EC2_NODE_CLASSES, NODE_POOLS, PODS

_DEFAULT_ROUTES = ("0.0.0.0/0", "::/0")


def isolated_subnets(facts: Facts) -> list[str]:
    """Return the node classes' subnets without a route out of the VPC."""
    subnets = {subnet["SubnetId"]: subnet for every in facts.aws.subnets.values() for subnet in every}
    return [name for name, subnet in sorted(subnets.items()) if not _has_route_out(facts, subnet)]


def _has_route_out(facts: Facts, subnet: Raw) -> bool:
    table = _table_of(facts, subnet)
    if table is None:
        return True  # Unknown: do not report it.
    return any(
        route.get("DestinationCidrBlock") in _DEFAULT_ROUTES
        or route.get("DestinationIpv6CidrBlock") in _DEFAULT_ROUTES
        for route in many(table, "Routes")
        if route.get("State") != "blackhole"
    )


def _table_of(facts: Facts, subnet: Raw) -> Raw | None:
    """Return the subnet's route table, else the main one of its VPC."""
    main = None
    for table in facts.aws.route_tables:
        for association in many(table, "Associations"):
            if association.get("SubnetId") == subnet["SubnetId"]:
                return table
            if association.get("Main") and table.get("VpcId") == subnet.get("VpcId"):
                main = table
    return main


@check(
    code="N1",
    title="discovery tag on more than one security group",
    severity=Severity.RISK,
    how="number of security groups that each term of an EC2NodeClass matches",
    remedy="tag only the nodes' group",
    needs=(EC2_NODE_CLASSES, Part.NETWORK),
)
def discovery_tag(facts: Facts) -> Iterator[Symptom]:
    """Yield selector terms that match more than one security group."""
    for name, groups in sorted(facts.aws.groups.items()):
        for term in many(class_called(facts, name), "spec", "securityGroupSelectorTerms"):
            tags = {str(key): str(value) for key, value in (term.get("tags") or {}).items()}
            matching = [group for group in groups if tags and _has(tags_of(group), tags)]
            if len(matching) < 2:
                continue
            said = ", ".join(f"{key}={value}" for key, value in tags.items())
            ids = [str(group["GroupId"]) for group in matching]
            key = next(iter(tags))
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"the term {said} matches {len(ids)} security groups: {', '.join(ids)}",
                wrong="every node gets all of them; load balancers need exactly one of the cluster",
                fix=f"aws ec2 delete-tags --resources {' '.join(ids[1:])} --tags Key={key}  "
                "# keep it on the nodes' group",
            )


def _has(tags: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(key in tags and value in ("*", tags[key]) for key, value in wanted.items())


@check(
    code="N2",
    title="two cluster-owned groups on a node, or none",
    severity=Severity.RISK,
    how="groups with the tag kubernetes.io/cluster/CLUSTER among those of each EC2NodeClass",
    remedy="have exactly one with the tag",
    needs=(EC2_NODE_CLASSES, Part.NETWORK),
)
def cluster_security_groups(facts: Facts) -> Iterator[Symptom]:
    """Yield node classes with no, or more than one, group with the cluster's tag."""
    key = f"kubernetes.io/cluster/{facts.cluster}"
    for name, groups in sorted(facts.aws.groups.items()):
        ours = [str(group["GroupId"]) for group in groups if key in tags_of(group)]
        if len(ours) == 1 or not groups:
            continue
        seen = f"{len(ours)} of {len(groups)} security groups have the tag {key}"
        first = str(groups[0]["GroupId"])
        yield Symptom(
            about=f"EC2NodeClass/{name}",
            seen=seen + (f": {', '.join(ours)}" if ours else ""),
            wrong="the load balancer controller cannot decide which group to open",
            fix=f"aws ec2 delete-tags --resources {' '.join(ours[1:])} --tags Key={key}"
            if ours
            else f"aws ec2 create-tags --resources {first} --tags Key={key},Value=owned",
        )


_FIELDS = (("subnets", "subnetSelectorTerms"), ("securityGroups", "securityGroupSelectorTerms"))


@check(
    code="N3",
    title="selector matches nothing",
    severity=Severity.BROKEN,
    how="subnets and groups that EC2 returns for each EC2NodeClass, else its status",
    remedy="correct the tag",
    needs=(EC2_NODE_CLASSES,),
)
def selects_nothing(facts: Facts) -> Iterator[Symptom]:
    """Yield terms that match nothing, by EC2 or else by the status."""
    asked = Part.NETWORK not in facts.unseen
    for node_class in facts.of(EC2_NODE_CLASSES):
        name = name_of(node_class)
        for field, terms in _FIELDS:
            known = facts.aws.subnets if field == "subnets" else facts.aws.groups
            if asked:
                has_results, who = bool(known.get(name)), "EC2"
            elif at(node_class, "status", "conditions"):
                has_results, who = bool(many(node_class, "status", field)), f"status.{field}"
            else:
                continue
            if not has_results:
                yield Symptom(
                    about=f"EC2NodeClass/{name}",
                    seen=f"{who}: no match for {terms} {many(node_class, 'spec', terms)}",
                    wrong="the node class is not ready, so nothing is launched with it",
                    fix=f"kubectl edit ec2nodeclass {name}  # or tag the resources that {terms} should match",
                )


_FEW: Final = 32
"""Addresses: about the need of one medium-sized node."""


@check(
    code="N4",
    title="subnets short of addresses, or maxPods above the ENI limit",
    severity=Severity.RISK,
    how="free addresses of the node classes' subnets; maxPods against the types of each NodePool",
    remedy="prefix delegation, a bigger range, or no maxPods",
    needs=(EC2_NODE_CLASSES, NODE_POOLS, DAEMON_SETS, Part.NETWORK, Part.TYPES),
)
def ip_addresses(facts: Facts) -> Iterator[Symptom]:
    """Yield nearly full subnets, and node classes with maxPods above the ENI limit."""
    subnets = {subnet["SubnetId"]: subnet for every in facts.aws.subnets.values() for subnet in every}
    for name, subnet in sorted(subnets.items()):
        free = int(subnet.get("AvailableIpAddressCount", _FEW))
        if free < _FEW:
            yield Symptom(
                about=f"subnet/{name}",
                seen=f"{free} addresses are free in {subnet.get('CidrBlock')}",
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
                for container in many(daemon_set, "spec", "template", "spec", "containers")
            )
    return True  # Another CNI: pods do not use addresses of the instance's ENIs.


def _too_many_pods(facts: Facts) -> Iterator[Symptom]:
    controller = controller_of(facts)
    reserved = int(controller.setting("RESERVED_ENIS") or 0) if controller is not None else 0
    for pool in pools(facts):
        node_class = pool.template.node_class.name
        most = at(class_called(facts, node_class), "spec", "kubelet", "maxPods")
        if most is None:
            continue
        small = [
            instance_type.name
            for instance_type in instance_types_of(facts, pool)
            if eni_limited_pods(instance_type, reserved) < most
        ]
        if small:
            yield Symptom(
                about=f"EC2NodeClass/{node_class}",
                seen=f"maxPods is {most}, and NodePool {pool.name} allows {len(small)} types "
                f"with fewer addresses: {shown(small, 3)}",
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
    how="load balancer and EBS controllers without region or VPC, where an EC2NodeClass has "
    "httpPutResponseHopLimit 1",
    remedy="set the values; or hop limit 2 (3 with eBPF overlays)",
    needs=(DEPLOYMENTS, EC2_NODE_CLASSES),
)
def hop_limit(facts: Facts) -> Iterator[Symptom]:
    """Yield workloads that need instance metadata if a node class has hop limit 1."""
    near = [
        name_of(node_class)
        for node_class in facts.of(EC2_NODE_CLASSES)
        if int(at(node_class, "spec", "metadataOptions", "httpPutResponseHopLimit") or 1) < 2
    ]
    if not near:
        return
    for deployment in facts.of(DEPLOYMENTS):
        missing = _missing(deployment)
        if missing and not at(deployment, "spec", "template", "spec", "hostNetwork"):
            yield Symptom(
                about=f"Deployment/{namespace_of(deployment)}/{name_of(deployment)}",
                seen=f"it has no {' and no '.join(missing)}, and nodes of {shown(near)} have "
                "hop limit 1 for instance metadata",
                wrong="it cannot reach instance metadata and exits",
                fix=f"helm upgrade {name_of(deployment)} … --set region={facts.region or 'REGION'} "
                "--set vpcId=VPC"
                if name_of(deployment) == _BALANCER
                else f"kubectl set env deployment {name_of(deployment)} -n {namespace_of(deployment)} "
                f"AWS_REGION={facts.region or 'REGION'}",
            )


def _missing(deployment: Any) -> list[str]:
    containers = many(deployment, "spec", "template", "spec", "containers")
    given = [str(arg).partition("=")[0] for container in containers for arg in many(container, "args")]
    known = {name for container in containers for name in variables(container)}
    if name_of(deployment) == _BALANCER:
        wanted = {"--aws-region": "AWS_REGION", "--aws-vpc-id": "AWS_VPC_ID"}
        return [
            option for option, variable in wanted.items() if option not in given and variable not in known
        ]
    if name_of(deployment) == _EBS and "AWS_REGION" not in known:
        return ["AWS_REGION"]
    return []


@controller_check(
    code="N6",
    title="controller asks instance metadata for the region",
    severity=Severity.RISK,
    how="AWS_REGION in the environment of the controller and of its pods",
    remedy="set AWS_REGION",
    needs=(PODS,),
)
def controller_region(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller without a region setting."""
    if controller.setting("REGION"):
        return
    containers = [
        controller.container,
        *(c for pod in controller.pods for c in many(pod, "spec", "containers")),
    ]
    known = {name for container in containers for name in variables(container)}
    if known & {"AWS_REGION", "AWS_DEFAULT_REGION"}:
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
    how="routes of the node classes' subnets, endpoints, and the setting isolatedVPC",
    remedy="set settings.isolatedVPC; prices then age with the release",
    needs=(EC2_NODE_CLASSES, Part.NETWORK, Part.ROUTES, Part.ENDPOINTS),
)
def isolated_pricing(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller in an isolated network without ISOLATED_VPC."""
    closed = isolated_subnets(facts)
    if not closed or controller.setting("ISOLATED_VPC").lower() == "true":
        return
    if any(endpoint.endswith(".pricing.api") for endpoint in facts.aws.endpoints):
        return
    yield Symptom(
        about=controller.about,
        seen=f"no route out of {shown(closed)}, no pricing endpoint, ISOLATED_VPC is not true",
        wrong="each price update times out; prices are those of the release",
        fix=f"kubectl set env {controller.target} ISOLATED_VPC=true",
    )


_NEEDED = ("ec2", "ecr.api", "ecr.dkr", "s3", "sts", "ssm", "eks")


@check(
    code="N8",
    title="private network with missing endpoints",
    severity=Severity.BROKEN,
    how="endpoints of a VPC whose subnets have no way out, against what is needed",
    remedy="add them",
    needs=(EC2_NODE_CLASSES, Part.NETWORK, Part.ROUTES, Part.ENDPOINTS, Part.POD_IDENTITIES),
)
def vpc_endpoints(facts: Facts) -> Iterator[Symptom]:
    """Yield services that cannot be reached."""
    closed, controller = isolated_subnets(facts), controller_of(facts)
    if not closed:
        return
    wanted = list(_NEEDED)
    if controller is not None and controller.setting("INTERRUPTION_QUEUE"):
        wanted.append("sqs")
    if facts.aws.pod_identities:
        wanted.append("eks-auth")
    missing = [
        service
        for service in wanted
        if not any(there.endswith(f".{facts.region}.{service}") for there in facts.aws.endpoints)
    ]
    if missing:
        vpc = next(subnet for every in facts.aws.subnets.values() for subnet in every)["VpcId"]
        first = f"com.amazonaws.{facts.region}.{missing[0]}"
        yield Symptom(
            about=f"vpc/{vpc}",
            seen=f"no way out of {shown(closed)}, and no endpoint for {', '.join(missing)}",
            wrong="nodes do not join or pull no images; the controller waits for answers",
            fix=f"aws ec2 create-vpc-endpoint --vpc-id {vpc} --vpc-endpoint-type Interface "
            f"--service-name {first} --subnet-ids {' '.join(closed)}  # and so on for each",
        )
