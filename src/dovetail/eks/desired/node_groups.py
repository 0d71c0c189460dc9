"""Desired node groups, launch templates, Fargate profiles and instance profile."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from dovetail.core.instancetypes.type_names import family_of
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import (
    ControllerFargate,
    ControllerNodeGroup,
    ExistingCluster,
    NodeGroup,
    TaintConfig,
)
from dovetail.eks.desired.iam_roles import node_role_name
from dovetail.eks.desired.names import CONTROLLER_TAINT, Names
from dovetail.eks.desired.network import Network
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.prices import HOURS_PER_MONTH
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Region
from dovetail.model.cloud.prices import USD, currency_of

_TAINT_EFFECTS: Final = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
_AMI_TYPES: Final = {
    ("amd64", None): "AL2023_x86_64_STANDARD",
    ("arm64", None): "AL2023_ARM_64_STANDARD",
    ("amd64", "nvidia"): "AL2023_x86_64_NVIDIA",
    ("arm64", "nvidia"): "AL2023_ARM_64_NVIDIA",
    ("amd64", "neuron"): "AL2023_x86_64_NEURON",
}
"""AMI type of EKS, by architecture and accelerator."""


_ROOT_DEVICES: Final = {"windows": "/dev/sda1", "bottlerocket": "/dev/xvdb", "al2023": "/dev/xvda"}
"""Operating system → device whose size is set; Bottlerocket has images and logs on its second one."""

_DEFAULT_INSTANCE_TYPES: Final = {
    "amd64": ("m7i.large", "m7a.large", "m6i.large", "m6a.large", "m5.large"),
    "arm64": ("m8g.large", "m7g.large", "m6g.large"),
}
_MAX_DEFAULT_TYPES: Final = 3


def compute_addresses(config: ClusterConfig) -> tuple[str, ...]:
    """Return the addresses of the compute that system pods run on."""
    if isinstance(config.home, ControllerNodeGroup):
        return (f"eks-node-group/{config.home.name}",)
    if isinstance(config.home, ControllerFargate):
        return tuple(f"eks-fargate-profile/{namespace}" for namespace in fargate_namespaces(config))
    return ()


def fargate_namespaces(config: ClusterConfig) -> list[str]:
    """Return the namespaces whose pods run on Fargate."""
    if not isinstance(config.home, ControllerFargate):
        return []
    return list(dict.fromkeys([*config.home.namespaces, config.controller.namespace]))


def uses_instance_profile(config: ClusterConfig, network: Network) -> bool:
    """Return True if we create the nodes' instance profile, not the controller."""
    return config.iam.node_role.instance_profile or network.is_isolated


def group_instance_types(group: NodeGroup, region: Region) -> list[str]:
    """Return the instance types of a node group: configured, or default ones."""
    defaults = _DEFAULT_INSTANCE_TYPES[group.architecture]
    offered = [instance_type for instance_type in defaults if region.offered_zones.get(instance_type)]
    # The catalogue does not have every region. The oldest type is offered in nearly all of them.
    return list(group.instance_types) or offered[:_MAX_DEFAULT_TYPES] or [defaults[-1]]


def accelerator_of(names: Sequence[str], catalog: Catalog) -> str | None:
    """Return the kind of accelerator that all of the types have: nvidia, neuron or none."""
    types = {instance_type.name: instance_type for instance_type in catalog.instance_types}
    kinds = {_accelerator(types[name]) for name in names if name in types}
    return kinds.pop() if len(kinds) == 1 else None


def _accelerator(instance_type: Ec2InstanceType) -> str | None:
    if any(gpu.manufacturer.lower() == "nvidia" for gpu in instance_type.gpus):
        return "nvidia"
    return "neuron" if family_of(instance_type.name).startswith(("inf", "trn")) else None


def desired_compute(
    config: ClusterConfig, names: Names, network: Network, region: Region
) -> Iterator[DesiredResource]:
    """Yield the compute that exists before the controller launches nodes."""
    if isinstance(config.home, ControllerNodeGroup):
        yield from _node_group(_with_controller_taint(config.home), config, names, network, region)
    for group in config.node_groups:
        yield from _node_group(group, config, names, network, region)
    previous: tuple[str, ...] = ()
    for namespace in fargate_namespaces(config):
        # EKS creates and deletes one profile of a cluster at a time.
        profile = _fargate_profile(namespace, names, network, previous)
        previous = (profile.address,)
        yield profile
    if uses_instance_profile(config, network):
        role = node_role_name(config, names)
        shared = config.iam.node_role.arn is not None
        yield DesiredResource(
            kind="instance-profile",
            name=names.instance_profile,
            properties={
                "InstanceProfileName": names.instance_profile,
                "Path": config.iam.path,
                "Roles": [role if shared else ref(f"iam-role/{role}", "name")],
            },
            purpose="role of nodes where the controller cannot reach IAM",
        )


def _with_controller_taint(node_group: ControllerNodeGroup) -> NodeGroup:
    taint = TaintConfig(key=CONTROLLER_TAINT, value="true", effect="NoSchedule")
    return node_group.model_copy(
        update={
            "labels": {**node_group.labels, **node_group.selector},
            "taints": [*node_group.taints, *([taint] if node_group.taint else [])],
        }
    )


def _node_group(
    group: NodeGroup, config: ClusterConfig, names: Names, network: Network, region: Region
) -> Iterator[DesiredResource]:
    instance_types = group_instance_types(group, region)
    template = f"{names.cluster}-{group.name}"
    properties: dict[str, Any] = {
        "ClusterName": names.cluster_ref("name"),
        "NodegroupName": group.name,
        "Version": config.version,
        "NodeRole": ref(f"iam-role/{node_group_role_name(group, names)}", "arn"),
        "Subnets": network.subnets,
        "InstanceTypes": instance_types,
        "AmiType": _ami_type(group, accelerator_of(instance_types, bundled_catalog())),
        "CapacityType": group.capacity_type.upper().replace("-", "_"),
        "ScalingConfig": {"MinSize": group.min, "DesiredSize": group.desired, "MaxSize": group.max},
        "Labels": dict(group.labels),
        "Taints": [_taint(taint) for taint in group.all_taints],
    }
    if group.max_unavailable_percentage is not None:
        properties["UpdateConfig"] = {"MaxUnavailablePercentage": group.max_unavailable_percentage}
    if group.launch_template:
        address = f"launch-template/{template}"
        properties["LaunchTemplate"] = {"Id": ref(address, "id"), "Version": ref(address, "version")}
        yield _launch_template(template, group, config, names)
    else:
        properties["DiskSize"] = group.volume_gib
    yield DesiredResource(
        kind="eks-node-group",
        name=group.name,
        properties=properties,
        # Nodes become ready only with a network plugin and network access.
        depends_on=(*_node_addons(config), *network.prerequisites),
        monthly_usd=_monthly_usd(group, instance_types[0], config.region),
        purpose="nodes of the controller" if isinstance(group, ControllerNodeGroup) else "permanent nodes",
    )


def node_group_role_name(group: NodeGroup, names: Names) -> str:
    """Return the role of a node group; access entries of Linux and Windows differ by role."""
    return names.windows_node_group_role if group.is_windows else names.node_group_role


def gpu_notes(config: ClusterConfig) -> Iterator[str]:
    """Yield a note for each node group whose GPUs pods cannot use yet."""
    for group in config.node_groups:
        if group.image == "al2023" and accelerator_of(group.instance_types, bundled_catalog()) == "nvidia":
            yield (
                f"nodeGroups: pods can request the GPUs of {group.name} once NVIDIA's device plugin runs; "
                "install its chart, or use image: bottlerocket, which has it"
            )


def _ami_type(group: NodeGroup, accelerator: str | None) -> str:
    """Return the AMI type of EKS for a group."""
    if group.is_windows:
        _, year, edition = group.image.split("-")
        return f"WINDOWS_{edition.upper()}_{year}_x86_64"
    if group.image == "bottlerocket":
        architecture = "ARM_64" if group.architecture == "arm64" else "x86_64"
        return f"BOTTLEROCKET_{architecture}" + ("_NVIDIA" if accelerator == "nvidia" else "")
    return _AMI_TYPES[group.architecture, accelerator]


def _node_addons(config: ClusterConfig) -> list[str]:
    addons = config.addons
    # An existing cluster has its own add-ons, except for those that the file sets.
    desired = (
        addons.model_fields_set if isinstance(config.home, ExistingCluster) else {"vpc_cni", "kube_proxy"}
    )
    enabled_by_name = {
        "vpc-cni": "vpc_cni" in desired and addons.vpc_cni.enabled,
        "kube-proxy": "kube_proxy" in desired and addons.kube_proxy.enabled,
    }
    return [f"eks-addon/{name}" for name, is_enabled in enabled_by_name.items() if is_enabled]


def _monthly_usd(group: NodeGroup, instance_type: str, region: str) -> float:
    prices = bundled_prices()
    if currency_of(region) != USD:
        # All other costs of the plan are in USD.
        region = prices.list_region
    spot = group.capacity_type == "spot"
    price = prices.spot(instance_type, region=region) if spot else prices.on_demand(instance_type, region)
    return HOURS_PER_MONTH * group.desired * (price or 0.0)


def _taint(taint: TaintConfig) -> dict[str, str]:
    effect = _TAINT_EFFECTS[taint.effect]
    return {"Key": taint.key, **({"Value": taint.value} if taint.value else {}), "Effect": effect}


def _launch_template(name: str, group: NodeGroup, config: ClusterConfig, names: Names) -> DesiredResource:
    # EKS adds the cluster's group only to templates without groups.
    ingress = [ref(f"security-group/{names.ingress_security_group}", "id")] if config.ingress else []
    name_tags = [{"Key": "Name", "Value": f"{names.cluster}-{group.name}"}]
    return DesiredResource(
        kind="launch-template",
        name=name,
        properties={
            "LaunchTemplateName": name,
            "LaunchTemplateData": {
                "SecurityGroupIds": [names.cluster_ref("security-group"), *ingress] if ingress else [],
                "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                "BlockDeviceMappings": [
                    {
                        "DeviceName": _ROOT_DEVICES[group.image.partition("-")[0]],
                        "Ebs": {
                            "VolumeSize": group.volume_gib,
                            "VolumeType": "gp3",
                            "Encrypted": True,
                            "DeleteOnTermination": True,
                        },
                    }
                ],
                "TagSpecifications": [
                    {"ResourceType": kind, "Tags": name_tags} for kind in ("instance", "volume")
                ],
            },
        },
        purpose=f"instances of the node group {group.name}",
    )


def _fargate_profile(
    namespace: str, names: Names, network: Network, previous: tuple[str, ...]
) -> DesiredResource:
    return DesiredResource(
        kind="eks-fargate-profile",
        name=namespace,
        properties={
            "ClusterName": names.cluster_ref("name"),
            "FargateProfileName": namespace,
            "PodExecutionRoleArn": ref(f"iam-role/{names.fargate_role}", "arn"),
            "Subnets": network.subnets,
            "Selectors": [{"Namespace": namespace}],
        },
        depends_on=(*network.prerequisites, *previous),
        cost_note="Fargate: billed per pod, by its CPU and memory; not included",
        purpose=f"runs pods of {namespace} on Fargate",
    )
