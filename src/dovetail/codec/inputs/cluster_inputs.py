"""Inputs of a simulation: manifests and dumps of a cluster, decoded and combined.

Manifests are desired objects: workloads become their replicas, which are all
pending. Dumps are observed objects: nodes, their pods, and pending pods. A
workload in both is a change to the cluster: see ``workload_changes``.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from dovetail.codec.inputs.autoscaled_workloads import ReplicaSource, scale_workloads
from dovetail.codec.inputs.collection import Collection, NamedFile, read_collections
from dovetail.codec.inputs.legacy_kubelet import move_kubelets
from dovetail.codec.inputs.replicas import WITH_REPLICA_SETS, WORKLOADS, ReplicaFactory, create_volume_claims
from dovetail.codec.inputs.storage_class_defaults import apply_storage_classes, delay_binding
from dovetail.codec.inputs.workload_changes import WorkloadChange, compare_workloads
from dovetail.codec.kube.nodes import CsiNode
from dovetail.codec.kube.workloads import Namespace, use_template, workload_controller
from dovetail.codec.text.suggestions import join_first, pluralize
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.admission import LimitRange, PodAdmission, RuntimeClass
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from dovetail.model.kube.workloads import DaemonSet, PodDisruptionBudget, Service, WorkloadController
from dovetail.model.node import NodeObject

MAX_PODS: Final = 2_000_000
"""Replicas of all workloads together: more do not fit in memory."""

_ClaimTemplate = tuple[PersistentVolumeClaim, bool]
"""A claim, and whether it names its storage class."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Decoded objects of all files; ``dovetail.simulate`` makes a snapshot of them."""

    pending: tuple[Pod, ...] = ()
    """Pods to schedule."""
    pods: tuple[Pod, ...] = ()
    """Pods of the cluster, bound or not, without those that a changed workload replaces."""
    nodes: tuple[NodeObject, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    csi_nodes: tuple[CsiNode, ...] = ()
    nodepools: tuple[NodePool, ...] = ()
    changed_nodepools: FrozenDict[str, NodePool | None] = FrozenDict()
    """Name of each NodePool in manifests → what it was in the dump, None if it is new."""
    node_classes: tuple[EC2NodeClass, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    changed_daemon_sets: frozenset[tuple[str, str]] = frozenset()
    """Namespace and name of those in manifests: they have no pods of this template yet."""
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    runtime_classes: tuple[RuntimeClass, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    pdbs: tuple[PodDisruptionBudget, ...] = ()
    services: tuple[Service, ...] = ()
    controllers: tuple[WorkloadController, ...] = ()
    job_seconds: FrozenDict[tuple[str, str], int] = FrozenDict()
    """Namespace and name of a Job → its deadline in seconds, if it has one."""
    recorded_at: datetime | None = None
    """About when the dumps were made: the latest time in their nodes and pods."""
    listed_kinds: frozenset[str] = frozenset()
    """Kinds that dumps have a List of, perhaps an empty one."""
    ignored: FrozenDict[str, int] = FrozenDict()
    """Kind → number of objects that no decision depends on."""
    warnings: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, one sentence each."""
        if not self.ignored:
            return self.warnings
        total = pluralize(sum(self.ignored.values()), "object")
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.ignored.items())
        return (f"ignored {total}: {kinds}", *self.warnings)


def read_inputs(
    files: Sequence[NamedFile],
    cluster: Sequence[NamedFile] = (),
    *,
    cron_runs: bool = False,
    kubelet_expressions: bool = True,
    replicas: ReplicaSource = ReplicaSource.SPEC,
) -> Inputs:
    """Read manifests and dumps; raise ``InvalidInputError`` with all errors in them.

    An object in the manifests replaces the one of the same name in a dump. A
    CronJob has no pods, or with ``cron_runs`` those of one run. Without
    ``kubelet_expressions``, they are errors in manifests. ``replicas`` selects those of
    autoscaled workloads.
    """
    manifests, live = read_collections(files, cluster, kubelet_expressions=kubelet_expressions)
    template_notes = _use_templates(manifests, live)
    scale_notes = scale_workloads(manifests, live, replicas)
    merged = live.merge(manifests)
    changes = compare_workloads(manifests, live, cron_runs=cron_runs)
    _check_total(changes, manifests)
    removed = {pod.key for change in changes for pod in change.removed}
    admission = PodAdmission(merged.models("LimitRange"), merged.models("RuntimeClass"))
    admitted, admission_warnings = _admit_workloads(changes, manifests, admission)
    new_pods, new_claims = _create_replicas(admitted, manifests, live, removed)
    pods, unbound, pod_warnings = _select_pods(manifests, live, removed)
    unbound, rejected = _admit_pods(unbound, manifests, admission)
    pending = (*unbound, *new_pods)
    new_classes = {storage_class.name for storage_class in manifests.models("StorageClass")}
    new_classes -= {storage_class.name for storage_class in live.models("StorageClass")}
    known_classes, binding_warnings = delay_binding(merged.models("StorageClass"), new_classes)
    claims, storage_classes, class_warnings = apply_storage_classes(
        [*_get_volume_claims(merged, manifests), *new_claims], known_classes, pending
    )
    nodepools, node_classes, kubelet_warnings = move_kubelets(
        merged.decoded("NodePool"), merged.models("EC2NodeClass")
    )
    daemon_sets = manifests.models("DaemonSet")
    return Inputs(
        pending=pending,
        pods=tuple(pods),
        nodes=tuple(merged.models("Node")),
        claims=tuple(merged.models("NodeClaim")),
        csi_nodes=tuple(merged.models("CSINode")),
        nodepools=nodepools,
        changed_nodepools=FrozenDict(
            {pool.name: live.model("NodePool", "", pool.name) for pool in manifests.models("NodePool")}
        ),
        node_classes=node_classes,
        daemon_sets=tuple(merged.models("DaemonSet")),
        changed_daemon_sets=frozenset((changed.namespace, changed.name) for changed in daemon_sets),
        volume_claims=claims,
        volumes=tuple(merged.models("PersistentVolume")),
        storage_classes=storage_classes,
        limit_ranges=tuple(merged.models("LimitRange")),
        runtime_classes=tuple(merged.models("RuntimeClass")),
        namespaces=_get_namespaces(merged, [*pending, *pods]),
        pdbs=tuple(merged.models("PodDisruptionBudget")),
        services=tuple(merged.models("Service")),
        controllers=_get_controllers(changes, live),
        job_seconds=FrozenDict(
            {
                (workload.namespace, workload.name): workload.run_seconds
                for workload in (change.workload for change in changes)
                if workload.run_seconds is not None
            }
        ),
        recorded_at=live.recorded_at(),
        listed_kinds=live.listed_kinds,
        ignored=FrozenDict(dict((manifests.ignored + live.ignored).most_common())),
        warnings=(
            *manifests.notes,
            *template_notes,
            *scale_notes,
            *_find_idle_workloads(changes, manifests, cron_runs=cron_runs),
            *admission_warnings,
            *rejected,
            *pod_warnings,
            *binding_warnings,
            *class_warnings,
            *kubelet_warnings,
            *_find_gaps(node_classes, pending, claims),
        ),
    )


def _use_templates(manifests: Collection, live: Collection) -> list[str]:
    """Complete Rollouts with the template of their ``workloadRef``, in place; return notes."""
    missing = []
    # Those of the dump first: its Rollouts run the templates of the dump, not those of manifests.
    for collection, sources in ((live, (live,)), (manifests, (manifests, live))):
        for decoded in collection.decoded("Rollout"):
            rollout, key = decoded.model, decoded.model.template_of
            if key is None:
                continue
            given = next((source for source in sources if key in source.objects), None)
            if given is None or key[0] not in WORKLOADS:
                rollout = msgspec.structs.replace(rollout, replicas=0, has_replica_count=True)
                missing.append(f"{rollout.namespace}/{rollout.name} ({key[0]} {key[2]})")
            else:
                rollout = use_template(rollout, given.objects[key].model)
                collection.resources[decoded.key] = given.resources[key]
            collection.objects[decoded.key] = msgspec.structs.replace(decoded, model=rollout)
    return [f"Rollouts whose workloadRef is not given: {join_first(missing)}"] if missing else []


def _admit_workloads(
    changes: Iterable[WorkloadChange], manifests: Collection, admission: PodAdmission
) -> tuple[list[WorkloadChange], list[str]]:
    """Return the changes with pods as admission makes them, and warnings about rejected pods."""
    admitted, warnings = [], []
    for change in changes:
        workload = change.workload
        result = admission.admit(workload.pod, manifests.resources.get(workload.key))
        workload = msgspec.structs.replace(workload, pod=result.pod)
        if result.rejection and change.missing:
            missing, name = pluralize(change.missing, "pod"), f"{workload.namespace}/{workload.name}"
            warnings.append(f"{missing} of {workload.kind} {name} left out: rejected by {result.rejection}")
            workload = msgspec.structs.replace(workload, replicas=len(change.kept))
        admitted.append(msgspec.structs.replace(change, workload=workload))
    return admitted, warnings


def _admit_pods(
    pods: Iterable[Pod], manifests: Collection, admission: PodAdmission
) -> tuple[list[Pod], list[str]]:
    """Return pods of manifests as admission makes them, and warnings about rejected ones."""
    admitted, warnings = [], []
    for pod in pods:
        result = admission.admit(pod, manifests.resources.get(("Pod", pod.namespace, pod.name)))
        if result.rejection:
            warnings.append(f"pod {pod.key} left out: rejected by {result.rejection}")
        else:
            admitted.append(result.pod)
    return admitted, warnings


def _find_idle_workloads(
    changes: Iterable[WorkloadChange], manifests: Collection, *, cron_runs: bool
) -> list[str]:
    """Return warnings about workloads that have no pods in the plan."""
    warnings = []
    idle = [change.workload.name for change in changes if change.workload.replicas == 0]
    if idle:
        warnings.append(f"no replicas requested, so no pods planned: {join_first(idle)}")
    cron_jobs = [cron_job.name for cron_job in manifests.models("CronJob")]
    if cron_jobs and not cron_runs:
        warnings.append(f"CronJobs left out (--cron-runs plans one run of each): {join_first(cron_jobs)}")
    return warnings


def _find_gaps(
    node_classes: Iterable[EC2NodeClass], pending: Iterable[Pod], claims: Sequence[PersistentVolumeClaim]
) -> list[str]:
    """Return warnings about data that decisions need and a dump lacks."""
    warnings = [
        f"EC2NodeClass {node_class.name} has no free count for its capacity reservations; none is used"
        for node_class in node_classes
        if node_class.capacity_reservations
        and not any(reservation.available_count for reservation in node_class.capacity_reservations)
    ]
    users = sum(any(not volume.ephemeral for volume in pod.spec.volumes) for pod in pending)
    if users and not claims:
        warnings.append(f"{pluralize(users, 'pod')} with volumes, but no PersistentVolumeClaim given")
    return warnings


def _check_total(changes: Iterable[WorkloadChange], manifests: Collection) -> None:
    """Reject more pods than fit in memory before the first is created."""
    total = 0
    for change in changes:
        total += change.missing
        if total > MAX_PODS:
            source = manifests.objects[change.workload.key].source
            message = f"requests more than {MAX_PODS:,} pods, all workloads together"
            raise InvalidInputError([ValidationError(source.file, 0, "spec.replicas", message)])


def _create_replicas(
    changes: Iterable[WorkloadChange], manifests: Collection, live: Collection, removed: set[str]
) -> tuple[list[Pod], list[_ClaimTemplate]]:
    """Return the missing pods of all workloads, and their new volume claims."""
    names = (pod.key for collection in (manifests, live) for pod in collection.models("Pod"))
    factory = ReplicaFactory(name for name in names if name not in removed)
    pods: list[Pod] = []
    claims: list[_ClaimTemplate] = []
    for change in changes:
        replicas = list(factory.create_pods(change.workload, change.missing))
        pods.extend(replicas)
        claims.extend(
            (claim, is_named)
            for claim, is_named in create_volume_claims(change.workload, replicas)
            if not any(
                collection.model("PersistentVolumeClaim", claim.namespace, claim.name)
                for collection in (manifests, live)
            )
        )
    return pods, claims


def _select_pods(
    manifests: Collection, live: Collection, removed: set[str]
) -> tuple[list[Pod], list[Pod], list[str]]:
    """Return the pods of the cluster, those of them and of manifests to schedule, and warnings."""
    pods, unbound_manifests, misbound = _split_manifest_pods(manifests, live)
    kept = [
        pod
        for pod in live.models("Pod")
        if pod.key not in removed and manifests.model("Pod", pod.namespace, pod.name) is None
    ]
    unbound = [pod for pod in kept if not (pod.node_name or pod.is_terminal) and _needs_node(pod)]
    ready = [pod for pod in unbound if pod.key not in live.gated]
    warnings = []
    if len(ready) < len(unbound):
        gated = pluralize(len(unbound) - len(ready), "pod")
        warnings.append(f"{gated} left out: waiting for scheduling gates")
    if misbound:
        names = join_first([f"{pod.key} ({pod.node_name})" for pod in misbound])
        warnings.append(
            f"{pluralize(len(misbound), 'pod')} left out: nodeName is of a node not given: {names}"
        )
    return [*pods, *kept], [*ready, *unbound_manifests], warnings


def _split_manifest_pods(manifests: Collection, live: Collection) -> tuple[list[Pod], list[Pod], list[Pod]]:
    """Return pods of the manifests: bound, unbound, and new ones of unknown nodes.

    A pod of a live cluster, which has a UID, counts as unbound if its node is unknown.
    """
    bound: list[Pod] = []
    unbound: list[Pod] = []
    misbound: list[Pod] = []
    for pod in manifests.models("Pod"):
        if pod.is_terminal or _is_replica(pod, manifests):
            continue
        if any(collection.model("Node", "", pod.node_name) is not None for collection in (manifests, live)):
            bound.append(pod)
        elif pod.node_name and not pod.uid:
            misbound.append(pod)
        elif not (pod.is_owned_by_daemon_set or pod.is_static):
            unbound.append(msgspec.structs.replace(pod, node_name="", nominated_node_name=""))
    return bound, unbound, misbound


def _needs_node(pod: Pod) -> bool:
    return not (pod.is_owned_by_daemon_set or pod.is_static or pod.deleting or pod.nominated_node_name)


def _is_replica(pod: Pod, manifests: Collection) -> bool:
    """Return True if the pod's owner is among the manifests, so that its replicas are created."""
    owner = pod.owner
    return owner is not None and manifests.model(owner.kind, pod.namespace, owner.name) is not None


def _get_volume_claims(merged: Collection, manifests: Collection) -> list[_ClaimTemplate]:
    """Return all volume claims.

    A manifest's claim that names its volume counts as bound: the volume
    controller binds it before its pod is scheduled.
    """
    claims = []
    for claim in merged.models("PersistentVolumeClaim"):
        is_named = bool(claim.storage_class) or claim.key in merged.without_storage_class
        is_new = manifests.model("PersistentVolumeClaim", claim.namespace, claim.name) is not None
        if claim.volume and (is_new or claim.phase == "Bound"):
            annotations = claim.annotations.with_items({BIND_COMPLETED: "yes"})
            claim = msgspec.structs.replace(claim, annotations=annotations)
        claims.append((claim, is_named))
    return claims


def _get_namespaces(merged: Collection, pods: Iterable[Pod]) -> tuple[Namespace, ...]:
    """Return all namespaces, including those that only pods name."""
    namespaces = {namespace.name: namespace for namespace in merged.models("Namespace")}
    for name in sorted({pod.namespace for pod in pods} - namespaces.keys()):
        namespaces[name] = Namespace(name, FrozenDict({"kubernetes.io/metadata.name": name}))
    return tuple(namespaces.values())


def _get_controllers(changes: Iterable[WorkloadChange], live: Collection) -> tuple[WorkloadController, ...]:
    workloads = [
        workload for kind in WORKLOADS if kind not in WITH_REPLICA_SETS for workload in live.models(kind)
    ]
    workloads += [change.workload for change in changes]
    controllers = filter(None, map(workload_controller, workloads))
    return tuple({(owner.kind, owner.namespace, owner.name): owner for owner in controllers}.values())
