"""The provisioner in a small world, and hands to do what all others would do."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dovetail.codec.kube.conditions import show_conditions
from dovetail.controllers.provisioning.provisioner import Provisioning
from dovetail.controllers.runtime.manager import Registration
from dovetail.core.conditions import CLAIM, Subject, changed
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Conditions
from dovetail.model.kube.pod import Pod
from dovetail.ports.api_resources import DAEMON_SETS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support import wire
from tests.support.catalog import DEFAULT_TYPES
from tests.support.world import World

FINALIZER = "karpenter.sh/termination"


class Shop(World):
    """A world with pods that wait, and a provisioner who buys for them.

    Launching, joining, binding and draining are done by hand, one step a call,
    so that a test has them happen in any order.
    """

    def __init__(self, types: Sequence[InstanceType] = DEFAULT_TYPES) -> None:
        super().__init__()
        self.cloud.types = tuple(types)

    def open(self, *, pool: bool = True, **settings: Any) -> "Shop":
        """Start the provisioner, with one pool that is ready."""
        if pool:
            self.add_pool()
        self.run(partial(self._provisioner, **settings))
        return self

    def add_pool(self, name: str = "default", *, ready: bool | None = True, **fields: Any) -> None:
        made = wire.pool(name, **fields)
        if ready is not None:
            told = {"type": "Ready", "status": str(ready), "reason": "Ready"}
            made["status"] = {"conditions": [told]}
        self.add(NODE_POOLS, made)

    def _provisioner(self, **settings: Any) -> Registration:
        return Provisioning(
            mirror=self.mirror,
            promises=self.promises,
            nominations=self.nominations,
            kube=self.kube,
            cloud=self.cloud,
            loop=self.loop,
            offload=self.offload,
            chance=self.chance,
            log=self.log,
            events=self.events,
            metrics=self.metrics,
            **settings,
        ).registration()

    # Users and kube-scheduler.

    def pods(self, count: int, *, prefix: str = "pod", **fields: Any) -> list[str]:
        """Have pods that kube-scheduler found no node for; returns their names."""
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            self.pod_waits(name, **fields)
        return names

    def pod_waits(
        self,
        name: str = "pod",
        *,
        requests: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        owner: Mapping[str, Any] | None = None,
        seen: bool = True,
        **spec: Any,
    ) -> None:
        made = wire.pod(name, node="", owner=owner, phase="Pending", **spec)
        made["metadata"]["labels"] = dict(labels or {})
        made["spec"]["containers"][0]["resources"] = {"requests": dict(requests or {"cpu": "1"})}
        if seen:
            made["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            ]
        self.add(PODS, made)

    def bind(self, pod: str, node: str) -> None:
        self.api.bind(pod, "default", {"target": {"name": node}})
        self.patch(PODS, pod, {"status": {"phase": "Running"}}, "default", subresource="status")

    def bind_all(self) -> None:
        """Bind whatever finds room on nodes that are ready, as kube-scheduler would."""
        for pod in sorted(self.mirror.unbound_pods(), key=lambda one: one.key):
            for node in self.mirror.joined_nodes():
                if node.initialized and not node.deleting and self._fits(pod, node.name):
                    self.bind(pod.name, node.name)
                    break

    def _fits(self, pod: Pod, name: str) -> bool:
        node = next(one for one in self.mirror.joined_nodes() if one.name == name)
        return pod.spec.requests.fits_in(node.available())

    def daemon_set(self, name: str, requests: Mapping[str, str], **spec: Any) -> str:
        """Have a DaemonSet; returns its uid."""
        container = {"name": "main", "image": "agent:1", "resources": {"requests": dict(requests)}}
        made = self.add(
            DAEMON_SETS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [container], **spec},
                    },
                },
            },
        )
        return str(made["metadata"]["uid"])

    # The cloud, the kubelet and the other controllers.

    def launch(self, name: str, *, type_name: str = "", zone: str = "") -> NodeClaim:
        """Have a machine bought for a claim: the cheapest of its types, unless one is named."""
        claim = self.claim(name)
        offered = [one for one in self.cloud.types if self._may_be(claim, one)]
        chosen = next(
            one
            for one in sorted(offered, key=lambda one: one.offerings[0].price)
            if type_name in ("", one.name)
        )
        labels = {
            label_keys.INSTANCE_TYPE: chosen.name,
            label_keys.ARCH: min(chosen.requirements[label_keys.ARCH].values),
            label_keys.OS: "linux",
            label_keys.ZONE: zone or self._zone(claim, chosen),
            label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
        }
        self.patch(NODE_CLAIMS, name, {"metadata": {"labels": labels}})
        self.patch(
            NODE_CLAIMS,
            name,
            {
                "status": {
                    "providerID": f"aws:///{labels[label_keys.ZONE]}/{name}",
                    "capacity": chosen.capacity.spelled(),
                    "allocatable": chosen.allocatable.spelled(),
                    "conditions": show_conditions(self._with(claim.conditions, "Launched")),
                }
            },
            subresource="status",
        )
        return self.claim(name)

    def join(self, name: str, *, taints: Sequence[Any] = (), **labels: str) -> str:
        """Have the machine of a claim come up as a registered node; returns its name."""
        claim = self.claim(name)
        known = {**claim.labels, label_keys.REGISTERED: "true", label_keys.HOSTNAME: f"n-{name}"}
        self.add(
            NODES,
            wire.node(
                f"n-{name}",
                provider_id=claim.provider_id,
                labels={**known, **labels},
                taints=taints,
                size=claim.allocatable.spelled(),
            ),
        )
        self.state(name, "Registered")
        return f"n-{name}"

    def initialize(self, name: str) -> str:
        """Have a claim's node be ready for pods; returns its name."""
        self.patch(NODES, f"n-{name}", {"metadata": {"labels": {label_keys.INITIALIZED: "true"}}})
        self.state(name, "Initialized")
        return f"n-{name}"

    def bring_up(self, name: str) -> str:
        """Have a claim become a node that is ready for pods; returns its name."""
        self.launch(name)
        self.join(name)
        return self.initialize(name)

    def state(self, name: str, kind: str) -> None:
        told = show_conditions(self._with(self.claim(name).conditions, kind))
        self.patch(NODE_CLAIMS, name, {"status": {"conditions": told}}, subresource="status")

    def retire(self, name: str) -> None:
        """Have a claim be deleted while its node is still drained."""
        self.patch(NODE_CLAIMS, name, {"metadata": {"finalizers": [FINALIZER]}})
        self.delete(NODE_CLAIMS, name)

    def bought(self) -> list[str]:
        """The claims that are there and not about to go, in the order of their names."""
        return [claim.name for claim in self.mirror.claims() if not claim.deleting]

    def bought_for(self, pod: str) -> list[str]:
        """The claims that were made for a pod, ever."""
        prefix = "Pod should schedule on: nodeclaim/"
        return [
            one.message.removeprefix(prefix)
            for one in self.events.told
            if one.name == pod and one.message.startswith(prefix)
        ]

    def _with(self, known: Conditions, kind: str) -> Conditions:
        return changed(known, Subject(family=CLAIM, now=self.now, generation=1), kind, TRUE)

    def _zone(self, claim: NodeClaim, chosen: InstanceType) -> str:
        asked = [one for one in claim.requirements if one.key == label_keys.ZONE and one.values]
        return asked[0].values[0] if asked else chosen.offerings[0].zone

    @staticmethod
    def _may_be(claim: NodeClaim, one: InstanceType) -> bool:
        return any(
            spec.key == label_keys.INSTANCE_TYPE and one.name in spec.values
            for spec in claim.requirements
        )
