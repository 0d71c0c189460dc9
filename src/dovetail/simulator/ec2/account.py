"""An EC2 account in virtual time."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from itertools import count
from typing import Final

import msgspec

from dovetail.core.instancetypes.launch_choices import Choice, labels_of, shape_of
from dovetail.core.nodeclass.drift import image_of
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.karpenter.ec2nodeclass_launch import Image
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import Interruption
from dovetail.ports.randomness import Chance
from dovetail.simulator.clock import Engine
from dovetail.simulator.ec2.amis import digits, image_for
from dovetail.simulator.ec2.billing import Ledger, Purchase
from dovetail.simulator.ec2.capacity import Stock
from dovetail.simulator.ec2.errors import NO_CAPACITY, NO_SUCH_INSTANCE, RESERVATION_FULL, Ec2Error
from dovetail.simulator.ec2.instances import Ec2Instance, State, machine_of
from dovetail.simulator.ec2.interruption_queue import Queue
from dovetail.simulator.ec2.latencies import USUAL, Latencies
from dovetail.simulator.ec2.throttling import RATES, Faults, Operation, Rate, Throttle
from dovetail.simulator.instance import Machine

_ADDRESSES: Final = 900_000
"""Of a zone, to begin to count at."""
WARNING: Final = timedelta(minutes=2)
"""Between the notice of a spot interruption and the interruption."""


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One machine wanted, any of several."""

    token: str
    """The same token never buys twice."""
    choices: tuple[Choice, ...]
    claim: NodeClaim
    ami_family: str
    tags: FrozenDict[str, str]
    images: tuple[Image, ...] = ()
    """Those that the node class found; each type boots the first that is meant for it."""
    subnets: FrozenDict[str, str] = EMPTY
    """Zone → subnet."""
    security_groups: tuple[str, ...] = ()


class FleetError(msgspec.Struct, frozen=True, kw_only=True):
    """Why one of the choices was not taken."""

    code: str
    choice: Choice


class FleetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was bought, if anything, and what could not be."""

    instance: Ec2Instance | None
    errors: tuple[FleetError, ...] = ()


class Trouble(StrEnum):
    """How a launch can go wrong after it has succeeded."""

    NEVER_RUNS = "never runs"
    """Stays pending."""
    NEVER_JOINS = "never joins"
    """Runs and costs, but no kubelet ever reports."""


class VirtualEc2:
    """Instances and all that surrounds them; it outlives the controllers.

    Methods act at once: time that calls take, throttling and scripted faults are
    the business of ``Ec2Client``, through which adapters call.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        region: Region,
        chance: Chance,
        latencies: Latencies = USUAL,
        rates: Mapping[Operation, Rate] = RATES,
        reservations: Iterable[CapacityReservation] = (),
        first: int = 1,
    ) -> None:
        """``first`` is where ids and addresses are counted from."""
        self._engine = engine
        self._chance = chance
        self.region = region
        self.latencies = latencies
        self.throttle = Throttle(rates)
        self.faults = Faults()
        self.stock = Stock()
        self.ledger = Ledger()
        self.queue = Queue()
        self.on_boot: Callable[[Machine], None] = _nobody_cares
        """Called when a machine has booted; a kubelet starts here."""
        self.on_halt: Callable[[str], None] = _nobody_cares
        """Called with the provider id when a machine is gone."""
        self.reclaimed: set[str] = set()
        """What was taken back from under its owner, by provider id."""
        self._numbers = count(first)
        self._addresses = {zone: count(9 + first % _ADDRESSES) for zone in region.zones}
        self._instances: dict[str, Ec2Instance] = {}
        self._bought: dict[str, Ec2Instance] = {}
        self._troubles: list[Trouble] = []
        self._reservations = {one.id: one for one in reservations}
        self.latest: dict[str, str] = {}
        """Family → version of its newest images; a node class that asks for the latest gets it."""

    def instances(self) -> Iterable[Ec2Instance]:
        """Return all that have not terminated, oldest first."""
        return self._instances.values()

    def find(self, instance_id: str) -> Ec2Instance | None:
        """Return an instance that has not terminated."""
        return self._instances.get(instance_id)

    def bought_with(self, token: str) -> Ec2Instance | None:
        """Return what a token bought, even if it has terminated since."""
        return self._bought.get(token)

    def create_fleet(self, request: FleetRequest) -> FleetAnswer:
        """Buy the cheapest choice that is in stock."""
        known = self._bought.get(request.token)
        if known is not None:
            return FleetAnswer(instance=known)
        errors: list[FleetError] = []
        for choice in sorted(request.choices, key=lambda one: one.offering.price):
            code = self._refusal(choice)
            if code is None:
                return FleetAnswer(instance=self._launch(request, choice), errors=tuple(errors))
            errors.append(FleetError(code=code, choice=choice))
        return FleetAnswer(instance=None, errors=tuple(errors))

    def terminate(self, instance_id: str) -> None:
        """Have an instance end; nothing more happens to one that is ending already."""
        instance = self._instances.get(instance_id)
        if instance is None:
            raise Ec2Error(NO_SUCH_INSTANCE, f"the instance ID {instance_id!r} does not exist")
        if instance.is_ending:
            return
        now = self._engine.now()
        if instance.next is not None:
            instance.next.cancel()
        instance.state = State.SHUTTING_DOWN
        self.ledger.shuts_down(instance.purchase, now=now)
        self.queue.send(Interruption.TERMINATING, [instance.id], now=now)
        instance.next = self._engine.after(self.latencies.shutdown, lambda: self._end(instance))

    def interrupt(self, instance_id: str, *, recommended: timedelta = timedelta()) -> None:
        """Take a spot instance back: a warning, and two minutes later the end.

        With ``recommended`` the warning comes that much after a recommendation
        to rebalance.
        """
        if recommended:
            self.recommend_rebalance(instance_id)
        self._engine.after(recommended, lambda: self._warn(instance_id))

    def recommend_rebalance(self, instance_id: str) -> None:
        """Say that a spot instance is at risk."""
        self._send(Interruption.REBALANCE, instance_id)

    def spoil_next(self, trouble: Trouble, *, times: int = 1) -> None:
        """Have the next launches go wrong."""
        self._troubles += [trouble] * times

    def reservations(self) -> list[CapacityReservation]:
        """Return capacity that is paid for, with what is free of it now."""
        return list(self._reservations.values())

    def _refusal(self, choice: Choice) -> str | None:
        offering = choice.offering
        if offering.reservation_id:
            held = self._reservations.get(offering.reservation_id)
            return None if held is not None and held.available > 0 else RESERVATION_FULL
        in_stock = self.stock.has(
            choice.instance_type.name,
            offering.zone,
            offering.capacity_type,
            now=self._engine.now(),
        )
        return None if in_stock else NO_CAPACITY

    def _launch(self, request: FleetRequest, choice: Choice) -> Ec2Instance:
        now, offering, claim = self._engine.now(), choice.offering, request.claim
        capacity, allocatable = shape_of(choice, claim)
        made = f"i-0{digits(f'{self.region.name}/{next(self._numbers)}')}"
        purchase = Purchase(
            claim=claim.name,
            claim_uid=claim.uid,
            provider_id=f"aws:///{offering.zone}/{made}",
            instance_type=choice.instance_type.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            price=offering.price,
            launched=now,
        )
        instance = Ec2Instance(
            id=made,
            private_name=self._private_name(offering.zone),
            choice=choice,
            # What it asked for is settled, and can be long.
            claim=msgspec.structs.replace(claim, requirements=()),
            ami_family=request.ami_family,
            image_id=image_of(request.images, choice.instance_type)
            or image_for(request.ami_family, choice.instance_type),
            subnet=request.subnets.get(offering.zone, ""),
            security_groups=request.security_groups,
            labels=labels_of(choice, claim),
            capacity=capacity,
            allocatable=allocatable,
            tags=request.tags,
            launched=now,
            purchase=purchase,
        )
        self.ledger.launched(purchase)
        self.stock.take(
            made, choice.instance_type.name, offering.zone, offering.capacity_type, now=now
        )
        self._use_reservation(offering.reservation_id, by=1)
        self._instances[made] = self._bought[request.token] = instance
        trouble = self._troubles.pop(0) if self._troubles else None
        instance.joins = trouble is None
        if trouble is not Trouble.NEVER_RUNS:
            instance.next = self._engine.after(self.latencies.start, lambda: self._run(instance))
        return instance

    def _run(self, instance: Ec2Instance) -> None:
        instance.state = State.RUNNING
        instance.next = None
        self.ledger.runs(instance.purchase, now=self._engine.now())
        if instance.joins:
            jitter = self.latencies.boot_jitter * self._chance.fraction()
            instance.next = self._engine.after(
                self.latencies.boot + jitter, lambda: self.on_boot(machine_of(instance))
            )

    def _end(self, instance: Ec2Instance) -> None:
        now = self._engine.now()
        instance.state = State.TERMINATED
        instance.purchase.terminated = now
        del self._instances[instance.id]
        self.stock.give_back(instance.id)
        self._use_reservation(instance.choice.offering.reservation_id, by=-1)
        self.on_halt(instance.provider_id)
        self.queue.send(Interruption.TERMINATING, [instance.id], now=now)

    def _use_reservation(self, reservation_id: str, *, by: int) -> None:
        held = self._reservations.get(reservation_id)
        if held is not None:
            self._reservations[reservation_id] = msgspec.structs.replace(
                held, available=held.available - by
            )

    def _warn(self, instance_id: str) -> None:
        self._send(Interruption.SPOT, instance_id)
        self._engine.after(WARNING, lambda: self._reclaim(instance_id))

    def _reclaim(self, instance_id: str) -> None:
        instance = self._instances.get(instance_id)
        if instance is not None and not instance.is_ending:
            self.reclaimed.add(instance.provider_id)
            self.terminate(instance_id)

    def _send(self, kind: Interruption, instance_id: str) -> None:
        instance = self._instances.get(instance_id)
        if instance is not None and not instance.is_ending:
            self.queue.send(kind, [instance.id], now=self._engine.now())

    def _private_name(self, zone: str) -> str:
        """Return a name by address; every zone has a sixteenth of the network."""
        number = next(self._addresses[zone])
        second = 16 * list(self._addresses).index(zone) % 256 + (number >> 16)
        address = f"ip-10-{second}-{number >> 8 & 255}-{number & 255}"
        region = self.region.name
        domain = "ec2" if region == "us-east-1" else f"{region}.compute"
        return f"{address}.{domain}.internal"


def _nobody_cares(_: object) -> None:
    """Stand in until a kubelet is wired up."""


def tags_of(claim: NodeClaim, cluster: str) -> FrozenDict[str, str]:
    """Return the tags by which a cluster knows its instances again."""
    return FrozenDict(
        {
            f"kubernetes.io/cluster/{cluster}": "owned",
            "eks:eks-cluster-name": cluster,
            label_keys.NODEPOOL: claim.labels.get(label_keys.NODEPOOL, ""),
            label_keys.EC2_NODE_CLASS: claim.node_class.name,
            "karpenter.sh/nodeclaim": claim.name,
        }
    )
