"""The images of virtual EC2: which a node class means, and which a type boots."""

from hashlib import blake2b
from typing import Any, Final

import msgspec

from dovetail.core.instancetypes.ami_families import family_named
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType

_GPUS: Final = f"{label_keys.AWS_DOMAIN}/instance-gpu-count"
_ACCELERATORS: Final = f"{label_keys.AWS_DOMAIN}/instance-accelerator-count"
_PREFIX: Final = "ami-"


class Image(msgspec.Struct, frozen=True):
    """An image and the machines that it is for."""

    family: str
    arch: str
    variant: str = "standard"
    version: str = ""
    """Empty: the one that is the latest while nobody has released another."""

    @property
    def id(self) -> str:
        """Digits that are the same for the same image in every run."""
        text = f"{self.family}/{self.arch}/{self.variant}"
        if self.version:
            text += f"/{self.version}"
        return f"{_PREFIX}0{digits(text)}"

    @property
    def name(self) -> str:
        name = f"{self.family.lower()}-{self.arch}-{self.variant}"
        return f"{name}-{self.version}" if self.version else name

    def wire(self) -> dict[str, Any]:
        """Write it as an entry of ``status.amis``."""
        wanted: list[dict[str, Any]] = [
            {"key": label_keys.ARCH, "operator": "In", "values": [self.arch]}
        ]
        family = family_named(self.family)
        if family.is_windows:
            build = {"operator": "In", "values": [family.windows_build]}
            wanted.append({"key": label_keys.OS, "operator": "In", "values": ["windows"]})
            wanted.append({"key": label_keys.WINDOWS_BUILD, **build})
        elif self.family != "Custom":
            wanted += _VARIANTS[self.variant]
        return {"id": self.id, "name": self.name, "requirements": wanted}


def _whether(key: str, operator: str) -> dict[str, Any]:
    return {"key": key, "operator": operator}


_VARIANTS: Final = {
    "standard": [_whether(_GPUS, "DoesNotExist"), _whether(_ACCELERATORS, "DoesNotExist")],
    "nvidia": [_whether(_GPUS, "Exists")],
    "neuron": [_whether(_ACCELERATORS, "Exists")],
}


def images_of(family: str, version: str = "") -> list[Image]:
    """Return the images of a family, as its alias would find them."""
    if family_named(family).is_windows:
        kinds = [("amd64", "standard")]
    elif family == "Custom":
        kinds = [("amd64", "standard"), ("arm64", "standard")]
    else:
        kinds = [("amd64", variant) for variant in _VARIANTS]
        kinds += [("arm64", "standard"), ("arm64", "nvidia")]
    return [Image(family, arch, variant, version) for arch, variant in kinds]


def image_for(family: str, one: InstanceType) -> str:
    """Return the image that an instance type boots under a family."""
    arch = "arm64" if one.requirements.allowed(label_keys.ARCH).has("arm64") else "amd64"
    if family == "Custom" or family_named(family).is_windows:
        return Image(family, arch).id
    for key, variant in ((_GPUS, "nvidia"), (_ACCELERATORS, "neuron")):
        known = one.requirements.get(key)
        if known is not None and known.values:
            return Image(family, arch, variant).id
    return Image(family, arch).id


def digits(text: str) -> str:
    """Return 16 hexadecimal digits that depend on ``text`` only."""
    return blake2b(text.encode(), digest_size=8).hexdigest()
