"""What-if on a live cluster: which of its pods a changed workload replaces."""

import msgspec

from dovetail.codec.inputs.collection import Collection
from dovetail.codec.inputs.replicas import WORKLOADS, same_template
from dovetail.codec.kube.workloads import TEMPLATE_HASH, Workload
from dovetail.model.kube.pod import Phase, Pod

Key = tuple[str, str, str]


class Change(msgspec.Struct, frozen=True):
    """What applying a workload would do to the pods that it has already."""

    workload: Workload
    stay: tuple[Pod, ...] = ()
    go: tuple[Pod, ...] = ()

    @property
    def missing(self) -> int:
        return max(0, self.workload.replicas - len(self.stay))


def changes(given: Collection, live: Collection, *, cron_runs: bool) -> list[Change]:
    """Compare every given workload with the pods that the cluster has of it.

    With an unchanged template only the count matters: pods stay as far as they
    are wanted, those that wait for a node being the first to go. With another
    template all of its pods are replaced, as after a finished rollout. A workload
    that names no count keeps the one it has, as when it is applied.
    """
    by_root = _live_pods_by_root(live)
    found = []
    for one in given.objects.values():
        workload = one.model
        if one.kind not in WORKLOADS or _is_made_by_another(workload, given):
            continue
        if one.kind == "CronJob" and not cron_runs:
            continue
        found.append(_change(workload, live.model(*one.key), by_root.get(workload.key, [])))
    return found


def _change(workload: Workload, before: Workload | None, pods: list[Pod]) -> Change:
    if before is not None and not workload.counted:
        workload = msgspec.structs.replace(workload, replicas=before.replicas)
    if before is None or not same_template(before, workload):
        return Change(workload, (), tuple(pods))
    kept = sorted(pods, key=_most_settled_first)[: workload.replicas]
    names = {pod.name for pod in kept}
    return Change(workload, tuple(kept), tuple(pod for pod in pods if pod.name not in names))


def _most_settled_first(pod: Pod) -> tuple[bool, bool, str, str]:
    created = pod.created.isoformat() if pod.created else ""
    return (not pod.node_name, pod.phase is not Phase.RUNNING, created, pod.name)


def _is_made_by_another(workload: Workload, given: Collection) -> bool:
    """Recognise a ReplicaSet beside its Deployment, as ``kubectl get all`` prints them."""
    owner = workload.owner
    return owner is not None and given.model(owner.kind, workload.namespace, owner.name) is not None


def _live_pods_by_root(live: Collection) -> dict[Key, list[Pod]]:
    found: dict[Key, list[Pod]] = {}
    for pod in live.of_kind("Pod"):
        root = root_of(pod, live)
        if root is not None and not pod.terminal:
            found.setdefault(root, []).append(pod)
    return found


def root_of(pod: Pod, live: Collection) -> Key | None:
    """Return the workload that a user would name as the maker of a pod."""
    owner = pod.owner
    if owner is None:
        return None
    if owner.kind != "ReplicaSet":
        return (owner.kind, pod.namespace, owner.name)
    replica_set = live.model("ReplicaSet", pod.namespace, owner.name)
    if replica_set is not None and replica_set.owner is not None:
        return (replica_set.owner.kind, pod.namespace, replica_set.owner.name)
    # A dump without ReplicaSets: a Deployment's one is named after it and the hash.
    suffix = f"-{pod.labels.get(TEMPLATE_HASH)}"
    if owner.name.endswith(suffix):
        return ("Deployment", pod.namespace, owner.name.removesuffix(suffix))
    return ("ReplicaSet", pod.namespace, owner.name)
