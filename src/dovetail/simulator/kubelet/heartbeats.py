"""Signs of life of all nodes: leases every ten seconds, statuses every five minutes.

All kubelets beat in one event, so that an hour of two thousand nodes is 360
events and not 720,000; each write is still made, by the API server's own short
way for leases.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dovetail.ports.api_resources import NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.interface import Verbs
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import Appointment, Engine
from dovetail.simulator.kubelet.local_state import Kubelet
from dovetail.simulator.kubelet.node_status import beaten, owner

NAMESPACE: Final = "kube-node-lease"
_EVERY: Final = timedelta(seconds=10)
_STATUS_EVERY: Final = 30
"""Beats from one status to the next."""
_LEASE_SECONDS: Final = 40


def new_lease(node: Object, *, now: datetime) -> dict[str, Any]:
    """Return the lease that a kubelet takes on its own node."""
    name = node["metadata"]["name"]
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner(node)]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": _micro_time(now),
        },
    }


class Heartbeats:
    """Beats for every kubelet that is alive."""

    def __init__(self, api: Verbs, engine: Engine) -> None:
        self._api = api
        self._engine = engine
        self._beats: dict[Kubelet, int] = {}
        """Kubelet → how often it has beaten."""
        self._next: Appointment | None = None
        self.count = 0
        """Leases renewed so far."""

    def add(self, kubelet: Kubelet) -> None:
        self._beats[kubelet] = 0
        if self._next is None:
            self._next = self._engine.after(_EVERY, self._beat)

    def remove(self, kubelet: Kubelet) -> None:
        self._beats.pop(kubelet, None)

    def _beat(self) -> None:
        self._next = self._engine.after(_EVERY, self._beat) if self._beats else None
        now = self._engine.now()
        renewed = _micro_time(now)
        for kubelet, beats in self._beats.items():
            self._beats[kubelet] = beats + 1
            name = kubelet.machine.name
            try:
                self._api.renew(name, NAMESPACE, at=renewed)
                self.count += 1
                if (beats + 1) % _STATUS_EVERY == 0:
                    node = beaten(self._api.get(NODES, name), now=now)
                    self._api.update(NODES, node, subresource="status")
            except NotFound:
                continue  # A node that somebody deleted does not come back by itself.


def _micro_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
