"""A change: changed and deleted objects, and events of EC2, applied to a simulated cluster."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.text.field_path import FieldPath, format_path
from dovetail.codec.text.suggestions import join_first, nearest_match
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    RESOURCES,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import ApiError, NotFound
from dovetail.preview.events import explain_no_effect, name_unknowns, validate_event
from dovetail.preview.manifests import ChangedManifests, ChangedObject
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.fork.changes import LAST_APPLIED
from dovetail.simulator.scenario.model import Action, Apply
from dovetail.simulator.scenario_actions import perform

_SERVER_METADATA: Final = frozenset(
    "resourceVersion uid creationTimestamp generation managedFields selfLink".split()
)
_WORKLOADS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS)
_OWNED: Final = frozenset(
    """affinity annotations hostNetwork labels minReadySeconds nodeName nodeSelector overhead paused
    priorityClassName readinessGates resourceClaims resources runtimeClassName schedulingGates tolerations
    topologySpreadConstraints volumeClaimTemplates""".split()
)
"""Fields of a workload without defaults: what a file lacks of them, it has removed."""
_REMOVABLE: Final = frozenset(
    """args command containers env envFrom initContainers lifecycle livenessProbe ports readinessProbe
    startupProbe volumeMounts volumes""".split()
)
"""Fields without a default, of which the parts have defaults."""
_MAX_FIELDS: Final = 4
_MAX_VALUE: Final = 40
_NAMES: Final = {
    name: resource
    for resource in RESOURCES
    for name in (resource.kind.lower(), resource.plural, *resource.short_names)
}


class ChangeError(DovetailError):
    """A change that cannot be made to this cluster."""


class Deletion(msgspec.Struct, frozen=True):
    """An object to delete."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {name}"


class Event(msgspec.Struct, frozen=True):
    """Something that happens to the cluster, and how it is described."""

    description: str
    action: Action


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is changed at once."""

    manifests: ChangedManifests | None = None
    deletions: tuple[Deletion, ...] = ()
    removals: tuple[Deletion, ...] = ()
    """Objects that files had and have no more; those that the cluster lacks are ignored."""
    events: tuple[Event, ...] = ()
    settings: tuple[str, ...] = ()
    """Settings of the controller that differ, described; the cluster is built with them."""


class AppliedChange(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a cluster that a change did and did not change."""

    changes: tuple[str, ...]
    unchanged: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Sentences about its events: facts that are not known."""


def parse_deletion(text: str) -> Deletion:
    """Parse ``kind/name`` or ``kind/namespace/name``."""
    kind, *rest = text.split("/")
    resource = _NAMES.get(kind.lower())
    if resource is None:
        nearest = nearest_match(kind, [known.kind.lower() for known in RESOURCES], cutoff=0.6)
        hint = f"; did you mean {nearest!r}?" if nearest else "; examples: nodepool/default, pdb/shop/web"
        raise ChangeError(f"{text!r}: {kind!r} is not a kind{hint}")
    form = f"{kind}/NAMESPACE/NAME" if resource.namespaced else f"{kind}/NAME"
    if len(rest) not in ((1, 2) if resource.namespaced else (1,)) or not all(rest):
        raise ChangeError(f"{text!r} is not {form}")
    namespace = rest[0] if len(rest) == 2 else "default" if resource.namespaced else ""
    return Deletion(resource, namespace, rest[-1])


def find_removals(old: ChangedManifests, new: ChangedManifests | None) -> tuple[Deletion, ...]:
    """Return the objects of old files that no new file has."""
    kept = {str(changed) for changed in new.objects} if new is not None else set()
    return tuple(
        Deletion(changed.resource, changed.namespace, changed.name)
        for changed in old.objects
        if str(changed) not in kept
    )


def apply_change(cluster: SimulatedCluster, change: Change) -> AppliedChange:
    """Make a change, if all its events can happen; raise ``DovetailError`` otherwise.

    Raises ``InvalidInputError`` with all objects that the API server refuses.
    """
    for event in change.events:
        validate_event(event.action, cluster)
    changes: list[str] = list(change.settings)
    unchanged: list[str] = []
    if change.manifests is not None:
        _apply_manifests(cluster, change.manifests, changes, unchanged)
    for deletion in change.deletions:
        _delete(cluster, deletion)
        changes.append(f"{deletion}: deleted")
    for removal in change.removals:
        if _find(cluster, removal.resource, removal.namespace, removal.name) is None:
            unchanged.append(f"{removal} (not in the cluster)")
        else:
            _delete(cluster, removal)
            changes.append(f"{removal}: deleted")
    notes = []
    for event in change.events:
        reason = explain_no_effect(event.action, cluster)
        perform(event.action, cluster)
        if reason:
            unchanged.append(f"{event.description} ({reason})")
        else:
            changes.append(event.description)
            notes.append(name_unknowns(event.action))
    return AppliedChange(changes=tuple(changes), unchanged=tuple(unchanged), notes=tuple(filter(None, notes)))


def _apply_manifests(
    cluster: SimulatedCluster, manifests: ChangedManifests, changes: list[str], unchanged: list[str]
) -> None:
    """Apply all objects; add to ``changes`` what differs, and to ``unchanged`` what does not."""
    for changed in manifests.objects:
        try:
            differences = _apply_object(cluster, changed)
        except ApiError as error:
            manifests.refuse(changed, error)
            continue
        if differences:
            changes.append(f"{changed}: {differences}")
        else:
            unchanged.append(str(changed))
    manifests.raise_refusals()
    unchanged += [f"{ignored} (has no effect on nodes)" for ignored in manifests.ignored]


def _apply_object(cluster: SimulatedCluster, changed: ChangedObject) -> str:
    """Apply an object and return what differs; empty: nothing."""
    before = _find(cluster, changed.resource, changed.namespace, changed.name)
    if before is None or _has_record(before):
        perform(Apply((changed.value,)), cluster)
    else:
        cluster.api.update(changed.resource, merge_file(changed.resource, before, changed.value))
    after = _find(cluster, changed.resource, changed.namespace, changed.name)
    if before is None:
        return "created"
    differences = list(_diff(_comparable(before), _comparable(after or {}), ()))
    return join_first(differences, _MAX_FIELDS)


def _has_record(obj: Object) -> bool:
    """Return True if an object says which fields were applied: dumps often do not."""
    meta = obj["metadata"]
    return LAST_APPLIED in (meta.get("annotations") or {}) or any(
        entry.get("operation") == "Apply" for entry in meta.get("managedFields") or ()
    )


def merge_file(resource: Resource, current: Object, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the spec of a file, if nothing records its last one.

    Fields of the spec that the file lacks are removed, except for those of workloads that
    may be defaults.
    """
    merged: dict[str, Any] = _merge(current, {"spec": _get_owned_spec(resource, current)}, new)
    return merged


def _get_owned_spec(resource: Resource, obj: Object) -> Any:
    """Return the fields of a spec that a file must have written."""
    spec = obj.get("spec") or {}
    if resource.is_custom or resource is POD_DISRUPTION_BUDGETS:
        return spec  # The server adds all defaults again.
    return _select_owned(spec) if resource in _WORKLOADS else {}


def _select_owned(value: Any) -> Any:
    """Return the owned fields of a value, and the maps and named items around them."""
    if isinstance(value, list | tuple):
        return [_select_owned(item) | {"name": name} for name, item in _by_name(value).items()]
    if not isinstance(value, Mapping):
        return {}
    selected = {}
    for key, item in value.items():
        recorded = item if key in _OWNED else _select_owned(item)
        if recorded or key in _REMOVABLE:
            selected[key] = recorded
    return selected


def _by_name(items: Any) -> dict[str, Any]:
    """Return the named items of a list."""
    if not isinstance(items, list | tuple):
        return {}
    return {item["name"]: item for item in items if isinstance(item, Mapping) and "name" in item}


def _merge(current: Any, last: Any, new: Any) -> Any:
    """Merge maps by key, and items of lists by name, or by position in lists of equal length."""
    if isinstance(current, Mapping) and isinstance(new, Mapping):
        recorded = last if isinstance(last, Mapping) else {}
        kept = {key: value for key, value in current.items() if key in new or key not in recorded}
        return kept | {key: _merge(current.get(key), recorded.get(key), value) for key, value in new.items()}
    if not (isinstance(current, list | tuple) and isinstance(new, list | tuple)):
        return new
    named, recorded_items = _by_name(current), _by_name(last)
    if named:
        return [
            _merge(named.get(item["name"]), recorded_items.get(item["name"]), item)
            if isinstance(item, Mapping) and "name" in item
            else item
            for item in new
        ]
    if len(current) != len(new):
        return new
    lasts = last if isinstance(last, list | tuple) and len(last) == len(new) else [None] * len(new)
    return [_merge(*triple) for triple in zip(current, lasts, new, strict=True)]


def _find(cluster: SimulatedCluster, resource: Resource, namespace: str, name: str) -> Object | None:
    try:
        return cluster.api.get(resource, name, namespace)
    except NotFound:
        return None


def _delete(cluster: SimulatedCluster, deletion: Deletion) -> None:
    try:
        cluster.api.delete(deletion.resource, deletion.name, deletion.namespace)
    except NotFound:
        items = cluster.api.list(deletion.resource).items
        names = [item["metadata"]["name"] for item in items]
        nearest = nearest_match(deletion.name, names)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        raise ChangeError(f"{deletion} does not exist in the cluster{hint}") from None


def _comparable(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without status and what the server writes."""
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER_METADATA}
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key != LAST_APPLIED
    }
    meta["annotations"] = annotations
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}


def _diff(before: Any, after: Any, path: FieldPath) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            yield from _diff(before.get(key), after.get(key), (*path, key))
        return
    is_list = isinstance(before, list | tuple) and isinstance(after, list | tuple)
    if is_list and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _diff(old, new, (*path, index))
        return
    if before in (None, {}, []) and after in (None, {}, []):
        return
    yield f"{format_path(path)} {_show(before)} → {_show(after)}"


def _show(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"
