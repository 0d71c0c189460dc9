"""Facts of AMI families that decide a node's capacity and labels."""

from typing import Final, assert_never

import msgspec

from dovetail.model.karpenter.ami_family import AmiFamily

GIB: Final = 1 << 30


class AmiFamilyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Node properties that follow from the AMI family."""

    windows_build: str = ""
    """Empty for Linux."""
    data_device: str = ""
    """Device of the pods' ephemeral storage; empty if it depends on the AMI."""
    data_bytes: int = 20 * GIB
    """Default size of the data device."""
    system_bytes: int = 0
    """Default size of a separate volume for the operating system; 0: there is none."""
    eni_limited: bool = True
    """Each pod gets an IP address of the VPC, so network interfaces limit pods."""
    reserves_for_actual_pods: bool = False
    """Kube-reserved memory follows the pod limit instead of the ENI limit."""
    excluded_prefixes: tuple[str, ...] = ()
    """Name prefixes of instance types that its AMIs do not boot on."""

    @property
    def default_volume_bytes(self) -> tuple[int, ...]:
        """Sizes of the volumes of a node class without block devices, the data device last."""
        return (self.system_bytes, self.data_bytes) if self.system_bytes else (self.data_bytes,)

    @property
    def is_windows(self) -> bool:
        """Return True if nodes run Windows."""
        return bool(self.windows_build)


def ami_family_facts(family: AmiFamily) -> AmiFamilyFacts:
    """Return the facts of an AMI family."""
    return _FACTS[family]


def _facts_of(family: AmiFamily) -> AmiFamilyFacts:
    match family:
        case AmiFamily.AL2:
            return AmiFamilyFacts(data_device="/dev/xvda")
        case AmiFamily.AL2023:
            return AmiFamilyFacts(data_device="/dev/xvda", excluded_prefixes=("a1.",))
        case AmiFamily.BOTTLEROCKET:
            return AmiFamilyFacts(
                data_device="/dev/xvdb", system_bytes=4 * GIB, reserves_for_actual_pods=True
            )
        case AmiFamily.CUSTOM:
            return AmiFamilyFacts()
        case AmiFamily.WINDOWS2019:
            return _windows("10.0.17763")
        case AmiFamily.WINDOWS2022:
            return _windows("10.0.20348")
        case AmiFamily.WINDOWS2025:
            return _windows("10.0.26100")
        case _:
            assert_never(family)


def _windows(build: str) -> AmiFamilyFacts:
    return AmiFamilyFacts(
        windows_build=build,
        data_device="/dev/sda1",
        data_bytes=50 * GIB,
        eni_limited=False,
        reserves_for_actual_pods=True,
    )


_FACTS: Final = {family: _facts_of(family) for family in AmiFamily}
