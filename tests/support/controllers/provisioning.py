"""The provisioner alone; the test acts for all other controllers and the cloud."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.controllers.provisioning import provisioner
from dovetail.core.conditions import NODECLAIM_CONDITIONS, ConditionOwner, set_condition
from dovetail.core.scheduling.solver import solve
from dovetail.core.scheduling.work import ShouldStop
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Conditions
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports.api_resources import DAEMON_SETS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import DEFAULT_TYPES

FINALIZER = "karpenter.sh/termination"


class ProvisioningEnvironment(ControllerEnvironment):
    """Pending pods and a provisioner.

    A test launches, registers, binds and drains, one step per call and in any order.
    """

    def __init__(self, types: Sequence[InstanceType] = DEFAULT_TYPES) -> None:
        super().__init__()
        self.cloud.types = tuple(types)
        self.considered: list[list[str]] = []
        """Names of the pods that each call of the solver considered."""
        self.steps: list[int] = []
        """Steps of each call."""

    def start(self, *, pool: bool = True, **settings: Any) -> Self:
        """Start the provisioner, with one ready NodePool by default."""
        if pool:
            self.add_pool()
        self.run(lambda context: provisioner.controller(context, self._solve), **settings)
        return self

    def _solve(
        self,
        snapshot: ClusterSnapshot,
        settings: SchedulingSettings,
        should_stop: ShouldStop,
        retried: Mapping[str, int],
    ) -> Plan:
        plan = solve(snapshot, settings, should_stop, retried)
        postponed = {pod.name for pod in plan.postponed}
        self.considered.append(sorted({pod.name for pod in snapshot.pending_pods} - postponed))
        self.steps.append(plan.steps)
        return plan

    def add_pool(self, name: str = "default", *, ready: bool | None = True, **fields: Any) -> None:
        pool = manifests.pool(name, **fields)
        if ready is not None:
            condition = {"type": "Ready", "status": str(ready), "reason": "Ready"}
            pool["status"] = {"conditions": [condition]}
        self.add(NODE_POOLS, pool)

    # Actions of users and kube-scheduler.

    def add_pending_pods(self, count: int, *, prefix: str = "pod", **fields: Any) -> list[str]:
        """Add unschedulable pods; return their names."""
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            self.add_pending_pod(name, **fields)
        return names

    def add_pending_pod(
        self,
        name: str = "pod",
        *,
        requests: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        owner: Mapping[str, Any] | None = None,
        seen: bool = True,
        **spec: Any,
    ) -> None:
        pod = manifests.pod(name, node="", owner=owner, phase="Pending", **spec)
        pod["metadata"]["labels"] = dict(labels or {})
        pod["spec"]["containers"][0]["resources"] = {"requests": dict(requests or {"cpu": "1"})}
        if seen:
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            ]
        self.add(PODS, pod)

    def bind(self, pod: str, node: str) -> None:
        self.api.bind(pod, "default", {"target": {"name": node}})
        self.patch(PODS, pod, {"status": {"phase": "Running"}}, "default", subresource="status")

    def bind_all(self) -> None:
        """Bind all pods that fit on initialized nodes, as kube-scheduler would."""
        for pod in sorted(self.cache.unbound_pods(), key=lambda pod: pod.key):
            for node in self.cache.joined_nodes():
                if node.initialized and not node.deleting and self._fits(pod, node.name):
                    self.bind(pod.name, node.name)
                    break

    def _fits(self, pod: Pod, name: str) -> bool:
        node = next(node for node in self.cache.joined_nodes() if node.name == name)
        return pod.spec.requests.fits_in(node.available())

    def add_daemon_set(self, name: str, requests: Mapping[str, str], **spec: Any) -> str:
        """Add a DaemonSet; return its UID."""
        container = {"name": "main", "image": "agent:1", "resources": {"requests": dict(requests)}}
        created = self.add(
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
        return str(created["metadata"]["uid"])

    # Actions of the cloud, the kubelet and the other controllers.

    def launch(self, name: str, *, type_name: str = "", zone: str = "") -> NodeClaim:
        """Launch an instance for a claim: of its cheapest type, or of ``type_name``."""
        claim = self.claim(name)
        offered = [option for option in self.cloud.types if self._is_allowed(claim, option)]
        chosen = next(
            option
            for option in sorted(offered, key=lambda option: option.offerings[0].price)
            if type_name in ("", option.name)
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
                    "capacity": chosen.capacity.to_quantities(),
                    "allocatable": chosen.allocatable.to_quantities(),
                    "conditions": encode_conditions(self._with(claim.conditions, "Launched")),
                }
            },
            subresource="status",
        )
        return self.claim(name)

    def register(self, name: str, *, taints: Sequence[Any] = (), **labels: str) -> str:
        """Register the node of a claim; return its name."""
        claim = self.claim(name)
        node_labels = {**claim.labels, label_keys.REGISTERED: "true", label_keys.HOSTNAME: f"n-{name}"}
        self.add(
            NODES,
            manifests.node(
                f"n-{name}",
                provider_id=claim.provider_id,
                labels={**node_labels, **labels},
                taints=taints,
                size=claim.allocatable.to_quantities(),
            ),
        )
        self.set_condition(name, "Registered")
        return f"n-{name}"

    def initialize(self, name: str) -> str:
        """Initialize the node of a claim; return its name."""
        self.patch(NODES, f"n-{name}", {"metadata": {"labels": {label_keys.INITIALIZED: "true"}}})
        self.set_condition(name, "Initialized")
        return f"n-{name}"

    def make_ready(self, name: str) -> str:
        """Launch, register and initialize a claim; return its node's name."""
        self.launch(name)
        self.register(name)
        return self.initialize(name)

    def set_condition(self, name: str, kind: str) -> None:
        conditions = encode_conditions(self._with(self.claim(name).conditions, kind))
        self.patch(NODE_CLAIMS, name, {"status": {"conditions": conditions}}, subresource="status")

    def delete_claim(self, name: str) -> None:
        """Delete a claim whose node is still being drained."""
        self.patch(NODE_CLAIMS, name, {"metadata": {"finalizers": [FINALIZER]}})
        self.delete(NODE_CLAIMS, name)

    def live_claims(self) -> list[str]:
        """Return the names of claims that are not being deleted, sorted."""
        return [claim.name for claim in self.cache.claims() if not claim.deleting]

    def claims_for(self, pod: str) -> list[str]:
        """Return all claims that were ever created for a pod."""
        prefix = "Pod should schedule on: nodeclaim/"
        return [
            event.message.removeprefix(prefix)
            for event in self.events.published
            if event.name == pod and event.message.startswith(prefix)
        ]

    def _with(self, conditions: Conditions, kind: str) -> Conditions:
        return set_condition(
            conditions,
            ConditionOwner(condition_set=NODECLAIM_CONDITIONS, now=self.now, generation=1),
            kind,
            TRUE,
        )

    def _zone(self, claim: NodeClaim, chosen: InstanceType) -> str:
        zones = [spec for spec in claim.requirements if spec.key == label_keys.ZONE and spec.values]
        return zones[0].values[0] if zones else chosen.offerings[0].zone

    @staticmethod
    def _is_allowed(claim: NodeClaim, option: InstanceType) -> bool:
        return any(
            spec.key == label_keys.INSTANCE_TYPE and option.name in spec.values for spec in claim.requirements
        )
