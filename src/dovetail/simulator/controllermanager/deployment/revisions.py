"""Revisions of a Deployment: its new ReplicaSet and their annotations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.controllermanager.deployment.rollout import ReplicaSetSize, RolloutBounds
from dovetail.simulator.controllermanager.owner_references import controller_reference
from dovetail.simulator.controllermanager.pods.pod_template import labels_of, template_hash

REVISION: Final = "deployment.kubernetes.io/revision"
_HISTORY: Final = "deployment.kubernetes.io/revision-history"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MAX: Final = "deployment.kubernetes.io/max-replicas"
POD_TEMPLATE_HASH: Final = "pod-template-hash"
_NOT_COPIED: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, _HISTORY, _DESIRED, _MAX}
)


def find_new_replica_set(deployment: Object, replica_sets: Iterable[Object]) -> Object | None:
    """Return the ReplicaSet with the Deployment's template; the oldest of several."""
    template = deployment["spec"].get("template") or {}
    for replica_set in replica_sets:
        if _same_template(replica_set["spec"].get("template") or {}, template):
            return replica_set
    return None


def _same_template(labelled: Mapping[str, Any], plain: Mapping[str, Any]) -> bool:
    if labelled.get("spec") != plain.get("spec"):
        return False
    return _normalized_meta(labelled.get("metadata")) == _normalized_meta(plain.get("metadata"))


def _normalized_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a template's metadata without the hash label and empty fields."""
    meta = meta or {}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != POD_TEMPLATE_HASH}
    return {name: value for name, value in {**meta, "labels": labels}.items() if value}


def revision_of(obj: Object) -> int:
    """Return the revision of a ReplicaSet or Deployment; 0 if it has none."""
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def next_revision(old_replica_sets: Iterable[Object]) -> int:
    """Return the revision after the latest of these ReplicaSets."""
    return max((revision_of(replica_set) for replica_set in old_replica_sets), default=0) + 1


def replica_set_size(replica_set: Object) -> ReplicaSetSize:
    """Return the size of a ReplicaSet, as a rollout needs it."""
    replicas = int(replica_set["spec"].get("replicas", 1))
    return ReplicaSetSize(
        name=replica_set["metadata"]["name"],
        replicas=replicas,
        # The status may lag behind a scale-down.
        available=min(replicas, int(get_field(replica_set, "status", "availableReplicas") or 0)),
        desired_at_resize=_int_annotation(replica_set, _DESIRED),
        max_at_resize=_int_annotation(replica_set, _MAX),
    )


def _int_annotation(obj: Object, name: str) -> int | None:
    text = (obj["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isdigit() else None


def was_rescaled(deployment: Object, replica_sets: Iterable[Object]) -> bool:
    """Return True if the Deployment was scaled since its ReplicaSets were."""
    replicas = int(deployment["spec"].get("replicas", 1))
    sizes = [replica_set_size(replica_set) for replica_set in replica_sets]
    return any(size.replicas > 0 and size.desired_at_resize not in (None, replicas) for size in sizes)


def with_size(replica_set: Object, size: int, bounds: RolloutBounds) -> dict[str, Any]:
    """Return a ReplicaSet with a new size and the Deployment's size annotations."""
    meta = replica_set["metadata"]
    sizes = {_DESIRED: str(bounds.replicas), _MAX: str(bounds.replicas + bounds.surge)}
    annotations = {**(meta.get("annotations") or {}), **sizes}
    spec = {**replica_set["spec"], "replicas": size}
    return {**replica_set, "metadata": {**meta, "annotations": annotations}, "spec": spec}


def with_revision(replica_set: Object, deployment: Object, revision: int) -> dict[str, Any]:
    """Return the new ReplicaSet with the Deployment's annotations and revision."""
    meta = replica_set["metadata"]
    own = deployment["metadata"].get("annotations") or {}
    copied = {name: text for name, text in own.items() if name not in _NOT_COPIED}
    annotations = {**(meta.get("annotations") or {}), **copied}
    current_revision = revision_of(replica_set)
    if current_revision < revision:
        annotations[REVISION] = str(revision)
        if current_revision:
            # Rollback to an earlier template: keep its former revisions as history.
            history = [
                revisions for revisions in (annotations.get(_HISTORY), str(current_revision)) if revisions
            ]
            annotations[_HISTORY] = ",".join(history)
    spec = dict(replica_set["spec"])
    if deployment["spec"].get("minReadySeconds"):
        spec["minReadySeconds"] = deployment["spec"]["minReadySeconds"]
    else:
        spec.pop("minReadySeconds", None)
    return {**replica_set, "metadata": {**meta, "annotations": annotations}, "spec": spec}


def build_replica_set(deployment: Object, *, collisions: int) -> dict[str, Any]:
    """Return a ReplicaSet for the Deployment's template, with zero replicas."""
    template: Mapping[str, Any] = deployment["spec"].get("template") or {}
    hash_label = {POD_TEMPLATE_HASH: template_hash(template, collisions=collisions)}
    labels = {**labels_of(template), **hash_label}
    selector = deployment["spec"].get("selector") or {}
    meta = deployment["metadata"]
    return {
        "metadata": {
            "name": f"{meta['name']}-{hash_label[POD_TEMPLATE_HASH]}",
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **hash_label}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def beyond_history_limit(deployment: Object, old_replica_sets: Sequence[Object]) -> list[Object]:
    """Return the ReplicaSets beyond the Deployment's revision history limit."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    surplus = len(old_replica_sets) - (10 if limit is None else int(limit))
    if surplus <= 0:
        return []
    return [
        replica_set
        for replica_set in sorted(old_replica_sets, key=revision_of)[:surplus]
        if _is_empty(replica_set)
    ]


def _is_empty(replica_set: Object) -> bool:
    status = replica_set.get("status") or {}
    observed = status.get("observedGeneration", 0) >= replica_set["metadata"]["generation"]
    deleting = replica_set["metadata"].get("deletionTimestamp")
    return (
        observed and not deleting and not replica_set["spec"].get("replicas") and not status.get("replicas")
    )
