"""The labels that a node of a machine type carries."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from dovetail.core.instancetypes.ami_families import Family
from dovetail.core.instancetypes.type_names import (
    category_and_generation,
    family_of,
    is_flex,
    kebab,
    size_of,
)
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Machine
from dovetail.model.kube.requirements import Requirement, Requirements

_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_PREFIX = f"{label_keys.AWS_DOMAIN}/instance-"
NITRO_SANDBOX = f"{label_keys.AWS_DOMAIN}/nitro-sandbox"


def machine_labels(machine: Machine, family: Family) -> Requirements:
    """Return what holds for the type in every zone and under every capacity type.

    A label that the type does not have is there all the same, as "does not
    exist": a pod that asks for it is refused, one that excludes it is served.
    """
    instance = {
        **_name_labels(machine.name),
        **_compute_labels(machine),
        **_bandwidth_labels(machine),
        **_gpu_labels(machine),
        **_accelerator_labels(machine),
        "tenancy": ("default", "dedicated"),
    }
    arch = architecture_of(machine)
    values: dict[str, Iterable[str]] = {
        label_keys.INSTANCE_TYPE: (machine.name,),
        label_keys.ARCH: (arch,) if arch else (),
        label_keys.OS: _systems(arch, family),
        label_keys.WINDOWS_BUILD: (family.windows_build,) if family.is_windows else (),
        NITRO_SANDBOX: ("true",) if machine.nitro_enclaves else (),
    }
    values.update((_PREFIX + name, allowed) for name, allowed in instance.items())
    return collect(values)


def collect(values: Mapping[str, Iterable[str]]) -> Requirements:
    """Turn label → allowed values into requirements; no value means absent."""
    return Requirements({key: _one_of(key, tuple(allowed)) for key, allowed in values.items()})


@lru_cache(maxsize=1 << 15)
def _one_of(key: str, allowed: tuple[str, ...]) -> Requirement:
    """Share requirements: types have few distinct ones, and each keeps its hash."""
    return Requirement.one_of(key, *allowed)


def architecture_of(machine: Machine) -> str:
    """Return Kubernetes' name of the first architecture that we know, or nothing."""
    known = (_ARCHITECTURES.get(one) for one in machine.architectures)
    return next((one for one in known if one), "")


def _systems(arch: str, family: Family) -> tuple[str, ...]:
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
        "capability-flex": _truth(is_flex(name)),
    }


def _compute_labels(machine: Machine) -> dict[str, tuple[str, ...]]:
    has_nvme = machine.local_storage_gb and machine.nvme
    return {
        "cpu": (str(machine.vcpus),),
        "cpu-manufacturer": _known(kebab(machine.cpu_manufacturer)),
        "cpu-sustained-clock-speed-mhz": _known(machine.clock_mhz),
        "memory": (str(machine.memory_mib),),
        "local-nvme": _known(machine.local_storage_gb if has_nvme else None),
        "hypervisor": (machine.hypervisor,),
        "encryption-in-transit-supported": _truth(machine.encryption_in_transit),
    }


def _bandwidth_labels(machine: Machine) -> dict[str, tuple[str, ...]]:
    ebs = machine.ebs_maximum_mbps if machine.ebs_optimized == "default" else None
    return {
        "ebs-bandwidth": _known(ebs),
        "network-bandwidth": _known(machine.network_baseline_mbps),
    }


def _gpu_labels(machine: Machine) -> dict[str, tuple[str, ...]]:
    if len(machine.gpus) != 1:
        return dict.fromkeys(("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"), ())
    gpu = machine.gpus[0]
    return {
        "gpu-name": _known(kebab(gpu.name)),
        "gpu-manufacturer": _known(kebab(gpu.manufacturer)),
        "gpu-count": (str(gpu.count),),
        "gpu-memory": (str(gpu.memory_mib),),
    }


def _accelerator_labels(machine: Machine) -> dict[str, tuple[str, ...]]:
    name, manufacturer, count = "", "", 0
    if len(machine.neuron) == 1:
        name, manufacturer, count = machine.neuron[0].name, "aws", machine.neuron[0].count
    elif not machine.neuron and len(machine.inference) == 1:
        only = machine.inference[0]
        name, manufacturer, count = only.name, only.manufacturer, only.count
    return {
        "accelerator-name": _known(kebab(name)),
        "accelerator-manufacturer": _known(kebab(manufacturer)),
        "accelerator-count": _known(count or None),
    }


def _known(value: str | int | None) -> tuple[str, ...]:
    return () if value is None or value == "" else (str(value),)


def _truth(holds: bool) -> tuple[str, ...]:
    return ("true",) if holds else ("false",)
