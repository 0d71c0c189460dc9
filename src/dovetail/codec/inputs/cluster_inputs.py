"""What a user gives, as the objects that a decision is made from.

Manifests say what is wanted: workloads become their replicas, all of which
need a place. Dumps of a cluster say what is there: nodes, the pods on them,
and the pods that already wait. A workload that stands in both is a change to
the cluster: see ``changes``.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dovetail.codec.inputs.collection import Collection, NamedFile, gather
from dovetail.codec.inputs.legacy_kubelet import settle_kubelets
from dovetail.codec.inputs.node_join import join_nodes
from dovetail.codec.inputs.replicas import WORKLOADS, Replicas, claims_of
from dovetail.codec.inputs.storage_class_defaults import patient, with_classes
from dovetail.codec.inputs.workload_changes import Change, changes
from dovetail.codec.kube.workloads import controller
from dovetail.codec.text.suggestions import count_of, some_of
from dovetail.errors import BadInput, Mistake
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import BIND_COMPLETED, StorageClass, Volume, VolumeClaim
from dovetail.model.kube.workloads import Controller, DaemonSet, DisruptionBudget, Service
from dovetail.model.node import Node

MOST_PODS = 2_000_000


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read; instance types and prices are still missing."""

    pending: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    volume_claims: tuple[VolumeClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    namespaces: FrozenDict[str, FrozenDict[str, str]] = FrozenDict()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    services: tuple[Service, ...] = ()
    controllers: tuple[Controller, ...] = ()
    ignored: FrozenDict[str, int] = FrozenDict()
    """Kind → how many objects of it meant nothing to a decision."""
    warnings: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything that the user should know of, one sentence each."""
        if not self.ignored:
            return self.warnings
        total = count_of(sum(self.ignored.values()), "object")
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.ignored.items())
        return (f"ignored {total}: {kinds}", *self.warnings)


def read_inputs(
    manifests: Sequence[NamedFile],
    cluster: Sequence[NamedFile] = (),
    *,
    cron_runs: bool = False,
) -> Inputs:
    """Read manifests and dumps; raises ``BadInput`` with every mistake in them.

    An object in the manifests stands for the one of the same name in a dump.
    A CronJob makes no pods unless ``cron_runs`` asks for one run of each.
    """
    given, live = gather(manifests, cluster)
    both = _merged(given, live)
    planned = changes(given, live, cron_runs=cron_runs)
    _check_total(planned, given)
    gone = {pod.key for change in planned for pod in change.go}
    wanted, made_claims = _expanded(planned, given, live)
    bound, waiting, warnings = _existing_pods(given, live, gone)
    pending = (*waiting, *wanted)
    nodes, remarks = join_nodes(
        both.of_kind("Node"),
        both.of_kind("NodeClaim"),
        bound,
        {one.name: one.limits for one in both.of_kind("CSINode")},
    )
    new_classes = {one.name for one in given.of_kind("StorageClass")}
    new_classes -= {one.name for one in live.of_kind("StorageClass")}
    known_classes, about_classes = patient(both.of_kind("StorageClass"), new_classes)
    claims, classes, about_volumes = with_classes(
        [*_claims(both, given), *made_claims], known_classes, pending
    )
    pools, node_classes, about_pools = settle_kubelets(
        both.decoded("NodePool"), both.of_kind("EC2NodeClass")
    )
    return Inputs(
        pending=pending,
        nodes=nodes,
        node_pools=pools,
        node_classes=node_classes,
        daemon_sets=_daemon_sets(given, live),
        volume_claims=claims,
        volumes=tuple(both.of_kind("PersistentVolume")),
        storage_classes=classes,
        namespaces=_namespaces(both, [*pending, *bound]),
        disruption_budgets=tuple(both.of_kind("PodDisruptionBudget")),
        services=tuple(both.of_kind("Service")),
        controllers=_controllers(planned, live),
        ignored=FrozenDict(dict((given.ignored + live.ignored).most_common())),
        warnings=(
            *_makes_nothing(planned, given, cron_runs=cron_runs),
            *warnings,
            *remarks,
            *about_classes,
            *about_volumes,
            *about_pools,
            *_gaps(node_classes, pending, claims),
        ),
    )


def _makes_nothing(planned: Iterable[Change], given: Collection, *, cron_runs: bool) -> list[str]:
    """Name workloads that a reader may expect in the plan and will not find there."""
    found = []
    idle = [one.workload.name for one in planned if one.workload.replicas == 0]
    if idle:
        found.append(f"no replicas asked for, so no pods planned: {some_of(idle)}")
    timed = [one.name for one in given.of_kind("CronJob")]
    if timed and not cron_runs:
        found.append(f"CronJobs left out (--cron-runs plans one run of each): {some_of(timed)}")
    return found


def _gaps(
    node_classes: Iterable[NodeClass], pending: Iterable[Pod], claims: Sequence[VolumeClaim]
) -> list[str]:
    """Say what a dump leaves open that a decision would look at."""
    found = [
        f"EC2NodeClass {one.name} does not say how much of its reservations is free; none is used"
        for one in node_classes
        if one.reservations and not any(each.available for each in one.reservations)
    ]
    users = sum(any(not each.ephemeral for each in pod.spec.volumes) for pod in pending)
    if users and not claims:
        found.append(f"{count_of(users, 'pod')} with volumes, but no PersistentVolumeClaim given")
    return found


def _merged(given: Collection, live: Collection) -> Collection:
    both = Collection()
    both.objects = {**live.objects, **given.objects}
    both.classless = live.classless | given.classless
    return both


def _check_total(planned: Iterable[Change], given: Collection) -> None:
    """Refuse more pods than memory holds before the first is made."""
    total = 0
    for change in planned:
        total += change.missing
        if total > MOST_PODS:
            source = given.objects[change.workload.key].source
            message = f"asks for more than {MOST_PODS:,} pods, all workloads together"
            raise BadInput([Mistake(source.file, 0, "spec.replicas", message)])


def _expanded(
    planned: Iterable[Change], given: Collection, live: Collection
) -> tuple[list[Pod], list[tuple[VolumeClaim, bool]]]:
    gone = {pod.key for change in planned for pod in change.go}
    names = [pod.key for one in (given, live) for pod in one.of_kind("Pod")]
    replicas = Replicas(name for name in names if name not in gone)
    pods: list[Pod] = []
    claims: list[tuple[VolumeClaim, bool]] = []
    for change in planned:
        made = list(replicas.pods(change.workload, change.missing))
        pods.extend(made)
        for claim, named in claims_of(change.workload, made):
            known = [
                one.model("PersistentVolumeClaim", claim.namespace, claim.name)
                for one in (given, live)
            ]
            if not any(known):
                claims.append((claim, named))
    return pods, claims


def _existing_pods(
    given: Collection, live: Collection, gone: set[str]
) -> tuple[list[Pod], list[Pod], list[str]]:
    """Sort the pods that stand there as such into bound and waiting ones."""
    bound, waiting = _given_pods(given, live)
    kept = [
        pod
        for pod in live.of_kind("Pod")
        if not pod.terminal
        and pod.key not in gone
        and given.model("Pod", pod.namespace, pod.name) is None
    ]
    bound.extend(pod for pod in kept if pod.node_name)
    unbound = [pod for pod in kept if not pod.node_name and _needs_place(pod)]
    ready = [pod for pod in unbound if pod.key not in live.gated]
    warnings = []
    if len(ready) < len(unbound):
        gated = count_of(len(unbound) - len(ready), "pod")
        warnings.append(f"{gated} left out: waiting for scheduling gates")
    return bound, [*ready, *waiting], warnings


def _given_pods(given: Collection, live: Collection) -> tuple[list[Pod], list[Pod]]:
    """Sort the pods of the manifests; one that is bound to no given node needs a place."""
    bound: list[Pod] = []
    waiting: list[Pod] = []
    for pod in given.of_kind("Pod"):
        if pod.terminal or _comes_with_its_workload(pod, given):
            continue
        if any(one.model("Node", "", pod.node_name) is not None for one in (given, live)):
            bound.append(pod)
        elif not (pod.of_daemon_set or pod.static):
            waiting.append(msgspec.structs.replace(pod, node_name="", nominated_node=""))
    return bound, waiting


def _needs_place(pod: Pod) -> bool:
    return not (pod.of_daemon_set or pod.static or pod.deleting or pod.nominated_node)


def _comes_with_its_workload(pod: Pod, given: Collection) -> bool:
    """Tell whether its maker is among the manifests, and so expanded already."""
    owner = pod.owner
    return owner is not None and given.model(owner.kind, pod.namespace, owner.name) is not None


def _daemon_sets(given: Collection, live: Collection) -> tuple[DaemonSet, ...]:
    """Join DaemonSets with their newest pods; a changed one has none yet."""
    newest: dict[tuple[str, str], Pod] = {}
    for pod in live.of_kind("Pod"):
        if not pod.of_daemon_set or pod.terminal or pod.deleting:
            continue
        key = (pod.namespace, pod.owner.name)
        if key not in newest or _age(newest[key]) < _age(pod):
            newest[key] = pod
    found = []
    for one in live.of_kind("DaemonSet"):
        if given.model("DaemonSet", one.namespace, one.name) is None:
            pod = newest.get((one.namespace, one.name))
            found.append(msgspec.structs.replace(one, newest=pod and _like_template(pod, one.pod)))
    return (*found, *given.of_kind("DaemonSet"))


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.created.isoformat() if pod.created else "", pod.name)


def _like_template(pod: Pod, template: Pod) -> Pod:
    """Undo what ties a DaemonSet's pod to the one node it was made for."""
    spec = msgspec.structs.replace(pod.spec, node_terms=template.spec.node_terms)
    return msgspec.structs.replace(pod, spec=spec)


def _claims(both: Collection, given: Collection) -> list[tuple[VolumeClaim, bool]]:
    """Return all claims, and whether each names its class.

    A manifest's claim that names its volume counts as bound: once applied it
    would be, before its pod is looked at.
    """
    found = []
    for one in both.of_kind("PersistentVolumeClaim"):
        named = bool(one.storage_class) or one.key in both.classless
        ours = given.model("PersistentVolumeClaim", one.namespace, one.name) is not None
        if one.volume and (ours or one.phase == "Bound"):
            bound = one.annotations.with_items({BIND_COMPLETED: "yes"})
            one = msgspec.structs.replace(one, annotations=bound)
        found.append((one, named))
    return found


def _namespaces(both: Collection, pods: Iterable[Pod]) -> FrozenDict[str, FrozenDict[str, str]]:
    found = {one.name: one.labels for one in both.of_kind("Namespace")}
    for name in sorted({pod.namespace for pod in pods} - found.keys()):
        found[name] = FrozenDict({"kubernetes.io/metadata.name": name})
    return FrozenDict(found)


def _controllers(planned: Iterable[Change], live: Collection) -> tuple[Controller, ...]:
    known = [one for kind in WORKLOADS for one in live.of_kind(kind) if kind != "Deployment"]
    found = {}
    for workload in (*known, *(change.workload for change in planned)):
        one = controller(workload)
        if one is not None:
            found[(one.kind, one.namespace, one.name)] = one
    return tuple(found.values())
