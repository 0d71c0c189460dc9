"""Node class resolver: resolves all selectors of an EC2NodeClass, validates it.

Each selector becomes a part of the status and a condition. The last condition,
``ValidationSucceeded``, is a dry run of a launch with the resolved parts.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from dovetail.aws.amifamily.registry import ami_family_provider, unsupported_alias_reason
from dovetail.aws.cluster_info import ClusterInfoResolver
from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.filters import format_terms
from dovetail.aws.launchtemplate.launch_config_builder import build_launch_config
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.amis import AmiResolver, encode_ami
from dovetail.aws.nodeclass.capacity_reservations import CapacityReservationResolver, ReservationCapacity
from dovetail.aws.nodeclass.dry_run import LaunchDryRun
from dovetail.aws.nodeclass.instance_profiles import InstanceProfiles, RoleNotFoundError
from dovetail.aws.nodeclass.network import NetworkResolver
from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import (
    AMIS_READY,
    CAPACITY_RESERVATIONS_READY,
    INSTANCE_PROFILE_READY,
    PLACEMENT_GROUP_READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
    VALIDATION_SUCCEEDED,
)
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import NO_PLACEMENT_GROUP, PlacementGroup, SelectorTerm
from dovetail.ports.cloudprovider import NodeClassNotReadyError, NodeClassStatus
from dovetail.ports.event_loop import EventLoop
from dovetail.state.nodeclass_validation import KubeletCheck, find_nodeclass_problem

T = TypeVar("T")
_RETRYABLE: Final = (ErrorKind.THROTTLED, ErrorKind.TRANSIENT)
"""Kinds of errors that say nothing about the node class."""


class Resolvers(msgspec.Struct, frozen=True, kw_only=True):
    """Resolvers of the parts of a node class."""

    network: NetworkResolver
    amis: AmiResolver
    reservations: CapacityReservationResolver
    profiles: InstanceProfiles
    templates: LaunchTemplates
    dry_run: LaunchDryRun
    cluster: ClusterInfoResolver


class _Report:
    """Status and conditions, while a node class is being resolved."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}
        self.false_conditions: dict[str, tuple[str, str]] = {}
        self.unknown_conditions: dict[str, tuple[str, str]] = {}

    async def attempt(self, condition: str, work: Awaitable[T], *, reason: str) -> T | None:
        """Return the result of ``work``; on an error set the condition and return None."""
        try:
            return await work
        except AwsError as error:
            is_retryable = error.kind in _RETRYABLE
            conditions = self.unknown_conditions if is_retryable else self.false_conditions
            if isinstance(error, RoleNotFoundError):
                reason = "RoleNotFound"
            conditions[condition] = (reason, str(error))
            return None

    async def find(
        self,
        condition: str,
        resource: str,
        work: Awaitable[T],
        terms: Sequence[SelectorTerm],
        *,
        reasons: tuple[str, str],
    ) -> T | None:
        """Return what the terms select; set the condition on an error or no match.

        ``reasons`` are those of an error and of an empty result.
        """
        selected = await self.attempt(condition, work, reason=reasons[0])
        if not selected and condition not in {**self.false_conditions, **self.unknown_conditions}:
            message = f"no {resource} in this account and region matches {format_terms(terms)}"
            self.false_conditions[condition] = (reasons[1], message)
        return selected

    def to_status(self) -> NodeClassStatus:
        """Return the result of the resolution."""
        return NodeClassStatus(
            status=self.status,
            false_conditions=FrozenDict(self.false_conditions),
            unknown_conditions=FrozenDict(self.unknown_conditions),
        )


class NodeClassResolver:
    """Resolves node classes, and caches what their status has no field for."""

    def __init__(
        self,
        resolvers: Resolvers,
        *,
        loop: EventLoop,
        capacity: ReservationCapacity,
        manages_reservations: bool = True,
        check_kubelet: KubeletCheck | None = None,
    ) -> None:
        """Without ``check_kubelet``, kubelet expressions are disabled."""
        self._resolvers = resolvers
        self._loop = loop
        self._capacity = capacity
        self._manages_reservations = manages_reservations
        self._check_kubelet = check_kubelet
        self._placement_groups: dict[str, PlacementGroup] = {}
        """Node class uid → placement group."""
        self._completed: dict[str, tuple[EC2NodeClass, EC2NodeClass]] = {}
        """Node class name → node class as decoded, and with the cached status."""

    async def resolve(self, raw: dict[str, Any]) -> NodeClassStatus:
        """Resolve and validate a node class (an API object)."""
        node_class = _decode(raw)
        report = _Report()
        results = await self._loop.gather(
            [
                self._resolve_subnets(node_class, report),
                self._resolve_security_groups(node_class, report),
                self._resolve_amis(node_class, report),
                self._resolve_profile(node_class, report),
                self._resolve_reservations(node_class, report),
                self._resolve_placement_group(node_class, report),
            ]
        )
        for result in results:
            if isinstance(result, Exception):
                raise result
        problem = find_nodeclass_problem(raw, self._check_kubelet)
        if problem is not None:
            report.false_conditions[VALIDATION_SUCCEEDED] = problem
        else:
            await self._validate(node_class, raw, report)
        return report.to_status()

    async def delete_resources(self, raw: dict[str, Any]) -> None:
        """Delete the instance profiles and launch templates of a node class."""
        node_class = _decode(raw)
        try:
            await self._resolvers.profiles.delete_for(node_class)
        except AwsError as error:
            # With spec.instanceProfile we created none, and may lack all IAM permissions.
            if not node_class.launch.instance_profile or error.kind is not ErrorKind.ACCESS_DENIED:
                raise
        await self._resolvers.templates.delete_for(node_class.name)
        self._resolvers.dry_run.discard(node_class.uid)
        self._placement_groups.pop(node_class.uid, None)
        self._completed.pop(node_class.name, None)

    def with_cached_status(self, node_class: EC2NodeClass) -> EC2NodeClass:
        """Return a node class with its placement group and free reserved capacity.

        It is the same object until something changes.
        """
        completed = self._complete(node_class)
        if completed == node_class:
            return node_class
        cached = self._completed.get(node_class.name)
        if cached is not None and cached[0] is node_class and cached[1] == completed:
            return cached[1]
        self._completed[node_class.name] = (node_class, completed)
        return completed

    async def _resolve_subnets(self, node_class: EC2NodeClass, report: _Report) -> None:
        terms = node_class.launch.subnets
        work = self._resolvers.network.resolve_subnets(terms)
        reasons = ("SubnetsResolutionFailed", "SubnetsNotFound")
        if subnets := await report.find(SUBNETS_READY, "subnet", work, terms, reasons=reasons):
            report.status["subnets"] = [subnet.encode() for subnet in subnets]

    async def _resolve_security_groups(self, node_class: EC2NodeClass, report: _Report) -> None:
        terms = node_class.launch.security_groups
        work = self._resolvers.network.resolve_security_groups(terms)
        reasons = ("SecurityGroupsResolutionFailed", "SecurityGroupsNotFound")
        if groups := await report.find(SECURITY_GROUPS_READY, "security group", work, terms, reasons=reasons):
            report.status["securityGroups"] = [group.encode() for group in groups]

    async def _resolve_amis(self, node_class: EC2NodeClass, report: _Report) -> None:
        terms = node_class.launch.amis
        alias = next((term.alias for term in terms if term.alias), "")
        version = self._resolvers.cluster.info.version
        if alias and not version:
            work = self._resolvers.cluster.resolve()
            cluster = await report.attempt(AMIS_READY, work, reason="AMIsResolutionFailed")
            if cluster is None:
                return
            version = cluster.version
        unsupported = unsupported_alias_reason(alias, version)
        if unsupported:
            report.false_conditions[AMIS_READY] = ("UnsupportedAlias", unsupported)
            return
        resolution = self._resolvers.amis.resolve(terms, version)
        reasons = ("AMIsResolutionFailed", "AMINotFound")
        if amis := await report.find(AMIS_READY, "AMI", resolution, terms, reasons=reasons):
            report.status["amis"] = [encode_ami(ami) for ami in amis]

    async def _resolve_profile(self, node_class: EC2NodeClass, report: _Report) -> None:
        launch = node_class.launch
        if launch.instance_profile:
            report.status["instanceProfile"] = launch.instance_profile
            return
        profile = await report.attempt(
            INSTANCE_PROFILE_READY,
            self._resolvers.profiles.ensure(node_class),
            reason="InstanceProfileResolutionFailed",
        )
        if profile:
            report.status["instanceProfile"] = profile

    async def _resolve_reservations(self, node_class: EC2NodeClass, report: _Report) -> None:
        terms = node_class.launch.capacity_reservations
        if not terms or not self._manages_reservations:
            return
        reservations = await report.attempt(
            CAPACITY_RESERVATIONS_READY,
            self._resolvers.reservations.resolve(terms),
            reason="CapacityReservationsResolutionFailed",
        )
        if reservations:
            now = self._loop.now()
            report.status["capacityReservations"] = [reservation.encode(now) for reservation in reservations]

    async def _resolve_placement_group(self, node_class: EC2NodeClass, report: _Report) -> None:
        term = node_class.launch.placement_group
        if term is None:
            self._placement_groups.pop(node_class.uid, None)
            return
        work = self._resolvers.reservations.resolve_placement_group(term)
        reasons = ("PlacementGroupResolutionFailed", "PlacementGroupNotFound")
        if group := await report.find(
            PLACEMENT_GROUP_READY, "placement group", work, [term], reasons=reasons
        ):
            self._placement_groups[node_class.uid] = group

    async def _validate(self, node_class: EC2NodeClass, raw: Mapping[str, Any], report: _Report) -> None:
        """Set ``ValidationSucceeded``, if all parts are resolved."""
        condition = VALIDATION_SUCCEEDED
        if ami_family_provider(node_class.ami_family).needs_service_cidr:
            work = self._resolvers.cluster.resolve()
            cluster = await report.attempt(condition, work, reason="ClusterCIDRResolutionFailed")
            if cluster is None:
                return
        if report.unknown_conditions:
            _, message = next(iter(report.unknown_conditions.values()))
            report.unknown_conditions[condition] = ("DependenciesNotReady", message)
        elif not report.false_conditions:
            await self._dry_run(raw, report)

    async def _dry_run(self, raw: Mapping[str, Any], report: _Report) -> None:
        """Dry-run a launch from the node class with its new status."""
        condition = VALIDATION_SUCCEEDED
        node_class = self._complete(_decode({**raw, "status": report.status}))
        cluster = self._resolvers.cluster
        try:
            launch_config = build_launch_config(
                node_class, cluster.info, cluster.region, manages_reservations=self._manages_reservations
            )
        except NodeClassNotReadyError as error:
            report.false_conditions[condition] = ("DependenciesNotReady", str(error))
            return
        work = self._resolvers.dry_run.run(launch_config)
        failure = await report.attempt(condition, work, reason="DryRunFailed")
        if failure is not None:
            report.false_conditions[condition] = failure

    def _complete(self, node_class: EC2NodeClass) -> EC2NodeClass:
        group = self._placement_groups.get(node_class.uid, NO_PLACEMENT_GROUP)
        reservations = tuple(
            msgspec.structs.replace(reservation, available_count=self._capacity.available(reservation.id))
            for reservation in node_class.capacity_reservations
        )
        resolved = msgspec.structs.replace(node_class.resolved, placement_group=group)
        return msgspec.structs.replace(node_class, resolved=resolved, capacity_reservations=reservations)


def _decode(raw: Mapping[str, Any]) -> EC2NodeClass:
    return decode_nodeclass(Field(raw, DecodeContext(strict=False)))
