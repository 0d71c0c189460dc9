"""Node groups with their launch templates, Fargate profiles, instance profile."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.data.bundled import bundled_prices
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeFargate, HomeGroup, NodeGroup, TaintSpec
from dovetail.eks.desired.iam_roles import node_role
from dovetail.eks.desired.names import CONTROLLER_TAINT, Names
from dovetail.eks.desired.network import HOURS, Network
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import Resource
from dovetail.model.cloud.ec2_catalog import Region

_EFFECTS: Final = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
_IMAGES: Final = {"amd64": "AL2023_x86_64_STANDARD", "arm64": "AL2023_ARM_64_STANDARD"}


_USUAL: Final = {
    "amd64": ("m7i.large", "m7a.large", "m6i.large", "m6a.large", "m5.large"),
    "arm64": ("m8g.large", "m7g.large", "m6g.large"),
}
_ENOUGH: Final = 3


def home_addresses(spec: ClusterSpec) -> tuple[str, ...]:
    """Return what must be there before pods of the system can run."""
    if isinstance(spec.home, HomeGroup):
        return (f"eks-node-group/{spec.home.name}",)
    if isinstance(spec.home, HomeFargate):
        return tuple(f"eks-fargate-profile/{one}" for one in fargate_namespaces(spec))
    return ()


def fargate_namespaces(spec: ClusterSpec) -> list[str]:
    """Return the namespaces whose pods run on Fargate."""
    if not isinstance(spec.home, HomeFargate):
        return []
    return list(dict.fromkeys([*spec.home.namespaces, spec.controller.namespace]))


def uses_instance_profile(spec: ClusterSpec, network: Network) -> bool:
    """Tell whether nodes get a profile of our making, not one of the controller's."""
    return spec.iam.node_role.instance_profile or network.isolated


def machines_of(group: NodeGroup, region: Region) -> list[str]:
    """Return the instance types of a group: those written down, or usual ones."""
    usual = [one for one in _USUAL[group.architecture] if region.offered.get(one)]
    return list(group.instance_types) or usual[:_ENOUGH]


def compute(
    spec: ClusterSpec, names: Names, network: Network, region: Region
) -> Iterator[Resource]:
    """Hand out everything that pods run on before the controller buys nodes."""
    if isinstance(spec.home, HomeGroup):
        yield from _group(_with_home(spec.home), spec, names, network, region)
    for group in spec.node_groups:
        yield from _group(group, spec, names, network, region)
    for namespace in fargate_namespaces(spec):
        yield _profile(namespace, names, network)
    if uses_instance_profile(spec, network):
        role = node_role(spec, names)
        shared = spec.iam.node_role.arn is not None
        yield Resource(
            kind="instance-profile",
            name=names.instance_profile,
            properties={
                "InstanceProfileName": names.instance_profile,
                "Path": spec.iam.path,
                "Roles": [role if shared else ref(f"iam-role/{role}", "name")],
            },
            why="how nodes get their role where the controller cannot reach IAM",
        )


def _with_home(home: HomeGroup) -> NodeGroup:
    taint = TaintSpec(key=CONTROLLER_TAINT, value="true", effect="NoSchedule")
    return home.model_copy(
        update={
            "labels": {**home.labels, **home.selector},
            "taints": [*home.taints, *([taint] if home.taint else [])],
        }
    )


def _group(
    group: NodeGroup, spec: ClusterSpec, names: Names, network: Network, region: Region
) -> Iterator[Resource]:
    machines = machines_of(group, region)
    template = f"{names.cluster}-{group.name}"
    properties: dict[str, Any] = {
        "ClusterName": names.of_cluster("name"),
        "NodegroupName": group.name,
        "NodeRole": ref(f"iam-role/{names.group_role}", "arn"),
        "Subnets": network.subnets,
        "InstanceTypes": machines,
        "AmiType": _IMAGES[group.architecture],
        "CapacityType": group.capacity_type.upper().replace("-", "_"),
        "ScalingConfig": {
            "MinSize": group.min,
            "DesiredSize": group.desired,
            "MaxSize": group.max,
        },
        "Labels": dict(group.labels),
        "Taints": [_taint(one) for one in group.taints],
    }
    if group.max_unavailable_percentage is not None:
        properties["UpdateConfig"] = {"MaxUnavailablePercentage": group.max_unavailable_percentage}
    if group.launch_template:
        address = f"launch-template/{template}"
        properties["LaunchTemplate"] = {
            "Id": ref(address, "id"),
            "Version": ref(address, "version"),
        }
        yield _template(template, group, names)
    else:
        properties["DiskSize"] = group.disk_gib
    yield Resource(
        kind="eks-node-group",
        name=group.name,
        properties=properties,
        # Nodes are only ready once they have a network, and a way out of it.
        depends_on=(*_node_addons(spec), *network.ways),
        monthly_usd=_monthly(group, machines[0], spec.region),
        why="the controller's home" if isinstance(group, HomeGroup) else "nodes that stay",
    )


def _node_addons(spec: ClusterSpec) -> list[str]:
    on = {"vpc-cni": spec.addons.vpc_cni.enabled, "kube-proxy": spec.addons.kube_proxy.enabled}
    return [f"eks-addon/{name}" for name, enabled in on.items() if enabled]


def _monthly(group: NodeGroup, machine: str, region: str) -> float:
    prices = bundled_prices()
    spot = group.capacity_type == "spot"
    price = prices.spot(machine, region=region) if spot else prices.on_demand(machine, region)
    return HOURS * group.desired * (price or 0.0)


def _taint(one: TaintSpec) -> dict[str, str]:
    effect = _EFFECTS[one.effect]
    return {"Key": one.key, **({"Value": one.value} if one.value else {}), "Effect": effect}


def _template(name: str, group: NodeGroup, names: Names) -> Resource:
    labelled = [{"Key": "Name", "Value": f"{names.cluster}-{group.name}"}]
    return Resource(
        kind="launch-template",
        name=name,
        properties={
            "LaunchTemplateName": name,
            "LaunchTemplateData": {
                "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                "BlockDeviceMappings": [
                    {
                        "DeviceName": "/dev/xvda",
                        "Ebs": {
                            "VolumeSize": group.disk_gib,
                            "VolumeType": "gp3",
                            "Encrypted": True,
                            "DeleteOnTermination": True,
                        },
                    }
                ],
                "TagSpecifications": [
                    {"ResourceType": kind, "Tags": labelled} for kind in ("instance", "volume")
                ],
            },
        },
        why=f"machines of the node group {group.name}",
    )


def _profile(namespace: str, names: Names, network: Network) -> Resource:
    return Resource(
        kind="eks-fargate-profile",
        name=namespace,
        properties={
            "ClusterName": names.of_cluster("name"),
            "FargateProfileName": namespace,
            "PodExecutionRoleArn": ref(f"iam-role/{names.fargate_role}", "arn"),
            "Subnets": network.subnets,
            "Selectors": [{"Namespace": namespace}],
        },
        depends_on=network.ways,
        why=f"pods of {namespace} run without nodes",
    )
