"""What an API server with Karpenter's CRDs refuses, and what these fill in.

The rules are those by which files are read (``codec``), held to the letter:
what the API would take, though it is surely a slip, is taken here as well.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.capacitybuffers import decode_buffer
from dovetail.codec.karpenter.nodeclaims import decode_node_claim
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.codec.karpenter.nodeoverlays import decode_overlay
from dovetail.codec.karpenter.nodepools import decode_node_pool
from dovetail.codec.text.field_path import show
from dovetail.model.karpenter.capacitybuffer import ACTIVE_CAPACITY
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    EC2_NODE_CLASSES,
    NODE_CLAIMS,
    NODE_OVERLAYS,
    NODE_POOLS,
    Resource,
)
from dovetail.simulator.apiserver.admission.status_causes import Cause, Wire, invalid, required
from dovetail.simulator.apiserver.patch.json_patch import same_json
from dovetail.simulator.apiserver.storage.frozen_object import look

_DECODERS: Final[dict[Resource, Callable[[Field], Any]]] = {
    NODE_POOLS: decode_node_pool,
    NODE_CLAIMS: decode_node_claim,
    EC2_NODE_CLASSES: decode_node_class,
    NODE_OVERLAYS: decode_overlay,
    CAPACITY_BUFFERS: decode_buffer,
}
CUSTOM: Final = tuple(_DECODERS)
_MISSING: Final = "is missing"
_EXPIRY: Final = "720h"
_BUDGET: Final = "10%"
_DISRUPTION: Final[Mapping[str, Any]] = {
    "consolidateAfter": "0s",
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "budgets": [{"nodes": _BUDGET}],
}
_METADATA_OPTIONS: Final[Mapping[str, Any]] = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}


def broken_rules(resource: Resource, obj: Wire) -> Iterator[Cause]:
    """Tell every rule of its CRD that an object breaks."""
    decode = _DECODERS.get(resource)
    if decode is None:
        return
    findings = Findings(by_the_letter=True)
    # What controllers wrote into the status is theirs to answer for.
    decode(Field({**obj, "status": None}, findings))
    for path, message in findings.found:
        if message.startswith(_MISSING):
            yield required(show(path), message.removeprefix(_MISSING).removeprefix("; "))
        else:
            yield invalid(show(path), message)


def fixed_references(old: Wire, new: Wire) -> Iterator[Cause]:
    """Tell when a pool moves to another kind of node class, which no pool may."""
    for name in ("group", "kind"):
        path = ("spec", "template", "spec", "nodeClassRef", name)
        before, after = look(old, *path), look(new, *path)
        if before is not None and after is not None and before != after:
            yield invalid(".".join(path[:-1]), f"{name} cannot be changed; make a new pool instead")


def fixed_nature(old: Wire, new: Wire) -> Iterator[Cause]:
    """Tell when a pool turns from dynamic to static or back, by gaining or losing replicas."""
    before, after = look(old, "spec", "replicas"), look(new, "spec", "replicas")
    if (before is None) != (after is None):
        what = "replicas can be neither added to a pool nor removed from it"
        yield invalid("spec", f"{what}; make a new pool instead")


def fixed_spec(old: Wire, new: Wire) -> Iterator[Cause]:
    """Tell when the spec of a claim changes, which it never may."""
    if not same_json(old.get("spec"), new.get("spec")):
        what = "the spec of a claim cannot be changed"
        yield invalid("spec", f"{what}; make a new one instead")


def fill_in_pool(obj: dict[str, Any]) -> None:
    """Complete a NodePool in place; replaces parts, never edits them."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    spec = obj["spec"] = dict(spec)
    disruption = spec.get("disruption")
    if disruption is None or isinstance(disruption, dict):
        spec["disruption"] = _filled(_DISRUPTION, disruption or {})
        budgets = spec["disruption"]["budgets"]
        if isinstance(budgets, list) and any(_without_nodes(one) for one in budgets):
            spec["disruption"]["budgets"] = [
                {**one, "nodes": _BUDGET} if _without_nodes(one) else one for one in budgets
            ]
    inner = look(spec, "template", "spec")
    if isinstance(inner, dict) and inner.get("expireAfter") is None:
        expiring = {**inner, "expireAfter": _EXPIRY}
        spec["template"] = {**spec["template"], "spec": expiring}


def _filled(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is given, and the defaults of what is not; null counts as not given."""
    return {**defaults, **{name: value for name, value in given.items() if value is not None}}


def _without_nodes(budget: Any) -> bool:
    return isinstance(budget, dict) and budget.get("nodes") is None


def fill_in_claim(obj: dict[str, Any]) -> None:
    """Complete a NodeClaim in place."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and spec.get("expireAfter") is None:
        obj["spec"] = {**spec, "expireAfter": _EXPIRY}


def fill_in_class(obj: dict[str, Any]) -> None:
    """Complete an EC2NodeClass in place."""
    spec = obj.get("spec")
    options = spec.get("metadataOptions") if isinstance(spec, dict) else ()
    if isinstance(spec, dict) and (options is None or isinstance(options, dict)):
        obj["spec"] = {**spec, "metadataOptions": _filled(_METADATA_OPTIONS, options or {})}


def fill_in_buffer(obj: dict[str, Any]) -> None:
    """Complete a CapacityBuffer in place."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and spec.get("provisioningStrategy") is None:
        obj["spec"] = {**spec, "provisioningStrategy": ACTIVE_CAPACITY}
