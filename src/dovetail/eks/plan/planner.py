"""Plan: the steps from the observed to the desired state.

::

    desired resources ─┐
                       ├─ diff ─> steps: create, update, delete ─> Plan
    observed state ────┘

Pure: reads nothing and changes nothing. The order of the steps is valid for
sequential execution; ``Step.depends_on`` says which steps can run concurrently.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import ceil
from typing import Any, Final

import msgspec

from dovetail.eks.plan.diff import KNOWN_LATER, PropertyChange, diff_resource
from dovetail.eks.plan.references import Reference, UnresolvedReferenceError
from dovetail.eks.plan.resolver import resolve_reference
from dovetail.eks.plan.resource import DesiredResource, ObservedResource, ObservedState, sort_by_dependency
from dovetail.eks.plan.resource_kinds import BLOCK_CLUSTER_DELETION, DELETED_WITH_CLUSTER, KINDS

_MIN_SECONDS: Final = 2
"""Duration of an update that is one request."""


class Action(StrEnum):
    """Action of a step."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One action on one resource; idempotent."""

    action: Action
    address: str
    desired: DesiredResource | None = None
    """Set for create and update; its references are resolved at execution."""
    observed: ObservedResource | None = None
    """Set for update and delete."""
    changes: tuple[PropertyChange, ...] = ()
    """For an update, the differences; for both steps of a replacement, its cause."""
    depends_on: tuple[str, ...] = ()
    """Ids of the steps of this plan that must be done first."""

    @property
    def id(self) -> str:
        return f"{self.action} {self.address}"

    @property
    def is_replacement(self) -> bool:
        """True for both steps of a replacement: delete and create."""
        return self.action is not Action.UPDATE and any(change.forces_replacement for change in self.changes)

    @property
    def seconds(self) -> int:
        """Typical duration in seconds; node groups replace their nodes in batches."""
        kind = KINDS[self.kind]
        if self.action is not Action.UPDATE:
            return kind.create_seconds
        changed = {change.property for change in self.changes}
        rolling = max((kind.update_seconds[name] for name in changed & kind.rolling), default=0)
        others = sum(kind.update_seconds.get(name, 0) for name in changed - kind.rolling)
        return max(others + rolling * self._batches(), _MIN_SECONDS)

    def _batches(self) -> int:
        """Return how many times a rolling update takes nodes away."""
        properties = self.desired.properties if self.desired else {}
        nodes = int((properties.get("ScalingConfig") or {}).get("DesiredSize", 1))
        update = properties.get("UpdateConfig") or {}
        percentage = update.get("MaxUnavailablePercentage")
        at_once = update.get("MaxUnavailable", 1) if percentage is None else nodes * percentage // 100
        return max(ceil(nodes / max(int(at_once), 1)), 1)

    @property
    def kind(self) -> str:
        return self.address.partition("/")[0]

    @property
    def name(self) -> str:
        return self.address.partition("/")[2]

    def __str__(self) -> str:
        text = f"{self.action} {KINDS[self.kind].display_name} {self.name}"
        if self.changes:
            return f"{text} ({'; '.join(str(change) for change in self.changes)})"
        if self.desired and self.desired.purpose:
            return f"{text}: {self.desired.purpose}"
        return text

    def undo(self) -> "Step":
        """Return the inverse step, as far as one exists.

        A deleted resource is created again as it was observed. Its content (a
        queue's messages, a cluster's objects) is lost.
        """
        if self.action is Action.CREATE:
            created = ObservedResource(kind=self.kind, name=self.name)
            return Step(action=Action.DELETE, address=self.address, observed=created)
        if self.observed is None:
            raise ValueError(f"{self.id} has no observed resource")
        before = DesiredResource(
            kind=self.kind, name=self.name, properties=self.observed.properties, tags=self.observed.tags
        )
        if self.action is Action.DELETE:
            return Step(action=Action.CREATE, address=self.address, desired=before)
        inverse = tuple(PropertyChange(change.path, change.after, change.before) for change in self.changes)
        return Step(
            action=Action.UPDATE,
            address=self.address,
            desired=before,
            observed=self.observed,
            changes=inverse,
        )


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """Work of the controller that the steps of a plan start."""

    message: str
    seconds: int | None = None
    """Typical duration; None if it depends on the user."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps in order, and what prevents them."""

    steps: tuple[Step, ...] = ()
    missing: tuple[DesiredResource, ...] = ()
    """External resources that do not exist: the plan cannot be applied."""
    unsettled: tuple[ObservedResource, ...] = ()
    """Resources in transition: wait for them first."""
    kept: tuple[str, ...] = ()
    """Messages about resources that are not desired, but kept because nodes use them."""
    follow_ups: tuple[FollowUp, ...] = ()
    """Work of the controller after the steps: drift of nodes."""
    advice: tuple[str, ...] = ()
    """Messages about an existing cluster that do not prevent the steps."""
    notes: tuple[str, ...] = ()
    """Assumptions of the plan, and warnings about the file."""
    monthly_usd: float = 0.0
    """Monthly cost of the desired state, without the nodes of the controller."""
    cost_notes: tuple[str, ...] = ()
    """Parts of the cost that are left out or estimated."""

    def __bool__(self) -> bool:
        return bool(self.steps)

    def seconds(self) -> int:
        """Return the minimum duration: the longest chain of dependent steps."""
        return critical_path_seconds(self.steps)

    def replaced_addresses(self) -> list[str]:
        """Return the addresses of resources that are deleted and created again."""
        return [step.address for step in self.steps if step.is_replacement and step.action is Action.CREATE]


def critical_path_seconds(steps: Sequence[Step]) -> int:
    """Return the minimum duration of steps: their longest chain of dependencies."""
    end_times: dict[str, int] = {}
    for step in steps:
        start = max((end_times.get(step_id, 0) for step_id in step.depends_on), default=0)
        end_times[step.id] = start + step.seconds
    return max(end_times.values(), default=0)


class _StepBuilder:
    """Builds the steps of one resource after the other, dependencies first."""

    def __init__(self, desired: Sequence[DesiredResource], observed: ObservedState) -> None:
        self.desired = {resource.address: resource for resource in desired}
        self.observed = observed
        self._created: set[str] = set()
        """Created by this plan: attributes observed before are invalid."""
        self._updated: set[str] = set()

    def steps_for(self, resource: DesiredResource) -> list[Step]:
        """Return the steps for a resource whose dependencies were handled before."""
        current = self.observed.resources.get(resource.address)
        if current is None:
            self._created.add(resource.address)
            return [Step(action=Action.CREATE, address=resource.address, desired=resource)]
        if self._is_gone_with_cluster(resource):
            self._created.add(resource.address)
            return [Step(action=Action.CREATE, address=resource.address, desired=resource)]
        resource = _with_defaults(resource)
        changes = diff_resource(resource, current, self._lookup)
        forcing = tuple(change for change in changes if change.forces_replacement)
        if not forcing and self._cluster_is_replaced and resource.kind in BLOCK_CLUSTER_DELETION:
            before = current.properties.get("ClusterName", "")
            forcing = (PropertyChange(("ClusterName",), before, KNOWN_LATER, True),)
        if forcing:
            self._created.add(resource.address)
            delete = Step(action=Action.DELETE, address=resource.address, observed=current, changes=forcing)
            create = Step(action=Action.CREATE, address=resource.address, desired=resource, changes=forcing)
            return [delete, create]
        if not changes:
            return []
        self._updated.add(resource.address)
        update = Step(
            action=Action.UPDATE,
            address=resource.address,
            desired=resource,
            observed=current,
            changes=changes,
        )
        return [update]

    @property
    def _cluster_is_replaced(self) -> bool:
        """True if the plan creates an EKS cluster in place of an observed one."""
        return any(
            address.startswith("eks-cluster/") and address in self.observed.resources
            for address in self._created
        )

    def _is_gone_with_cluster(self, resource: DesiredResource) -> bool:
        """Return True if the resource is deleted together with its EKS cluster."""
        return resource.kind in DELETED_WITH_CLUSTER and self._cluster_is_replaced

    def _lookup(self, reference: Reference) -> Any:
        if reference.address in self._updated:
            kind = reference.address.partition("/")[0]
            if reference.attribute in KINDS[kind].volatile:
                raise UnresolvedReferenceError(reference)
        return resolve_reference(
            reference, observed=self.observed, desired=self.desired, replaced=self._created
        )


def _with_defaults(resource: DesiredResource) -> DesiredResource:
    """Return the resource with the values that absent properties stand for."""
    properties = {**KINDS[resource.kind].defaults, **resource.properties}
    return msgspec.structs.replace(resource, properties=properties)


def plan_changes(desired: Iterable[DesiredResource], observed: ObservedState) -> Plan:
    """Return the steps from the observed to the desired state.

    In this order: deletions for replacement and of moved releases, dependents first; then creations and
    updates, dependencies first; then deletions of owned resources that are no
    longer desired.
    """
    ordered = sort_by_dependency(desired)
    builder = _StepBuilder(ordered, observed)
    writes: list[Step] = []
    replacement_deletes: list[Step] = []
    missing: list[DesiredResource] = []
    for resource in ordered:
        if resource.external:
            if resource.address not in observed.resources:
                missing.append(resource)
            continue
        for step in builder.steps_for(resource):
            (replacement_deletes if step.action is Action.DELETE else writes).append(step)
    replacement_deletes.reverse()
    final_deletes = [
        Step(action=Action.DELETE, address=resource.address, observed=resource)
        for resource in _by_kind_reversed(observed.resources.values())
        if resource.address not in builder.desired and not KINDS[resource.kind].shared
    ]
    moved = moved_releases(writes, final_deletes)
    early_deletes = [step for step in final_deletes if step.id in moved.values()]
    return Plan(
        steps=_link_steps(
            [*early_deletes, *replacement_deletes],
            writes,
            [step for step in final_deletes if step not in early_deletes],
            builder.desired,
            moved,
        ),
        missing=tuple(missing),
        unsettled=_unsettled(observed),
        monthly_usd=sum(resource.monthly_usd for resource in ordered),
        cost_notes=tuple(dict.fromkeys(resource.cost_note for resource in ordered if resource.cost_note)),
    )


def moved_releases(creates: Iterable[Step], deletes: Iterable[Step]) -> dict[str, str]:
    """Return moved Helm releases: id of the creation → id of the deletion.

    Objects of a chart that are in no namespace belong to one release: helm rejects
    a second one until the first is gone.
    """
    old = {
        chart_name(step.observed.properties): step.id
        for step in deletes
        if step.kind == "helm-release" and step.action is Action.DELETE and step.observed is not None
    }
    return {
        step.id: old[chart_name(step.desired.properties)]
        for step in creates
        if step.kind == "helm-release" and step.action is Action.CREATE and step.desired is not None
        if chart_name(step.desired.properties) in old
    }


def chart_name(release: Mapping[str, Any]) -> str:
    """Return the name of a release's chart: the last part of its address."""
    return str(release.get("chart", "")).rpartition("/")[2]


def plan_deletion(desired: Iterable[DesiredResource], observed: ObservedState) -> Plan:
    """Return the steps that delete every owned resource.

    ``desired`` gives the dependencies. Owned resources that it does not contain
    are deleted first, in reverse order of their kinds.
    """
    external = {resource.address for resource in desired if resource.external}
    known = [resource for resource in sort_by_dependency(desired) if not resource.external]
    position = {resource.address: number for number, resource in enumerate(known)}
    owned = [
        resource
        for resource in observed.resources.values()
        if resource.address not in external and not KINDS[resource.kind].shared
    ]
    unknown = _by_kind_reversed(
        resource for resource in owned if _without_suffix(resource.address) not in position
    )
    dependents_first = sorted(
        (resource for resource in owned if _without_suffix(resource.address) in position),
        key=lambda resource: -position[_without_suffix(resource.address)],
    )
    steps = [
        Step(action=Action.DELETE, address=resource.address, observed=resource)
        for resource in unknown + dependents_first
    ]
    return Plan(
        steps=tuple(_link_deletes(steps, {resource.address: resource for resource in known})),
        unsettled=_unsettled(observed),
    )


def _unsettled(observed: ObservedState) -> tuple[ObservedResource, ...]:
    return tuple(resource for resource in observed.resources.values() if not resource.settled)


def _without_suffix(address: str) -> str:
    """Return the address of the original for a duplicate (``vpc/main#vpc-…``)."""
    return address.partition("#")[0]


def _by_kind_reversed(resources: Iterable[ObservedResource]) -> list[ObservedResource]:
    rank = {name: number for number, name in enumerate(KINDS)}

    def key(resource: ObservedResource) -> tuple[int, bool, str]:
        # A namespace is deleted after the objects in it.
        is_namespace = resource.kind == "kubernetes-object" and resource.name.startswith("Namespace/")
        return -rank[resource.kind], is_namespace, resource.name

    return sorted(resources, key=key)


def _link_steps(
    replacement_deletes: Sequence[Step],
    writes: Sequence[Step],
    final_deletes: Sequence[Step],
    desired: Mapping[str, DesiredResource],
    moved: Mapping[str, str],
) -> tuple[Step, ...]:
    """Return the steps with ``depends_on`` set; ``moved`` is create id → delete id."""
    write_ids = {step.address: step.id for step in writes}
    delete_ids = {step.address: step.id for step in replacement_deletes}

    def write_dependencies(step: Step) -> list[str]:
        dependencies = desired[step.address].dependencies()
        earlier = [write_ids[address] for address in dependencies if address in write_ids]
        own_delete = delete_ids.get(step.address) or moved.get(step.id)
        return [*earlier, *([own_delete] if own_delete else [])]

    linked_deletes = _link_deletes(replacement_deletes, desired)
    linked_writes = [_with_dependencies(step, write_dependencies(step)) for step in writes]
    all_earlier = [step.id for step in (*replacement_deletes, *writes)]
    linked_final: list[Step] = []
    for step in final_deletes:
        # A resource that is no longer desired may be in use until all other steps are done.
        earlier = [*all_earlier, *(previous.id for previous in linked_final)]
        linked_final.append(_with_dependencies(step, earlier))
    return (*linked_deletes, *linked_writes, *linked_final)


def _link_deletes(steps: Sequence[Step], desired: Mapping[str, DesiredResource]) -> list[Step]:
    """Make each deletion depend on the deletions of its dependents.

    Dependencies of resources that are not desired are unknown. They are deleted
    first, one after the other.
    """
    linked: list[Step] = []
    unknown = [step.id for step in steps if _without_suffix(step.address) not in desired]
    dependents: dict[str, list[str]] = {}
    for step in steps:
        address = _without_suffix(step.address)
        if address not in desired:
            linked.append(_with_dependencies(step, unknown[: unknown.index(step.id)]))
            continue
        linked.append(_with_dependencies(step, [*unknown, *dependents.get(address, [])]))
        for dependency in desired[address].dependencies():
            dependents.setdefault(dependency, []).append(step.id)
    return linked


def _with_dependencies(step: Step, step_ids: Sequence[str]) -> Step:
    return msgspec.structs.replace(step, depends_on=tuple(dict.fromkeys(step_ids)))
