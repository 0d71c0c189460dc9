"""Deployment controller: scales ReplicaSets to roll out a new template."""

from datetime import timedelta
from itertools import count
from typing import Any, Final

from dovetail.ports.api_resources import DEPLOYMENTS, REPLICA_SETS
from dovetail.ports.kube_errors import AlreadyExists, ApiError
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import labels_match
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import Controller
from dovetail.simulator.controllermanager.deployment.revisions import (
    REVISION,
    beyond_history_limit,
    build_replica_set,
    find_new_replica_set,
    next_revision,
    replica_set_size,
    revision_of,
    was_rescaled,
    with_revision,
    with_size,
)
from dovetail.simulator.controllermanager.deployment.rollout import (
    RolloutBounds,
    Sizes,
    new_replica_count,
    rollout_bounds,
    rollout_step,
    scale_replica_sets,
)
from dovetail.simulator.controllermanager.deployment.status import (
    Progress,
    encode_status,
    is_complete,
    sum_counts,
)
from dovetail.simulator.controllermanager.owner_references import (
    controller_of,
    controller_reference,
    is_deleting,
    owner_key,
)
from dovetail.simulator.controllermanager.ownership.adoption import selector_of
from dovetail.simulator.controllermanager.ownership.owned_index import OwnedIndex
from dovetail.simulator.controllermanager.pods.pod_index import PodState

_RETRY_DELAY: Final = timedelta(seconds=5)


class DeploymentController(Controller):
    """Syncs the ReplicaSets of every Deployment."""

    resource = DEPLOYMENTS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._replica_sets = OwnedIndex(context, REPLICA_SETS, self._enqueue_owners)
        context.pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Requeue a Deployment when the last pod of a ReplicaSet is gone.

        Recreate waits for terminating pods, which no ReplicaSet counts.
        """
        owner = None if old is None or new is not None else controller_of(old)
        if old is None or owner is None or owner["kind"] != "ReplicaSet":
            return
        if owner["uid"] not in self._context.pods.by_owner:
            replica_set = self._context.find(REPLICA_SETS, owner_key(old, owner))
            deployment = None if replica_set is None else controller_of(replica_set)
            if deployment is not None:
                self._queue.add(owner_key(old, deployment))

    def _sync(self, key: ObjectKey) -> None:
        deployment = self._context.find(DEPLOYMENTS, key)
        if deployment is None:
            return
        if self._adopt(deployment):
            return  # The adopted ReplicaSet's event requeues the Deployment.
        progress = Progress(deployment, now=self._context.now())
        if not is_deleting(deployment):
            self._sync_replica_sets(deployment, progress)
        self._update_status(key, progress)

    def _sync_replica_sets(self, deployment: Object, progress: Progress) -> None:
        replica_sets = self._list_replica_sets(deployment)
        new = find_new_replica_set(deployment, replica_sets)
        progress.update_paused()
        if deployment["spec"].get("paused") or was_rescaled(deployment, replica_sets):
            self._scale(deployment, new, replica_sets)
            return
        old_replica_sets = [
            replica_set
            for replica_set in replica_sets
            if new is None or object_key(replica_set) != object_key(new)
        ]
        if _uses_recreate(deployment):
            self._recreate(deployment, new, old_replica_sets, progress)
            return
        new = self._ensure_new_replica_set(deployment, new, old_replica_sets, progress)
        if new is not None:
            bounds = rollout_bounds(deployment)
            old_sizes = [replica_set_size(old) for old in old_replica_sets]
            sizes = rollout_step(bounds, replica_set_size(new), old_sizes)
            self._resize([new, *old_replica_sets], sizes, bounds)

    def _scale(self, deployment: Object, new: Object | None, replica_sets: list[Object]) -> None:
        bounds = rollout_bounds(deployment)
        old_replica_sets = [
            replica_set_size(replica_set)
            for replica_set in replica_sets
            if new is None or object_key(replica_set) != object_key(new)
        ]
        latest = None if new is None else replica_set_size(new)
        sizes = scale_replica_sets(bounds, latest, old_replica_sets, rolling=not _uses_recreate(deployment))
        kept = {
            size.name: size.replicas
            for replica_set in replica_sets
            if (size := replica_set_size(replica_set)).replicas > 0
        }
        self._resize(replica_sets, {**kept, **sizes}, bounds)

    def _recreate(
        self, deployment: Object, new: Object | None, old_replica_sets: list[Object], progress: Progress
    ) -> None:
        bounds = rollout_bounds(deployment)
        running = [
            replica_set for replica_set in old_replica_sets if replica_set_size(replica_set).replicas > 0
        ]
        if running:
            self._resize(running, {replica_set_size(replica_set).name: 0 for replica_set in running}, bounds)
        elif not any(self._has_pods(old) for old in old_replica_sets):
            new = self._ensure_new_replica_set(deployment, new, old_replica_sets, progress)
            if new is not None:
                self._resize([new], {new["metadata"]["name"]: bounds.replicas}, bounds)

    def _has_pods(self, replica_set: Object) -> bool:
        owned_pods = self._context.pods.owned_by(replica_set)
        return owned_pods.active + owned_pods[PodState.TERMINATING] > 0

    def _ensure_new_replica_set(
        self, deployment: Object, new: Object | None, old_replica_sets: list[Object], progress: Progress
    ) -> Object | None:
        """Return the new ReplicaSet, created or brought up to date."""
        revision = next_revision(old_replica_sets)
        if new is None:
            try:
                new = self._create(deployment, old_replica_sets, revision)
            except ApiError as error:
                progress.record_create_error(error.message)
                self._queue.add(object_key(deployment), after=_RETRY_DELAY)
                return None
            progress.record_created(new["metadata"]["name"])
        else:
            new = self._write(new, with_revision(new, deployment, revision))
            progress.record_found(new["metadata"]["name"])
        annotations = {REVISION: str(revision_of(new))}
        if revision_of(deployment) != revision_of(new):
            namespace, name = object_key(deployment)
            patch = {"metadata": {"annotations": annotations}}
            self._context.api.patch(DEPLOYMENTS, name, patch, PatchType.MERGE, namespace)
        return new

    def _create(self, deployment: Object, old_replica_sets: list[Object], revision: int) -> Object:
        bounds = rollout_bounds(deployment)
        for collisions in count():
            replica_set: dict[str, Any] = build_replica_set(deployment, collisions=collisions)
            size = bounds.replicas
            if not _uses_recreate(deployment):
                size = new_replica_count(
                    bounds, replica_set_size(replica_set), [replica_set_size(old) for old in old_replica_sets]
                )
            annotated = with_revision(with_size(replica_set, size, bounds), deployment, revision)
            try:
                return self._context.api.create(REPLICA_SETS, annotated)
            except AlreadyExists:
                continue  # Hash collision, or the name belongs to another owner.
        raise AssertionError("counting does not end")

    def _resize(self, replica_sets: list[Object], sizes: Sizes, bounds: RolloutBounds) -> None:
        for replica_set in replica_sets:
            size = sizes.get(replica_set["metadata"]["name"])
            if size is not None:
                self._write(replica_set, with_size(replica_set, size, bounds))

    def _write(self, old: Object, new: dict[str, Any]) -> Object:
        # Most syncs change nothing, and comparing is cheaper than an update.
        return old if new == old else self._context.api.update(REPLICA_SETS, new)

    def _update_status(self, key: ObjectKey, progress: Progress) -> None:
        deployment = self._context.find(DEPLOYMENTS, key)
        if deployment is None:
            return
        replica_sets = self._list_replica_sets(deployment)
        new = find_new_replica_set(deployment, replica_sets)
        counts, bounds = sum_counts(new, replica_sets), rollout_bounds(deployment)
        progress.update_available(counts, bounds)
        progress.update_replica_failure(replica_sets)
        paused = deployment["spec"].get("paused")
        if not paused and not is_deleting(deployment):
            name = "" if new is None else new["metadata"]["name"]
            until_deadline = progress.update_progressing(counts, name)
            if until_deadline is not None:
                self._queue.add(key, after=until_deadline)
        status = encode_status(deployment, counts, progress.conditions)
        self._context.update_status(DEPLOYMENTS, deployment, status)
        if is_complete(deployment, counts) and not is_deleting(deployment):
            old_replica_sets = [replica_set for replica_set in replica_sets if replica_set is not new]
            for replica_set in beyond_history_limit(deployment, old_replica_sets):
                self._context.delete(REPLICA_SETS, replica_set)

    def _list_replica_sets(self, deployment: Object) -> list[Object]:
        """Return the Deployment's current ReplicaSets, oldest first."""
        return self._replica_sets.owned_by(deployment["metadata"]["uid"])

    def _adopt(self, deployment: Object) -> bool:
        terms, adopted = selector_of(deployment), False
        for key in tuple(self._replica_sets.orphans.get(object_key(deployment)[0], ())):
            orphan = self._context.find(REPLICA_SETS, key)
            if orphan is None or is_deleting(orphan) or controller_of(orphan) is not None:
                continue
            if labels_match(terms, orphan["metadata"].get("labels")):
                owners = [*(orphan["metadata"].get("ownerReferences") or ()),
                          controller_reference(deployment)]  # fmt: skip
                patch = {"metadata": {"ownerReferences": owners}}
                self._context.api.patch(REPLICA_SETS, key[1], patch, PatchType.MERGE, key[0])
                adopted = True
        return adopted


def _uses_recreate(deployment: Object) -> bool:
    return bool(get_field(deployment, "spec", "strategy", "type") == "Recreate")
