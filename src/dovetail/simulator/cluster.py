"""Simulated cluster: control plane, nodes, EC2 and Dovetail in one process.

All components share one virtual clock and meet only at the API server and at EC2,
as in a real cluster: they watch objects, add keys to work queues and write back.
The operator runs the real controllers; its cloud provider launches instances in the
simulated EC2 account, and each booted instance starts a simulated kubelet, which
registers a node. Tests and ``simulator.scenario_runner`` apply objects and advance
the clock; ``simulator.rest`` serves the cluster to kubectl in real time.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.discounts import Discounts, billing_function
from dovetail.core.instancetypes.offerings import NO_PRICE
from dovetail.errors import DovetailError, InvalidInputError, ScenarioError, ValidationError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.savings import LEDGER_CONFIG_MAP
from dovetail.model.settings import ConsolidationSettings, FeatureGates, SchedulingSettings
from dovetail.ports.api_resources import NAMESPACES, find_resource
from dovetail.ports.kube_client import KubeClient, Object
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.checks.invariants import CheckedKubeClient, Invariants
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.manager import start_controller_manager
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.simulator.environment import SeededRandomSource, SimulatedLog, SimulatedMetrics
from dovetail.simulator.fork.changes import LAST_APPLIED, find_field_manager
from dovetail.simulator.fork.report import ForkReport
from dovetail.simulator.fork.restore import Fork
from dovetail.simulator.instance import BootedInstance
from dovetail.simulator.kube_client import SimulatedKubeClient
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.operator import SimulatedOperator
from dovetail.simulator.recorder import ScenarioRecorder
from dovetail.simulator.scenario.model import ManagedNodeGroup, Scenario
from dovetail.simulator.scheduler.scheduler import KubeScheduler
from dovetail.simulator.storage.attach_detach import AttachDetachController
from dovetail.simulator.storage.pv_binder import PersistentVolumeBinder

START: Final = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
FIELD_MANAGER: Final = "scenario"


class SimulatedCluster:
    """API server, scheduler, controller manager, kubelets, EC2 and the operator.

    All but the operator survive ``restart``, which kills the controllers and
    starts them again with nothing in memory.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        catalog: Catalog,
        prices: PriceBook,
        start: datetime = START,
        settings: SchedulingSettings = SchedulingSettings(),  # noqa: B008 - frozen
        gates: FeatureGates = FeatureGates(),  # noqa: B008 - frozen
        kube: Callable[[ApiServer, Invariants], KubeClient] = CheckedKubeClient,
        discounts: DiscountBook = NO_DISCOUNTS,
        burstable: BurstablePolicy = BurstablePolicy.BASELINE,
        consolidation: ConsolidationSettings = ConsolidationSettings(),  # noqa: B008 - frozen
        policy: Policy = DEFAULT_POLICY,
        fork: Fork | None = None,
        keep_events: bool = True,
        namespace: str = "kube-system",
    ) -> None:
        """Build and start the cluster; ``kube`` builds each operator's API client.

        With ``fork`` it begins as a copy of a recorded cluster. Without ``keep_events``, Events
        of the operator and the control plane are not stored: only ``kubectl`` and the view read them.
        ``namespace`` is that of the controllers and their savings ledger.
        """
        self._kube = kube
        self._catalog = catalog
        self._prices = prices
        self._settings = settings
        self._gates = gates
        self._discounts = discounts
        self._burstable = burstable
        self._consolidation = consolidation
        self._keep_events = keep_events
        self._namespace = namespace
        self._policy = policy
        self.clock = VirtualClock(start=start)
        self.random = SeededRandomSource(scenario.seed)
        self.api = ApiServer(now=self.clock.now)
        region = catalog.regions[scenario.region]
        self.ec2 = Ec2Account(self.clock, region=region, random=self.random, latencies=scenario.cloud)
        self.kubelets = Kubelets(
            self.api, self.clock, latencies=scenario.kubelet, random=self.random, lazy_heartbeats=True
        )
        self.api.on_lease_read = self.kubelets.heartbeats.renew_due
        self.api.on_lease_watch = self.kubelets.heartbeats.write_all
        self.ec2.on_booted = self.kubelets.start
        self.ec2.on_terminated = self.kubelets.stop
        self.log = SimulatedLog(self.clock.now)
        self.metrics = SimulatedMetrics()
        self.unmanaged: dict[str, LaunchRecord] = {}
        """Provider ID → bill of nodes that Dovetail does not manage."""
        self.fork: ForkReport | None = None
        """Assumptions of a copy of a recorded cluster; None for other clusters."""
        if discounts.has_commitments:
            self.ec2.billing.tariff = billing_function(
                discounts, region=region.name, types=self._list_instance_types(region.name)
            )
        start_controller_manager(
            self.api,
            self.clock,
            instance_exists=self._instance_exists,
            heartbeats=self.kubelets.heartbeats,
            keep_events=keep_events,
        )
        KubeScheduler(self.api, self.clock, keep_events=keep_events)
        PersistentVolumeBinder(self.api, self.clock)
        AttachDetachController(self.api, self.clock)
        self.recorder = ScenarioRecorder(self.api, self.clock)
        self.invariants = Invariants(self.api, self.clock, self.ec2)
        if scenario.node_group is not None:
            self._start_node_group(scenario.node_group, region.name)
            # These nodes are Ready before the first phase begins.
            self.clock.run(until=start + 2 * scenario.kubelet.node_ready)
        if fork is not None:
            self.fork = fork.restore(self.api, self.clock, self.ec2, self.kubelets)
            self.unmanaged.update(fork.unmanaged)
        try:
            self.apply((_encode_ledger(namespace), *scenario.objects))
        except ApiError as error:
            raise ScenarioError(f"manifests: {error}") from error
        self.operator = self._start_operator()

    @classmethod
    def from_snapshot(
        cls,
        objects: Iterable[Object],
        *,
        now: datetime,
        catalog: Catalog,
        prices: PriceBook,
        settings: SchedulingSettings = SchedulingSettings(),  # noqa: B008 - frozen
        gates: FeatureGates = FeatureGates(),  # noqa: B008 - frozen
        discounts: DiscountBook = NO_DISCOUNTS,
        burstable: BurstablePolicy = BurstablePolicy.BASELINE,
        consolidation: ConsolidationSettings = ConsolidationSettings(),  # noqa: B008 - frozen
        policy: Policy = DEFAULT_POLICY,
        region: str = "",
        seed: int = 1,
        version: str = "",
        missing: Iterable[str] = (),
    ) -> "SimulatedCluster":
        """Return a copy of a cluster at ``now``, from its objects in wire format.

        Instances, pods and workloads are where they were; nothing has happened yet. What was
        assumed is in ``fork``, with the sentences of ``missing`` (what could not be read).
        Without ``region`` it is that of most nodes, without ``version`` that of the newest node.
        Unusable objects are named there, not raised.
        """
        fork = Fork(
            objects,
            now=now,
            catalog=catalog,
            prices=prices,
            discounts=discounts,
            region=region,
            version=version,
            missing=missing,
        )
        calibration = fork.calibration
        cluster = cls(
            Scenario(
                name="fork",
                about="",
                region=fork.region.name,
                seed=seed,
                cloud=calibration.cloud,
                kubelet=calibration.kubelet,
            ),
            catalog=fork.catalog,
            prices=prices,
            start=now,
            settings=settings,
            gates=gates,
            # Invariants are checked in tests; here they would only cost time.
            kube=lambda api, _: SimulatedKubeClient(api),
            discounts=discounts,
            burstable=burstable,
            consolidation=consolidation,
            policy=policy,
            fork=fork,
            keep_events=False,
        )
        cluster.clock.on_error = _raise_broken_object_error
        return cluster

    def restart(self) -> None:
        """Kill the controllers and start them again."""
        self.operator.kill()
        self.operator = self._start_operator()

    def apply(self, objects: Iterable[Object]) -> None:
        """Apply objects, creating their namespaces."""
        for obj in objects:
            resource = find_resource(obj["apiVersion"], obj["kind"])
            if resource is None:
                raise ValueError(f"{obj['apiVersion']} {obj['kind']} is not served")
            namespace = obj["metadata"].get("namespace", "default") if resource.namespaced else ""
            if namespace:
                self.api.apply(
                    NAMESPACES, {"metadata": {"name": namespace}}, manager=FIELD_MANAGER, force=True
                )
            # Users apply their own NodePools and node classes over these.
            applied = with_last_applied(obj) if resource.is_custom else obj
            manager = FIELD_MANAGER
            if self.fork is not None:
                manager = find_field_manager(self.api, resource, obj, namespace, default=manager)
            self.api.apply(resource, applied, namespace, manager=manager, force=True)

    def _start_operator(self) -> SimulatedOperator:
        return SimulatedOperator(
            api=self.api,
            clock=self.clock,
            ec2=self.ec2,
            catalog=self._catalog,
            prices=self._prices,
            random=self.random,
            log=self.log,
            metrics=self.metrics,
            settings=self._settings,
            gates=self._gates,
            kube=self._kube(self.api, self.invariants),
            discounts=self._discounts,
            burstable=self._burstable,
            consolidation=self._consolidation,
            keep_events=self._keep_events,
            policy=self._policy,
            namespace=self._namespace,
        )

    def _instance_exists(self, provider_id: str) -> bool | None:
        if provider_id in self.unmanaged:
            return self.unmanaged[provider_id].terminated is None
        return self.ec2.find(provider_id.rpartition("/")[2]) is not None

    def _start_node_group(self, node_group: ManagedNodeGroup, region: str) -> None:
        """Start the nodes of the managed node group; they are billed from the start."""
        types = self._list_instance_types(region, name=node_group.instance_type)
        matching = Discounts(self._discounts, region=region).apply(types)
        if not matching:
            message = f"{node_group.instance_type!r} is not available in {region}"
            raise InvalidInputError([ValidationError("home.instanceType:", 0, "", message)])
        instance_type = matching[0]
        zones = sorted({offering.zone for offering in instance_type.offerings})
        for number in range(node_group.count):
            self._start_node(instance_type, zones[number % len(zones)], number)

    def _list_instance_types(self, region: str, *, name: str = "") -> tuple[InstanceType, ...]:
        """Return the instance types of a region at list prices: all, or the one of a name."""
        types = self._catalog.instance_types_in(region)
        return build_instance_types(
            tuple(facts for facts in types if name in ("", facts.name)),
            region=self._catalog.regions[region],
            node_class=EC2NodeClass(),
            prices=self._prices,
        )

    def _start_node(self, instance_type: InstanceType, zone: str, number: int) -> None:
        provider_id = f"aws:///{zone}/i-home{number:013d}"
        price = next(
            offering.price
            for offering in instance_type.offerings
            if offering.zone == zone and offering.capacity_type == label_keys.ON_DEMAND
        )
        if price == NO_PRICE:
            price = 0.0  # A custom price book need not cover the node group.
        launch = LaunchRecord(
            claim="",
            claim_uid=provider_id,
            provider_id=provider_id,
            instance_type=instance_type.name,
            zone=zone,
            capacity_type=label_keys.ON_DEMAND,
            price=price,
            launched=self.clock.now(),
        )
        self.ec2.billing.record_launch(launch)
        self.ec2.billing.record_running(launch, now=self.clock.now())
        self.unmanaged[provider_id] = launch
        labels = {
            key: next(iter(requirement.values))
            for key, requirement in instance_type.requirements.items()
            if len(requirement.values) == 1
            and key in (label_keys.ARCH, label_keys.OS, label_keys.INSTANCE_TYPE, label_keys.REGION)
        }
        self.kubelets.start(
            BootedInstance(
                name=f"ip-10-250-{(10 + number) >> 8}-{(10 + number) & 255}.ec2.internal",
                provider_id=provider_id,
                labels=FrozenDict({**labels, label_keys.ZONE: zone}),
                capacity=instance_type.capacity.without_zeros(),
                allocatable=instance_type.allocatable.without_zeros(),
            )
        )


def _encode_ledger(namespace: str) -> Object:
    """Return the ConfigMap that the chart installs."""
    meta = {"name": LEDGER_CONFIG_MAP, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _raise_broken_object_error(error: Exception) -> None:
    """Explain an error that a recorded object causes which no API server would have stored."""
    if not isinstance(error, LookupError | TypeError | ValueError | AttributeError):
        raise error
    raise DovetailError(
        f"a recorded object lacks a field, or has a value, that the API server requires: {error!r}; "
        "dumps must not be edited"
    ) from error


def with_last_applied(obj: Object) -> dict[str, Any]:
    """Return an object with the annotation that ``kubectl apply`` writes.

    Without it, a later ``kubectl apply`` can add and change fields but not remove
    any: ``role`` would stay beside ``instanceProfile``.
    """
    meta = obj["metadata"]
    last_applied = msgspec.json.encode(obj).decode()
    annotations = {**(meta.get("annotations") or {}), LAST_APPLIED: last_applied}
    return {**obj, "metadata": {**meta, "annotations": annotations}}
