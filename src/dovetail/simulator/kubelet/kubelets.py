"""All kubelets of a cluster; EC2 starts and stops them with its instances."""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from dovetail.ports.api_resources import CSI_NODES, LEASES, NODES, PODS
from dovetail.ports.kube_errors import AlreadyExists
from dovetail.ports.randomness import RandomSource
from dovetail.simulator.apiserver.interface import ApiClient, find_object
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.instance import KUBERNETES_VERSION, BootedInstance
from dovetail.simulator.kubelet import node_status
from dovetail.simulator.kubelet.heartbeats import LEASE_NAMESPACE, Heartbeats, new_lease
from dovetail.simulator.kubelet.local_state import Kubelet
from dovetail.simulator.kubelet.pod_workers import PodWorkers
from dovetail.simulator.latencies import DEFAULT_KUBELET_LATENCIES, KubeletLatencies, LatencySampler
from dovetail.simulator.workqueue import start_watch


class Kubelets:
    """Registers nodes, renews their Leases and runs the pods bound to them.

    The local state of a kubelet (pods, pulled images) ends with its instance; everything
    else is read from the API server.
    """

    def __init__(
        self,
        api: ApiClient,
        clock: VirtualClock,
        *,
        latencies: KubeletLatencies = DEFAULT_KUBELET_LATENCIES,
        random: RandomSource | None = None,
        lazy_heartbeats: bool = False,
    ) -> None:
        """Start without kubelets; ``lazy_heartbeats`` requires an API server in this process."""
        self._api = api
        self._clock = clock
        self._sampler = LatencySampler(latencies, random)
        self._pod_workers = PodWorkers(api, clock, self._sampler)
        self._kubelets: dict[str, Kubelet] = {}
        self._names: dict[str, str] = {}
        self.version = KUBERNETES_VERSION
        """Kubernetes version of kubelets that start from now on."""
        self.heartbeats = Heartbeats(api, clock, lazy=lazy_heartbeats)
        start_watch(api, clock, PODS, self._handle_pod_event)

    def start(self, instance: BootedInstance) -> None:
        """Start the kubelet of a booted instance and register its node."""
        existing = self._names.get(instance.provider_id)
        if existing is not None:
            raise ValueError(f"{instance.provider_id} runs already, as {existing}")
        latency = self._sampler.sample(self._sampler.latencies.node_ready)
        kubelet = Kubelet(instance, ready_at=self._clock.now() + latency)
        self._names[instance.provider_id] = instance.name
        self._kubelets[instance.name] = kubelet
        self._register(instance)
        self.heartbeats.add(kubelet)
        self._clock.call_later(latency, partial(self._report_ready, kubelet))
        bound = ListOptions(field_selector=f"spec.nodeName={instance.name}")
        for pod in self._api.list(PODS, bound).items:
            self._pod_workers.sync(kubelet, pod)

    def adopt(
        self,
        instance: BootedInstance,
        pods: Iterable[tuple[Object, bool]],
        *,
        ready: bool = True,
        ready_after: timedelta | None = None,
    ) -> None:
        """Take over the kubelet of a registered node, with its pods.

        Each pod comes with True if it becomes ready, should it not be. A node that is not
        ``ready`` becomes so after ``ready_after``, or never.
        """
        now = self._clock.now()
        kubelet = Kubelet(instance, ready_at=now + (ready_after or timedelta()))
        self._names[instance.provider_id] = instance.name
        self._kubelets[instance.name] = kubelet
        for pod, becomes_ready in pods:
            self._pod_workers.adopt(kubelet, pod, becomes_ready=becomes_ready)
        if ready or ready_after is not None:
            self.heartbeats.add(kubelet)
        else:
            kubelet.unresponsive = True
        if not ready and ready_after is not None:
            self._clock.call_later(ready_after, partial(self._report_ready, kubelet))

    def stop(self, provider_id: str) -> None:
        """Stop a kubelet with its instance; its pods keep their last status."""
        kubelet = self._remove(provider_id)
        if kubelet is not None:
            self.heartbeats.remove(kubelet)
            for uid in tuple(kubelet.pod_workers):
                self._pod_workers.remove(kubelet, uid)

    def make_unresponsive(self, provider_id: str) -> None:
        """Make a kubelet stop reporting, although its instance runs."""
        kubelet = self._kubelets[self._names[provider_id]]
        kubelet.unresponsive = True
        self.heartbeats.remove(kubelet)

    def _remove(self, provider_id: str) -> Kubelet | None:
        name = self._names.pop(provider_id, None)
        kubelet = None if name is None else self._kubelets.pop(name)
        if kubelet is not None:
            kubelet.unresponsive = True  # Scheduled calls for it do nothing from now on.
        return kubelet

    def _register(self, instance: BootedInstance) -> None:
        desired = node_status.encode_node(instance, now=self._clock.now(), version=self.version)
        try:
            node = self._api.create(NODES, desired)
        except AlreadyExists:
            # A node of this name is left from a terminated instance.
            old = self._api.get(NODES, instance.name)
            node = self._api.update(NODES, {**old, "spec": desired["spec"]})
            node = self._update_status(node, desired["status"])
        self._create_if_missing(LEASES, new_lease(node, now=self._clock.now()))
        self._create_if_missing(CSI_NODES, encode_csi_node(node, instance))

    def _create_if_missing(self, resource: Any, obj: dict[str, Any]) -> None:
        try:
            self._api.create(resource, obj, LEASE_NAMESPACE if resource is LEASES else "")
        except AlreadyExists:
            return

    def _report_ready(self, kubelet: Kubelet) -> None:
        if kubelet.unresponsive:
            return
        self._update_node_status(kubelet, with_devices=False)
        if any(node_status.is_extended_resource(resource) for resource in kubelet.instance.capacity):
            latency = self._sampler.sample(self._sampler.latencies.devices)
            self._clock.call_later(latency, partial(self._update_node_status, kubelet, with_devices=True))

    def _update_node_status(self, kubelet: Kubelet, *, with_devices: bool) -> None:
        """Report the node as Ready, with its resources."""
        node = find_object(self._api, NODES, kubelet.instance.name)
        if node is None or kubelet.unresponsive:
            return
        status = {
            **node["status"],
            **node_status.encode_resources(kubelet.instance, with_devices=with_devices),
            "conditions": node_status.encode_conditions(ready=True, now=kubelet.ready_at),
        }
        node = self._update_status(node, status)
        # The node lifecycle controller would remove the taint right after.
        taints = node["spec"].get("taints") or ()
        remaining = node_status.without_taint(taints, node_status.NOT_READY)
        if len(remaining) < len(taints):
            self._api.update(NODES, {**node, "spec": {**node["spec"], "taints": remaining or None}})

    def _update_status(self, node: Object, status: dict[str, Any]) -> Object:
        return self._api.update(NODES, {**node, "status": status}, subresource="status")

    def _handle_pod_event(self, event: WatchEvent) -> None:
        pod = event.object
        name = pod["spec"].get("nodeName")
        kubelet = self._kubelets.get(name) if name else None
        if kubelet is None or kubelet.unresponsive:
            return
        if event.type is EventType.DELETED:
            self._pod_workers.remove(kubelet, pod["metadata"]["uid"])
        else:
            self._pod_workers.sync(kubelet, pod)


def encode_csi_node(node: Object, instance: BootedInstance) -> dict[str, Any]:
    """Return the CSINode of a node."""
    return {
        "metadata": {"name": instance.name, "ownerReferences": [node_status.owner_reference(node)]},
        "spec": {
            "drivers": [
                {
                    "name": driver,
                    "nodeID": instance.provider_id.rpartition("/")[2],
                    "allocatable": {"count": limit},
                }
                for driver, limit in sorted(instance.volume_limits.items())
            ]
        },
    }
