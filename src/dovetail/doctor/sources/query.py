"""What has to be known before AWS can be asked about a cluster."""

import msgspec

from dovetail.doctor.facts import Raw
from dovetail.doctor.object_fields import at, many, name_of
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm


class NodeClassAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a node class names in the account."""

    name: str
    role: str = ""
    instance_profile: str = ""
    subnets: tuple[SelectorTerm, ...] = ()
    groups: tuple[SelectorTerm, ...] = ()
    keys: tuple[str, ...] = ()
    """KMS keys of its volumes."""

    @classmethod
    def of(cls, obj: Raw) -> "NodeClassAsked":
        """Read an EC2NodeClass."""
        spec = at(obj, "spec") or {}
        devices = [at(one, "ebs", "kmsKeyID") for one in many(spec, "blockDeviceMappings")]
        return cls(
            name=name_of(dict(obj)),
            role=str(spec.get("role") or ""),
            instance_profile=str(spec.get("instanceProfile") or ""),
            subnets=_terms(many(spec, "subnetSelectorTerms")),
            groups=_terms(many(spec, "securityGroupSelectorTerms")),
            keys=tuple(str(one) for one in devices if one),
        )


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Whom and what to ask AWS about."""

    cluster: str
    classes: tuple[NodeClassAsked, ...] = ()
    namespace: str = ""
    service_account: str = ""
    controller_role: str = ""
    """Name of the controller's role where it is known; else Pod Identity is asked."""
    queue: str = ""


def _terms(wire: list[Raw]) -> tuple[SelectorTerm, ...]:
    return tuple(
        SelectorTerm(
            id=str(one.get("id") or ""),
            name=str(one.get("name") or ""),
            tags=FrozenDict({str(k): str(v) for k, v in (one.get("tags") or {}).items()}),
        )
        for one in wire
    )
