"""All kubelets of a cluster, booted and halted by whoever owns the machines."""

from functools import partial
from typing import Any, Final

from dovetail.ports.api_resources import CSI_NODES, LEASES, NODES, PODS
from dovetail.ports.kube_errors import AlreadyExists, NotFound
from dovetail.ports.randomness import Chance
from dovetail.simulator.apiserver.interface import Verbs
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.instance import Machine
from dovetail.simulator.kubelet import node_status
from dovetail.simulator.kubelet.heartbeats import NAMESPACE, Heartbeats, new_lease
from dovetail.simulator.kubelet.latencies import Latencies, Waits
from dovetail.simulator.kubelet.local_state import Kubelet
from dovetail.simulator.kubelet.pod_workers import PodWork
from dovetail.simulator.workqueue import follow

_USUAL: Final = Latencies()


class Kubelets:
    """Registers nodes, keeps them alive and runs the pods bound to them.

    What a kubelet remembers (its pods, the images on its disk) is gone when its
    machine is; everything else it reads from the API server.
    """

    def __init__(
        self,
        api: Verbs,
        engine: Engine,
        *,
        latencies: Latencies = _USUAL,
        chance: Chance | None = None,
    ) -> None:
        self._api = api
        self._engine = engine
        self._waits = Waits(latencies, chance)
        self._work = PodWork(api, engine, self._waits)
        self._running: dict[str, Kubelet] = {}
        self._names: dict[str, str] = {}
        self._heartbeats = Heartbeats(api, engine)
        follow(api, engine, PODS, self._pod_changed)

    @property
    def heartbeats(self) -> int:
        """How many leases have been renewed so far."""
        return self._heartbeats.count

    def boot(self, machine: Machine) -> None:
        """Start the kubelet of a machine that has booted."""
        known = self._names.get(machine.provider_id)
        if known is not None:
            raise ValueError(f"{machine.provider_id} runs already, as {known}")
        wait = self._waits.of(self._waits.usual.node_ready)
        kubelet = Kubelet(machine, ready_at=self._engine.now() + wait)
        self._names[machine.provider_id] = machine.name
        self._running[machine.name] = kubelet
        self._register(machine)
        self._heartbeats.add(kubelet)
        self._engine.after(wait, partial(self._become_ready, kubelet))
        bound = ListOptions(fields=f"spec.nodeName={machine.name}")
        for pod in self._api.list(PODS, bound).items:
            self._work.sync(kubelet, pod)

    def halt(self, provider_id: str) -> None:
        """End a kubelet with its machine; its pods are just not heard of any more."""
        kubelet = self._forget(provider_id)
        if kubelet is not None:
            self._heartbeats.remove(kubelet)
            for uid in tuple(kubelet.jobs):
                self._work.drop(kubelet, uid)

    def silent(self, provider_id: str) -> None:
        """Let nothing more be heard of a kubelet, although its machine runs on."""
        kubelet = self._running[self._names[provider_id]]
        kubelet.silent = True
        self._heartbeats.remove(kubelet)

    def _forget(self, provider_id: str) -> Kubelet | None:
        name = self._names.pop(provider_id, None)
        kubelet = None if name is None else self._running.pop(name)
        if kubelet is not None:
            kubelet.silent = True  # Whatever is still arranged for it finds it mute.
        return kubelet

    def _register(self, machine: Machine) -> None:
        wanted = node_status.new_node(machine, now=self._engine.now())
        try:
            node = self._api.create(NODES, wanted)
        except AlreadyExists:
            # The name has been there before, as a machine's that is gone.
            old = self._api.get(NODES, machine.name)
            node = self._api.update(NODES, {**old, "spec": wanted["spec"]})
            node = self._update_status(node, wanted["status"])
        self._create_beside(LEASES, new_lease(node, now=self._engine.now()))
        self._create_beside(CSI_NODES, _csi_node(node, machine))

    def _create_beside(self, resource: Any, obj: dict[str, Any]) -> None:
        try:
            self._api.create(resource, obj, NAMESPACE if resource is LEASES else "")
        except AlreadyExists:
            return

    def _become_ready(self, kubelet: Kubelet) -> None:
        if kubelet.silent:
            return
        self._report(kubelet, with_devices=False)
        if any(node_status.is_device(one) for one in kubelet.machine.capacity):
            wait = self._waits.of(self._waits.usual.devices)
            self._engine.after(wait, partial(self._report, kubelet, with_devices=True))

    def _report(self, kubelet: Kubelet, *, with_devices: bool) -> None:
        """Tell that the node is ready and what it has."""
        node = self._node(kubelet)
        if node is None or kubelet.silent:
            return
        status = {
            **node["status"],
            **node_status.amounts(kubelet.machine, with_devices=with_devices),
            "conditions": node_status.conditions(ready=True, now=kubelet.ready_at),
        }
        node = self._update_status(node, status)
        # Strictly the node lifecycle controller's work, which follows at once.
        taints = node["spec"].get("taints") or ()
        left = node_status.without_taint(taints, node_status.NOT_READY)
        if len(left) < len(taints):
            self._api.update(NODES, {**node, "spec": {**node["spec"], "taints": left or None}})

    def _node(self, kubelet: Kubelet) -> Object | None:
        try:
            return self._api.get(NODES, kubelet.machine.name)
        except NotFound:
            return None

    def _update_status(self, node: Object, status: dict[str, Any]) -> Object:
        return self._api.update(NODES, {**node, "status": status}, subresource="status")

    def _pod_changed(self, event: WatchEvent) -> None:
        pod = event.object
        name = pod["spec"].get("nodeName")
        kubelet = self._running.get(name) if name else None
        if kubelet is None or kubelet.silent:
            return
        if event.type is EventType.DELETED:
            self._work.drop(kubelet, pod["metadata"]["uid"])
        else:
            self._work.sync(kubelet, pod)


def _csi_node(node: Object, machine: Machine) -> dict[str, Any]:
    return {
        "metadata": {"name": machine.name, "ownerReferences": [node_status.owner(node)]},
        "spec": {
            "drivers": [
                {
                    "name": driver,
                    "nodeID": machine.provider_id.rpartition("/")[2],
                    "allocatable": {"count": limit},
                }
                for driver, limit in sorted(machine.volume_limits.items())
            ]
        },
    }
