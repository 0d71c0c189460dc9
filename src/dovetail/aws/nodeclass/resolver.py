"""What a node class means in this account: everything it selects, and whether it may launch."""

from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from dovetail.aws.cluster_info import ClusterFacts
from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.filters import spelled
from dovetail.aws.launchtemplate.launch_config_builder import launchable_of
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass import amis as image_codec
from dovetail.aws.nodeclass.ami_aliases import why_unsupported
from dovetail.aws.nodeclass.amis import Images
from dovetail.aws.nodeclass.capacity_reservations import Reservations, RoomLeft
from dovetail.aws.nodeclass.dry_run import Rehearsal
from dovetail.aws.nodeclass.instance_profiles import Profiles, RoleNotFound
from dovetail.aws.nodeclass.network import Network
from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodeclass_validation import expressions_in
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.codec.text.field_path import show
from dovetail.core.nodeclass.validation import class_problem
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import NO_GROUP, PlacementGroup
from dovetail.ports.cloudprovider import ClassStatus, NodeClassNotReady
from dovetail.ports.event_loop import Loop

T = TypeVar("T")
_PASSING: Final = (Kind.THROTTLED, Kind.TRANSIENT)
"""Kinds of errors that say nothing about the class."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Those who look up one thing each."""

    network: Network
    images: Images
    reservations: Reservations
    profiles: Profiles
    templates: LaunchTemplates
    rehearsal: Rehearsal
    facts: ClusterFacts


class _Report:
    """What was found, and what not, while a class is looked up."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}
        self.problems: dict[str, tuple[str, str]] = {}
        self.unsure: dict[str, tuple[str, str]] = {}

    async def attempt(self, condition: str, work: Awaitable[T], *, reason: str) -> T | None:
        """Return what ``work`` finds; None, with the condition settled, when AWS refuses."""
        try:
            return await work
        except AwsError as error:
            told = self.unsure if error.kind in _PASSING else self.problems
            named = "RoleNotFound" if isinstance(error, RoleNotFound) else reason
            told[condition] = (named, str(error))
            return None

    def finished(self) -> ClassStatus:
        return ClassStatus(
            status=self.status,
            problems=FrozenDict(self.problems),
            unsure=FrozenDict(self.unsure),
        )


class NodeClassResolver:
    """Looks classes up; what a class's status has no place for is kept here."""

    def __init__(
        self, parts: Parts, *, loop: Loop, room: RoomLeft, reserved_capacity: bool = True
    ) -> None:
        self._parts = parts
        self._loop = loop
        self._room = room
        self._reserved_capacity = reserved_capacity
        self._placement_groups: dict[str, PlacementGroup] = {}
        self._completed: dict[str, tuple[NodeClass, NodeClass]] = {}

    async def resolve(self, raw: dict[str, Any]) -> ClassStatus:
        """Find what a node class (wire form) selects, and whether EC2 lets it launch."""
        findings = Findings(written_by_hand=False)
        node_class = decode_node_class(Field(raw, findings))
        report = _Report()
        answers = await self._loop.together(
            [
                self._subnets(node_class, report),
                self._groups(node_class, report),
                self._images(node_class, report),
                self._profile(node_class, report),
                self._held(node_class, report),
                self._placement_group(node_class, report),
            ]
        )
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        problem = _expressions(raw) or class_problem(
            node_class, _unreadable(findings, "spec", "kubelet")
        )
        others = _unreadable(findings, "spec")
        if problem is None and others:
            problem = ("InvalidSpec", "; ".join(others))
        if problem is not None:
            report.problems["ValidationSucceeded"] = problem
        else:
            await self._validate(node_class, raw, report)
        return report.finished()

    async def forget(self, raw: dict[str, Any]) -> None:
        """Take away what was made for a class: instance profiles, launch templates."""
        node_class = _decoded(raw)
        try:
            await self._parts.profiles.forget(node_class)
        except AwsError as error:
            # Who brings a profile need not let us near IAM, and then we made none.
            if not node_class.launch.instance_profile or error.kind is not Kind.REFUSED:
                raise
        await self._parts.templates.delete_of(node_class.name)
        self._parts.rehearsal.forget(node_class.uid)
        self._placement_groups.pop(node_class.uid, None)
        self._completed.pop(node_class.name, None)

    def completed(self, node_class: NodeClass) -> NodeClass:
        """Return a class with what its status has no place for; the same while it is."""
        made = self._complete(node_class)
        if made == node_class:
            return node_class
        known = self._completed.get(node_class.name)
        if known is not None and known[0] is node_class and known[1] == made:
            return known[1]
        self._completed[node_class.name] = (node_class, made)
        return made

    async def _subnets(self, node_class: NodeClass, report: _Report) -> None:
        terms = node_class.launch.subnets
        work = self._parts.network.subnets(terms)
        found = await report.attempt("SubnetsReady", work, reason="SubnetsResolutionFailed")
        if found == []:
            report.problems["SubnetsReady"] = _nothing("SubnetsNotFound", "subnet", spelled(terms))
        elif found:
            report.status["subnets"] = [one.wire() for one in found]

    async def _groups(self, node_class: NodeClass, report: _Report) -> None:
        terms = node_class.launch.security_groups
        work = self._parts.network.security_groups(terms)
        found = await report.attempt(
            "SecurityGroupsReady", work, reason="SecurityGroupsResolutionFailed"
        )
        if found == []:
            report.problems["SecurityGroupsReady"] = _nothing(
                "SecurityGroupsNotFound", "security group", spelled(terms)
            )
        elif found:
            report.status["securityGroups"] = [one.wire() for one in found]

    async def _images(self, node_class: NodeClass, report: _Report) -> None:
        terms = node_class.launch.images
        alias = next((one.alias for one in terms if one.alias), "")
        version = self._parts.facts.cluster.version
        if alias and not version:
            work = self._parts.facts.look_up()
            told = await report.attempt("AMIsReady", work, reason="AMIsResolutionFailed")
            if told is None:
                return
            version = told.version
        unsupported = why_unsupported(alias, version)
        if unsupported:
            report.problems["AMIsReady"] = ("UnsupportedAlias", unsupported)
            return
        found = await report.attempt(
            "AMIsReady", self._parts.images.find(terms, version), reason="AMIsResolutionFailed"
        )
        if found == ():
            report.problems["AMIsReady"] = _nothing("AMINotFound", "image", spelled(terms))
        elif found:
            report.status["amis"] = [image_codec.wire(one) for one in found]

    async def _profile(self, node_class: NodeClass, report: _Report) -> None:
        launch = node_class.launch
        if launch.instance_profile:
            report.status["instanceProfile"] = launch.instance_profile
            return
        found = await report.attempt(
            "InstanceProfileReady",
            self._parts.profiles.ensure(node_class),
            reason="InstanceProfileResolutionFailed",
        )
        if found:
            report.status["instanceProfile"] = found

    async def _held(self, node_class: NodeClass, report: _Report) -> None:
        terms = node_class.launch.reservations
        if not terms or not self._reserved_capacity:
            return
        found = await report.attempt(
            "CapacityReservationsReady",
            self._parts.reservations.find(terms),
            reason="CapacityReservationsResolutionFailed",
        )
        if found:
            now = self._loop.now()
            report.status["capacityReservations"] = [one.wire(now) for one in found]

    async def _placement_group(self, node_class: NodeClass, report: _Report) -> None:
        term = node_class.launch.placement_group
        if term is None:
            self._placement_groups.pop(node_class.uid, None)
            return
        found = await report.attempt(
            "PlacementGroupReady",
            self._parts.reservations.placement_group(term),
            reason="PlacementGroupResolutionFailed",
        )
        if found:
            self._placement_groups[node_class.uid] = found
        elif not {"PlacementGroupReady"} & (report.problems.keys() | report.unsure.keys()):
            report.problems["PlacementGroupReady"] = _nothing(
                "PlacementGroupNotFound", "placement group", spelled([term])
            )

    async def _validate(
        self, node_class: NodeClass, raw: Mapping[str, Any], report: _Report
    ) -> None:
        """Say what is wrong with the whole; needs all that it is made of."""
        kind = "ValidationSucceeded"
        if node_class.ami_family == "AL2023":
            facts = self._parts.facts
            told = await report.attempt(kind, facts.look_up(), reason="ClusterCIDRResolutionFailed")
            if told is None:
                return
        if report.unsure:
            first = next(iter(report.unsure.values()))
            report.unsure[kind] = ("DependenciesNotReady", first[1])
        elif not report.problems:
            await self._rehearse(raw, report)

    async def _rehearse(self, raw: Mapping[str, Any], report: _Report) -> None:
        """Have a launch rehearsed from the class as it is once its status is written."""
        kind = "ValidationSucceeded"
        whole = self._complete(_decoded({**raw, "status": report.status}))
        facts = self._parts.facts
        try:
            launchable = launchable_of(
                whole, facts.cluster, facts.region, reserved_capacity=self._reserved_capacity
            )
        except NodeClassNotReady as error:
            report.problems[kind] = ("DependenciesNotReady", str(error))
            return
        work = self._parts.rehearsal.problem(launchable)
        problem = await report.attempt(kind, work, reason="DryRunFailed")
        if problem is not None:
            report.problems[kind] = problem

    def _complete(self, node_class: NodeClass) -> NodeClass:
        group = self._placement_groups.get(node_class.uid, NO_GROUP)
        held = tuple(
            msgspec.structs.replace(one, available=self._room.left(one.id))
            for one in node_class.reservations
        )
        found = msgspec.structs.replace(node_class.found, placement_group=group)
        return msgspec.structs.replace(node_class, found=found, reservations=held)


def _expressions(raw: Mapping[str, Any]) -> tuple[str, str] | None:
    named = [f"spec.kubelet.{one}" for one in expressions_in(raw["spec"].get("kubelet") or {})]
    if not named:
        return None
    told = f"{', '.join(named)}: expressions are not supported; write a number or a quantity"
    return "KubeletExpressionsDisabled", told


def _decoded(raw: Mapping[str, Any]) -> NodeClass:
    return decode_node_class(Field(raw, Findings(written_by_hand=False)))


def _unreadable(findings: Findings, *place: str) -> list[str]:
    """Return what could not be read below a place."""
    return [f"{show(path)}: {told}" for path, told in findings.found if path[: len(place)] == place]


def _nothing(reason: str, what: str, terms: str) -> tuple[str, str]:
    return reason, f"no {what} in this account and region matches {terms}"
