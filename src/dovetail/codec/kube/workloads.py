"""Decoders of workloads, PodDisruptionBudgets, Services and Namespaces."""

import hashlib

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube.metadata import Metadata, decode_metadata
from dovetail.codec.kube.pod_specs import decode_template_resources
from dovetail.codec.kube.pods import decode_pod_template
from dovetail.codec.kube.requirements import decode_selector
from dovetail.codec.kube.storage import BETA_CLASS_ANNOTATION
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import OwnerReference, Pod
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import DaemonSet, PodDisruptionBudget, Service, WorkloadController

TEMPLATE_HASH = "pod-template-hash"
MAX_REPLICAS = 1_000_000


class VolumeClaimTemplate(msgspec.Struct, frozen=True):
    """A ``volumeClaimTemplates`` entry of a StatefulSet: one volume per pod."""

    name: str
    storage_class: str | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """An object that creates pods from a template, with its current replica count."""

    kind: str
    namespace: str
    name: str
    replicas: int
    has_replica_count: bool = True
    """False if ``replicas`` is unset: a live cluster then keeps its count (autoscaler)."""
    pod: Pod
    """Pod that each replica is a copy of; its owner is the direct owner."""
    owner: OwnerReference | None = None
    selector: LabelSelector | None = None
    volume_claim_templates: tuple[VolumeClaimTemplate, ...] = ()
    first_ordinal: int = 1
    """Ordinal of the first replica."""
    run_seconds: int | None = None
    """``activeDeadlineSeconds`` of a Job, or of its pods."""
    template_of: tuple[str, str, str] | None = None
    """Key of the workload whose pod template a Rollout uses (``workloadRef``)."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.kind, self.namespace, self.name)


def decode_deployment(root: Field) -> Workload:
    """Decode an apps/v1 Deployment; a ReplicaSet named with a template hash owns its pods."""
    root["spec"].check_known_keys(
        (
            "replicas selector template strategy minReadySeconds revisionHistoryLimit paused "
            "progressDeadlineSeconds"
        ).split()
    )
    return _with_replica_set(
        _decode_workload("Deployment", "apps/v1", decode_metadata(root), root["spec"]), root["spec"]
    )


def decode_rollout(root: Field) -> Workload:
    """Decode an argoproj.io/v1alpha1 Rollout: a Deployment with other strategies.

    One with ``workloadRef`` has an empty template: see ``use_template``.
    """
    meta, spec = decode_metadata(root), root["spec"]
    reference = spec["workloadRef"]
    if not reference:
        return _with_replica_set(_decode_workload("Rollout", "argoproj.io/v1alpha1", meta, spec), spec)
    pod = Pod(name=meta.name, namespace=meta.namespace)
    template_of = (reference["kind"].text(), meta.namespace, reference["name"].text())
    return msgspec.structs.replace(_of_template("Rollout", meta, spec, pod), template_of=template_of)


def use_template(rollout: Workload, source: Workload) -> Workload:
    """Return a Rollout with the pod template of the workload that it names."""
    labels = {key: value for key, value in source.pod.labels.items() if key != TEMPLATE_HASH}
    pod = msgspec.structs.replace(source.pod, labels=FrozenDict(labels))
    return msgspec.structs.replace(_owned_by_replica_set(rollout, pod), selector=source.selector)


def _with_replica_set(workload: Workload, spec: Field) -> Workload:
    """Return the workload with the ReplicaSet of its template as owner of its pods."""
    selector = _decode_workload_selector(spec, workload.pod)
    return msgspec.structs.replace(_owned_by_replica_set(workload, workload.pod), selector=selector)


def _owned_by_replica_set(workload: Workload, pod: Pod) -> Workload:
    template_hash = _template_hash(pod)
    pod = msgspec.structs.replace(
        pod,
        labels=pod.labels.with_items({TEMPLATE_HASH: template_hash}),
        owner=OwnerReference("apps/v1", "ReplicaSet", f"{workload.name}-{template_hash}"),
    )
    return msgspec.structs.replace(workload, pod=pod)


def _template_hash(pod: Pod) -> str:
    """Return a hash of the pod template, like ``pod-template-hash``."""
    text = msgspec.json.encode((pod.labels, pod.spec), order="deterministic")
    return hashlib.sha256(text).hexdigest()[:10]


def decode_replica_set(root: Field) -> Workload:
    """Decode an apps/v1 ReplicaSet."""
    spec = root["spec"]
    spec.check_known_keys(("replicas", "selector", "template", "minReadySeconds"))
    workload = _decode_workload("ReplicaSet", "apps/v1", decode_metadata(root), spec)
    return msgspec.structs.replace(workload, selector=_decode_workload_selector(spec, workload.pod))


def decode_replication_controller(root: Field) -> Workload:
    """Decode a core/v1 ReplicationController, whose selector is a plain map."""
    workload = _decode_workload("ReplicationController", "v1", decode_metadata(root), root["spec"])
    labels = root["spec"]["selector"].labels() or workload.pod.labels
    return msgspec.structs.replace(workload, selector=LabelSelector(labels))


def decode_stateful_set(root: Field) -> Workload:
    """Decode an apps/v1 StatefulSet; pods are numbered from ``ordinals.start``."""
    spec = root["spec"]
    spec.check_known_keys(
        (
            "replicas selector template serviceName podManagementPolicy updateStrategy "
            "revisionHistoryLimit volumeClaimTemplates minReadySeconds ordinals "
            "persistentVolumeClaimRetentionPolicy"
        ).split()
    )
    workload = _decode_workload("StatefulSet", "apps/v1", decode_metadata(root), spec)
    return msgspec.structs.replace(
        workload,
        selector=_decode_workload_selector(spec, workload.pod),
        volume_claim_templates=tuple(map(_decode_claim_template, spec["volumeClaimTemplates"].items())),
        first_ordinal=spec["ordinals"]["start"].integer(low=0) or 0,
    )


def _decode_claim_template(field: Field) -> VolumeClaimTemplate:
    field["metadata"]["name"].check_required()
    chosen = field["spec"]["storageClassName"]
    if not chosen:
        chosen = field["metadata"]["annotations"][BETA_CLASS_ANNOTATION]
    return VolumeClaimTemplate(field["metadata"]["name"].text(), chosen.text() if chosen else None)


def decode_job(root: Field) -> Workload:
    """Decode a batch/v1 Job with the pods that run in parallel."""
    return _decode_job(decode_metadata(root), root["spec"], root["status"])


def decode_cron_job(root: Field) -> Workload:
    """Decode a batch/v1 CronJob with the pods of one run."""
    meta, spec = decode_metadata(root), root["spec"]
    spec["schedule"].check_required()
    run = _decode_job(meta, spec.at("jobTemplate", "spec"), Field(None, spec.context))
    return msgspec.structs.replace(run, kind="CronJob")


def _decode_job(meta: Metadata, spec: Field, status: Field) -> Workload:
    parallelism = spec["parallelism"].integer(low=0, high=MAX_REPLICAS)
    completions = spec["completions"].integer(low=0, high=MAX_REPLICAS)
    running = 1 if parallelism is None else parallelism
    if completions is not None:
        running = min(running, completions)
    if spec["suspend"].boolean() or _is_finished(status):
        running = 0
    return msgspec.structs.replace(
        _decode_workload("Job", "batch/v1", meta, spec),
        selector=decode_selector(spec["selector"]),
        replicas=running,
        has_replica_count=True,
        run_seconds=_decode_deadline(spec),
    )


def _decode_deadline(spec: Field) -> int | None:
    deadlines = [
        spec["activeDeadlineSeconds"].integer(low=1),
        spec.at("template", "spec", "activeDeadlineSeconds").integer(low=1),
    ]
    return min((seconds for seconds in deadlines if seconds is not None), default=None)


def _is_finished(status: Field) -> bool:
    return any(
        condition["type"].value in ("Complete", "Failed") and condition["status"].value == "True"
        for condition in status["conditions"].items()
    )


def decode_daemon_set(root: Field) -> DaemonSet:
    """Decode an apps/v1 DaemonSet."""
    meta, spec = decode_metadata(root), root["spec"]
    spec.check_known_keys("selector template updateStrategy minReadySeconds revisionHistoryLimit".split())
    owner = OwnerReference("apps/v1", "DaemonSet", meta.name)
    pod = decode_pod_template(spec["template"], meta, owner)
    _decode_workload_selector(spec, pod)
    resources = decode_template_resources(spec["template"]["spec"].value)
    return DaemonSet(namespace=meta.namespace, name=meta.name, pod=pod, resources=resources)


def _decode_workload(kind: str, api_version: str, meta: Metadata, spec: Field) -> Workload:
    """Decode the common fields; selectors differ."""
    owner = OwnerReference(api_version, kind, meta.name)
    return _of_template(kind, meta, spec, decode_pod_template(spec["template"], meta, owner))


def _of_template(kind: str, meta: Metadata, spec: Field, pod: Pod) -> Workload:
    number = spec["replicas"].integer(low=0, high=MAX_REPLICAS)
    return Workload(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        replicas=1 if number is None else number,
        has_replica_count=number is not None,
        pod=pod,
        owner=meta.owner,
    )


def _decode_workload_selector(spec: Field, pod: Pod) -> LabelSelector | None:
    chosen = decode_selector(spec["selector"])
    if chosen is None:
        if spec.context.strict:
            spec["selector"].add_error("is missing; it must select the template's labels")
    elif chosen.is_valid and not chosen.matches(pod.labels):
        spec["selector"].add_error("does not select the labels of the template")
    return chosen


def workload_controller(workload: Workload) -> WorkloadController | None:
    """Return the direct owner of the pods, which default spread constraints use."""
    owner = workload.pod.owner
    if owner is None or owner.kind not in ("ReplicaSet", "StatefulSet", "ReplicationController"):
        return None
    chosen = workload.selector
    if workload.kind in ("Deployment", "Rollout") and chosen is not None:
        own = {TEMPLATE_HASH: workload.pod.labels[TEMPLATE_HASH]}
        chosen = LabelSelector(chosen.match_labels.with_items(own), chosen.expressions)
    return WorkloadController(kind=owner.kind, namespace=workload.namespace, name=owner.name, selector=chosen)


def decode_pod_disruption_budget(root: Field) -> PodDisruptionBudget:
    """Decode a policy/v1 PodDisruptionBudget."""
    meta, spec = decode_metadata(root), root["spec"]
    spec.check_known_keys("minAvailable maxUnavailable selector unhealthyPodEvictionPolicy".split())
    if spec["minAvailable"] and spec["maxUnavailable"]:
        spec["maxUnavailable"].add_error("cannot be combined with minAvailable")
    policy = spec["unhealthyPodEvictionPolicy"].choice(
        ("IfHealthyBudget", "AlwaysAllow"), "IfHealthyBudget", "eviction policy"
    )
    return PodDisruptionBudget(
        namespace=meta.namespace,
        name=meta.name,
        selector=decode_selector(spec["selector"]),
        min_available=_decode_int_or_percent(spec["minAvailable"]),
        max_unavailable=_decode_int_or_percent(spec["maxUnavailable"]),
        always_allow_unhealthy=policy == "AlwaysAllow",
        disruptions_allowed=root["status"]["disruptionsAllowed"].integer() or 0,
    )


def _decode_int_or_percent(field: Field) -> str | None:
    if not field:
        return None
    value = field.value
    if type(value) is int and value >= 0:
        return str(value)
    if isinstance(value, str) and value.removesuffix("%").isdigit():
        return value
    field.add_error(f"{value!r} is neither a number of pods nor a percentage such as '25%'")
    return None


def decode_service(root: Field) -> Service:
    """Decode a core/v1 Service."""
    meta = decode_metadata(root)
    chosen = root.at("spec", "selector").labels()
    return Service(namespace=meta.namespace, name=meta.name, selector=chosen or EMPTY)


class Namespace(msgspec.Struct, frozen=True):
    """A namespace and its labels, ``kubernetes.io/metadata.name`` included."""

    name: str
    labels: FrozenDict[str, str] = EMPTY


def decode_namespace(root: Field) -> Namespace:
    """Decode a core/v1 Namespace."""
    meta = decode_metadata(root)
    return Namespace(meta.name, meta.labels.with_items({"kubernetes.io/metadata.name": meta.name}))
