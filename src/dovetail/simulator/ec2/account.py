"""Simulated EC2 account: launches, terminates and interrupts instances."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from itertools import count
from typing import Final

import msgspec

from dovetail.core.instancetypes.launch_choices import LaunchChoice, launch_labels, launch_resources
from dovetail.core.nodeclass.drift import select_image
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.karpenter.ec2nodeclass_launch import Ami
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import InterruptionKind
from dovetail.ports.randomness import RandomSource
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.ec2.amis import ami_for_instance_type, hash_digits
from dovetail.simulator.ec2.billing import Billing, LaunchRecord
from dovetail.simulator.ec2.capacity import CapacityPools
from dovetail.simulator.ec2.errors import NO_CAPACITY, NO_SUCH_INSTANCE, RESERVATION_FULL, Ec2Error
from dovetail.simulator.ec2.instances import Ec2Instance, InstanceState, booted_instance
from dovetail.simulator.ec2.interruption_queue import MessageQueue
from dovetail.simulator.ec2.nodeclass_resolver import RecordedNodeClass
from dovetail.simulator.ec2.throttling import RATES, ErrorInjector, Operation, Rate, Throttle
from dovetail.simulator.instance import BootedInstance
from dovetail.simulator.latencies import DEFAULT_CLOUD_LATENCIES, CloudLatencies

_ADDRESSES: Final = 900_000
"""Number of addresses of a zone, over which ``first_number`` wraps around."""
TOKEN_LIFETIME: Final = timedelta(hours=24)
"""From the termination of an instance until its client token is dropped."""
_MIN_TOKENS: Final = 200
"""Below this number of client tokens, old ones are not looked for."""
INTERRUPTION_NOTICE: Final = timedelta(minutes=2)
"""Time from the spot interruption notice to the interruption."""


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """CreateFleet request: one instance, from one of several launch choices."""

    token: str
    """Client token: a repeated request with it launches no second instance."""
    choices: tuple[LaunchChoice, ...]
    claim: NodeClaim
    ami_family: AmiFamily
    tags: FrozenDict[str, str]
    images: tuple[Ami, ...] = ()
    """AMIs of the node class; each instance type boots the first that matches it."""
    subnets: FrozenDict[str, str] = EMPTY
    """Zone → subnet."""
    security_groups: tuple[str, ...] = ()
    lists_interfaces: bool = False
    """True if the node class lists its network interfaces."""


class FleetError(msgspec.Struct, frozen=True, kw_only=True):
    """Error code of one launch choice."""

    code: str
    choice: LaunchChoice


class FleetResponse(msgspec.Struct, frozen=True, kw_only=True):
    """CreateFleet response: the instance, if any, and the errors of other choices."""

    instance: Ec2Instance | None
    errors: tuple[FleetError, ...] = ()


class LaunchFailure(StrEnum):
    """Failure of an instance after its launch has succeeded."""

    NEVER_RUNS = "never runs"
    """Stays pending."""
    NEVER_REGISTERS = "never registers"
    """Runs and is billed, but no kubelet ever registers."""


class Ec2Account:
    """Instances of an account, with everything around them; survives the operator.

    Methods take effect at once. Latency, throttling and injected errors are added by
    ``Ec2Client``, through which adapters call.
    """

    def __init__(
        self,
        clock: VirtualClock,
        *,
        region: Region,
        random: RandomSource,
        latencies: CloudLatencies = DEFAULT_CLOUD_LATENCIES,
        rates: Mapping[Operation, Rate] = RATES,
        reservations: Iterable[CapacityReservation] = (),
        first_number: int = 1,
    ) -> None:
        """``first_number`` is where instance IDs and addresses are counted from."""
        self._clock = clock
        self._random = random
        self.region = region
        self.latencies = latencies
        self.throttle = Throttle(rates)
        self.error_injector = ErrorInjector()
        self.capacity = CapacityPools()
        self.billing = Billing()
        self.queue = MessageQueue()
        self.on_booted: Callable[[BootedInstance], None] = _ignore
        """Called when an instance has booted; starts its kubelet."""
        self.on_terminated: Callable[[str], None] = _ignore
        """Called with the provider ID when an instance has terminated."""
        self.reclaimed: set[str] = set()
        """Provider IDs of instances that a spot interruption has reclaimed."""
        self._numbers = count(first_number)
        self._addresses = {zone: count(9 + first_number % _ADDRESSES) for zone in region.zones}
        self._instances: dict[str, Ec2Instance] = {}
        self._by_token: dict[str, Ec2Instance] = {}
        self._launch_failures: list[LaunchFailure] = []
        self._reservations = {reservation.id: reservation for reservation in reservations}
        self.latest_image_versions: dict[str, str] = {}
        """AMI family → latest version, for node classes that select ``@latest``."""
        self.recorded_nodeclasses: dict[str, RecordedNodeClass] = {}
        """Node classes of a live cluster by name, if the account is a copy of its account."""
        self._taken_names: set[str] = set()

    def instances(self) -> Iterable[Ec2Instance]:
        """Return all instances that have not terminated, oldest first."""
        return self._instances.values()

    def find(self, instance_id: str) -> Ec2Instance | None:
        """Return an instance that has not terminated."""
        return self._instances.get(instance_id)

    def find_by_token(self, token: str) -> Ec2Instance | None:
        """Return the instance launched with a client token, even if it has terminated."""
        return self._by_token.get(token)

    def restore(self, instances: Iterable[Ec2Instance], *, taken: Iterable[str] = ()) -> None:
        """Add instances that run already; new ones get none of their IDs, nor any ID or name in ``taken``."""
        added = list(instances)
        for instance in added:
            self._instances[instance.id] = self._by_token[instance.claim.uid] = instance
        self._taken_names.update(taken, (instance.id for instance in added))
        self.billing.record_existing([instance.launch for instance in added], now=self._clock.now())

    def boot(self, instance: Ec2Instance, *, after: timedelta) -> None:
        """Start the kubelet of a restored instance that has not registered yet."""
        instance.next_transition = self._clock.call_later(
            after, lambda: self.on_booted(booted_instance(instance))
        )

    def create_fleet(self, request: FleetRequest) -> FleetResponse:
        """Launch the cheapest choice that has capacity."""
        launched = self._by_token.get(request.token)
        if launched is not None:
            return FleetResponse(instance=launched)
        errors: list[FleetError] = []
        for choice in sorted(request.choices, key=lambda choice: choice.offering.price):
            code = self._capacity_error(choice)
            if code is None:
                return FleetResponse(instance=self._launch(request, choice), errors=tuple(errors))
            errors.append(FleetError(code=code, choice=choice))
        return FleetResponse(instance=None, errors=tuple(errors))

    def terminate(self, instance_id: str) -> None:
        """Terminate an instance; does nothing if it is shutting down already."""
        instance = self._instances.get(instance_id)
        if instance is None:
            raise Ec2Error(NO_SUCH_INSTANCE, f"the instance ID {instance_id!r} does not exist")
        if instance.is_terminating:
            return
        now = self._clock.now()
        if instance.next_transition is not None:
            instance.next_transition.cancel()
        instance.state = InstanceState.SHUTTING_DOWN
        self.billing.record_shutdown(instance.launch, now=now)
        self.queue.send(InterruptionKind.INSTANCE_TERMINATED, [instance.id], now=now)
        instance.next_transition = self._clock.call_later(
            self.latencies.shutdown, lambda: self._terminated(instance)
        )

    def fail(self, instance_id: str) -> None:
        """Lose an instance at once, with its host."""
        instance = self._instances[instance_id]
        if instance.next_transition is not None:
            instance.next_transition.cancel()
        if not instance.is_terminating:
            self.billing.record_shutdown(instance.launch, now=self._clock.now())
        self.reclaimed.add(instance.provider_id)
        self._terminated(instance)

    def interrupt(self, instance_id: str, *, recommended: timedelta = timedelta()) -> None:
        """Interrupt a spot instance: a notice, and the termination two minutes later.

        With ``recommended``, a rebalance recommendation precedes the notice by that time.
        """
        if recommended:
            self.recommend_rebalance(instance_id)
        self._clock.call_later(recommended, lambda: self._send_notice(instance_id))

    def recommend_rebalance(self, instance_id: str) -> None:
        """Send a rebalance recommendation for a spot instance."""
        self._send(InterruptionKind.REBALANCE_RECOMMENDATION, instance_id)

    def fail_next_launches(self, failure: LaunchFailure, *, times: int = 1) -> None:
        """Make the next launches fail."""
        self._launch_failures += [failure] * times

    def reservations(self) -> list[CapacityReservation]:
        """Return the capacity reservations with their available count."""
        return list(self._reservations.values())

    def _capacity_error(self, choice: LaunchChoice) -> str | None:
        offering = choice.offering
        if offering.reservation_id:
            reservation = self._reservations.get(offering.reservation_id)
            return None if reservation is not None and reservation.available_count > 0 else RESERVATION_FULL
        available = self.capacity.has_capacity(
            choice.instance_type.name, offering.zone, offering.capacity_type, now=self._clock.now()
        )
        return None if available else NO_CAPACITY

    def _launch(self, request: FleetRequest, choice: LaunchChoice) -> Ec2Instance:
        now, offering, claim = self._clock.now(), choice.offering, request.claim
        capacity, allocatable = launch_resources(choice, claim, lists_interfaces=request.lists_interfaces)
        instance_id = self._next_id()
        launch = LaunchRecord(
            claim=claim.name,
            claim_uid=claim.uid,
            provider_id=f"aws:///{offering.zone}/{instance_id}",
            instance_type=choice.instance_type.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            price=offering.price,
            launched=now,
        )
        instance = Ec2Instance(
            id=instance_id,
            private_dns_name=self.next_name(offering.zone),
            choice=choice,
            # The requirements have been used, and can be long.
            claim=msgspec.structs.replace(claim, requirements=()),
            ami_family=request.ami_family,
            image_id=select_image(request.images, choice.instance_type)
            or ami_for_instance_type(request.ami_family, choice.instance_type),
            subnet=request.subnets.get(offering.zone, ""),
            security_groups=request.security_groups,
            labels=launch_labels(choice, claim),
            capacity=capacity,
            allocatable=allocatable,
            tags=request.tags,
            launched=now,
            launch=launch,
        )
        self.billing.record_launch(launch)
        self.capacity.allocate(
            instance_id, choice.instance_type.name, offering.zone, offering.capacity_type, now=now
        )
        self._use_reservation(offering.reservation_id, by=1)
        self._forget_tokens()
        self._instances[instance_id] = self._by_token[request.token] = instance
        failure = self._launch_failures.pop(0) if self._launch_failures else None
        instance.registers = failure is None
        if failure is not LaunchFailure.NEVER_RUNS:
            instance.next_transition = self._clock.call_later(
                self.latencies.start, lambda: self._start_running(instance)
            )
        return instance

    def _next_id(self) -> str:
        for number in self._numbers:
            instance_id = f"i-0{hash_digits(f'{self.region.name}/{number}')}"
            if instance_id not in self._taken_names:
                return instance_id
        raise AssertionError("counting does not end")

    def _forget_tokens(self) -> None:
        """Drop old client tokens, so that memory does not grow with the time simulated."""
        if len(self._by_token) < _MIN_TOKENS + 2 * len(self._instances):
            return
        oldest = self._clock.now() - TOKEN_LIFETIME
        self._by_token = {
            token: instance
            for token, instance in self._by_token.items()
            if instance.launch.terminated is None or instance.launch.terminated > oldest
        }

    def _start_running(self, instance: Ec2Instance) -> None:
        instance.state = InstanceState.RUNNING
        instance.next_transition = None
        self.billing.record_running(instance.launch, now=self._clock.now())
        if instance.registers:
            jitter = self.latencies.boot_jitter * self._random.random()
            instance.next_transition = self._clock.call_later(
                self.latencies.boot + jitter, lambda: self.on_booted(booted_instance(instance))
            )

    def _terminated(self, instance: Ec2Instance) -> None:
        now = self._clock.now()
        instance.state = InstanceState.TERMINATED
        instance.launch.terminated = now
        del self._instances[instance.id]
        self.capacity.release(instance.id)
        self._use_reservation(instance.choice.offering.reservation_id, by=-1)
        self.on_terminated(instance.provider_id)
        self.queue.send(InterruptionKind.INSTANCE_TERMINATED, [instance.id], now=now)

    def _use_reservation(self, reservation_id: str, *, by: int) -> None:
        reservation = self._reservations.get(reservation_id)
        if reservation is not None:
            self._reservations[reservation_id] = msgspec.structs.replace(
                reservation, available_count=reservation.available_count - by
            )

    def _send_notice(self, instance_id: str) -> None:
        self._send(InterruptionKind.SPOT_INTERRUPTED, instance_id)
        self._clock.call_later(INTERRUPTION_NOTICE, lambda: self._reclaim(instance_id))

    def _reclaim(self, instance_id: str) -> None:
        instance = self._instances.get(instance_id)
        if instance is not None and not instance.is_terminating:
            self.reclaimed.add(instance.provider_id)
            self.terminate(instance_id)

    def _send(self, kind: InterruptionKind, instance_id: str) -> None:
        instance = self._instances.get(instance_id)
        if instance is not None and not instance.is_terminating:
            self.queue.send(kind, [instance.id], now=self._clock.now())

    def next_name(self, zone: str) -> str:
        """Return a DNS name by address; every zone has a sixteenth of the network."""
        region = self.region.name
        domain = "ec2" if region == "us-east-1" else f"{region}.compute"
        for number in self._addresses[zone]:
            second = 16 * list(self._addresses).index(zone) % 256 + (number >> 16)
            name = f"ip-10-{second}-{number >> 8 & 255}-{number & 255}.{domain}.internal"
            if name not in self._taken_names:
                return name
        raise AssertionError("counting does not end")


def _ignore(_: object) -> None:
    """Stand in until the kubelets are connected."""


def instance_tags(claim: NodeClaim, cluster: str) -> FrozenDict[str, str]:
    """Return the tags that mark an instance as the cluster's."""
    return FrozenDict(
        {
            f"kubernetes.io/cluster/{cluster}": "owned",
            "eks:eks-cluster-name": cluster,
            label_keys.NODEPOOL: claim.labels.get(label_keys.NODEPOOL, ""),
            label_keys.EC2_NODE_CLASS: claim.node_class.name,
            "karpenter.sh/nodeclaim": claim.name,
        }
    )
