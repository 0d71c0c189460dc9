"""StatefulSets: pods with a name for life, made and replaced in order."""

from datetime import timedelta
from typing import Any, Final, NamedTuple

from dovetail.ports.api_resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from dovetail.ports.kube_errors import AlreadyExists, ApiError
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import (
    controller_of,
    controlling_key,
    find,
    is_leaving,
)
from dovetail.simulator.controllermanager.ownership.adoption import Belonging
from dovetail.simulator.controllermanager.ownership.controller_revisions import History
from dovetail.simulator.controllermanager.pods.failure_delay import Patience
from dovetail.simulator.controllermanager.pods.pod_index import Standing, ready_since, standing_of
from dovetail.simulator.controllermanager.statefulset.pods import (
    claims_for,
    ordinal_of,
    ordinals,
    revision_of,
    stateful_pod,
)
from dovetail.simulator.workqueue import Desk, follow

_TRY_AGAIN: Final = timedelta(seconds=5)
_ENDED: Final = (Standing.SUCCEEDED, Standing.FAILED)


class _Picture(NamedTuple):
    """A StatefulSet and its pods at one instant."""

    stateful_set: Object
    pods: dict[int, Object]
    current: str
    """Name of the revision that pods below the partition have."""
    update: str
    """Name of the revision of the present template."""
    ordered: bool
    partition: int


class StatefulSets:
    """Takes the next step of each StatefulSet: one pod at a time, unless it may hurry."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[Key] = Desk(site.engine, self._sync)
        self._patience: Patience[Key] = Patience(site.engine)
        self._belonging = Belonging(site, self._desk.ask)
        self._history = History(site)
        site.pods.tell_of_pods("StatefulSet", self._pod_changed)
        follow(site.api, site.engine, STATEFUL_SETS, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        if event.type is EventType.DELETED:
            self._belonging.forget(key)
            self._desk.forget(key)
        else:
            self._belonging.learn(event.object)
            self._desk.ask(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod)
        if pod is not None and owner is not None:
            key = controlling_key(pod, owner)
            self._patience.note(key, old, new)
            self._desk.ask(key)

    def _sync(self, key: Key) -> None:
        stateful_set = find(self._site.api, STATEFUL_SETS, key)
        if stateful_set is None:
            return
        self._belonging.settle(stateful_set)
        picture = self._picture(stateful_set)
        if not is_leaving(stateful_set):
            # Each step only when the one before it leaves nothing to wait for.
            if self._fill(picture) and self._condemn(picture):
                self._update(picture)
            self._history.forget_old(stateful_set, used=_revisions_in_use(picture))
        self._tell(picture)

    def _picture(self, stateful_set: Object) -> _Picture:
        members = self._site.pods.crew(stateful_set).members.values()
        numbered = {ordinal_of(one.pod): one.pod for one in members}
        update = self._history.record(stateful_set)
        spec = stateful_set["spec"]
        return _Picture(
            stateful_set=stateful_set,
            pods={number: pod for number, pod in sorted(
                (n, p) for n, p in numbered.items() if n is not None)},
            current=look(stateful_set, "status", "currentRevision") or update,
            update=update,
            ordered=spec.get("podManagementPolicy") != "Parallel",
            partition=int(look(spec, "updateStrategy", "rollingUpdate", "partition") or 0),
        )  # fmt: skip

    def _fill(self, picture: _Picture) -> bool:
        """Create what is missing, lowest number first; False while something must be awaited."""
        for ordinal in ordinals(picture.stateful_set):
            pod = picture.pods.get(ordinal)
            if pod is None:
                if not self._create(picture, ordinal):
                    return False
            elif standing_of(pod) in _ENDED:
                self._site.delete(PODS, pod)
            if picture.ordered and (pod is None or not self._serves(picture, pod)):
                return False
        return True

    def _condemn(self, picture: _Picture) -> bool:
        """Delete what is too much, highest number first."""
        wanted = ordinals(picture.stateful_set)
        for ordinal, pod in sorted(picture.pods.items(), reverse=True):
            if ordinal in wanted:
                continue
            self._site.delete(PODS, pod)
            if picture.ordered:
                return False
        return True

    def _update(self, picture: _Picture) -> None:
        """Replace the highest pod of an older revision, if all above it serve."""
        strategy = picture.stateful_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        start = ordinals(picture.stateful_set).start
        for ordinal in reversed(ordinals(picture.stateful_set)):
            pod = picture.pods.get(ordinal)
            if ordinal < start + picture.partition or pod is None:
                return
            if revision_of(pod) != picture.update:
                self._site.delete(PODS, pod)
                return
            if not self._serves(picture, pod):
                return

    def _create(self, picture: _Picture, ordinal: int) -> bool:
        stateful_set = picture.stateful_set
        wait = self._patience.left(key_of(stateful_set))
        if wait > timedelta():
            self._desk.ask(key_of(stateful_set), after=wait)
            return False
        namespace = stateful_set["metadata"]["namespace"]
        revision = picture.update
        if ordinal < ordinals(stateful_set).start + picture.partition:
            revision = picture.current
        template = self._history.template(namespace, revision)
        try:
            for claim in claims_for(stateful_set, ordinal):
                self._claim(claim)
            self._site.api.create(
                PODS,
                stateful_pod(
                    stateful_set,
                    ordinal,
                    template or stateful_set["spec"]["template"],
                    revision=revision,
                ),
            )
        except ApiError:
            # The namespace ends, or somebody else's pod has the name.
            self._desk.ask(key_of(stateful_set), after=_TRY_AGAIN)
            return False
        return True

    def _claim(self, claim: dict[str, Any]) -> None:
        try:
            self._site.api.create(PERSISTENT_VOLUME_CLAIMS, claim)
        except AlreadyExists:
            return  # The data of an earlier pod of this name: that is the point.

    def _serves(self, picture: _Picture, pod: Object) -> bool:
        """Tell whether a pod has been ready for long enough."""
        if standing_of(pod) is not Standing.READY:
            return False
        settle = timedelta(seconds=picture.stateful_set["spec"].get("minReadySeconds") or 0)
        left = ready_since(pod) + settle - self._site.now()
        if left > timedelta():
            self._desk.ask(key_of(picture.stateful_set), after=left)
            return False
        return True

    def _tell(self, picture: _Picture) -> None:
        live = [one for one in picture.pods.values() if standing_of(one) not in _ENDED]
        staying = [one for one in live if not is_leaving(one)]
        updated = sum(revision_of(one) == picture.update for one in staying)
        ready = sum(standing_of(one) is Standing.READY for one in live)
        available = sum(self._serves(picture, one) for one in live)
        replicas = len(ordinals(picture.stateful_set))
        current = picture.current
        if updated == ready == replicas == len(live):
            current = picture.update
        counts = {
            "readyReplicas": ready,
            "currentReplicas": sum(revision_of(one) == current for one in staying),
            "updatedReplicas": updated,
        }
        status = {
            "observedGeneration": picture.stateful_set["metadata"]["generation"],
            "replicas": len(live),
            "availableReplicas": available,
            **{name: count for name, count in counts.items() if count},
            "currentRevision": current,
            "updateRevision": picture.update,
            "collisionCount": 0,
        }
        self._site.write_status(STATEFUL_SETS, picture.stateful_set, status)


def _revisions_in_use(picture: _Picture) -> set[str]:
    return {picture.current, picture.update, *map(revision_of, picture.pods.values())}
