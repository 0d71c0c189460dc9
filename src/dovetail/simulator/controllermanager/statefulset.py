"""StatefulSet controller: pods with stable names, created and updated in order."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from dovetail.ports.api_resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from dovetail.ports.kube_errors import AlreadyExists, ApiError
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import WorkloadController
from dovetail.simulator.controllermanager.owner_references import is_deleting
from dovetail.simulator.controllermanager.ownership.controller_revisions import RevisionHistory
from dovetail.simulator.controllermanager.pods.pod_index import PodState, pod_state, ready_since
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH, pod_from

_RETRY_DELAY: Final = timedelta(seconds=5)
_TERMINATED: Final = (PodState.SUCCEEDED, PodState.FAILED)
POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_INDEX: Final = "apps.kubernetes.io/pod-index"


class _Snapshot(NamedTuple):
    """A StatefulSet and its pods at one instant."""

    stateful_set: Object
    pods: dict[int, Object]
    current: str
    """Name of the revision of pods below the partition."""
    update: str
    """Name of the revision of the current template."""
    ordered: bool
    partition: int


class StatefulSetController(WorkloadController):
    """Syncs every StatefulSet: one pod at a time, unless it is Parallel."""

    resource = STATEFUL_SETS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._history = RevisionHistory(context)

    def _sync(self, key: ObjectKey) -> None:
        stateful_set = self._context.find(STATEFUL_SETS, key)
        if stateful_set is None:
            return
        self._ref_manager.claim_pods(stateful_set)
        snapshot = self._snapshot(stateful_set)
        if not is_deleting(stateful_set):
            # Each step runs only if the previous one has nothing to wait for.
            if self._create_missing(snapshot) and self._delete_surplus(snapshot):
                self._update(snapshot)
            pod_revisions = map(revision_of, snapshot.pods.values())
            self._history.truncate(stateful_set, used={snapshot.current, snapshot.update, *pod_revisions})
        self._update_status(snapshot)

    def _snapshot(self, stateful_set: Object) -> _Snapshot:
        members = self._context.pods.owned_by(stateful_set).members.values()
        by_ordinal = {ordinal_of(member.pod): member.pod for member in members}
        update = self._history.record(stateful_set)
        spec = stateful_set["spec"]
        return _Snapshot(
            stateful_set=stateful_set,
            pods={ordinal: pod for ordinal, pod in sorted(
                (ordinal, pod) for ordinal, pod in by_ordinal.items() if ordinal is not None)},
            current=get_field(stateful_set, "status", "currentRevision") or update,
            update=update,
            ordered=spec.get("podManagementPolicy") != "Parallel",
            partition=int(get_field(spec, "updateStrategy", "rollingUpdate", "partition") or 0),
        )  # fmt: skip

    def _create_missing(self, snapshot: _Snapshot) -> bool:
        """Create missing pods, lowest ordinal first; return False while waiting for one."""
        for ordinal in desired_ordinals(snapshot.stateful_set):
            pod = snapshot.pods.get(ordinal)
            if pod is None:
                if not self._create(snapshot, ordinal):
                    return False
            elif pod_state(pod) in _TERMINATED:
                self._context.delete(PODS, pod)
            if snapshot.ordered and (pod is None or not self._is_available(snapshot, pod)):
                return False
        return True

    def _delete_surplus(self, snapshot: _Snapshot) -> bool:
        """Delete surplus pods, highest ordinal first; return False while waiting for one."""
        desired = desired_ordinals(snapshot.stateful_set)
        for ordinal, pod in sorted(snapshot.pods.items(), reverse=True):
            if ordinal in desired:
                continue
            self._context.delete(PODS, pod)
            if snapshot.ordered:
                return False
        return True

    def _update(self, snapshot: _Snapshot) -> None:
        """Delete the highest pod of an older revision if all above it are available."""
        strategy = snapshot.stateful_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        start = desired_ordinals(snapshot.stateful_set).start
        for ordinal in reversed(desired_ordinals(snapshot.stateful_set)):
            pod = snapshot.pods.get(ordinal)
            if ordinal < start + snapshot.partition or pod is None:
                return
            if revision_of(pod) != snapshot.update:
                self._context.delete(PODS, pod)
                return
            if not self._is_available(snapshot, pod):
                return

    def _create(self, snapshot: _Snapshot, ordinal: int) -> bool:
        stateful_set = snapshot.stateful_set
        wait = self._failure_delay.remaining(object_key(stateful_set))
        if wait > timedelta():
            self._queue.add(object_key(stateful_set), after=wait)
            return False
        namespace = stateful_set["metadata"]["namespace"]
        revision = snapshot.update
        if ordinal < desired_ordinals(stateful_set).start + snapshot.partition:
            revision = snapshot.current
        template = self._history.template(namespace, revision)
        try:
            for claim in volume_claims(stateful_set, ordinal):
                self._create_claim(claim)
            self._context.api.create(
                PODS,
                build_pod(
                    stateful_set, ordinal, template or stateful_set["spec"]["template"], revision=revision
                ),
            )
        except ApiError:
            # The namespace is terminating, or another pod has the name.
            self._queue.add(object_key(stateful_set), after=_RETRY_DELAY)
            return False
        return True

    def _create_claim(self, claim: dict[str, Any]) -> None:
        try:
            self._context.api.create(PERSISTENT_VOLUME_CLAIMS, claim)
        except AlreadyExists:
            return  # The claim of an earlier pod of this name keeps its data.

    def _is_available(self, snapshot: _Snapshot, pod: Object) -> bool:
        """Return True if a pod has been ready for ``minReadySeconds``."""
        if pod_state(pod) is not PodState.READY:
            return False
        min_ready = timedelta(seconds=snapshot.stateful_set["spec"].get("minReadySeconds") or 0)
        remaining = ready_since(pod) + min_ready - self._context.now()
        if remaining > timedelta():
            self._queue.add(object_key(snapshot.stateful_set), after=remaining)
            return False
        return True

    def _update_status(self, snapshot: _Snapshot) -> None:
        live = [pod for pod in snapshot.pods.values() if pod_state(pod) not in _TERMINATED]
        kept = [pod for pod in live if not is_deleting(pod)]
        updated = sum(revision_of(pod) == snapshot.update for pod in kept)
        ready = sum(pod_state(pod) is PodState.READY for pod in live)
        available = sum(self._is_available(snapshot, pod) for pod in live)
        replicas = len(desired_ordinals(snapshot.stateful_set))
        current = snapshot.current
        if updated == ready == replicas == len(live):
            current = snapshot.update
        counts = {
            "readyReplicas": ready,
            "currentReplicas": sum(revision_of(pod) == current for pod in kept),
            "updatedReplicas": updated,
        }
        status = {
            "observedGeneration": snapshot.stateful_set["metadata"]["generation"],
            "replicas": len(live),
            "availableReplicas": available,
            **{name: count for name, count in counts.items() if count},
            "currentRevision": current,
            "updateRevision": snapshot.update,
            "collisionCount": 0,
        }
        self._context.update_status(STATEFUL_SETS, snapshot.stateful_set, status)


def desired_ordinals(stateful_set: Object) -> range:
    """Return the ordinals that a StatefulSet's pods should have."""
    spec = stateful_set["spec"]
    start = int(get_field(spec, "ordinals", "start") or 0)
    return range(start, start + int(spec.get("replicas", 1)))


def ordinal_of(pod: Object) -> int | None:
    """Return a pod's ordinal; None if its name has none."""
    _, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if number.isdigit() else None


def revision_of(pod: Object) -> str:
    """Return the name of the revision that a pod was created from."""
    name: str = (pod["metadata"].get("labels") or {}).get(REVISION_HASH, "")
    return name


def build_pod(stateful_set: Object, ordinal: int, template: Mapping[str, Any], *, revision: str) -> Object:
    """Return the pod with an ordinal, from a revision's template."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    spec = {**(template.get("spec") or {}), "hostname": name}
    service = stateful_set["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    claims = {
        template_claim["metadata"]["name"]: {
            "name": template_claim["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": f"{template_claim['metadata']['name']}-{name}"},
        }
        for template_claim in _claim_templates(stateful_set)
    }
    if claims:
        others = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
        spec["volumes"] = [*others, *claims.values()]
    pod_labels = {REVISION_HASH: revision, POD_NAME: name, _INDEX: str(ordinal)}
    return pod_from({**template, "spec": spec}, stateful_set, name=name, labels=pod_labels)


def volume_claims(stateful_set: Object, ordinal: int) -> list[dict[str, Any]]:
    """Return the PersistentVolumeClaims of the pod with an ordinal.

    They have no owner and outlive the pod, a scale-down and the StatefulSet, unless its
    retention policy deletes them with the StatefulSet.
    """
    meta = stateful_set["metadata"]
    labels = get_field(stateful_set, "spec", "selector", "matchLabels") or {}
    policy = get_field(stateful_set, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
    owner = {name: stateful_set[name] for name in ("apiVersion", "kind")}
    owners = [{**owner, "name": meta["name"], "uid": meta["uid"]}] if policy == "Delete" else []
    return [
        {
            "metadata": {
                "name": f"{template['metadata']['name']}-{meta['name']}-{ordinal}",
                "namespace": meta["namespace"],
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
                "annotations": template["metadata"].get("annotations"),
                "ownerReferences": owners,
            },
            "spec": template.get("spec") or {},
        }
        for template in _claim_templates(stateful_set)
    ]


def _claim_templates(stateful_set: Object) -> Sequence[Object]:
    templates: Sequence[Object] = stateful_set["spec"].get("volumeClaimTemplates") or ()
    return templates
