"""Where AWS publishes the ids of its images, and which machines these are for. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.core.instancetypes.ami_families import family_named
from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Operator, RequirementSpec

LATEST: Final = "latest"
_GPUS: Final = f"{label_keys.AWS_DOMAIN}/instance-gpu-count"
_ACCELERATORS: Final = f"{label_keys.AWS_DOMAIN}/instance-accelerator-count"
_AL2_ENDS: Final = (1, 33)
"""From this Kubernetes on there is no AL2."""
_WINDOWS2025_STARTS: Final = (1, 35)

Requirements = tuple[RequirementSpec, ...]

STANDARD: Final[Requirements] = (
    RequirementSpec(_GPUS, Operator.DOES_NOT_EXIST),
    RequirementSpec(_ACCELERATORS, Operator.DOES_NOT_EXIST),
)
NVIDIA: Final[Requirements] = (RequirementSpec(_GPUS, Operator.EXISTS),)
NEURON: Final[Requirements] = (RequirementSpec(_ACCELERATORS, Operator.EXISTS),)


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """An SSM parameter that holds the id of an image, and the kinds of machines it is for."""

    parameter: str
    kinds: tuple[Requirements, ...] = ((),)
    changing: bool = False
    """Whether it will hold another image some day."""


def published(alias: str, kubernetes: str) -> tuple[Published, ...]:
    """Return where the images of an alias (``al2023@latest``) are found."""
    family, _, version = alias.partition("@")
    changing = version == LATEST
    rows = list(_rows(family, version, kubernetes))
    return tuple(
        Published(parameter=parameter, kinds=kinds, changing=changing) for parameter, kinds in rows
    )


def why_unsupported(alias: str, kubernetes: str) -> str | None:
    """Return why an alias means nothing with this Kubernetes."""
    family = alias.partition("@")[0]
    if family == "al2" and _version(kubernetes) >= _AL2_ENDS:
        return (
            f"there are no AL2 images for Kubernetes {kubernetes}; use al2023@latest or"
            " bottlerocket@latest"
        )
    if family == "windows2025" and _version(kubernetes) < _WINDOWS2025_STARTS:
        return (
            f"there are no Windows 2025 images for Kubernetes {kubernetes}; use"
            " windows2022@latest, or Kubernetes 1.35 or newer"
        )
    return None


def _rows(
    family: str, version: str, kubernetes: str
) -> Iterable[tuple[str, tuple[Requirements, ...]]]:
    if family == "al2":
        return _al2(version, kubernetes)
    if family == "al2023":
        return _al2023(version, kubernetes)
    if family == "bottlerocket":
        return _bottlerocket(version, kubernetes)
    return _windows(family, kubernetes)


def _al2(version: str, kubernetes: str) -> Iterable[tuple[str, tuple[Requirements, ...]]]:
    for suffix, kinds in (("", (STANDARD,)), ("arm64", (STANDARD,)), ("gpu", (NEURON, NVIDIA))):
        dashed = f"-{suffix}" if suffix else ""
        name = _named(version, f"amazon-eks{dashed}-node-{kubernetes}-{version}")
        yield f"{_optimized(kubernetes)}/amazon-linux-2{dashed}/{name}/image_id", kinds


def _al2023(version: str, kubernetes: str) -> Iterable[tuple[str, tuple[Requirements, ...]]]:
    for arch, variant, kind in (
        ("x86_64", "standard", STANDARD),
        ("x86_64", "nvidia", NVIDIA),
        ("x86_64", "neuron", NEURON),
        ("arm64", "standard", STANDARD),
        ("arm64", "nvidia", NVIDIA),
    ):
        name = _named(version, f"amazon-eks-node-al2023-{arch}-{variant}-{kubernetes}-{version}")
        folder = f"{_optimized(kubernetes)}/amazon-linux-2023/{arch}/{variant}"
        yield f"{folder}/{name}/image_id", (kind,)


def _bottlerocket(version: str, kubernetes: str) -> Iterable[tuple[str, tuple[Requirements, ...]]]:
    number = LATEST if version == LATEST else version.removeprefix("v")
    for variant, arch, kinds in (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    ):
        folder = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{variant}/{arch}"
        yield f"{folder}/{number}/image_id", kinds


def _windows(family: str, kubernetes: str) -> Iterable[tuple[str, tuple[Requirements, ...]]]:
    year = family.removeprefix("windows")
    build = family_named(f"Windows{year}").windows_build
    name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}"
    wanted = (
        RequirementSpec(label_keys.OS, Operator.IN, ("windows",)),
        RequirementSpec(label_keys.WINDOWS_BUILD, Operator.IN, (build,)),
    )
    yield f"/aws/service/ami-windows-latest/{name}/image_id", (wanted,)


def _optimized(kubernetes: str) -> str:
    return f"/aws/service/eks/optimized-ami/{kubernetes}"


def _named(version: str, exact: str) -> str:
    return "recommended" if version == LATEST else exact


def _version(kubernetes: str) -> tuple[int, ...]:
    return tuple(int(part) for part in kubernetes.split(".")[:2] if part.isdigit())
