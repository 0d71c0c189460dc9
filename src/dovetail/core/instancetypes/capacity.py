"""Capacity of a node, before overhead."""

from math import ceil

from dovetail.core.instancetypes.ami_families import AmiFamilyFacts, ami_family_facts
from dovetail.core.instancetypes.branch_enis import max_branch_enis
from dovetail.core.instancetypes.compatibility import efa_only
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

MIB = 1 << 20
GB = 10**9
ARM_FIRMWARE_MIB = 64
"""MiB that the firmware of arm64 instances keeps; not in EC2's description."""
# Pods per Windows node: the kubelet default.
WINDOWS_PODS = 110

POD_ENI = "vpc.amazonaws.com/pod-eni"
PRIVATE_IPV4 = "vpc.amazonaws.com/PrivateIPv4Address"
EFA = "vpc.amazonaws.com/efa"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
_GPU_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}


def compute_capacity(
    ec2_type: Ec2InstanceType, node_class: EC2NodeClass, settings: InstanceTypeSettings
) -> Resources:
    """Return the capacity of a node; resources that it lacks are left out."""
    family = ami_family_facts(node_class.ami_family)
    interfaces = node_class.launch.network_interfaces
    amounts = {
        CPU: ec2_type.vcpus * 1000,
        MEMORY: memory_bytes(ec2_type, settings.vm_memory_overhead),
        PODS: max_pods(ec2_type, node_class, settings),
        EPHEMERAL_STORAGE: storage_bytes(ec2_type, family, node_class),
        POD_ENI: max_branch_enis(ec2_type),
        EFA: efa_only(interfaces) if interfaces else ec2_type.efas,
        NEURON: sum(device.count for device in ec2_type.neuron),
        NEURON_CORE: ec2_type.neuron[0].count * ec2_type.neuron[0].cores if ec2_type.neuron else 0,
    }
    for gpu in ec2_type.gpus:
        resource = _GPU_RESOURCES.get(gpu.manufacturer)
        if resource is not None:
            amounts[resource] = amounts.get(resource, 0) + gpu.count
    if family.is_windows:
        amounts[PRIVATE_IPV4] = max(0, ec2_type.ipv4_per_eni - 1)
    return Resources({name: amount for name, amount in amounts.items() if amount or name == PODS})


def memory_bytes(ec2_type: Ec2InstanceType, overhead: float) -> int:
    """Return an estimate of the memory that the kubelet sees, rather too low."""
    is_arm = ec2_type.architectures[:1] == ("arm64",)
    mib = ec2_type.memory_mib - (ARM_FIRMWARE_MIB if is_arm else 0)
    return (mib - ceil(mib * overhead)) * MIB


def eni_limited_pods(ec2_type: Ec2InstanceType, reserved_enis: int = 0) -> int:
    """Return how many pods get an address from the default network card.

    The first address of each interface is its own. Two pods (VPC CNI and kube-proxy)
    use the host network.
    """
    enis = max(0, ec2_type.enis - reserved_enis)
    return enis * (ec2_type.ipv4_per_eni - 1) + 2 if enis else 0


def max_pods(ec2_type: Ec2InstanceType, node_class: EC2NodeClass, settings: InstanceTypeSettings) -> int:
    """Return how many pods the kubelet accepts."""
    kubelet, family = node_class.kubelet, node_class.ami_family
    if kubelet.max_pods is not None:
        limit = kubelet.max_pods
    elif ami_family_facts(family).eni_limited:
        # An EFA-only interface occupies a place on its card and has no addresses for pods.
        first_card = [interface for interface in node_class.launch.network_interfaces if interface.card == 0]
        limit = eni_limited_pods(ec2_type, settings.reserved_enis + efa_only(tuple(first_card)))
    else:
        limit = WINDOWS_PODS
    if kubelet.pods_per_core and family.supports_pods_per_core:
        limit = min(limit, kubelet.pods_per_core * ec2_type.vcpus)
    return limit


def storage_bytes(ec2_type: Ec2InstanceType, family: AmiFamilyFacts, node_class: EC2NodeClass) -> int:
    """Return the ephemeral storage for pods: the first rule that names a size wins."""
    if node_class.raid0 and ec2_type.local_storage_gb:
        return ec2_type.local_storage_gb * GB
    devices = node_class.block_devices
    candidates = [device for device in devices if device.root]
    if not family.data_device:
        candidates += devices[-1:]
    else:
        candidates += [device for device in devices if device.device_name == family.data_device]
    sized = [device.volume_bytes for device in candidates if device.volume_bytes]
    return sized[0] if sized else family.data_bytes
