"""Heartbeats: Leases every ten seconds, node status every five minutes.

All kubelets renew in one scheduled call: an hour of two thousand nodes is 360 calls and
not 720,000. Each Lease is still written, through a fast path of the API server.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dovetail.ports.api_resources import NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.interface import ApiClient
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import ScheduledCall, VirtualClock
from dovetail.simulator.kubelet.local_state import Kubelet
from dovetail.simulator.kubelet.node_status import owner_reference, with_heartbeat

LEASE_NAMESPACE: Final = "kube-node-lease"
_RENEW_INTERVAL: Final = timedelta(seconds=10)
_RENEWALS_PER_STATUS: Final = 30
"""Lease renewals from one status update to the next."""
_LEASE_SECONDS: Final = 40  # leaseDurationSeconds of the kubelet


def new_lease(node: Object, *, now: datetime) -> dict[str, Any]:
    """Return the Lease of a node."""
    name = node["metadata"]["name"]
    return {
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner_reference(node)]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": _micro_time(now),
        },
    }


class Heartbeats:
    """Renews the Leases of all responsive kubelets."""

    def __init__(self, api: ApiClient, clock: VirtualClock) -> None:
        self._api = api
        self._clock = clock
        self._renewals: dict[Kubelet, int] = {}
        """Kubelet → number of renewals."""
        self._next: ScheduledCall | None = None
        self.count = 0
        """Leases renewed so far."""

    def add(self, kubelet: Kubelet) -> None:
        self._renewals[kubelet] = 0
        if self._next is None:
            self._next = self._clock.call_later(_RENEW_INTERVAL, self._renew_all)

    def remove(self, kubelet: Kubelet) -> None:
        self._renewals.pop(kubelet, None)

    def _renew_all(self) -> None:
        self._next = self._clock.call_later(_RENEW_INTERVAL, self._renew_all) if self._renewals else None
        now = self._clock.now()
        renewed = _micro_time(now)
        for kubelet, renewals in self._renewals.items():
            self._renewals[kubelet] = renewals + 1
            name = kubelet.instance.name
            try:
                self._api.renew_lease(name, LEASE_NAMESPACE, renew_time=renewed)
                self.count += 1
                if (renewals + 1) % _RENEWALS_PER_STATUS == 0:
                    node = with_heartbeat(self._api.get(NODES, name), now=now)
                    self._api.update(NODES, node, subresource="status")
            except NotFound:
                continue  # A kubelet does not recreate a deleted node.


def _micro_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
