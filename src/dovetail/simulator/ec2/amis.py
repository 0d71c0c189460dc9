"""AMIs of the EC2 simulator: those of a family, and the one a type boots."""

from hashlib import blake2b
from typing import Any, Final

import msgspec

from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ami_family import AmiFamily

_GPUS: Final = f"{label_keys.AWS_DOMAIN}/instance-gpu-count"
_ACCELERATORS: Final = f"{label_keys.AWS_DOMAIN}/instance-accelerator-count"
_PREFIX: Final = "ami-"


class SimulatedAmi(msgspec.Struct, frozen=True):
    """An AMI and the instance types it is for."""

    family: AmiFamily
    arch: str
    variant: str = "standard"
    version: str = ""
    """Empty for the latest version until a scenario releases another."""

    @property
    def id(self) -> str:
        """AMI ID; equal AMIs have equal IDs in every run."""
        text = f"{self.family}/{self.arch}/{self.variant}"
        if self.version:
            text += f"/{self.version}"
        return f"{_PREFIX}0{hash_digits(text)}"

    @property
    def name(self) -> str:
        name = f"{self.family.lower()}-{self.arch}-{self.variant}"
        return f"{name}-{self.version}" if self.version else name

    def encode(self) -> dict[str, Any]:
        """Encode as an entry of ``status.amis``."""
        wanted: list[dict[str, Any]] = [{"key": label_keys.ARCH, "operator": "In", "values": [self.arch]}]
        family = ami_family_facts(self.family)
        if family.is_windows:
            build = {"operator": "In", "values": [family.windows_build]}
            wanted.append({"key": label_keys.OS, "operator": "In", "values": ["windows"]})
            wanted.append({"key": label_keys.WINDOWS_BUILD, **build})
        elif self.family is not AmiFamily.CUSTOM:
            wanted += _VARIANTS[self.variant]
        return {"id": self.id, "name": self.name, "requirements": wanted}


def _expression(key: str, operator: str) -> dict[str, Any]:
    return {"key": key, "operator": operator}


_VARIANTS: Final = {
    "standard": [_expression(_GPUS, "DoesNotExist"), _expression(_ACCELERATORS, "DoesNotExist")],
    "nvidia": [_expression(_GPUS, "Exists")],
    "neuron": [_expression(_ACCELERATORS, "Exists")],
}


def family_amis(family: AmiFamily, version: str = "") -> list[SimulatedAmi]:
    """Return the AMIs of a family, as its alias selects them."""
    if ami_family_facts(family).is_windows:
        kinds = [("amd64", "standard")]
    elif family is AmiFamily.CUSTOM:
        kinds = [("amd64", "standard"), ("arm64", "standard")]
    else:
        kinds = [("amd64", variant) for variant in _VARIANTS]
        kinds += [("arm64", "standard"), ("arm64", "nvidia")]
    return [SimulatedAmi(family, arch, variant, version) for arch, variant in kinds]


def ami_for_instance_type(family: AmiFamily, instance_type: InstanceType) -> str:
    """Return the ID of the AMI that an instance type boots in a family."""
    arch = "arm64" if instance_type.requirements.get_or_exists(label_keys.ARCH).has("arm64") else "amd64"
    if family is AmiFamily.CUSTOM or ami_family_facts(family).is_windows:
        return SimulatedAmi(family, arch).id
    for key, variant in ((_GPUS, "nvidia"), (_ACCELERATORS, "neuron")):
        requirement = instance_type.requirements.get(key)
        if requirement is not None and requirement.values:
            return SimulatedAmi(family, arch, variant).id
    return SimulatedAmi(family, arch).id


def hash_digits(text: str) -> str:
    """Return 16 hexadecimal digits that depend on ``text`` only."""
    return blake2b(text.encode(), digest_size=8).hexdigest()
