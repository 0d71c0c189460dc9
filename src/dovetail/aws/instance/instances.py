"""Instances of the cluster: get, list, tag and terminate, batched.

DescribeInstances is eventually consistent: it may omit an instance for some
seconds after its launch.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.aws.batcher import DESCRIBE_INSTANCES_WINDOW, TERMINATE_INSTANCES_WINDOW, Batcher
from dovetail.aws.claim_tags import (
    CLAIM_LIST_TAG,
    CLUSTER_TAG,
    NODECLAIM_TAG,
    assign_instances,
    listed_claim_keys,
    no_known_instance,
)
from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.launchtemplate.template_data import encode_tags
from dovetail.aws.session import AwsSession
from dovetail.model import labels as label_keys
from dovetail.ports.cloudprovider import Instance, InstanceNotFoundError
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.metrics import CLOUDPROVIDER_TERMINATION_FAILURES, NoLabels

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_NOT_TERMINATED: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
_TERMINATING: Final = ("shutting-down", "terminated")
_MAX_FILTER_VALUES: Final = 200
"""Limit of EC2."""
_PAGE_SIZE: Final = 1000
_MAX_ASSIGNMENTS: Final = 20_000
CONSISTENT_AFTER: Final = timedelta(seconds=30)
"""After this time since a launch, DescribeInstances returns all of its instances."""


class DescribedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance as EC2 describes it."""

    instance: Instance
    id: str
    tags: Mapping[str, str]

    @property
    def is_terminating(self) -> bool:
        """Return True if the instance is terminating or has terminated."""
        return self.instance.terminating


class InstanceAssignment(msgspec.Struct, frozen=True):
    """Instances of claims, by claim key."""

    by_claim: Mapping[str, DescribedInstance]
    unknown: frozenset[str]
    """Claims of a launch so recent that EC2 may not show their instances yet."""


class Ec2Instances:
    """Instances of one cluster in EC2."""

    def __init__(
        self,
        *,
        aws: AwsSession,
        ec2: "EC2Client",
        loop: EventLoop,
        cluster: str,
        known_instance: Callable[[str], str | None] = no_known_instance,
    ) -> None:
        """``known_instance``: claim name → instance id, see ``assign_instances``."""
        self._aws = aws
        self._ec2 = ec2
        self._clock = loop
        self._cluster = cluster
        self._known_instance = known_instance
        self._assignments: dict[str, str] = {}
        """Claim name → instance id, until the claim's status names it; oldest first."""
        self._claim_searches: Batcher[str, Sequence[str], InstanceAssignment] = Batcher(
            self._find_for_claims, window=DESCRIBE_INSTANCES_WINDOW, loop=loop
        )
        self._gets: Batcher[str, str, DescribedInstance] = Batcher(
            self._get_many,
            window=DESCRIBE_INSTANCES_WINDOW,
            loop=loop,
            name="describe_instances",
            metrics=aws.metrics,
        )
        self._terminations: Batcher[str, str, None] = Batcher(
            self._terminate_many,
            window=TERMINATE_INSTANCES_WINDOW,
            loop=loop,
            name="terminate_instances",
            metrics=aws.metrics,
        )

    async def get(self, instance_id: str) -> DescribedInstance:
        """Return an instance; InstanceNotFoundError if it has terminated."""
        return await self._gets.submit("", instance_id)

    async def terminate(self, instance_id: str) -> None:
        """Terminate an instance; InstanceNotFoundError if it does not exist."""
        await self._terminations.submit("", instance_id)

    async def list_all(self) -> list[Instance]:
        """Return all instances that have not terminated, with their claims."""
        described = await self._describe(
            {
                "tag-key": [label_keys.NODEPOOL],
                f"tag:{CLUSTER_TAG}": [self._cluster],
                "instance-state-name": _NOT_TERMINATED,
            }
        )
        owned = [entry for entry in described if label_keys.EC2_NODE_CLASS in entry.tags]
        claims = {
            instance.id: name for name, instance in assign_instances(owned, self._assigned_instance).values()
        }
        return [
            entry.instance
            if entry.instance.nodeclaim
            else msgspec.structs.replace(entry.instance, nodeclaim=claims.get(entry.id, ""))
            for entry in owned
        ]

    async def find_for_claims(self, keys: Sequence[str]) -> InstanceAssignment:
        """Find the instances of claims by tag, including terminated ones.

        Concurrent calls share one DescribeInstances.
        """
        return await self._claim_searches.submit("", keys)

    def record_assignment(self, claim: str, instance_id: str) -> None:
        """Record the instance of a claim until its status names it."""
        self._assignments[claim] = instance_id
        if len(self._assignments) > _MAX_ASSIGNMENTS:
            del self._assignments[next(iter(self._assignments))]

    async def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Add tags and the cluster's tag; existing keys keep their value."""
        existing = (await self.get(instance_id)).tags
        desired = {**tags, CLUSTER_TAG: self._cluster}
        missing: Any = encode_tags({key: value for key, value in desired.items() if key not in existing})
        if missing:
            await self._aws.call(
                "CreateTags", lambda: self._ec2.create_tags(Resources=[instance_id], Tags=missing)
            )

    def _assigned_instance(self, claim: str) -> str | None:
        known = self._known_instance(claim)
        return self._assignments.get(claim, "") if known == "" else known

    async def _find_for_claims(
        self, _: str, searches: Sequence[Sequence[str]]
    ) -> Sequence[InstanceAssignment]:
        described = await self._describe({"tag-key": [CLAIM_LIST_TAG], f"tag:{CLUSTER_TAG}": [self._cluster]})
        assigned = assign_instances(described, self._assigned_instance)
        for key in {key for keys in searches for key in keys if key in assigned}:
            name, instance = assigned[key]
            self.record_assignment(name, instance.id)
        since = self._clock.now() - CONSISTENT_AFTER
        recent = [entry for entry in described if (entry.instance.launch_time or since) > since]
        recent_keys = listed_claim_keys(entry.tags for entry in recent)
        assignment = InstanceAssignment(
            by_claim={key: instance for key, (_, instance) in assigned.items()},
            unknown=frozenset(recent_keys - assigned.keys()),
        )
        return [assignment] * len(searches)

    async def _get_many(self, _: str, ids: Sequence[str]) -> Sequence[DescribedInstance | Exception]:
        distinct = list(dict.fromkeys(ids))
        chunks = [
            distinct[start : start + _MAX_FILTER_VALUES]
            for start in range(0, len(distinct), _MAX_FILTER_VALUES)
        ]
        # By filter: with InstanceIds, one id that does not exist fails the whole call.
        responses = await asyncio.gather(
            *(
                self._describe({"instance-id": chunk, "instance-state-name": _NOT_TERMINATED})
                for chunk in chunks
            )
        )
        by_id = {entry.id: entry for response in responses for entry in response}
        return [
            by_id.get(instance_id)
            or InstanceNotFoundError(f"there is no instance {instance_id}, or it has terminated")
            for instance_id in ids
        ]

    async def _terminate_many(self, _: str, ids: Sequence[str]) -> Sequence[Exception | None]:
        distinct = list(dict.fromkeys(ids))
        try:
            await self._aws.call(
                "TerminateInstances", lambda: self._ec2.terminate_instances(InstanceIds=distinct)
            )
        except AwsError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                self._aws.metrics.inc(CLOUDPROVIDER_TERMINATION_FAILURES, NoLabels(), by=len(distinct))
                raise
            if len(distinct) == 1:
                raise InstanceNotFoundError(str(error)) from error
            # One id that does not exist fails the whole call: terminate one by one.
            results = await asyncio.gather(
                *(self._terminate_many("", [instance_id]) for instance_id in distinct), return_exceptions=True
            )
            by_id = dict(zip(distinct, results, strict=True))
            return [
                result if isinstance(result := by_id[instance_id], Exception) else None for instance_id in ids
            ]
        return [None] * len(ids)

    async def _describe(self, query: Mapping[str, Sequence[str]]) -> list[DescribedInstance]:
        filters = [{"Name": name, "Values": list(values)} for name, values in query.items()]
        reservations = await self._aws.list_pages(
            "DescribeInstances", self._ec2, "Reservations", page_size=_PAGE_SIZE, Filters=filters
        )
        return [
            decode_instance(instance) for reservation in reservations for instance in reservation["Instances"]
        ]


def decode_instance(described: Mapping[str, Any]) -> DescribedInstance:
    """Decode an instance of DescribeInstances."""
    tags = decode_tags(described.get("Tags", ()))
    zone = described.get("Placement", {}).get("AvailabilityZone", "")
    reservation = _reservation(described)
    return DescribedInstance(
        id=described["InstanceId"],
        tags=tags,
        instance=Instance(
            provider_id=f"aws:///{zone}/{described['InstanceId']}",
            instance_type=described.get("InstanceType", ""),
            zone=zone,
            capacity_type=_capacity_type(described, reservation),
            image_id=described.get("ImageId", ""),
            launch_time=described.get("LaunchTime"),
            terminating=described.get("State", {}).get("Name") in _TERMINATING,
            nodeclaim=tags.get(NODECLAIM_TAG, ""),
            nodepool=tags.get(label_keys.NODEPOOL, ""),
            subnet_id=described.get("SubnetId", ""),
            security_group_ids=tuple(group["GroupId"] for group in described.get("SecurityGroups", ())),
            capacity_reservation_id=reservation,
            placement_group_partition=str(described.get("Placement", {}).get("PartitionNumber") or ""),
        ),
    )


def decode_tags(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return EC2's list of tags as key → value."""
    return {tag["Key"]: tag.get("Value", "") for tag in tags}


def _reservation(described: Mapping[str, Any]) -> str:
    """Return the reservation that the launch targeted; an open match does not count."""
    specification = described.get("CapacityReservationSpecification", {})
    reservation_id: str = described.get("CapacityReservationId", "")
    preference = specification.get("CapacityReservationPreference")
    return reservation_id if preference == "capacity-reservations-only" else ""


def _capacity_type(described: Mapping[str, Any], reservation: str) -> str:
    if described.get("SpotInstanceRequestId") or described.get("InstanceLifecycle") == "spot":
        return label_keys.SPOT
    return label_keys.RESERVED if reservation else label_keys.ON_DEMAND
