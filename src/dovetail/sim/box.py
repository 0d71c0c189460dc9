"""A whole cluster in one process, in virtual time."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from dovetail.core.machines.build import instance_types
from dovetail.core.machines.discounting import Discounts, tariff_of
from dovetail.core.machines.offerings import UNPRICED
from dovetail.errors import BadInput, Mistake, ScenarioError
from dovetail.model import labels as label_keys
from dovetail.model.catalog import InstanceType
from dovetail.model.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.machines import Catalog
from dovetail.model.nodeclass import NodeClass
from dovetail.model.prices import PriceBook
from dovetail.model.settings import Gates, SchedulingSettings
from dovetail.ports.kube import Kube, Object
from dovetail.ports.kubeerrors import ApiError
from dovetail.ports.resources import NAMESPACES, resource_of_kind
from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.binder.binder import Binder
from dovetail.sim.chance import SeededChance
from dovetail.sim.chronicle import Chronicle
from dovetail.sim.cloud.account import VirtualEc2
from dovetail.sim.cloud.ledger import Purchase
from dovetail.sim.engine import Engine
from dovetail.sim.invariants import GuardedKube, Invariants
from dovetail.sim.kubelet.kubelets import Kubelets
from dovetail.sim.lastapplied import as_if_applied
from dovetail.sim.machine import Machine
from dovetail.sim.oldevents import OldEvents
from dovetail.sim.operator import Operator
from dovetail.sim.scenario.model import Home, Scenario
from dovetail.sim.telling import BoxLog, BoxMetrics
from dovetail.sim.volumes.volumes import Volumes
from dovetail.sim.workloads.start import start_workloads

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
