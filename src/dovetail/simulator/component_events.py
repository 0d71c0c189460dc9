"""Events of simulated control plane components."""

from typing import Final

from dovetail.ports.api_resources import EVENTS, Resource
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.clock import VirtualClock

_WARNING: Final = "Warning"
_NORMAL: Final = "Normal"


class ComponentEvents:
    """Records the Events of one component; none without ``keep_events``."""

    def __init__(
        self, api: ApiServer, clock: VirtualClock, component: str, *, keep_events: bool = True
    ) -> None:
        self._api = api
        self._clock = clock
        self._component = component
        self._keep_events = keep_events
        self._source: Object = freeze({"component": component})
        """Shared: every new pod of a large cluster gets up to three Events."""

    def record(
        self,
        resource: Resource,
        obj: Object,
        reason: str,
        message: str,
        *,
        is_warning: bool = False,
        action: str = "",
    ) -> None:
        """Record an Event about an object; in a namespace that is terminating it is lost."""
        if not self._keep_events:
            return
        meta = obj["metadata"]
        now = format_timestamp(self._clock.now())
        event = {
            # The resource version makes the name unique.
            "metadata": {"name": f"{meta['name']}.{int(self._api.resource_version):016x}"},
            "involvedObject": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": _WARNING if is_warning else _NORMAL,
            "reason": reason,
            **({"action": action} if action else {}),
            "message": message,
            "source": self._source,
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._api.create(EVENTS, event, meta["namespace"])
        except ApiError:
            return
