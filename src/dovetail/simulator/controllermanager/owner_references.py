"""Who controls an object, and how that is written down."""

from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.index import Key


def find(api: ApiServer, resource: Resource, key: Key) -> Object | None:
    """Return an object as it is now; None when there is none."""
    try:
        return api.get(resource, key[1], key[0])
    except NotFound:
        return None


def controller_of(obj: Object) -> Object | None:
    """Return the reference to the one owner that controls an object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def controlling_key(obj: Object, reference: Object) -> Key:
    """Return where the owner that a reference names is: in the object's own namespace."""
    return obj["metadata"].get("namespace", ""), reference["name"]


def is_leaving(obj: Object) -> bool:
    """Tell whether somebody is deleting an object."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def reference_to(owner: Object) -> dict[str, Any]:
    """Write down that ``owner`` controls an object."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
