"""Deployments: ReplicaSets that grow and shrink so that a new template takes over."""

from datetime import timedelta
from itertools import count
from typing import Any, Final

from dovetail.ports.api_resources import DEPLOYMENTS, REPLICA_SETS
from dovetail.ports.kube_errors import AlreadyExists, ApiError
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.selectors import labels_match
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.deployment.revisions import (
    REVISION,
    current,
    newest,
    next_revision,
    part_of,
    replica_set_for,
    resized,
    revision_of,
    too_old,
    was_rescaled,
)
from dovetail.simulator.controllermanager.deployment.rollout import (
    Room,
    Sizes,
    grow,
    rescale,
    roll,
    room_of,
)
from dovetail.simulator.controllermanager.deployment.status import (
    Progress,
    counts_of,
    is_complete,
    status_of,
)
from dovetail.simulator.controllermanager.owner_references import (
    controller_of,
    controlling_key,
    find,
    is_leaving,
    reference_to,
)
from dovetail.simulator.controllermanager.ownership.adoption import selector_of
from dovetail.simulator.controllermanager.ownership.owned_index import Child, Offspring
from dovetail.simulator.controllermanager.pods.pod_index import Standing
from dovetail.simulator.workqueue import Desk, follow

_TRY_AGAIN: Final = timedelta(seconds=5)


class Deployments:
    """Keeps the ReplicaSets of every Deployment."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[Key] = Desk(site.engine, self._sync)
        self._replica_sets = Offspring(site, REPLICA_SETS, self._child_changed)
        site.pods.tell_of_everything(self._pod_changed)
        follow(site.api, site.engine, DEPLOYMENTS, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        if event.type is EventType.DELETED:
            self._desk.forget(key)
        else:
            self._desk.ask(key)

    def _child_changed(self, child: Child) -> None:
        for kind, key in child.owners:
            if kind == "Deployment":
                self._desk.ask(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Recreate waits for the last old pod to be gone, which no ReplicaSet counts."""
        owner = None if old is None or new is not None else controller_of(old)
        if old is None or owner is None or owner["kind"] != "ReplicaSet":
            return
        if owner["uid"] not in self._site.pods.crews:
            above = find(self._site.api, REPLICA_SETS, controlling_key(old, owner))
            deployment = None if above is None else controller_of(above)
            if deployment is not None:
                self._desk.ask(controlling_key(old, deployment))

    def _sync(self, key: Key) -> None:
        deployment = find(self._site.api, DEPLOYMENTS, key)
        if deployment is None:
            return
        if self._adopt(deployment):
            return  # What is adopted brings us back.
        progress = Progress(deployment, now=self._site.now())
        if not is_leaving(deployment):
            self._act(deployment, progress)
        self._tell(key, progress)

    def _act(self, deployment: Object, progress: Progress) -> None:
        sets = self._sets(deployment)
        new = newest(deployment, sets)
        progress.paused()
        if deployment["spec"].get("paused") or was_rescaled(deployment, sets):
            self._rescale(deployment, new, sets)
            return
        olds = [one for one in sets if new is None or key_of(one) != key_of(new)]
        if _recreates(deployment):
            self._recreate(deployment, new, olds, progress)
            return
        new = self._renewed(deployment, new, olds, progress)
        if new is not None:
            self._resize(
                [new, *olds],
                roll(room_of(deployment), part_of(new), [part_of(one) for one in olds]),
                room_of(deployment),
            )

    def _rescale(self, deployment: Object, new: Object | None, sets: list[Object]) -> None:
        room = room_of(deployment)
        olds = [part_of(one) for one in sets if new is None or key_of(one) != key_of(new)]
        latest = None if new is None else part_of(new)
        sizes = rescale(room, latest, olds, rolling=not _recreates(deployment))
        kept = {part.name: part.replicas for one in sets if (part := part_of(one)).replicas > 0}
        self._resize(sets, {**kept, **sizes}, room)

    def _recreate(
        self, deployment: Object, new: Object | None, olds: list[Object], progress: Progress
    ) -> None:
        room = room_of(deployment)
        running = [one for one in olds if part_of(one).replicas > 0]
        if running:
            self._resize(running, {part_of(one).name: 0 for one in running}, room)
        elif not any(self._has_pods(one) for one in olds):
            new = self._renewed(deployment, new, olds, progress)
            if new is not None:
                self._resize([new], {new["metadata"]["name"]: room.replicas}, room)

    def _has_pods(self, replica_set: Object) -> bool:
        crew = self._site.pods.crew(replica_set)
        return crew.active + crew[Standing.LEAVING] > 0

    def _renewed(
        self, deployment: Object, new: Object | None, olds: list[Object], progress: Progress
    ) -> Object | None:
        """Return the newest ReplicaSet, made or brought up to date."""
        revision = next_revision(olds)
        if new is None:
            try:
                new = self._create(deployment, olds, revision)
            except ApiError as error:
                progress.could_not_create(error.message)
                self._desk.ask(key_of(deployment), after=_TRY_AGAIN)
                return None
            progress.created(new["metadata"]["name"])
        else:
            new = self._write(new, current(new, deployment, revision))
            progress.found(new["metadata"]["name"])
        noted = {REVISION: str(revision_of(new))}
        if revision_of(deployment) != revision_of(new):
            namespace, name = key_of(deployment)
            patch = {"metadata": {"annotations": noted}}
            self._site.api.patch(DEPLOYMENTS, name, patch, PatchType.MERGE, namespace)
        return new

    def _create(self, deployment: Object, olds: list[Object], revision: int) -> Object:
        room = room_of(deployment)
        for collisions in count():
            made: dict[str, Any] = replica_set_for(deployment, collisions=collisions)
            size = room.replicas
            if not _recreates(deployment):
                size = grow(room, part_of(made), [part_of(one) for one in olds])
            whole = current(resized(made, size, room), deployment, revision)
            try:
                return self._site.api.create(REPLICA_SETS, whole)
            except AlreadyExists:
                continue  # Another template has the same hash, or another owner the name.
        raise AssertionError("counting does not end")

    def _resize(self, sets: list[Object], sizes: Sizes, room: Room) -> None:
        for one in sets:
            size = sizes.get(one["metadata"]["name"])
            if size is not None:
                self._write(one, resized(one, size, room))

    def _write(self, old: Object, new: dict[str, Any]) -> Object:
        # Most looks at a Deployment change nothing, and comparing is cheaper than asking.
        return old if new == old else self._site.api.update(REPLICA_SETS, new)

    def _tell(self, key: Key, progress: Progress) -> None:
        deployment = find(self._site.api, DEPLOYMENTS, key)
        if deployment is None:
            return
        sets = self._sets(deployment)
        new = newest(deployment, sets)
        counts, room = counts_of(new, sets), room_of(deployment)
        progress.available(counts, room)
        progress.failing(sets)
        paused = deployment["spec"].get("paused")
        if not paused and not is_leaving(deployment):
            name = "" if new is None else new["metadata"]["name"]
            late_after = progress.rolled(counts, name)
            if late_after is not None:
                self._desk.ask(key, after=late_after)
        status = status_of(deployment, counts, progress.conditions)
        self._site.write_status(DEPLOYMENTS, deployment, status)
        if is_complete(deployment, counts) and not is_leaving(deployment):
            self._clean_up(deployment, [one for one in sets if one is not new])

    def _clean_up(self, deployment: Object, olds: list[Object]) -> None:
        for one in too_old(deployment, olds):
            self._site.delete(REPLICA_SETS, one)

    def _sets(self, deployment: Object) -> list[Object]:
        """Return the Deployment's ReplicaSets as they are now, oldest first."""
        keys = self._replica_sets.of(deployment["metadata"]["uid"])
        return [one for key in keys if (one := find(self._site.api, REPLICA_SETS, key))]

    def _adopt(self, deployment: Object) -> bool:
        terms, adopted = selector_of(deployment), False
        for key in tuple(self._replica_sets.orphans.get(key_of(deployment)[0], ())):
            orphan = find(self._site.api, REPLICA_SETS, key)
            if orphan is None or is_leaving(orphan) or controller_of(orphan) is not None:
                continue
            if labels_match(terms, orphan["metadata"].get("labels")):
                owners = [*(orphan["metadata"].get("ownerReferences") or ()),
                          reference_to(deployment)]  # fmt: skip
                patch = {"metadata": {"ownerReferences": owners}}
                self._site.api.patch(REPLICA_SETS, key[1], patch, PatchType.MERGE, key[0])
                adopted = True
        return adopted


def _recreates(deployment: Object) -> bool:
    return bool(look(deployment, "spec", "strategy", "type") == "Recreate")
