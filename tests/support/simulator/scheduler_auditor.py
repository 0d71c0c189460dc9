"""Auditor of the scheduler: validates every binding and every pending pod.

Shares no code with the scheduler: inter-pod rules are those of the checker.
"""

from collections.abc import Iterable

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.kube.nodes import decode_node
from dovetail.codec.kube.pods import decode_pod
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import sum_resources
from dovetail.model.node import Node
from dovetail.ports.api_resources import NAMESPACES, NODES, PODS
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, thaw
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from tests.support.scheduling.checker.inter_pod import InterPodRules
from tests.support.scheduling.checker.nodes import CheckedNode, existing_node, matches_labels, tolerates


class Auditor:
    """Watches nodes and pods from the start and validates each binding."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._watches = {NODES: api.watch(NODES), PODS: api.watch(PODS)}
        self._nodes: dict[str, CheckedNode] = {}
        self._pods: dict[str, Pod] = {}

    def findings(self) -> list[str]:
        """Return invalid bindings since the last call, and needlessly pending pods."""
        findings: list[str] = []
        for event in self._events():
            if event.object["kind"] == "Node":
                self._handle_node(event)
            else:
                findings += self._handle_pod(event)
        for pod in self._pods.values():
            if not pod.node_name:
                inter_pod_rules = self._inter_pod_rules(pod)
                feasible = [n for n in self._nodes if self._violation(pod, n, inter_pod_rules) is None]
                findings += [f"{pod.key} is pending although {name} is feasible" for name in feasible]
        return findings

    def _events(self) -> list[WatchEvent]:
        """All events in the order of resource versions."""
        events = [event for watch in self._watches.values() for event in watch.poll()]
        return sorted(events, key=lambda event: int(event.object["metadata"]["resourceVersion"]))

    def _handle_node(self, event: WatchEvent) -> None:
        node = decode_node(_field(event.object))
        self._nodes.pop(node.name, None)
        if event.type is not EventType.DELETED:
            simplified = Node(
                name=node.name, labels=node.labels, taints=node.taints, allocatable=node.allocatable
            )
            self._nodes[node.name] = existing_node(simplified)

    def _handle_pod(self, event: WatchEvent) -> Iterable[str]:
        pod = decode_pod(_field(event.object))
        before = self._pods.pop(pod.key, None)
        if event.type is EventType.DELETED:
            return
        # A pod that was created with a node was not placed by the scheduler.
        if pod.node_name and before is not None and not before.node_name:
            reason = self._violation(pod, pod.node_name, self._inter_pod_rules(pod))
            if reason is not None:
                yield f"{pod.key} was bound to {pod.node_name}: {reason}"
        self._pods[pod.key] = pod

    def _violation(self, pod: Pod, name: str, inter_pod_rules: InterPodRules) -> str | None:
        checked = self._nodes.get(name)
        if checked is None or checked.existing is None:
            return "no such node"
        on_node = [other for other in self._pods.values() if other.node_name == name]
        free = checked.existing.allocatable - sum_resources(other.spec.requests for other in on_node)
        used_ports = [port for other in on_node for port in other.spec.host_ports]
        if not tolerates(pod.spec.tolerations, checked.taints):
            return "taints"
        if not matches_labels(pod.spec, checked.labels):
            return "labels"
        if not pod.spec.requests.fits_in(free):
            return f"resources: {free.to_quantities()}"
        if any(
            port_wanted.conflicts_with(port) for port_wanted in pod.spec.host_ports for port in used_ports
        ):
            return "ports"
        return inter_pod_rules.violation(pod, name)

    def _inter_pod_rules(self, pod: Pod) -> InterPodRules:
        running = [(other, other.node_name) for other in self._pods.values() if other.node_name]
        running = [(other, name) for other, name in running if name in self._nodes]
        namespaces = {
            namespace["metadata"]["name"]: namespace["metadata"]["labels"]
            for namespace in self._api.list(NAMESPACES).items
        }
        return InterPodRules(list(self._nodes.values()), running, [pod], namespaces)


def _field(obj: Object) -> Field:
    return Field(thaw(obj), DecodeContext(strict=False))
