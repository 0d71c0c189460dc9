"""Changes of workloads: which pods of a live cluster a manifest keeps or replaces."""

import msgspec

from dovetail.codec.inputs.collection import Collection
from dovetail.codec.inputs.replicas import WORKLOADS, has_same_template
from dovetail.codec.kube.workloads import TEMPLATE_HASH, Workload
from dovetail.model.kube.pod import Pod, PodPhase

WorkloadKey = tuple[str, str, str]
"""Kind, namespace and name."""


class WorkloadChange(msgspec.Struct, frozen=True):
    """A workload of a manifest, and its effect on existing pods."""

    workload: Workload
    kept: tuple[Pod, ...] = ()
    removed: tuple[Pod, ...] = ()

    @property
    def missing(self) -> int:
        """Number of pods to create."""
        return max(0, self.workload.replicas - len(self.kept))


def compare_workloads(manifests: Collection, live: Collection, *, cron_runs: bool) -> list[WorkloadChange]:
    """Compare every workload of the manifests with its pods in the cluster.

    With an equal template only the number of replicas matters: surplus pods are
    removed, unbound ones first. With another template all pods are replaced, as
    after a finished rollout. A workload without replica count keeps the current one.
    """
    pods_by_workload: dict[WorkloadKey, list[Pod]] = {}
    for pod in live.models("Pod"):
        root = _find_root_workload(pod, live)
        if root is not None and not pod.is_terminal:
            pods_by_workload.setdefault(root, []).append(pod)
    return [
        _compare(decoded.model, live.model(*decoded.key), pods_by_workload.get(decoded.key, []))
        for decoded in manifests.objects.values()
        if decoded.kind in WORKLOADS
        and not _has_owner_in(decoded.model, manifests)
        and (decoded.kind != "CronJob" or cron_runs)
    ]


def _compare(workload: Workload, current: Workload | None, pods: list[Pod]) -> WorkloadChange:
    if current is not None and not workload.has_replica_count:
        workload = msgspec.structs.replace(workload, replicas=current.replicas)
    if current is None or not has_same_template(current, workload):
        return WorkloadChange(workload, (), tuple(pods))
    kept = sorted(pods, key=_removal_order)[: workload.replicas]
    names = {pod.name for pod in kept}
    return WorkloadChange(workload, tuple(kept), tuple(pod for pod in pods if pod.name not in names))


def _removal_order(pod: Pod) -> tuple[bool, bool, str, str]:
    """Sort key: pods that are removed last come first."""
    created = pod.created.isoformat() if pod.created else ""
    return (not pod.node_name, pod.phase is not PodPhase.RUNNING, created, pod.name)


def _has_owner_in(workload: Workload, manifests: Collection) -> bool:
    """Return True for a ReplicaSet beside its Deployment, as in ``kubectl get all``."""
    owner = workload.owner
    return owner is not None and manifests.model(owner.kind, workload.namespace, owner.name) is not None


def _find_root_workload(pod: Pod, live: Collection) -> WorkloadKey | None:
    """Return the workload that a user would name as the owner of a pod."""
    owner = pod.owner
    if owner is None:
        return None
    if owner.kind != "ReplicaSet":
        return (owner.kind, pod.namespace, owner.name)
    replica_set = live.model("ReplicaSet", pod.namespace, owner.name)
    if replica_set is not None and replica_set.owner is not None:
        return (replica_set.owner.kind, pod.namespace, replica_set.owner.name)
    # A dump without ReplicaSets: that of a Deployment is named after it and the template hash.
    suffix = f"-{pod.labels.get(TEMPLATE_HASH)}"
    if owner.name.endswith(suffix):
        return ("Deployment", pod.namespace, owner.name.removesuffix(suffix))
    return ("ReplicaSet", pod.namespace, owner.name)
