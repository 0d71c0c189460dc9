"""Node classes made ready for launching: user data, disks, metadata options. Pure."""

from collections.abc import Callable
from math import ceil
from typing import Any, Final

from dovetail.aws.launchtemplate.launch_config import Boot, Image, Launchable
from dovetail.aws.userdata.bootstrap import Bootstrap, Cluster
from dovetail.aws.userdata.bottlerocket import version_of
from dovetail.aws.userdata.registry import render
from dovetail.core.instancetypes.ami_families import GIB, family_named
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import BlockDevice, NodeClass
from dovetail.model.kube.requirements import Requirements
from dovetail.ports.cloudprovider import NodeClassNotReady

_WITHOUT_IPV6_METADATA: Final = frozenset(
    {
        "us-iso-east-1",
        "us-iso-west-1",
        "us-isob-east-1",
        "us-isob-west-1",
        "us-isof-south-1",
        "us-isof-east-1",
    }
)


class ClassBook:
    """``Launchables`` from what is in the status of node classes."""

    def __init__(
        self, cluster: Callable[[], Cluster], *, region: str, reserved_capacity: bool = True
    ) -> None:
        self._cluster = cluster
        self._region = region
        self._reserved_capacity = reserved_capacity
        self._known: dict[str, tuple[NodeClass, Cluster, Launchable]] = {}

    def launchable(self, node_class: NodeClass) -> Launchable:
        """Return what a class that is ready means; the same object while nothing changes."""
        cluster = self._cluster()
        known = self._known.get(node_class.name)
        if known is not None and known[0] == node_class and known[1] == cluster:
            return known[2]
        made = launchable_of(
            node_class, cluster, self._region, reserved_capacity=self._reserved_capacity
        )
        self._known[node_class.name] = (node_class, cluster, made)
        return made

    def forget(self, name: str) -> None:
        self._known.pop(name, None)


def launchable_of(
    node_class: NodeClass, cluster: Cluster, region: str, *, reserved_capacity: bool = True
) -> Launchable:
    """Return a class in full; raises ``NodeClassNotReady`` when something is missing."""
    found = node_class.found
    missing = [
        name
        for name, there in (
            ("images", found.images),
            ("subnets", found.subnets),
            ("security groups", found.security_groups),
            ("instance profile", found.instance_profile),
            ("placement group", found.placement_group.id or not node_class.launch.placement_group),
        )
        if not there
    ]
    if missing:
        raise NodeClassNotReady(
            f"EC2NodeClass {node_class.name} has as yet no {', no '.join(missing)}"
        )

    def user_data(boot: Boot) -> bytes:
        return render(node_class.ami_family, _bootstrap(node_class, cluster, boot))

    return Launchable(
        node_class=node_class,
        images=tuple(
            Image(id=one.id, name=one.name, requirements=Requirements.of_specs(one.requirements))
            for one in found.images
        ),
        subnets=found.subnets,
        security_groups=found.security_groups,
        instance_profile=found.instance_profile,
        user_data=user_data,
        template=FrozenDict(_template(node_class, region)),
        ipv6=cluster.ipv6,
        reserved_capacity=reserved_capacity,
    )


def block_devices(node_class: NodeClass) -> tuple[BlockDevice, ...]:
    """Return the disks of a class: the user's, or all of the family's."""
    family = family_named(node_class.ami_family)
    if node_class.block_devices or not family.data_device:
        return node_class.block_devices
    data = _usual(family.data_device, family.data_bytes)
    if family.name == "Bottlerocket":
        return (_usual("/dev/xvda", 4 * GIB), data)
    return (data,)


def _usual(device: str, size: int) -> BlockDevice:
    return BlockDevice(device_name=device, volume_bytes=size, volume_type="gp3", encrypted=True)


def _bootstrap(node_class: NodeClass, cluster: Cluster, boot: Boot) -> Bootstrap:
    alias = next((one.alias for one in node_class.launch.images if one.alias), "")
    named = version_of(alias.partition("@")[2])
    version = version_of(boot.image.name) if named in ("", "latest") else named
    return Bootstrap(
        cluster=cluster,
        kubelet=node_class.kubelet,
        max_pods=boot.max_pods,
        labels=boot.labels,
        taints=boot.taints,
        user_data=node_class.launch.user_data,
        raid0=node_class.raid0,
        image_version=version or named,
    )


def _template(node_class: NodeClass, region: str) -> dict[str, Any]:
    launch, metadata = node_class.launch, node_class.launch.metadata
    options: dict[str, Any] = {
        "HttpEndpoint": metadata.endpoint,
        "HttpPutResponseHopLimit": metadata.hop_limit,
        "HttpTokens": metadata.tokens,
        "InstanceMetadataTags": "disabled",
    }
    if region not in _WITHOUT_IPV6_METADATA:
        options["HttpProtocolIpv6"] = metadata.ipv6
    shown: dict[str, Any] = {
        "MetadataOptions": options,
        "Monitoring": {"Enabled": bool(launch.detailed_monitoring)},
    }
    devices = [_device(one) for one in block_devices(node_class)]
    if devices:
        shown["BlockDeviceMappings"] = devices
    if launch.nested_virtualization:
        shown["CpuOptions"] = {"NestedVirtualization": launch.nested_virtualization}
    if node_class.found.placement_group.id:
        shown["Placement"] = {"GroupId": node_class.found.placement_group.id}
    return shown


def _device(device: BlockDevice) -> dict[str, Any]:
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
    given = {name: value for name, value in ebs.items() if value is not None}
    return {"DeviceName": device.device_name, **({"Ebs": given} if given else {})}
