"""Workloads on the wire: things that make pods, and things that look at them."""

import hashlib

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube.metadata import Metadata, metadata
from dovetail.codec.kube.pods import template_pod
from dovetail.codec.kube.requirements import selector
from dovetail.codec.kube.storage import OLD_CLASS
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import Owner, Pod
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import Controller, DaemonSet, DisruptionBudget, Service

TEMPLATE_HASH = "pod-template-hash"
MOST_REPLICAS = 1_000_000


class ClaimTemplate(msgspec.Struct, frozen=True):
    """A StatefulSet's wish for one volume a pod."""

    name: str
    storage_class: str | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that makes pods from a template, by what it would make now."""

    kind: str
    namespace: str
    name: str
    replicas: int
    counted: bool = True
    """Says itself how many; otherwise a live cluster's count stays, as with an autoscaler."""
    pod: Pod
    """The pod that each replica is a copy of; its owner is the direct one."""
    owner: Owner | None = None
    selector: LabelSelector | None = None
    claims: tuple[ClaimTemplate, ...] = ()
    first: int = 1
    """The number of the first replica."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.kind, self.namespace, self.name)


def decode_deployment(root: Field) -> Workload:
    """Read an apps/v1 Deployment; its pods belong to a ReplicaSet named by a hash."""
    meta, spec = metadata(root), root["spec"]
    spec.known_keys(
        (
            "replicas selector template strategy minReadySeconds revisionHistoryLimit paused "
            "progressDeadlineSeconds"
        ).split()
    )
    owner = Owner("apps/v1", "ReplicaSet", meta.name)
    pod = template_pod(spec["template"], meta, owner)
    chosen = _checked_selector(spec, pod)
    short = _short_hash(pod)
    pod = msgspec.structs.replace(
        pod,
        labels=pod.labels.with_items({TEMPLATE_HASH: short}),
        owner=Owner("apps/v1", "ReplicaSet", f"{meta.name}-{short}"),
    )
    return _workload("Deployment", meta, spec, pod, chosen)


def _short_hash(pod: Pod) -> str:
    """Return the hash by which pods of one template know each other."""
    text = msgspec.json.encode((pod.labels, pod.spec), order="deterministic")
    return hashlib.sha256(text).hexdigest()[:10]


def decode_replica_set(root: Field) -> Workload:
    """Read an apps/v1 ReplicaSet."""
    meta, spec = metadata(root), root["spec"]
    spec.known_keys(("replicas", "selector", "template", "minReadySeconds"))
    pod = template_pod(spec["template"], meta, Owner("apps/v1", "ReplicaSet", meta.name))
    return _workload("ReplicaSet", meta, spec, pod, _checked_selector(spec, pod))


def decode_replication_controller(root: Field) -> Workload:
    """Read a core/v1 ReplicationController, whose selector is a plain map."""
    meta, spec = metadata(root), root["spec"]
    pod = template_pod(spec["template"], meta, Owner("v1", "ReplicationController", meta.name))
    labels = spec["selector"].labels() or pod.labels
    return _workload("ReplicationController", meta, spec, pod, LabelSelector(labels))


def decode_stateful_set(root: Field) -> Workload:
    """Read an apps/v1 StatefulSet; its pods are numbered from ``ordinals.start``."""
    meta, spec = metadata(root), root["spec"]
    spec.known_keys(
        (
            "replicas selector template serviceName podManagementPolicy updateStrategy "
            "revisionHistoryLimit volumeClaimTemplates minReadySeconds ordinals "
            "persistentVolumeClaimRetentionPolicy"
        ).split()
    )
    pod = template_pod(spec["template"], meta, Owner("apps/v1", "StatefulSet", meta.name))
    chosen = _checked_selector(spec, pod)
    claims = tuple(_claim_template(one) for one in spec["volumeClaimTemplates"].items())
    workload = _workload("StatefulSet", meta, spec, pod, chosen)
    first = spec["ordinals"]["start"].whole(low=0) or 0
    return msgspec.structs.replace(workload, claims=claims, first=first)


def _claim_template(field: Field) -> ClaimTemplate:
    field["metadata"]["name"].required()
    chosen = field["spec"]["storageClassName"]
    if not chosen:
        chosen = field["metadata"]["annotations"][OLD_CLASS]
    return ClaimTemplate(field["metadata"]["name"].text(), chosen.text() if chosen else None)


def decode_job(root: Field) -> Workload:
    """Read a batch/v1 Job, by the pods that run at once."""
    return _job(metadata(root), root["spec"], root["status"])


def decode_cron_job(root: Field) -> Workload:
    """Read a batch/v1 CronJob, by the pods of one run."""
    meta, spec = metadata(root), root["spec"]
    spec["schedule"].required()
    run = _job(meta, spec.at("jobTemplate", "spec"), spec["nothing"])
    return msgspec.structs.replace(run, kind="CronJob")


def _job(meta: Metadata, spec: Field, status: Field) -> Workload:
    pod = template_pod(spec["template"], meta, Owner("batch/v1", "Job", meta.name))
    at_once = spec["parallelism"].whole(low=0, high=MOST_REPLICAS)
    wanted = spec["completions"].whole(low=0, high=MOST_REPLICAS)
    running = 1 if at_once is None else at_once
    if wanted is not None:
        running = min(running, wanted)
    if spec["suspend"].boolean() or _is_over(status):
        running = 0
    workload = _workload("Job", meta, spec, pod, selector(spec["selector"]))
    return msgspec.structs.replace(workload, replicas=running, counted=True)


def _is_over(status: Field) -> bool:
    return any(
        one["type"].value in ("Complete", "Failed") and one["status"].value == "True"
        for one in status["conditions"].items()
    )


def decode_daemon_set(root: Field) -> DaemonSet:
    """Read an apps/v1 DaemonSet."""
    meta, spec = metadata(root), root["spec"]
    spec.known_keys("selector template updateStrategy minReadySeconds revisionHistoryLimit".split())
    owner = Owner("apps/v1", "DaemonSet", meta.name)
    pod = template_pod(spec["template"], meta, owner)
    _checked_selector(spec, pod)
    return DaemonSet(namespace=meta.namespace, name=meta.name, pod=pod)


def _workload(
    kind: str, meta: Metadata, spec: Field, pod: Pod, chosen: LabelSelector | None
) -> Workload:
    number = spec["replicas"].whole(low=0, high=MOST_REPLICAS)
    return Workload(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        replicas=1 if number is None else number,
        counted=number is not None,
        pod=pod,
        owner=meta.owner,
        selector=chosen,
    )


def _checked_selector(spec: Field, pod: Pod) -> LabelSelector | None:
    chosen = selector(spec["selector"])
    if chosen is None:
        if spec.findings.written_by_hand:
            spec["selector"].mistake("is missing; it must select the template's labels")
    elif chosen.is_valid and not chosen.matches(pod.labels):
        spec["selector"].mistake("does not select the labels of the template")
    return chosen


def controller(workload: Workload) -> Controller | None:
    """Return the direct owner of the pods, as spread defaults look at it."""
    owner = workload.pod.owner
    if owner is None or owner.kind not in ("ReplicaSet", "StatefulSet", "ReplicationController"):
        return None
    chosen = workload.selector
    if workload.kind == "Deployment" and chosen is not None:
        own = {TEMPLATE_HASH: workload.pod.labels[TEMPLATE_HASH]}
        chosen = LabelSelector(chosen.match_labels.with_items(own), chosen.expressions)
    return Controller(
        kind=owner.kind, namespace=workload.namespace, name=owner.name, selector=chosen
    )


def decode_budget(root: Field) -> DisruptionBudget:
    """Read a policy/v1 PodDisruptionBudget."""
    meta, spec = metadata(root), root["spec"]
    spec.known_keys("minAvailable maxUnavailable selector unhealthyPodEvictionPolicy".split())
    if spec["minAvailable"] and spec["maxUnavailable"]:
        spec["maxUnavailable"].mistake("goes with minAvailable never; give one of them")
    policy = spec["unhealthyPodEvictionPolicy"].choice(
        ("IfHealthyBudget", "AlwaysAllow"), "IfHealthyBudget", "eviction policy"
    )
    return DisruptionBudget(
        namespace=meta.namespace,
        name=meta.name,
        selector=selector(spec["selector"]),
        min_available=_count_or_share(spec["minAvailable"]),
        max_unavailable=_count_or_share(spec["maxUnavailable"]),
        always_allow_unhealthy=policy == "AlwaysAllow",
        allowed=root["status"]["disruptionsAllowed"].whole() or 0,
    )


def _count_or_share(field: Field) -> str | None:
    if not field:
        return None
    value = field.value
    if type(value) is int and value >= 0:
        return str(value)
    if isinstance(value, str) and value.removesuffix("%").isdigit():
        return value
    field.mistake(f"{value!r} is neither a number of pods nor a share such as '25%'")
    return None


def decode_service(root: Field) -> Service:
    """Read a core/v1 Service, by whom it selects."""
    meta = metadata(root)
    chosen = root.at("spec", "selector").labels()
    return Service(namespace=meta.namespace, name=meta.name, selector=chosen or EMPTY)


class Namespace(msgspec.Struct, frozen=True):
    """A namespace and its labels, the one that the API server adds included."""

    name: str
    labels: FrozenDict[str, str] = EMPTY


def decode_namespace(root: Field) -> Namespace:
    """Read a core/v1 Namespace."""
    meta = metadata(root)
    return Namespace(meta.name, meta.labels.with_items({"kubernetes.io/metadata.name": meta.name}))
