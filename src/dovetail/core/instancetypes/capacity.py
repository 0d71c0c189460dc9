"""How much of everything a node has before anything is set aside."""

from math import ceil

from dovetail.core.instancetypes.ami_families import Family, family_named
from dovetail.core.instancetypes.branch_enis import branch_interfaces
from dovetail.core.instancetypes.compatibility import efa_only
from dovetail.core.instancetypes.settings import MachineSettings
from dovetail.model.cloud.ec2_catalog import Machine
from dovetail.model.karpenter.ec2nodeclass import Kubelet, NodeClass
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

MIB = 1 << 20
GB = 10**9
ARM_FIRMWARE_MIB = 64
"""arm64 machines keep this much from their guests, unlisted."""
WINDOWS_PODS = 110

POD_ENI = "vpc.amazonaws.com/pod-eni"
PRIVATE_IPV4 = "vpc.amazonaws.com/PrivateIPv4Address"
EFA = "vpc.amazonaws.com/efa"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
_GPU_RESOURCES = {
    "NVIDIA": "nvidia.com/gpu",
    "AMD": "amd.com/gpu",
    "Habana": "habana.ai/gaudi",
}


def capacity_of(machine: Machine, node_class: NodeClass, settings: MachineSettings) -> Resources:
    """Return a node's capacity; resources that it has none of are left out."""
    family = family_named(node_class.ami_family)
    interfaces = node_class.launch.interfaces
    # An interface for EFA alone takes a place on its card and gives no pod an address.
    taken = settings.reserved_enis + efa_only(tuple(one for one in interfaces if one.card == 0))
    amounts = {
        CPU: machine.vcpus * 1000,
        MEMORY: memory_bytes(machine, settings.vm_memory_overhead),
        PODS: pods(machine, family, node_class.kubelet, taken),
        EPHEMERAL_STORAGE: storage_bytes(machine, family, node_class),
        POD_ENI: branch_interfaces(machine),
        EFA: efa_only(interfaces) if interfaces else machine.efas,
        NEURON: sum(device.count for device in machine.neuron),
        NEURON_CORE: machine.neuron[0].count * machine.neuron[0].cores if machine.neuron else 0,
    }
    for gpu in machine.gpus:
        resource = _GPU_RESOURCES.get(gpu.manufacturer)
        if resource is not None:
            amounts[resource] = amounts.get(resource, 0) + gpu.count
    if family.is_windows:
        amounts[PRIVATE_IPV4] = max(0, machine.ipv4_per_eni - 1)
    return Resources({name: amount for name, amount in amounts.items() if amount or name == PODS})


def memory_bytes(machine: Machine, overhead: float) -> int:
    """Return the memory that the kubelet will see, estimated from below."""
    is_arm = machine.architectures[:1] == ("arm64",)
    mib = machine.memory_mib - (ARM_FIRMWARE_MIB if is_arm else 0)
    return (mib - ceil(mib * overhead)) * MIB


def eni_limited_pods(machine: Machine, reserved_enis: int = 0) -> int:
    """Return how many pods the default network card can give an address.

    An interface keeps its first address; two pods (the CNI and kube-proxy)
    use the host's.
    """
    enis = max(0, machine.enis - reserved_enis)
    return enis * (machine.ipv4_per_eni - 1) + 2 if enis else 0


def pods(machine: Machine, family: Family, kubelet: Kubelet, reserved_enis: int) -> int:
    """Return how many pods the kubelet will accept."""
    if kubelet.max_pods is not None:
        limit = kubelet.max_pods
    elif family.eni_limited:
        limit = eni_limited_pods(machine, reserved_enis)
    else:
        limit = WINDOWS_PODS
    if kubelet.pods_per_core and family.supports_pods_per_core:
        limit = min(limit, kubelet.pods_per_core * machine.vcpus)
    return limit


def storage_bytes(machine: Machine, family: Family, node_class: NodeClass) -> int:
    """Return the scratch space for pods: the first rule that names a size wins."""
    if node_class.raid0 and machine.local_storage_gb:
        return machine.local_storage_gb * GB
    devices = node_class.block_devices
    candidates = [device for device in devices if device.root]
    if not family.data_device:
        candidates += devices[-1:]
    else:
        candidates += [one for one in devices if one.device_name == family.data_device]
    sized = [device.volume_bytes for device in candidates if device.volume_bytes]
    return sized[0] if sized else family.data_bytes
