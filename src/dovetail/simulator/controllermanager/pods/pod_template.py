"""Pods made from a workload's template, and the hash that tells templates apart."""

import json
from collections.abc import Mapping
from typing import Any, Final
from zlib import crc32

from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.controllermanager.owner_references import reference_to

REVISION_HASH: Final = "controller-revision-hash"
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Mapping[str, Any], *, collisions: int = 0) -> str:
    """Return a short hash of a template in letters that spell no words."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    number = crc32(f"{text}{collisions or ''}".encode())
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def labels_of(template: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels that pods of a template get."""
    labels: Mapping[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels


def pod_from(
    template: Mapping[str, Any],
    owner: Object,
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
) -> Object:
    """Return a pod to create, frozen, so that many can be made from it and share its parts.

    Without a name the server makes one up behind the owner's.
    """
    meta = template.get("metadata") or {}
    own = owner["metadata"]
    made: dict[str, Any] = {
        "namespace": own["namespace"],
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": meta.get("annotations"),
        "finalizers": meta.get("finalizers"),
        "ownerReferences": [reference_to(owner)],
    }
    made |= {"name": name} if name else {"generateName": f"{own['name']}-"}
    pod: Object = freeze({"metadata": made, "spec": template.get("spec") or {}})
    return pod
