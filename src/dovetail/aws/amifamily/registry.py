"""Registry of AMI families."""

from typing import Final, assert_never

from dovetail.aws.amifamily.al2 import AL2
from dovetail.aws.amifamily.al2023 import AL2023
from dovetail.aws.amifamily.bottlerocket import Bottlerocket
from dovetail.aws.amifamily.custom import Custom
from dovetail.aws.amifamily.family import AmiFamilyProvider, AmiParameter
from dovetail.aws.amifamily.windows import Windows
from dovetail.model.karpenter.ami_family import ALIAS_FAMILIES, AmiFamily


def ami_family_provider(family: AmiFamily) -> AmiFamilyProvider:
    """Return the provider of an AMI family."""
    return _PROVIDERS[family]


def alias_parameters(alias: str, kubernetes: str) -> tuple[AmiParameter, ...]:
    """Return the SSM parameters of an alias (``al2023@latest``); none if it is unknown."""
    name, _, version = alias.partition("@")
    family = ALIAS_FAMILIES.get(name)
    if family is None:
        return ()
    return tuple(ami_family_provider(family).ami_parameters(version, kubernetes))


def unsupported_alias_reason(alias: str, kubernetes: str) -> str | None:
    """Return why no AMI is published for an alias and a Kubernetes minor version."""
    family = ALIAS_FAMILIES.get(alias.partition("@")[0])
    return ami_family_provider(family).unsupported_reason(kubernetes) if family else None


def _provider_of(family: AmiFamily) -> AmiFamilyProvider:
    match family:
        case AmiFamily.AL2:
            return AL2()
        case AmiFamily.AL2023:
            return AL2023()
        case AmiFamily.BOTTLEROCKET:
            return Bottlerocket()
        case AmiFamily.CUSTOM:
            return Custom()
        case AmiFamily.WINDOWS2019 | AmiFamily.WINDOWS2022 | AmiFamily.WINDOWS2025:
            return Windows(family)
        case _:
            assert_never(family)


_PROVIDERS: Final = {family: _provider_of(family) for family in AmiFamily}
