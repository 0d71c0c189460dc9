"""Machines that are there: looked at, listed, tagged and given back, many in one call."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.aws.batcher import ENDINGS, LOOKS, Batcher
from dovetail.aws.claim_tags import CLAIM, CLUSTER, FIRST_OF_LIST, deal, keys_in, nobody_has_one
from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.launchtemplate.template_data import as_list
from dovetail.aws.session import Aws
from dovetail.model import labels as label_keys
from dovetail.ports.cloudprovider import Instance, InstanceNotFound
from dovetail.ports.event_loop import Loop

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_THERE: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
_ENDING: Final = ("shutting-down", "terminated")
_AT_ONCE: Final = 200
"""Values that EC2 takes in one filter."""
_PAGE: Final = 1000
_REMEMBERED: Final = 20_000
_SHOWN_BY_THEN: Final = timedelta(seconds=30)
"""So long after a purchase EC2 lists all of it."""


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """An instance as EC2 describes it."""

    instance: Instance
    id: str
    tags: Mapping[str, str]

    @property
    def ending(self) -> bool:
        return self.instance.terminating


class Deal(msgspec.Struct, frozen=True):
    """Which machine is for which claim, by the claims' keys."""

    machines: Mapping[str, Described]
    in_doubt: frozenset[str]
    """Bought for together with others a moment ago, and no machine shows for these yet."""


class Machines:
    """What EC2 has of this cluster."""

    def __init__(
        self,
        *,
        aws: Aws,
        ec2: "EC2Client",
        loop: Loop,
        cluster: str,
        machine_of: Callable[[str], str | None] = nobody_has_one,
    ) -> None:
        """Speak for one cluster; ``machine_of`` is what its claims say (see ``deal``)."""
        self._aws = aws
        self._ec2 = ec2
        self._clock = loop
        self._cluster = cluster
        self._machine_of = machine_of
        self._given: dict[str, str] = {}
        """Claim → machine, for those whose claim may not say so yet; the oldest are forgotten."""
        self._deals: Batcher[str, Sequence[str], Deal] = Batcher(
            self._deal, window=LOOKS, loop=loop
        )
        self._looks: Batcher[str, str, Described] = Batcher(
            self._look, window=LOOKS, loop=loop, name="describe_instances", metrics=aws.metrics
        )
        self._endings: Batcher[str, str, None] = Batcher(
            self._end, window=ENDINGS, loop=loop, name="terminate_instances", metrics=aws.metrics
        )

    async def find(self, instance_id: str) -> Described:
        """Look at one; raises InstanceNotFound when it is not there or has terminated."""
        return await self._looks.ask("", instance_id)

    async def terminate(self, instance_id: str) -> None:
        """Have one terminate; raises InstanceNotFound when it is not there."""
        await self._endings.ask("", instance_id)

    async def all(self) -> list[Instance]:
        """Return all that have not terminated, each with the claim it was bought for."""
        found = await self._described(
            {
                "tag-key": [label_keys.NODEPOOL],
                f"tag:{CLUSTER}": [self._cluster],
                "instance-state-name": _THERE,
            }
        )
        ours = [one for one in found if label_keys.EC2_NODE_CLASS in one.tags]
        owners = {one.id: name for name, one in deal(ours, self._held_by).values()}
        return [
            one.instance
            if one.instance.claim
            else msgspec.structs.replace(one.instance, claim=owners.get(one.id, ""))
            for one in ours
        ]

    async def dealt(self, keys: Sequence[str]) -> "Deal":
        """Tell what was bought for claims (see ``claimtags``), what has terminated included.

        All who ask at about the same time share one listing.
        """
        return await self._deals.ask("", keys)

    def gave(self, claim: str, instance_id: str) -> None:
        """Take note that a claim has got a machine, which its status will say soon."""
        self._given[claim] = instance_id
        if len(self._given) > _REMEMBERED:
            del self._given[next(iter(self._given))]

    async def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Add tags and the cluster's name, but none whose key is there already."""
        known = (await self.find(instance_id)).tags
        wanted = {**tags, CLUSTER: self._cluster}
        missing: Any = as_list({key: text for key, text in wanted.items() if key not in known})
        if missing:
            await self._aws.call(
                "CreateTags",
                lambda: self._ec2.create_tags(Resources=[instance_id], Tags=missing),
            )

    def _held_by(self, claim: str) -> str | None:
        known = self._machine_of(claim)
        return self._given.get(claim, "") if known == "" else known

    async def _deal(self, _: str, askers: Sequence[Sequence[str]]) -> Sequence["Deal"]:
        found = await self._described(
            {"tag-key": [FIRST_OF_LIST], f"tag:{CLUSTER}": [self._cluster]}
        )
        dealt = deal(found, self._held_by)
        for key in {key for keys in askers for key in keys if key in dealt}:
            name, one = dealt[key]
            self.gave(name, one.id)
        recently = self._clock.now() - _SHOWN_BY_THEN
        young = [one for one in found if (one.instance.launched or recently) > recently]
        listed = keys_in(one.tags for one in young)
        made = Deal(
            machines={key: one for key, (_, one) in dealt.items()},
            in_doubt=frozenset(listed - dealt.keys()),
        )
        return [made] * len(askers)

    async def _look(self, _: str, ids: Sequence[str]) -> Sequence[Described | Exception]:
        wanted = list(dict.fromkeys(ids))
        parts = [wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)]
        # By filter, not by id: one that is gone would fail the call for all.
        answers = await asyncio.gather(
            *(
                self._described({"instance-id": part, "instance-state-name": _THERE})
                for part in parts
            )
        )
        found = {one.id: one for answer in answers for one in answer}
        return [found.get(one) or _not_there(one) for one in ids]

    async def _end(self, _: str, ids: Sequence[str]) -> Sequence[Exception | None]:
        wanted = list(dict.fromkeys(ids))
        try:
            await self._aws.call("TerminateInstances", self._termination_of(wanted))
        except AwsError as error:
            if error.kind is not Kind.GONE:
                self._aws.metrics.count(
                    "karpenter_cloudprovider_instance_termination_failures_total", len(wanted)
                )
            if error.kind is not Kind.GONE or len(wanted) == 1:
                raise _as_not_found(error) from error
            # One that is gone fails the call for all: each by itself then.
            alone = await asyncio.gather(
                *(self._end("", [one]) for one in wanted), return_exceptions=True
            )
            outcomes = dict(zip(wanted, alone, strict=True))
            return [
                outcome if isinstance(outcome := outcomes[one], Exception) else None for one in ids
            ]
        return [None] * len(ids)

    def _termination_of(self, ids: Sequence[str]) -> Callable[[], Any]:
        return lambda: self._ec2.terminate_instances(InstanceIds=ids)

    async def _described(self, wanted: Mapping[str, Sequence[str]]) -> list[Described]:
        filters: Any = [{"Name": name, "Values": list(some)} for name, some in wanted.items()]

        def read() -> list[Described]:
            pages = self._ec2.get_paginator("describe_instances").paginate(
                Filters=filters, PaginationConfig={"PageSize": _PAGE}
            )
            return [
                described(one)
                for page in pages
                for reservation in page["Reservations"]
                for one in reservation["Instances"]
            ]

        return await self._aws.call("DescribeInstances", read)


def described(one: Mapping[str, Any]) -> Described:
    """Read one instance of DescribeInstances."""
    tags = tags_of(one.get("Tags", ()))
    zone = one.get("Placement", {}).get("AvailabilityZone", "")
    reservation = _reservation(one)
    return Described(
        id=one["InstanceId"],
        tags=tags,
        instance=Instance(
            provider_id=f"aws:///{zone}/{one['InstanceId']}",
            instance_type=one.get("InstanceType", ""),
            zone=zone,
            capacity_type=_capacity_type(one, reservation),
            image_id=one.get("ImageId", ""),
            launched=one.get("LaunchTime"),
            terminating=one.get("State", {}).get("Name") in _ENDING,
            claim=tags.get(CLAIM, ""),
            nodepool=tags.get(label_keys.NODEPOOL, ""),
            subnet=one.get("SubnetId", ""),
            security_groups=tuple(group["GroupId"] for group in one.get("SecurityGroups", ())),
            reservation=reservation,
            partition=str(one.get("Placement", {}).get("PartitionNumber") or ""),
        ),
    )


def tags_of(many: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return tags as EC2 writes them by their keys."""
    return {one["Key"]: one.get("Value", "") for one in many}


def _reservation(one: Mapping[str, Any]) -> str:
    """Return the reservation that it was bought in; one that it merely fits does not count."""
    asked = one.get("CapacityReservationSpecification", {}).get("CapacityReservationPreference")
    held: str = one.get("CapacityReservationId", "")
    return held if asked == "capacity-reservations-only" else ""


def _capacity_type(one: Mapping[str, Any], reservation: str) -> str:
    if one.get("SpotInstanceRequestId") or one.get("InstanceLifecycle") == "spot":
        return label_keys.SPOT
    return label_keys.RESERVED if reservation else label_keys.ON_DEMAND


def _not_there(instance_id: str) -> InstanceNotFound:
    return InstanceNotFound(f"there is no instance {instance_id}, or it has terminated")


def _as_not_found(error: AwsError) -> Exception:
    return InstanceNotFound(str(error)) if error.kind is Kind.GONE else error
