"""Owner references: the controller of an object."""

from typing import Any

from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.store import ObjectKey


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference of an object's controller."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            controller: Object = reference
            return controller
    return None


def owner_key(obj: Object, reference: Object) -> ObjectKey:
    """Return the key of an owner; it is in the object's namespace."""
    return obj["metadata"].get("namespace", ""), reference["name"]


def is_deleting(obj: Object) -> bool:
    """Return True if an object has a deletion timestamp."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_reference(owner: Object) -> dict[str, Any]:
    """Return an owner reference that makes ``owner`` the controller."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
