"""AMI families: the operating systems that an EC2NodeClass can boot.

This module is the only list of family names. Facts that scheduling needs are in
``core.instancetypes.ami_families``; user data, SSM parameters and block devices
are in ``aws.amifamily``, one module per family. Both match exhaustively on
``AmiFamily``, so the type checker names what a new member still lacks.
"""

from enum import StrEnum
from typing import Final


class AmiFamily(StrEnum):
    """``spec.amiFamily`` of an EC2NodeClass."""

    AL2 = "AL2"
    AL2023 = "AL2023"
    BOTTLEROCKET = "Bottlerocket"
    CUSTOM = "Custom"
    """The user brings the AMI and all of the user data; it has no alias."""
    WINDOWS2019 = "Windows2019"
    WINDOWS2022 = "Windows2022"
    WINDOWS2025 = "Windows2025"

    @staticmethod
    def parse(name: str) -> "AmiFamily":
        """Return the family of this name; ``CUSTOM`` if the name is unknown."""
        return _BY_NAME.get(name, AmiFamily.CUSTOM)

    @property
    def applies_all_kubelet_fields(self) -> bool:
        """Return True if nodes get ``spec.kubelet`` unchanged, or (Custom) not at all."""
        return self in (AmiFamily.AL2023, AmiFamily.CUSTOM)

    @property
    def supports_pods_per_core(self) -> bool:
        """Return True if nodes can limit pods per CPU."""
        return self is not AmiFamily.BOTTLEROCKET


_BY_NAME: Final = {family.value: family for family in AmiFamily}
DEFAULT_AMI_FAMILY: Final = AmiFamily.AL2023
ALIAS_FAMILIES: Final = {family.lower(): family for family in AmiFamily if family is not AmiFamily.CUSTOM}
"""Name in an alias (``al2023`` of ``al2023@latest``) → family."""
