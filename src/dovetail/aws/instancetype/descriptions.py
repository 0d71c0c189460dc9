"""Decodes DescribeInstanceTypes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.model.cloud.ec2_catalog import Ec2InstanceType, Gpu, InferenceAccelerator, NeuronDevice


def decode_instance_type(described: Mapping[str, Any]) -> Ec2InstanceType:
    """Read one entry of DescribeInstanceTypes."""
    processor = described.get("ProcessorInfo", {})
    clock = processor.get("SustainedClockSpeedInGhz")
    return Ec2InstanceType(
        name=described["InstanceType"],
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory_mib=described["MemoryInfo"]["SizeInMiB"],
        architectures=tuple(processor.get("SupportedArchitectures", ())),
        hypervisor=described.get("Hypervisor", ""),
        bare_metal=described.get("BareMetal", False),
        burstable=described.get("BurstablePerformanceSupported", False),
        clock_mhz=None if clock is None else round(clock * 1000),
        cpu_manufacturer=processor.get("Manufacturer", ""),
        cpu_features=tuple(processor.get("SupportedFeatures", ())),
        nitro_enclaves=described.get("NitroEnclavesSupport") == "supported",
        usage_classes=tuple(described.get("SupportedUsageClasses", ())),
        placement_strategies=tuple(described.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
        **_network(described.get("NetworkInfo", {})),
        **_storage(described),
        **_accelerators(described),
    )


def _network(described: Mapping[str, Any]) -> dict[str, Any]:
    cards = described.get("NetworkCards", ())
    default = described.get("DefaultNetworkCardIndex", 0)
    enis = {card.get("NetworkCardIndex", 0): card.get("MaximumNetworkInterfaces", 0) for card in cards}
    total = described.get("MaximumNetworkInterfaces", 0)
    return {
        "enis": enis.get(default, total),
        "total_enis": total,
        "network_cards": described.get("MaximumNetworkCards", 1),
        "card_enis": tuple(enis.get(index, 0) for index in range(len(enis))),
        "ipv4_per_eni": described.get("Ipv4AddressesPerInterface", 0),
        "efas": described.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "ena": described.get("EnaSupport") != "unsupported",
        "network_baseline_mbps": _baseline_mbps(described.get("NetworkPerformance", ""), cards),
        "encryption_in_transit": described.get("EncryptionInTransitSupported", False),
    }


def _baseline_mbps(advertised: str, cards: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the baseline bandwidth of all cards together.

    With several cards EC2 gives for each card either its share or the total of
    the instance type. The advertised total decides, if there is one.
    """
    known = [card["BaselineBandwidthInGbps"] for card in cards if "BaselineBandwidthInGbps" in card]
    total = re.fullmatch(r"(\d+(?:\.\d+)?) Gigabit", advertised)
    if len(known) > 1 and total:
        return round(float(total[1]) * 1000)
    return round(sum(known) * 1000) if known else None


def _storage(described: Mapping[str, Any]) -> dict[str, Any]:
    local = described.get("InstanceStorageInfo", {})
    ebs = described.get("EbsInfo", {})
    optimized = ebs.get("EbsOptimizedInfo", {})
    return {
        "local_storage_gb": local.get("TotalSizeInGB", 0),
        "nvme": bool(local) and local.get("NvmeSupport") != "unsupported",
        "ebs_optimized": ebs.get("EbsOptimizedSupport", "unsupported"),
        "ebs_baseline_mbps": optimized.get("BaselineBandwidthInMbps"),
        "ebs_maximum_mbps": optimized.get("MaximumBandwidthInMbps"),
        "ebs_attachments": ebs.get("MaximumEbsAttachments"),
        "ebs_attachments_shared": ebs.get("AttachmentLimitType", "shared") == "shared",
    }


def _accelerators(described: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "gpus": tuple(
            Gpu(
                name=gpu.get("Name", ""),
                manufacturer=gpu.get("Manufacturer", ""),
                count=gpu.get("Count", 0),
                memory_mib=gpu.get("MemoryInfo", {}).get("SizeInMiB", 0),
            )
            for gpu in described.get("GpuInfo", {}).get("Gpus", ())
        ),
        "neuron": tuple(
            NeuronDevice(
                name=device.get("Name", ""),
                count=device.get("Count", 0),
                cores=device.get("CoreInfo", {}).get("Count", 0),
            )
            for device in described.get("NeuronInfo", {}).get("NeuronDevices", ())
        ),
        "inference": tuple(
            InferenceAccelerator(
                name=chip.get("Name", ""),
                manufacturer=chip.get("Manufacturer", ""),
                count=chip.get("Count", 0),
            )
            for chip in described.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
        ),
    }
