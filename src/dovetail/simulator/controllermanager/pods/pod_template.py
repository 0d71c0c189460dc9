"""Pods from a workload's template, and the hash of a template."""

import json
from collections.abc import Mapping
from typing import Any, Final
from zlib import crc32

from dovetail.ports.kube_errors import Invalid
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.storage.selectors import decode_label_selector, labels_match
from dovetail.simulator.controllermanager.owner_references import controller_reference

REVISION_HASH: Final = "controller-revision-hash"
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Mapping[str, Any], *, collisions: int = 0) -> str:
    """Return a short hash of a template, in letters that form no words."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    number = crc32(f"{text}{collisions or ''}".encode())
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def labels_of(template: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a template's pods."""
    labels: Mapping[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels


def pod_from(
    template: Mapping[str, Any], owner: Object, *, name: str = "", labels: Mapping[str, str] | None = None
) -> Object:
    """Return a frozen pod to create; several pods can share its parts.

    Without ``name`` the API server generates one from the owner's name. Raises ``Invalid`` if
    the owner does not select the pod: it would create another one at once, for ever. The API
    server rejects such owners, but recorded clusters may have some.
    """
    meta = template.get("metadata") or {}
    own = owner["metadata"]
    pod_meta: dict[str, Any] = {
        "namespace": own["namespace"],
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": meta.get("annotations"),
        "finalizers": meta.get("finalizers"),
        "ownerReferences": [controller_reference(owner)],
    }
    selector = owner["spec"].get("selector")
    if selector is not None and not labels_match(decode_label_selector(selector), pod_meta["labels"]):
        raise Invalid("`selector` does not match template `labels`", kind="Pod", name=name)
    pod_meta |= {"name": name} if name else {"generateName": f"{own['name']}-"}
    pod: Object = freeze({"metadata": pod_meta, "spec": template.get("spec") or {}})
    return pod
