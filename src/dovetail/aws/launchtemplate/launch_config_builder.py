"""Builds launch configs: user data, block devices, metadata options. Pure."""

from collections.abc import Callable
from math import ceil
from typing import Any, Final

import msgspec

from dovetail.aws.amifamily.bottlerocket import parse_version
from dovetail.aws.amifamily.registry import ami_family_provider
from dovetail.aws.launchtemplate.launch_config import LaunchAmi, LaunchConfig, UserDataContext
from dovetail.aws.userdata.bootstrap import Bootstrap, ClusterInfo
from dovetail.core.instancetypes.ami_families import GIB
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ec2nodeclass import BlockDevice, EC2NodeClass, KubeletConfiguration
from dovetail.model.kube.requirements import Requirements
from dovetail.ports.cloudprovider import NodeClassNotReadyError

_REGIONS_WITHOUT_IPV6_METADATA: Final = frozenset(
    "us-iso-east-1 us-iso-west-1 us-isob-east-1 us-isob-west-1 us-isof-south-1 us-isof-east-1".split()
)


class LaunchConfigCache:
    """Launch configs from the status of node classes."""

    def __init__(
        self, cluster: Callable[[], ClusterInfo], *, region: str, manages_reservations: bool = True
    ) -> None:
        self._cluster = cluster
        self._region = region
        self._manages_reservations = manages_reservations
        self._entries: dict[str, tuple[EC2NodeClass, ClusterInfo, LaunchConfig]] = {}
        """Node class name → inputs and result."""

    def launch_config(self, node_class: EC2NodeClass) -> LaunchConfig:
        """Return the launch config; the same object until its inputs change."""
        cluster = self._cluster()
        entry = self._entries.get(node_class.name)
        if entry is not None and entry[0] == node_class and entry[1] == cluster:
            return entry[2]
        config = build_launch_config(
            node_class, cluster, self._region, manages_reservations=self._manages_reservations
        )
        self._entries[node_class.name] = (node_class, cluster, config)
        return config

    def discard(self, name: str) -> None:
        """Remove the launch config of a deleted node class."""
        self._entries.pop(name, None)


def build_launch_config(
    node_class: EC2NodeClass, cluster: ClusterInfo, region: str, *, manages_reservations: bool = True
) -> LaunchConfig:
    """Return the launch config; raise ``NodeClassNotReadyError`` if a part is missing."""
    resolved = node_class.resolved
    needs_group = node_class.launch.placement_group is not None
    missing = [
        name
        for name, is_resolved in (
            ("AMI", resolved.amis),
            ("subnet", resolved.subnets),
            ("security group", resolved.security_group_ids),
            ("instance profile", resolved.instance_profile),
            ("placement group", resolved.placement_group.id or not needs_group),
        )
        if not is_resolved
    ]
    if missing:
        raise NodeClassNotReadyError(
            f"EC2NodeClass {node_class.name} has no {', no '.join(missing)} in its status yet"
        )

    family = ami_family_provider(node_class.ami_family)

    def user_data(context: UserDataContext) -> bytes:
        return family.render_user_data(_bootstrap(node_class, cluster, context)).encode()

    return LaunchConfig(
        node_class=node_class,
        amis=tuple(
            LaunchAmi(id=ami.id, name=ami.name, requirements=Requirements.from_specs(ami.requirements))
            for ami in resolved.amis
        ),
        subnets=resolved.subnets,
        security_groups=resolved.security_group_ids,
        instance_profile=resolved.instance_profile,
        user_data=user_data,
        template=FrozenDict(_template(node_class, region)),
        ipv6=cluster.ipv6,
        manages_reservations=manages_reservations,
    )


def block_devices(node_class: EC2NodeClass) -> tuple[BlockDevice, ...]:
    """Return the volumes of a node class: the specified ones, or the AMI family's."""
    family = ami_family_provider(node_class.ami_family)
    return node_class.block_devices or family.default_block_devices()


def _bootstrap(node_class: EC2NodeClass, cluster: ClusterInfo, context: UserDataContext) -> Bootstrap:
    alias = next((term.alias for term in node_class.launch.amis if term.alias), "")
    alias_version = parse_version(alias.partition("@")[2])
    is_pinned = alias_version not in ("", "latest")
    version = alias_version if is_pinned else parse_version(context.ami.name)
    return Bootstrap(
        cluster=cluster,
        kubelet=_evaluated_kubelet(node_class.kubelet, context),
        max_pods=context.max_pods,
        labels=context.labels,
        taints=context.taints,
        user_data=node_class.launch.user_data,
        raid0=node_class.raid0,
        ami_version=version or alias_version,
    )


def _evaluated_kubelet(kubelet: KubeletConfiguration, context: UserDataContext) -> KubeletConfiguration:
    """Return the settings with values instead of expressions, which no kubelet knows."""
    if not kubelet.expressions:
        return kubelet
    kube_reserved, system_reserved = context.kube_reserved, context.system_reserved
    return msgspec.structs.replace(
        kubelet,
        max_pods=context.max_pods,
        kube_reserved=kubelet.kube_reserved if kube_reserved is None else kube_reserved,
        system_reserved=kubelet.system_reserved if system_reserved is None else system_reserved,
        expressions=EMPTY,
    )


def _template(node_class: EC2NodeClass, region: str) -> dict[str, Any]:
    launch, metadata = node_class.launch, node_class.launch.metadata_options
    options: dict[str, Any] = {
        "HttpEndpoint": metadata.endpoint,
        "HttpPutResponseHopLimit": metadata.hop_limit,
        "HttpTokens": metadata.tokens,
        "InstanceMetadataTags": "disabled",
    }
    if region not in _REGIONS_WITHOUT_IPV6_METADATA:
        options["HttpProtocolIpv6"] = metadata.ipv6
    template: dict[str, Any] = {
        "MetadataOptions": options,
        "Monitoring": {"Enabled": bool(launch.detailed_monitoring)},
    }
    devices = [_encode_block_device(device) for device in block_devices(node_class)]
    if devices:
        template["BlockDeviceMappings"] = devices
    if launch.nested_virtualization:
        template["CpuOptions"] = {"NestedVirtualization": launch.nested_virtualization}
    if node_class.resolved.placement_group.id:
        template["Placement"] = {"GroupId": node_class.resolved.placement_group.id}
    return template


def _encode_block_device(device: BlockDevice) -> dict[str, Any]:
    size = device.volume_bytes
    ebs: dict[str, Any] = {
        "VolumeSize": None if size is None else ceil(size / GIB),
        "VolumeType": device.volume_type or None,
        "Encrypted": device.encrypted,
        "Iops": device.iops or None,
        "Throughput": device.throughput or None,
        "KmsKeyId": device.kms_key or None,
        "SnapshotId": device.snapshot or None,
        "VolumeInitializationRate": device.initialization_rate,
        "DeleteOnTermination": device.delete_on_termination,
    }
    ebs = {name: value for name, value in ebs.items() if value is not None}
    return {"DeviceName": device.device_name, **({"Ebs": ebs} if ebs else {})}
