"""Facts of a migration: Karpenter's Deployment, its objects, decoded as Dovetail reads them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.inputs.decoders import read_object
from dovetail.codec.text.documents import RawObject
from dovetail.codec.text.field_path import format_path
from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.controller_deployment import Controller, controllers
from dovetail.doctor.facts import Facts
from dovetail.doctor.object_fields import name_of
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.node import NodeObject
from dovetail.ports import api_resources
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object

_ADMISSION: Final = "admissionregistration.k8s.io"
WEBHOOKS: Final = (
    Resource(_ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False),
    Resource(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False),
)
READ: Final = (
    api_resources.DEPLOYMENTS,
    api_resources.SERVICE_ACCOUNTS,
    api_resources.PODS,
    api_resources.NODES,
    api_resources.LEASES,
    api_resources.NODE_POOLS,
    api_resources.EC2_NODE_CLASSES,
    api_resources.NODE_CLAIMS,
    CRDS,
    *WEBHOOKS,
)
"""Kinds to list. ConfigMaps and Secrets are never read."""


def _older(group: str, version: str, kind: str) -> Resource:
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    return Resource(group, version, plural, kind, False, is_custom=True)


OLDER: Final = (
    _older("karpenter.sh", "v1beta1", "NodePool"),
    _older("karpenter.sh", "v1beta1", "NodeClaim"),
    _older("karpenter.k8s.aws", "v1beta1", "EC2NodeClass"),
    _older("karpenter.sh", "v1alpha5", "Provisioner"),
    _older("karpenter.sh", "v1alpha5", "Machine"),
    _older("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate"),
)
"""Older versions of Karpenter's kinds; listed if the API server does not serve v1."""

CheckOption = Callable[[str, str], str | None]
"""Environment variable and value → why ``dovetail run`` rejects the value, or None."""


class DecodedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Karpenter's objects as Dovetail reads them; older versions are converted."""

    nodepools: tuple[NodePool, ...] = ()
    node_classes: tuple[EC2NodeClass, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    nodes: tuple[NodeObject, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    """Object and what is wrong with it."""
    conversions: tuple[tuple[str, str], ...] = ()
    """Object of an older version, and a change of meaning by its conversion."""


class MigrationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All inputs of the checks."""

    facts: Facts
    karpenter: Controller | None
    objects: DecodedObjects
    check_option: CheckOption

    @classmethod
    def of(cls, facts: Facts, check_option: CheckOption) -> "MigrationFacts":
        """Find Karpenter's Deployment and decode its objects."""
        deployments = [item for item in controllers(facts) if item.kind == "karpenter"]
        deployments.sort(key=lambda item: (item.namespace, item.name))
        return cls(
            facts=facts,
            karpenter=deployments[0] if deployments else None,
            objects=_decode(facts),
            check_option=check_option,
        )

    @property
    def namespace(self) -> str:
        """Karpenter's namespace, or the default one."""
        return self.karpenter.namespace if self.karpenter is not None else "kube-system"


def _decode(facts: Facts) -> DecodedObjects:
    models: dict[str, list[Any]] = {}
    errors: list[tuple[str, str]] = []
    conversions: list[tuple[str, str]] = []
    for resource, obj in _objects(facts):
        value = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        about = f"{resource.kind}/{name_of(obj)}"
        result = read_object(RawObject(about, 0, (), value), trusted=True, cache={})
        errors += [(about, f"{format_path(error.path)}: {error.message}") for error in result.errors]
        for decoded in result.objects:
            models.setdefault(decoded.kind, []).append(decoded.model)
            conversions += [
                (about, f"{format_path(path)}: {text}".lstrip(": ")) for path, text in decoded.notes
            ]
    return DecodedObjects(
        nodepools=_sorted(models.get("NodePool", ())),
        node_classes=_sorted(models.get("EC2NodeClass", ())),
        claims=_sorted(models.get("NodeClaim", ())),
        nodes=_sorted(models.get("Node", ())),
        errors=tuple(errors),
        conversions=tuple(conversions),
    )


def _objects(facts: Facts) -> Iterator[tuple[Resource, Object]]:
    current = (api_resources.NODE_POOLS, api_resources.EC2_NODE_CLASSES, api_resources.NODE_CLAIMS)
    for resource in (*current, *OLDER, api_resources.NODES):
        for obj in facts.of(resource):
            yield resource, obj


def _sorted(models: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(models, key=lambda model: str(model.name)))


def older_objects(facts: Facts) -> Mapping[Resource, tuple[Object, ...]]:
    """Return the objects of older versions."""
    return {resource: facts.of(resource) for resource in OLDER if facts.of(resource)}
