"""Judges every binding as it was made, and every pod that was left waiting.

Shares no code with the binder: rules between pods are those of the checker.
"""

from collections.abc import Iterable

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kube.nodes import decode_node
from dovetail.codec.kube.pods import decode_pod
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import total
from dovetail.model.node import Node
from dovetail.ports.api_resources import NAMESPACES, NODES, PODS
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, thaw
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from tests.support.hosts import Host, demand_holds, existing_host, tolerates
from tests.support.neighbours import Neighbourhood


class Auditor:
    """Follows nodes and pods from the start and looks at each binding."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._watches = {NODES: api.watch(NODES), PODS: api.watch(PODS)}
        self._hosts: dict[str, Host] = {}
        self._pods: dict[str, Pod] = {}

    def findings(self) -> list[str]:
        """Return what is wrong with the bindings since last time, and with who waits now."""
        found: list[str] = []
        for event in self._events():
            if event.object["kind"] == "Node":
                self._take_node(event)
            else:
                found += self._take_pod(event)
        for pod in self._pods.values():
            if not pod.node_name:
                around = self._around(pod)
                open_to = [n for n in self._hosts if self._objection(pod, n, around) is None]
                found += [f"{pod.key} waits although {name} would do" for name in open_to]
        return found

    def _events(self) -> list[WatchEvent]:
        """All events in the order in which the API server wrote them."""
        both = [event for watch in self._watches.values() for event in watch.take()]
        return sorted(both, key=lambda one: int(one.object["metadata"]["resourceVersion"]))

    def _take_node(self, event: WatchEvent) -> None:
        node = decode_node(_field(event.object))
        self._hosts.pop(node.name, None)
        if event.type is not EventType.DELETED:
            known = Node(
                name=node.name,
                labels=node.labels,
                taints=node.taints,
                allocatable=node.allocatable,
            )
            self._hosts[node.name] = existing_host(known)

    def _take_pod(self, event: WatchEvent) -> Iterable[str]:
        pod = decode_pod(_field(event.object))
        before = self._pods.pop(pod.key, None)
        if event.type is EventType.DELETED:
            return
        # One that came with its node was placed by somebody else.
        if pod.node_name and before is not None and not before.node_name:
            why = self._objection(pod, pod.node_name, self._around(pod))
            if why is not None:
                yield f"{pod.key} was bound to {pod.node_name}: {why}"
        self._pods[pod.key] = pod

    def _objection(self, pod: Pod, name: str, around: Neighbourhood) -> str | None:
        host = self._hosts.get(name)
        if host is None or host.node is None:
            return "there is no such node"
        here = [one for one in self._pods.values() if one.node_name == name]
        room = host.node.allocatable - total(one.spec.requests for one in here)
        taken = [port for one in here for port in one.spec.host_ports]
        if not tolerates(pod.spec.tolerations, host.taints):
            return "taints"
        if not demand_holds(pod.spec, host.labels):
            return "labels"
        if not pod.spec.requests.fits_in(room):
            return f"room: {room.spelled()}"
        if any(mine.clashes(port) for mine in pod.spec.host_ports for port in taken):
            return "ports"
        return around.objection(pod, name)

    def _around(self, pod: Pod) -> Neighbourhood:
        running = [(one, one.node_name) for one in self._pods.values() if one.node_name]
        running = [(one, name) for one, name in running if name in self._hosts]
        namespaces = {
            one["metadata"]["name"]: one["metadata"]["labels"]
            for one in self._api.list(NAMESPACES).items
        }
        return Neighbourhood(list(self._hosts.values()), running, [pod], namespaces)


def _field(obj: Object) -> Field:
    return Field(thaw(obj), Findings(written_by_hand=False))
