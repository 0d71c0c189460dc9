"""``ports.cloudprovider.Cloud`` on AWS."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from dovetail.aws.batcher import FLEETS, Batcher
from dovetail.aws.claim_tags import CLAIM, key_of
from dovetail.aws.instance.create_fleet import Bought
from dovetail.aws.instance.fleet_request import Purchase, alike
from dovetail.aws.instance.instances import Described, Machines
from dovetail.aws.instance.launcher import Buyer, LostAnswer, for_claim
from dovetail.aws.launchtemplate.launch_config import Classes, Launchable
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.launchtemplate.template_data import placement_labels
from dovetail.aws.nodeclass.capacity_reservations import RoomLeft
from dovetail.core.instancetypes.launch_choices import Choice, labels_of, shape_of
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import UNKNOWN
from dovetail.ports.cloudprovider import (
    ClassStatus,
    CloudError,
    CreateFailed,
    Instance,
    InstanceNotFound,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.ports.event_loop import Loop
from dovetail.ports.telemetry import UNTOLD, Metrics
from dovetail.state.instancetypes.by_name import TypesByName
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.nodes.instances import Sightings, drift_of

PROFILE: Final = f"{label_keys.AWS_DOMAIN}/instance-profile-name"
"""Annotation of a claim: the instance profile that its machine was launched with."""
_HASHES: Final = (
    f"{label_keys.AWS_DOMAIN}/ec2nodeclass-hash",
    f"{label_keys.AWS_DOMAIN}/ec2nodeclass-hash-version",
)
_SKEW: Final = timedelta(minutes=1)
"""By which the API server's clock may differ from ours."""
_REMEMBERED: Final = 20_000


class Types(Protocol):
    """Works out what a node class could buy now."""

    def instance_types(
        self, node_class: NodeClass, *, now: datetime
    ) -> tuple[InstanceType, ...]: ...


class AwsCloud:
    """One process' view of the account.

    Nothing here needs to outlive the process: machines are tagged with the claims
    that they are for. Claims that an earlier process, or a call whose answer got
    lost, may have bought for are looked for among the machines before buying.
    """

    def __init__(
        self,
        *,
        loop: Loop,
        machines: Machines,
        buyer: Buyer,
        types: Types,
        templates: LaunchTemplates,
        classes: Classes,
        node_class: Callable[[str], NodeClass | None],
        room: RoomLeft | None = None,
        overlays: Overlays | None = None,
        metrics: Metrics = UNTOLD,
    ) -> None:
        self._loop = loop
        self._machines = machines
        self._buyer = buyer
        self._types = types
        self._templates = templates
        self._classes = classes
        self._node_class = node_class
        self._overlays = overlays or Overlays()
        self._room = room or RoomLeft()
        self._leaving: dict[str, str] = {}
        """Provider id → reservation, of machines that end."""
        self._by_name = TypesByName()
        self._sightings = Sightings()
        self._started = loop.now()
        self._served: dict[str, None] = {}
        """Keys of claims for which we have bought, or may have; the oldest are forgotten."""
        self._cleared: set[str] = set()
        """Keys of claims from before our time for which nothing had been bought."""
        self._launches: Batcher[Any, NodeClaim, Instance] = Batcher(
            self._launch, window=FLEETS, loop=loop, name="create_fleet", metrics=metrics
        )

    async def create(self, claim: NodeClaim) -> Instance:
        """Buy one machine for a claim, or return the one already bought for its uid."""
        return await self._launches.ask(alike(claim), claim)

    async def delete(self, provider_id: str) -> None:
        """Have a machine terminate; InstanceNotFound once it has."""
        try:
            found = await self._machines.find(_id_of(provider_id))
        except InstanceNotFound:
            self._room.give_back(self._leaving.pop(provider_id, ""))
            raise
        if found.instance.reservation:
            self._leaving[provider_id] = found.instance.reservation
        if not found.instance.terminating:
            await self._machines.terminate(found.id)

    async def get(self, provider_id: str) -> Instance:
        """Look at one machine; InstanceNotFound when it is gone."""
        found = (await self._machines.find(_id_of(provider_id))).instance
        self._sightings.saw(found, now=self._loop.now())
        return found

    async def list(self) -> Sequence[Instance]:
        """Return every machine of this cluster that has not terminated."""
        found = await self._machines.all()
        self._sightings.listed(found, now=self._loop.now())
        return found

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        """Say which node and claim a machine is; what is written on it already stays."""
        await self._machines.tag(_id_of(provider_id), {"Name": node, CLAIM: claim})

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Return what a pool could buy; the same tuple until something changes."""
        node_class = self._node_class(pool.template.node_class.name)
        if node_class is None or node_class.deleting or not node_class.ready:
            return ()
        types = self._types.instance_types(node_class, now=self._loop.now())
        return self._overlays.applied(pool, types)

    async def drift(self, claim: NodeClaim) -> str | None:
        """Return why a claim's class would not launch its machine as it is, or None."""
        node_class = self._node_class(claim.node_class.name)
        if node_class is None:
            return None
        seen = self._sightings.recent(claim.provider_id, now=self._loop.now())
        if seen is None or _is_in_doubt(claim, seen):
            seen = await self.get(claim.provider_id)
        types = self._types.instance_types(node_class, now=self._loop.now())
        return drift_of(seen, claim, node_class, self._by_name.of(node_class.name, types))

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        """Find what a node class (wire form) selects."""
        return await self._classes.resolve(node_class)

    async def forget(self, node_class: dict[str, Any]) -> None:
        """Take away what was made for a node class: profiles and launch templates."""
        await self._classes.forget(node_class)
        await self._templates.delete_of(node_class["metadata"]["name"])

    async def _launch(
        self, _: object, claims: Sequence[NodeClaim]
    ) -> Sequence[Instance | Exception]:
        """Find or buy a machine for each of claims that are alike.

        The order of the claims is that of their uids, so that a request which is
        made again by another process is the same request to EC2.
        """
        ordered = sorted({claim.uid: claim for claim in claims}.values(), key=lambda one: one.uid)
        outcomes = await self._bought_before(ordered)
        wanted = [claim for claim in ordered if claim.uid not in outcomes]
        if wanted:
            outcomes |= await self._buy(wanted)
        return [outcomes[claim.uid] for claim in claims]

    async def _bought_before(self, claims: Sequence[NodeClaim]) -> dict[str, Instance | Exception]:
        suspects = [claim for claim in claims if self._may_have_a_machine(claim)]
        if not suspects:
            return {}
        deal = await self._machines.dealt([key_of(claim) for claim in suspects])
        found: dict[str, Instance | Exception] = {}
        for claim in suspects:
            key = key_of(claim)
            if key in deal.machines:
                found[claim.uid] = self._adopted(claim, deal.machines[key])
            elif key in deal.in_doubt:
                found[claim.uid] = LostAnswer(
                    "InternalError",
                    f"nodeclaim {claim.name}: a fleet was launched for it and others a moment ago,"
                    " of which EC2 may not show all machines yet; it will be looked at again",
                )
            else:
                self._cleared.add(key)
        return found

    def _may_have_a_machine(self, claim: NodeClaim) -> bool:
        if self._buyer.may_have_bought(claim):
            return False  # The order itself is made again, which shows more.
        key = key_of(claim)
        is_old = claim.created is None or claim.created < self._started + _SKEW
        return key in self._served or (is_old and key not in self._cleared)

    def _adopted(self, claim: NodeClaim, machine: Described) -> Instance | Exception:
        seen = machine.instance
        if seen.terminating:
            return InsufficientCapacity(
                f"nodeclaim {claim.name}: its instance {machine.id} has ended already"
            )
        node_class = self._node_class(claim.node_class.name)
        if node_class is None:
            return msgspec.structs.replace(seen, claim=claim.name)
        choice = self._choice_of(machine, node_class)
        return seen if choice is None else _described(claim, seen, choice, node_class)

    def _choice_of(self, machine: Described, node_class: NodeClass) -> Choice | None:
        """Return the choice that a machine must have been bought as."""
        seen = machine.instance
        for one in self._types.instance_types(node_class, now=self._loop.now()):
            if one.name == seen.instance_type:
                for offering in one.offerings:
                    if (offering.zone, offering.capacity_type, offering.reservation_id) == (
                        seen.zone,
                        seen.capacity_type,
                        seen.reservation,
                    ):
                        return Choice(instance_type=one, offering=offering)
        return None

    async def _buy(self, claims: Sequence[NodeClaim]) -> dict[str, Instance | Exception]:
        try:
            node_class = self._class_of(claims[0])
            launchable = self._classes.launchable(node_class)
        except CloudError as error:
            return {claim.uid: for_claim(claim, error) for claim in claims}
        outcomes = await self._buyer.buy(
            claims,
            launchable,
            lambda: self._overlays.applied_to(
                claims[0], self._types.instance_types(node_class, now=self._loop.now())
            ),
        )
        return {
            claim.uid: self._settled(claim, one, launchable)
            for claim, one in zip(claims, outcomes, strict=True)
        }

    def _settled(
        self, claim: NodeClaim, outcome: Purchase | Exception, launchable: Launchable
    ) -> Instance | Exception:
        key = key_of(claim)
        if isinstance(outcome, Purchase | LostAnswer):
            self._served[key] = None
            if len(self._served) > _REMEMBERED:
                del self._served[next(iter(self._served))]
        else:
            self._served.pop(key, None)
        if isinstance(outcome, Exception):
            return outcome
        self._machines.gave(claim.name, outcome.bought.id)
        seen = _new(outcome.bought, outcome.choice, launchable, now=self._loop.now())
        self._sightings.saw(seen, now=self._loop.now())
        return _described(claim, seen, outcome.choice, launchable.node_class)

    def _class_of(self, claim: NodeClaim) -> NodeClass:
        name = claim.node_class.name
        known = self._node_class(name)
        if known is None or known.deleting:
            what = "does not exist" if known is None else "is being deleted"
            raise InsufficientCapacity(f"EC2NodeClass {name} {what}")
        ready = known.conditions.get("Ready")
        if ready is not None and ready.status == UNKNOWN:
            raise CreateFailed(
                "NodeClassReadinessUnknown",
                f"whether EC2NodeClass {name} is ready is not known yet",
            )
        is_stale = ready is not None and ready.generation not in (0, known.generation)
        if is_stale or not known.ready:
            what = "has changed and was not looked at since" if is_stale else "is not ready"
            raise NodeClassNotReady(f"EC2NodeClass {name} {what}")
        return known


def _id_of(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _is_in_doubt(claim: NodeClaim, seen: Instance) -> bool:
    """Tell whether a machine may have left its reservation since it was seen."""
    reserved = label_keys.RESERVED
    return claim.labels.get(label_keys.CAPACITY_TYPE) == reserved == seen.capacity_type


def _new(bought: Bought, choice: Choice, launchable: Launchable, *, now: datetime) -> Instance:
    zone = choice.offering.zone
    return Instance(
        provider_id=f"aws:///{zone}/{bought.id}",
        instance_type=bought.instance_type,
        zone=zone,
        capacity_type=choice.offering.capacity_type,
        image_id=bought.image,
        launched=now,
        subnet=bought.subnet,
        security_groups=launchable.security_groups,
        reservation=choice.offering.reservation_id,
    )


def _described(claim: NodeClaim, seen: Instance, choice: Choice, node_class: NodeClass) -> Instance:
    """Add to what EC2 says what is known of the type, the claim and the class."""
    labels = labels_of(choice, claim)
    if claim.pool:
        labels = labels.with_items({label_keys.NODEPOOL: claim.pool})
    labels = labels.with_items(placement_labels(claim, node_class))
    annotations = {
        key: node_class.annotations[key] for key in _HASHES if key in node_class.annotations
    }
    if node_class.found.instance_profile:
        annotations[PROFILE] = node_class.found.instance_profile
    capacity, allocatable = shape_of(choice, claim)
    return msgspec.structs.replace(
        seen,
        claim=claim.name,
        nodepool=claim.pool,
        labels=labels,
        annotations=FrozenDict(annotations),
        capacity=capacity,
        allocatable=allocatable,
    )
