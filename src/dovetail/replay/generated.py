"""Objects of a trace that controllers made: those of a replay make theirs."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dovetail.ports.api_resources import find_resource
from dovetail.trace.model import Object

ObjectKey = tuple[str, str, str]
"""Kind, namespace and name."""

_MADE_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "ReplicaSet": ("Deployment",),
    "Pod": ("ReplicaSet", "StatefulSet", "DaemonSet"),
    "PersistentVolumeClaim": ("StatefulSet",),
    "ControllerRevision": ("StatefulSet", "DaemonSet"),
    "Job": ("CronJob",),
}
"""Kind → controllers that make such objects again. Pods of Jobs are tasks of the trace."""
_WITHOUT_DEMAND: Final = frozenset((("Pod", "Node"), ("PersistentVolumeClaim", "Pod")))
"""Static pods and ephemeral volumes: they belong to a node or a pod that a replay does not have."""


def find_generated(objects: Iterable[Object]) -> frozenset[ObjectKey]:
    """Return the objects whose controller is among the objects, too.

    An object of another controller, such as an operator, is demand: nothing else makes it.
    """
    known = {get_key(obj): obj for obj in objects}
    return frozenset(key for key, obj in known.items() if _is_generated(obj, known))


def get_key(obj: Mapping[str, Any]) -> ObjectKey:
    """Return the key of an object; objects without a namespace get that of users."""
    return obj["kind"], obj["metadata"].get("namespace") or "default", obj["metadata"]["name"]


def get_controller(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the reference to the controller of an object."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def _is_generated(obj: Object, known: Mapping[ObjectKey, Object]) -> bool:
    controller = get_controller(obj)
    if controller is None:
        return False
    kind, namespace, _ = get_key(obj)
    owner = str(controller.get("kind"))
    if (kind, owner) in _WITHOUT_DEMAND:
        return True
    # Operators have kinds of these names, too.
    is_built_in = find_resource(str(controller.get("apiVersion")), owner) is not None
    if not is_built_in or owner not in _MADE_BY.get(kind, ()):
        return False
    name = str(controller.get("name"))
    # A trace may lack the ReplicaSet: without the right to list them, or if it was made a moment later.
    by_deployment = ("Deployment", namespace, name.rpartition("-")[0])
    return (owner, namespace, name) in known or (owner == "ReplicaSet" and by_deployment in known)
