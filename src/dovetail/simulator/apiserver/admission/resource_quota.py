"""ResourceQuota admission: resources of pods, sizes of claims, object counts.

Other names in a quota, such as ``count/widgets.example.com``, are stored and not enforced,
and neither are quotas with scopes. ``controllermanager.resource_quota`` computes the usage
again when pods end and objects are deleted.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dovetail.codec.kube.pod_specs import decode_template_resources
from dovetail.model.kube.pod_requests import Container, PodResources
from dovetail.model.kube.quantity import format_amount, parse_amount
from dovetail.ports.api_resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    RESOURCES,
    SECRETS,
    SERVICES,
    Resource,
)
from dovetail.ports.kube_errors import Forbidden
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import Store

_NAMED_BY_PLURAL: Final = (
    *(PODS, PERSISTENT_VOLUME_CLAIMS),
    *(SERVICES, CONFIG_MAPS, SECRETS, RESOURCE_QUOTAS),
)
"""Kinds whose number a quota limits as ``services``, too, beside ``count/services``."""
_LOAD_BALANCERS: Final = "services.loadbalancers"
_NODE_PORTS: Final = "services.nodeports"
_COUNTED: Final = {
    **{f"count/{resource.qualified_name}": resource for resource in RESOURCES if resource.namespaced},
    **{resource.plural: resource for resource in _NAMED_BY_PLURAL},
    **dict.fromkeys((_LOAD_BALANCERS, _NODE_PORTS), SERVICES),
}
"""Names of numbers of objects → the kind that is counted."""
_FINAL_PHASES: Final = ("Succeeded", "Failed")
_UNPREFIXED: Final = ("cpu", "memory", "ephemeral-storage")
"""Names that mean requests without a prefix, too."""
_MUST_SPECIFY: Final = frozenset(
    name for base in ("cpu", "memory") for name in (base, f"requests.{base}", f"limits.{base}")
)

Usage = dict[str, int]
"""Amounts by name in a quota, in millicores, bytes or units."""


class QuotaAdmission:
    """Rejects objects that exceed a ResourceQuota of their namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, resource: Resource, obj: Mapping[str, Any], *, charge: bool) -> None:
        """Charge an object to the quotas of its namespace; Forbidden if one is exceeded."""
        quotas = self._store.collections[RESOURCE_QUOTAS].objects
        if not quotas or not resource.namespaced:
            return
        namespace = obj["metadata"].get("namespace", "")
        charged = []
        for key in sorted(key for key in quotas if key[0] == namespace):
            quota = quotas[key]
            hard, used = read_limits(quota), _read_amounts(get_field(quota, "status", "used"))
            added = {name: amount for name, amount in measure_usage(resource, obj).items() if name in hard}
            _check_specified(resource, obj, quota, hard.keys())
            exceeded = [name for name in added if used.get(name, 0) + added[name] > hard[name]]
            if exceeded:
                requested, spent, limited = (_format(amounts, exceeded) for amounts in (added, used, hard))
                name = f"exceeded quota: {key[1]}"
                _reject(resource, obj, f"{name}, requested: {requested}, used: {spent}, limited: {limited}")
            if added:
                charged.append((quota, add_usage(used, added), hard))
        if charge:
            for quota, used, hard in charged:
                self._store.put(
                    RESOURCE_QUOTAS, {**quota, "status": encode_status(quota, used, hard)}, old=quota
                )


def measure_usage(resource: Resource, obj: Mapping[str, Any]) -> Usage:
    """Return what an object takes of a quota; ended pods take nothing."""
    usage = {f"count/{resource.qualified_name}": 1}
    if resource in _NAMED_BY_PLURAL:
        usage[resource.plural] = 1
    if resource is PERSISTENT_VOLUME_CLAIMS:
        size = get_field(obj, "spec", "resources", "requests", "storage")
        return usage if size is None else {**usage, "requests.storage": parse_amount("storage", size)}
    if resource is SERVICES:
        return usage | _measure_service(obj.get("spec") or {})
    return _measure_pod(obj, usage) if resource is PODS else usage


def find_charged_kinds(hard: Iterable[str]) -> frozenset[Resource]:
    """Return the kinds whose objects take of what a quota limits."""
    return frozenset(_COUNTED[name] for name in hard if name in _COUNTED) | {PODS, PERSISTENT_VOLUME_CLAIMS}


def _measure_service(spec: Mapping[str, Any]) -> Usage:
    is_balanced = spec.get("type") == "LoadBalancer"
    has_node_ports = spec.get("type") == "NodePort" or (
        is_balanced and spec.get("allocateLoadBalancerNodePorts") is not False
    )
    ports = len(spec.get("ports") or ()) if has_node_ports else 0
    return {_LOAD_BALANCERS: int(is_balanced), _NODE_PORTS: ports}


def _measure_pod(obj: Mapping[str, Any], counts: Usage) -> Usage:
    if get_field(obj, "status", "phase") in _FINAL_PHASES:
        return {}
    resources = decode_template_resources(obj["spec"])
    requests, limits = resources.total(), _sum_limits(resources)
    usage = dict(counts)
    for name, amount in requests.items():
        if name != "pods":
            usage[f"requests.{name}"] = amount
            if name in _UNPREFIXED:
                usage[name] = amount
    return usage | {f"limits.{name}": amount for name, amount in limits.items()}


def add_usage(usage: Mapping[str, int], added: Mapping[str, int]) -> Usage:
    """Return the sum of two usages."""
    return {name: usage.get(name, 0) + added.get(name, 0) for name in usage.keys() | added.keys()}


def read_limits(quota: Object) -> Usage:
    """Return the amounts that a quota limits and that are enforced."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    return {name: amount for name, amount in _read_amounts(spec.get("hard")).items() if _is_enforced(name)}


def encode_status(quota: Object, used: Mapping[str, int], hard: Iterable[str]) -> dict[str, Any]:
    """Return the status of a quota, with the usage of enforced names only."""
    return {
        "hard": get_field(quota, "spec", "hard") or {},
        "used": {name: format_amount(_base(name), used.get(name, 0)) for name in sorted(hard)},
    }


def _sum_limits(resources: PodResources) -> Mapping[str, int]:
    """Return the limits of a pod, computed as its requests are."""

    def as_requests(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            Container(requests=container.limits, is_sidecar=container.is_sidecar) for container in containers
        )

    limits = PodResources(
        containers=as_requests(resources.containers), init_containers=as_requests(resources.init_containers)
    ).total()
    return {name: amount for name, amount in limits.items() if name != "pods"}


def _check_specified(resource: Resource, obj: Mapping[str, Any], quota: Object, hard: Iterable[str]) -> None:
    """Reject a pod of which a container lacks a request or limit that a quota limits."""
    if resource is not PODS:
        return
    resources = decode_template_resources(obj["spec"])
    missing: dict[str, list[str]] = {}
    for name in sorted(_MUST_SPECIFY.intersection(hard)):
        field = "limits" if name.startswith("limits.") else "requests"
        containers = zip(obj["spec"]["containers"], resources.containers, strict=True)
        names = [raw["name"] for raw, decoded in containers if _base(name) not in getattr(decoded, field)]
        if names:
            missing.setdefault(",".join(names), []).append(name)
    if missing:
        described = "; ".join(f"{','.join(names)} for: {owners}" for owners, names in missing.items())
        _reject(resource, obj, f"failed quota: {quota['metadata']['name']}: must specify {described}")


def _is_enforced(name: str) -> bool:
    return name in _COUNTED or name in _UNPREFIXED or name.startswith(("requests.", "limits."))


def _base(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")


def _read_amounts(quantities: Mapping[str, Any] | None) -> Usage:
    return {name: parse_amount(_base(name), value) for name, value in (quantities or {}).items()}


def _format(amounts: Mapping[str, int], names: Iterable[str]) -> str:
    return ",".join(f"{name}={format_amount(_base(name), amounts.get(name, 0))}" for name in sorted(names))


def _reject(resource: Resource, obj: Mapping[str, Any], reason: str) -> None:
    name = obj["metadata"]["name"]
    message = f'{resource.qualified_name} "{name}" is forbidden: {reason}'
    raise Forbidden(message, kind=resource.plural, name=name)
