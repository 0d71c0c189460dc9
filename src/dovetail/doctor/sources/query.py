"""Names of a cluster's resources to look up in AWS."""

from typing import Any

import msgspec

from dovetail.doctor.facts import Raw
from dovetail.doctor.object_fields import get_field, get_list, name_of
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm

AwsFields = dict[str, Any]
"""Fields of ``AwsFacts`` that one reader returns."""


class NodeClassQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of the account that a node class refers to."""

    name: str
    role: str = ""
    instance_profile: str = ""
    subnets: tuple[SelectorTerm, ...] = ()
    groups: tuple[SelectorTerm, ...] = ()
    keys: tuple[str, ...] = ()
    """KMS keys of its volumes."""

    @classmethod
    def of(cls, obj: Raw) -> "NodeClassQuery":
        """Read an EC2NodeClass."""
        spec = get_field(obj, "spec") or {}
        devices = [get_field(mapping, "ebs", "kmsKeyID") for mapping in get_list(spec, "blockDeviceMappings")]
        return cls(
            name=name_of(dict(obj)),
            role=str(spec.get("role") or ""),
            instance_profile=str(spec.get("instanceProfile") or ""),
            subnets=_terms(get_list(spec, "subnetSelectorTerms")),
            groups=_terms(get_list(spec, "securityGroupSelectorTerms")),
            keys=tuple(str(device) for device in devices if device),
        )


class AwsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Names to look up in AWS."""

    cluster: str
    classes: tuple[NodeClassQuery, ...] = ()
    namespace: str = ""
    service_account: str = ""
    controller_role: str = ""
    """Name of the controller's role; empty to look up its Pod Identity association."""
    controller_account: str = ""
    """Account of that role, if its ARN is known."""
    queue: str = ""


def _terms(wire: list[Raw]) -> tuple[SelectorTerm, ...]:
    return tuple(
        SelectorTerm(
            id=str(term.get("id") or ""),
            name=str(term.get("name") or ""),
            tags=FrozenDict({str(k): str(v) for k, v in (term.get("tags") or {}).items()}),
        )
        for term in wire
    )
