"""Heartbeats: Leases every ten seconds, node status every five minutes.

They are written one by one if each of them may be seen: an API server in another
process, a client of the sandbox, a watch of Leases. Otherwise heartbeats change nothing and
take no time: a Lease gets its latest renewal when it is read or when its kubelet stops, and
a node's status is written only when it changes.
"""

from collections.abc import Callable
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
    """Renews the Leases of all responsive kubelets, all at the same instants."""

    def __init__(self, api: ApiClient, clock: VirtualClock, *, lazy: bool = False) -> None:
        self._api = api
        self._clock = clock
        self._lazy = lazy
        self._added: dict[Kubelet, datetime] = {}
        self._renewed: dict[Kubelet, datetime] = {}
        """Kubelet → the latest renewal that was written."""
        self._by_node: dict[str, Kubelet] = {}
        self._first: datetime | None = None
        """Renewals are due at multiples of the interval after this time."""
        self._next: ScheduledCall | None = None
        self.on_stop: Callable[[str], None] = lambda _: None
        """Called with a node whose Lease is not renewed any more."""
        self.count = 0
        """Renewals written so far."""

    def add(self, kubelet: Kubelet) -> None:
        now = self._clock.now()
        self._added[kubelet] = self._renewed[kubelet] = now
        self._by_node[kubelet.instance.name] = kubelet
        if self._first is None:
            self._first = now
        self._schedule()

    def remove(self, kubelet: Kubelet) -> None:
        if self._added.pop(kubelet, None) is None:
            return
        name = kubelet.instance.name
        self._renew(kubelet)
        del self._renewed[kubelet]
        if self._by_node[name] is kubelet:
            del self._by_node[name]
            self.on_stop(name)

    def is_renewing(self, node: str) -> bool:
        """Return True if the node's kubelet renews its Lease in time."""
        return node in self._by_node

    def renew_due(self, node: str = "") -> None:
        """Write the latest renewal of a node's Lease, or of all, for a reader."""
        if not node:
            for kubelet in self._added:
                self._renew(kubelet)
        elif node in self._by_node:
            self._renew(self._by_node[node])

    def write_all(self) -> None:
        """Write every heartbeat from now on."""
        self._lazy = False
        self._schedule()

    def _schedule(self) -> None:
        if not self._lazy and self._next is None and self._added:
            self._next = self._clock.call_at(self._last_due() + _RENEW_INTERVAL, self._beat)

    def _beat(self) -> None:
        self._next = None
        self._schedule()
        errors: list[Exception] = []
        for kubelet, added in self._added.items():
            try:
                self._send(kubelet, added)
            except Exception as error:  # noqa: BLE001 - raised below; the other kubelets come first
                error.add_note(kubelet.instance.name)
                errors.append(error)
        if errors:
            raise errors[0]

    def _send(self, kubelet: Kubelet, added: datetime) -> None:
        self._renew(kubelet)
        if self._count_renewals(added) % _RENEWALS_PER_STATUS == 0:
            try:
                node = with_heartbeat(self._api.get(NODES, kubelet.instance.name), now=self._clock.now())
                self._api.update(NODES, node, subresource="status")
            except NotFound:
                return  # A kubelet does not recreate a deleted node.

    def _renew(self, kubelet: Kubelet) -> None:
        due = self._last_due()
        if due <= self._renewed[kubelet]:
            return
        self._renewed[kubelet] = due
        try:
            self._api.renew_lease(kubelet.instance.name, LEASE_NAMESPACE, renew_time=_micro_time(due))
            self.count += 1
        except NotFound:
            return  # It was deleted with the node.

    def _last_due(self) -> datetime:
        now = self._clock.now()
        first = now if self._first is None else self._first
        return now - (now - first) % _RENEW_INTERVAL

    def _count_renewals(self, added: datetime) -> int:
        """Return the number of renewals since a kubelet was added."""
        return -((added - self._last_due()) // _RENEW_INTERVAL)


def _micro_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
