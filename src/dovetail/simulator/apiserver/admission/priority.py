"""How urgent a new pod is: the number that its PriorityClass stands for."""

from typing import Any

from dovetail.codec.kube.pods import SYSTEM_PRIORITIES
from dovetail.ports.api_resources import PODS, PRIORITY_CLASSES
from dovetail.ports.kube_errors import Forbidden
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.store import Store


class Priorities:
    """Looks up the classes that there are."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def give(self, pod: dict[str, Any]) -> None:
        """Write its priority into a new pod, unless it has one; an unknown class is refused."""
        spec = pod.get("spec") or {}
        if spec.get("priority") is not None:
            return
        name = spec.get("priorityClassName") or ""
        if name in SYSTEM_PRIORITIES:
            pod["spec"] = {**spec, "priority": SYSTEM_PRIORITIES[name]}
            return
        chosen = self._store.get(PRIORITY_CLASSES, ("", name)) if name else self._usual()
        if chosen is not None:
            own = {"priorityClassName": chosen["metadata"]["name"], "priority": chosen["value"]}
            pod["spec"] = {**spec, **own}
        elif name:
            who = pod["metadata"]["name"]
            raise Forbidden(
                f'pods "{who}" is forbidden: no PriorityClass with name {name} was found',
                kind=PODS.plural,
                name=who,
            )

    def _usual(self) -> Object | None:
        """Return the class of pods that name none; of several the least urgent."""
        usual = [
            one
            for one in self._store.collections[PRIORITY_CLASSES].objects.values()
            if one.get("globalDefault")
        ]
        return min(usual, key=lambda one: int(one["value"]), default=None)
