"""A whole cluster in one process, in virtual time.

The note by which ``kubectl apply`` knows what was written before it.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dovetail.core.instancetypes.build import instance_types
from dovetail.core.instancetypes.discounts import Discounts, tariff_of
from dovetail.core.instancetypes.offerings import UNPRICED
from dovetail.errors import BadInput, Mistake, ScenarioError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.settings import Gates, SchedulingSettings
from dovetail.ports.api_resources import NAMESPACES, resource_of_kind
from dovetail.ports.kube_client import Kube, Object
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.checks.invariants import GuardedKube, Invariants
from dovetail.simulator.clock import Engine
from dovetail.simulator.controllermanager.event_ttl import OldEvents
from dovetail.simulator.controllermanager.manager import start_workloads
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.billing import Purchase
from dovetail.simulator.instance import Machine
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.operator import Operator
from dovetail.simulator.randomness import SeededChance
from dovetail.simulator.recorder import Chronicle
from dovetail.simulator.scenario.model import Home, Scenario
from dovetail.simulator.scheduler.scheduler import Binder
from dovetail.simulator.storage.controllers import Volumes
from dovetail.simulator.telemetry import BoxLog, BoxMetrics

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def as_if_applied(obj: Object) -> dict[str, Any]:
    """Return an object as kubectl would have applied it.

    Without the note, what a user applies over it later could add fields and
    change them, but take none away: a role would stay beside a profile.
    """
    meta = obj["metadata"]
    noted = msgspec.json.encode(obj).decode()
    annotations = {**(meta.get("annotations") or {}), ANNOTATION: noted}
    return {**obj, "metadata": {**meta, "annotations": annotations}}


START: Final = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
MANAGER: Final = "scenario"


class Box:
    """API server, scheduler, kubelets, workload controllers, EC2; and Dovetail on top.

    The world outlives the operator: ``restart`` kills the controllers and starts
    them again with nothing in memory.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        catalog: Catalog,
        prices: PriceBook,
        start: datetime = START,
        settings: SchedulingSettings = SchedulingSettings(),  # noqa: B008 - frozen
        gates: Gates = Gates(),  # noqa: B008 - frozen
        kube: Callable[[ApiServer, Invariants], Kube] = GuardedKube,
        discounts: DiscountBook = NO_DISCOUNTS,
    ) -> None:
        """Build it and start; ``kube`` makes each operator's way to the API server."""
        self._kube = kube
        self._catalog = catalog
        self._prices = prices
        self._settings = settings
        self._gates = gates
        self._discounts = discounts
        self.engine = Engine(start=start)
        self.chance = SeededChance(scenario.seed)
        self.api = ApiServer(now=self.engine.now)
        region = catalog.regions[scenario.region]
        self.ec2 = VirtualEc2(
            self.engine, region=region, chance=self.chance, latencies=scenario.cloud
        )
        self.kubelets = Kubelets(
            self.api, self.engine, latencies=scenario.kubelet, chance=self.chance
        )
        self.ec2.on_boot = self.kubelets.boot
        self.ec2.on_halt = self.kubelets.halt
        self.log = BoxLog(self.engine.now)
        self.metrics = BoxMetrics()
        self._homes: set[str] = set()
        if discounts.has_commitments:
            self.ec2.ledger.tariff = tariff_of(
                discounts, region=region.name, types=self._types(region.name)
            )
        start_workloads(self.api, self.engine, instance_exists=self._exists)
        Binder(self.api, self.engine)
        Volumes(self.api, self.engine)
        OldEvents(self.api, self.engine)
        self.chronicle = Chronicle(self.api, self.engine)
        self.invariants = Invariants(self.api, self.engine, self.ec2)
        if scenario.home is not None:
            self._settle(scenario.home, region.name)
            # They were there before the story begins.
            self.engine.run(until=start + 2 * scenario.kubelet.node_ready)
        try:
            self.apply(scenario.objects)
        except ApiError as error:
            raise ScenarioError(f"manifests: {error}") from error
        self.operator = self._operate()

    def restart(self) -> None:
        """Kill the controllers and start them anew."""
        self.operator.kill()
        self.operator = self._operate()

    def apply(self, objects: Iterable[Object]) -> None:
        """Create objects, or make those that are there like these."""
        for obj in objects:
            resource = resource_of_kind(obj["apiVersion"], obj["kind"])
            if resource is None:
                raise ValueError(f"{obj['apiVersion']} {obj['kind']} is not served")
            namespace = obj["metadata"].get("namespace", "default") if resource.namespaced else ""
            if namespace:
                self._ensure_namespace(namespace)
            # Pools and classes are what users apply their own over.
            wanted = as_if_applied(obj) if resource.custom else obj
            self.api.apply(resource, wanted, namespace, manager=MANAGER, force=True)

    def _operate(self) -> Operator:
        return Operator(
            api=self.api,
            engine=self.engine,
            ec2=self.ec2,
            catalog=self._catalog,
            prices=self._prices,
            chance=self.chance,
            log=self.log,
            metrics=self.metrics,
            settings=self._settings,
            gates=self._gates,
            kube=self._kube(self.api, self.invariants),
            discounts=self._discounts,
        )

    def _ensure_namespace(self, name: str) -> None:
        meta = {"metadata": {"name": name}}
        self.api.apply(NAMESPACES, meta, manager=MANAGER, force=True)

    def _exists(self, provider_id: str) -> bool | None:
        if provider_id in self._homes:
            return True
        return self.ec2.find(provider_id.rpartition("/")[2]) is not None

    def _settle(self, home: Home, region: str) -> None:
        """Boot the nodes that are there beforehand; they cost from the start."""
        types = Discounts(self._discounts, region=region).applied(self._types(region))
        chosen = next((one for one in types if one.name == home.instance_type), None)
        if chosen is None:
            message = f"{home.instance_type!r} is not sold in {region}"
            raise BadInput([Mistake("home.instanceType:", 0, "", message)])
        zones = sorted({offering.zone for offering in chosen.offerings})
        for number in range(home.count):
            self._boot_home(chosen, zones[number % len(zones)], number)

    def _types(self, region: str) -> tuple[InstanceType, ...]:
        """Return what is sold, at list prices."""
        return instance_types(
            self._catalog.machines_in(region),
            region=self._catalog.regions[region],
            node_class=NodeClass(),
            prices=self._prices,
        )

    def _boot_home(self, kind: InstanceType, zone: str, number: int) -> None:
        provider_id = f"aws:///{zone}/i-home{number:013d}"
        price = next(
            one.price
            for one in kind.offerings
            if one.zone == zone and one.capacity_type == label_keys.ON_DEMAND
        )
        if price == UNPRICED:
            price = 0.0  # A price book need not know what was not bought from it.
        purchase = Purchase(
            claim="",
            claim_uid=provider_id,
            provider_id=provider_id,
            instance_type=kind.name,
            zone=zone,
            capacity_type=label_keys.ON_DEMAND,
            price=price,
            launched=self.engine.now(),
        )
        self.ec2.ledger.launched(purchase)
        self.ec2.ledger.runs(purchase, now=self.engine.now())
        self._homes.add(provider_id)
        labels = {
            key: next(iter(one.values))
            for key, one in kind.requirements.items()
            if len(one.values) == 1
            and key in (label_keys.ARCH, label_keys.OS, label_keys.INSTANCE_TYPE, label_keys.REGION)
        }
        self.kubelets.boot(
            Machine(
                name=_name(10 + number),
                provider_id=provider_id,
                labels=FrozenDict({**labels, label_keys.ZONE: zone}),
                capacity=kind.capacity.without_zeros(),
                allocatable=kind.allocatable.without_zeros(),
            )
        )


def _name(address: int) -> str:
    return f"ip-10-250-{address >> 8}-{address & 255}.ec2.internal"
