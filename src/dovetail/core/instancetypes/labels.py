"""Node labels of an instance type."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from dovetail.core.instancetypes.ami_families import AmiFamilyFacts
from dovetail.core.instancetypes.type_names import category_and_generation, family_of, is_flex, kebab, size_of
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.kube.requirements import Requirement, Requirements

_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_PREFIX = f"{label_keys.AWS_DOMAIN}/instance-"
NITRO_SANDBOX = f"{label_keys.AWS_DOMAIN}/nitro-sandbox"


def instance_type_labels(ec2_type: Ec2InstanceType, family: AmiFamilyFacts) -> Requirements:
    """Return the labels that hold in every zone and for every capacity type.

    A label that the type lacks is included as "does not exist": a pod that requires
    it does not match, one that excludes it does.
    """
    instance = {
        **_name_labels(ec2_type.name),
        **_compute_labels(ec2_type),
        **_bandwidth_labels(ec2_type),
        **_gpu_labels(ec2_type),
        **_accelerator_labels(ec2_type),
        "tenancy": ("default", "dedicated"),
    }
    arch = architecture_of(ec2_type)
    values: dict[str, Iterable[str]] = {
        label_keys.INSTANCE_TYPE: (ec2_type.name,),
        label_keys.ARCH: (arch,) if arch else (),
        label_keys.OS: _operating_systems(arch, family),
        label_keys.WINDOWS_BUILD: (family.windows_build,) if family.is_windows else (),
        NITRO_SANDBOX: _bool_value(ec2_type.nitro_enclaves),
    }
    values.update((_PREFIX + name, allowed) for name, allowed in instance.items())
    return to_requirements(values)


def to_requirements(values: Mapping[str, Iterable[str]]) -> Requirements:
    """Return label → allowed values as requirements; no value means "does not exist"."""
    return Requirements({key: _one_of(key, tuple(allowed)) for key, allowed in values.items()})


@lru_cache(maxsize=1 << 15)
def _one_of(key: str, allowed: tuple[str, ...]) -> Requirement:
    """Return a cached requirement: types share few distinct ones, and each keeps its hash."""
    return Requirement.one_of(key, *allowed)


def architecture_of(ec2_type: Ec2InstanceType) -> str:
    """Return the Kubernetes name of the first known architecture, or ""."""
    architectures = (_ARCHITECTURES.get(architecture) for architecture in ec2_type.architectures)
    return next((architecture for architecture in architectures if architecture), "")


def _operating_systems(arch: str, family: AmiFamilyFacts) -> tuple[str, ...]:
    if not family.is_windows:
        return ("linux",)
    return ("windows",) if arch == "amd64" else ()


def _name_labels(name: str) -> dict[str, tuple[str, ...]]:
    shape = category_and_generation(name)
    return {
        "category": shape[:1] if shape else (),
        "generation": shape[1:] if shape else (),
        "family": (family_of(name),),
        "size": (size_of(name),),
        "capability-flex": _bool_value(is_flex(name)),
    }


def _compute_labels(ec2_type: Ec2InstanceType) -> dict[str, tuple[str, ...]]:
    has_nvme = ec2_type.local_storage_gb and ec2_type.nvme
    return {
        "cpu": (str(ec2_type.vcpus),),
        "cpu-manufacturer": _optional_value(kebab(ec2_type.cpu_manufacturer)),
        "cpu-sustained-clock-speed-mhz": _optional_value(ec2_type.clock_mhz),
        "memory": (str(ec2_type.memory_mib),),
        "local-nvme": _optional_value(ec2_type.local_storage_gb if has_nvme else None),
        "hypervisor": (ec2_type.hypervisor,),
        "encryption-in-transit-supported": _bool_value(ec2_type.encryption_in_transit),
    }


def _bandwidth_labels(ec2_type: Ec2InstanceType) -> dict[str, tuple[str, ...]]:
    ebs = ec2_type.ebs_maximum_mbps if ec2_type.ebs_optimized == "default" else None
    return {
        "ebs-bandwidth": _optional_value(ebs),
        "network-bandwidth": _optional_value(ec2_type.network_baseline_mbps),
    }


def _gpu_labels(ec2_type: Ec2InstanceType) -> dict[str, tuple[str, ...]]:
    if len(ec2_type.gpus) != 1:
        return dict.fromkeys(("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"), ())
    gpu = ec2_type.gpus[0]
    return {
        "gpu-name": _optional_value(kebab(gpu.name)),
        "gpu-manufacturer": _optional_value(kebab(gpu.manufacturer)),
        "gpu-count": (str(gpu.count),),
        "gpu-memory": (str(gpu.memory_mib),),
    }


def _accelerator_labels(ec2_type: Ec2InstanceType) -> dict[str, tuple[str, ...]]:
    name, manufacturer, count = "", "", 0
    if len(ec2_type.neuron) == 1:
        name, manufacturer, count = ec2_type.neuron[0].name, "aws", ec2_type.neuron[0].count
    elif not ec2_type.neuron and len(ec2_type.inference) == 1:
        accelerator = ec2_type.inference[0]
        name, manufacturer, count = accelerator.name, accelerator.manufacturer, accelerator.count
    return {
        "accelerator-name": _optional_value(kebab(name)),
        "accelerator-manufacturer": _optional_value(kebab(manufacturer)),
        "accelerator-count": _optional_value(count or None),
    }


def _optional_value(value: str | int | None) -> tuple[str, ...]:
    return () if value is None or value == "" else (str(value),)


def _bool_value(value: bool) -> tuple[str, ...]:
    return ("true",) if value else ("false",)
