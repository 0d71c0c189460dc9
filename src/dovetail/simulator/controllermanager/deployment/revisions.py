"""Which ReplicaSet is a Deployment's newest, and what is noted on each of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.controllermanager.deployment.rollout import Part, Room
from dovetail.simulator.controllermanager.owner_references import reference_to
from dovetail.simulator.controllermanager.pods.pod_template import labels_of, template_hash

REVISION: Final = "deployment.kubernetes.io/revision"
_HISTORY: Final = "deployment.kubernetes.io/revision-history"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MOST: Final = "deployment.kubernetes.io/max-replicas"
POD_TEMPLATE_HASH: Final = "pod-template-hash"
_NOT_HANDED_ON: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        _HISTORY,
        _DESIRED,
        _MOST,
    }
)


def newest(deployment: Object, replica_sets: Iterable[Object]) -> Object | None:
    """Return the ReplicaSet whose template is the Deployment's; the oldest, if several."""
    template = deployment["spec"].get("template") or {}
    for one in replica_sets:
        if _same_template(one["spec"].get("template") or {}, template):
            return one
    return None


def _same_template(hashed: Mapping[str, Any], plain: Mapping[str, Any]) -> bool:
    if hashed.get("spec") != plain.get("spec"):
        return False
    return _bare(hashed.get("metadata")) == _bare(plain.get("metadata"))


def _bare(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a template's metadata without the hash and without anything empty."""
    meta = meta or {}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != POD_TEMPLATE_HASH}
    return {name: one for name, one in {**meta, "labels": labels}.items() if one}


def revision_of(obj: Object) -> int:
    """Return the revision noted on a ReplicaSet or Deployment; 0 when there is none."""
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def next_revision(olds: Iterable[Object]) -> int:
    """Return the number of a template that none of these ReplicaSets has."""
    return max((revision_of(one) for one in olds), default=0) + 1


def part_of(replica_set: Object) -> Part:
    """Read what a rollout needs to know of a ReplicaSet."""
    replicas = int(replica_set["spec"].get("replicas", 1))
    return Part(
        name=replica_set["metadata"]["name"],
        replicas=replicas,
        # It may not have deleted yet, nor counted, what it was told to.
        available=min(replicas, int(look(replica_set, "status", "availableReplicas") or 0)),
        desired_then=_noted(replica_set, _DESIRED),
        most_then=_noted(replica_set, _MOST),
    )


def _noted(obj: Object, name: str) -> int | None:
    text = (obj["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isdigit() else None


def was_rescaled(deployment: Object, replica_sets: Iterable[Object]) -> bool:
    """Tell whether somebody changed the replicas since the ReplicaSets were last resized."""
    replicas = int(deployment["spec"].get("replicas", 1))
    parts = [part_of(one) for one in replica_sets]
    return any(one.replicas > 0 and one.desired_then not in (None, replicas) for one in parts)


def resized(replica_set: Object, size: int, room: Room) -> dict[str, Any]:
    """Return a ReplicaSet of a new size, with a note of what the Deployment wanted then."""
    meta = replica_set["metadata"]
    annotations = {**(meta.get("annotations") or {}), **_size_notes(room)}
    spec = {**replica_set["spec"], "replicas": size}
    return {**replica_set, "metadata": {**meta, "annotations": annotations}, "spec": spec}


def _size_notes(room: Room) -> dict[str, str]:
    return {_DESIRED: str(room.replicas), _MOST: str(room.replicas + room.surge)}


def current(replica_set: Object, deployment: Object, revision: int) -> dict[str, Any]:
    """Return the newest ReplicaSet with the Deployment's notes and at least a revision."""
    meta = replica_set["metadata"]
    annotations = {**(meta.get("annotations") or {}), **_handed_on(deployment)}
    had = revision_of(replica_set)
    if had < revision:
        annotations[REVISION] = str(revision)
        if had:
            # An earlier template is back: remember under which numbers it was known.
            earlier = [one for one in (annotations.get(_HISTORY), str(had)) if one]
            annotations[_HISTORY] = ",".join(earlier)
    spec = dict(replica_set["spec"])
    if deployment["spec"].get("minReadySeconds"):
        spec["minReadySeconds"] = deployment["spec"]["minReadySeconds"]
    else:
        spec.pop("minReadySeconds", None)
    return {**replica_set, "metadata": {**meta, "annotations": annotations}, "spec": spec}


def _handed_on(deployment: Object) -> dict[str, str]:
    annotations = deployment["metadata"].get("annotations") or {}
    return {name: text for name, text in annotations.items() if name not in _NOT_HANDED_ON}


def replica_set_for(deployment: Object, *, collisions: int) -> dict[str, Any]:
    """Return an empty ReplicaSet for the Deployment's template, to be given a size."""
    template: Mapping[str, Any] = deployment["spec"].get("template") or {}
    mark = {POD_TEMPLATE_HASH: template_hash(template, collisions=collisions)}
    labels = {**labels_of(template), **mark}
    selector = deployment["spec"].get("selector") or {}
    meta = deployment["metadata"]
    return {
        "metadata": {
            "name": f"{meta['name']}-{mark[POD_TEMPLATE_HASH]}",
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [reference_to(deployment)],
        },
        "spec": {
            "replicas": 0,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), **mark},
            },
            "template": {
                **template,
                "metadata": {**(template.get("metadata") or {}), "labels": labels},
            },
        },
    }


def too_old(deployment: Object, olds: Sequence[Object]) -> list[Object]:
    """Return the ReplicaSets that are past the history a Deployment keeps."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    surplus = len(olds) - (10 if limit is None else int(limit))
    if surplus <= 0:
        return []
    return [one for one in sorted(olds, key=revision_of)[:surplus] if _is_empty(one)]


def _is_empty(replica_set: Object) -> bool:
    status = replica_set.get("status") or {}
    seen = status.get("observedGeneration", 0) >= replica_set["metadata"]["generation"]
    leaving = replica_set["metadata"].get("deletionTimestamp")
    return (
        seen
        and not leaving
        and not replica_set["spec"].get("replicas")
        and not status.get("replicas")
    )
