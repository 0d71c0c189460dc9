"""Decoders by kind, for objects of manifests and dumps in any served version."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dovetail.codec.conversion import nodeclasses as legacy_nodeclasses
from dovetail.codec.conversion import nodepools as legacy_nodepools
from dovetail.codec.conversion.converted_object import Conversion, ConversionNote, LegacyKubelet
from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.inputs.unknown_fields import check_unknown_fields
from dovetail.codec.karpenter import nodeclaims, nodeclasses, nodepools
from dovetail.codec.karpenter.nodeclass_kubelet import decode_kubelet
from dovetail.codec.kube import admission, autoscalers, nodes, storage, workloads
from dovetail.codec.kube.pods import decode_pod
from dovetail.codec.text.documents import FieldError, RawObject
from dovetail.codec.text.suggestions import nearest_match

Decoder = Callable[[Field], Any]
_CORE, _APPS, _BATCH = "", "apps", "batch"
_KARPENTER, _KARPENTER_AWS = "karpenter.sh", "karpenter.k8s.aws"

_DECODERS: dict[tuple[str, str], Decoder] = {
    (_CORE, "Pod"): decode_pod,
    (_CORE, "Node"): nodes.decode_node,
    (_CORE, "PersistentVolume"): storage.decode_persistent_volume,
    (_CORE, "PersistentVolumeClaim"): storage.decode_persistent_volume_claim,
    (_CORE, "Namespace"): workloads.decode_namespace,
    (_CORE, "Service"): workloads.decode_service,
    (_CORE, "ReplicationController"): workloads.decode_replication_controller,
    (_APPS, "Deployment"): workloads.decode_deployment,
    (_APPS, "ReplicaSet"): workloads.decode_replica_set,
    (_APPS, "StatefulSet"): workloads.decode_stateful_set,
    (_APPS, "DaemonSet"): workloads.decode_daemon_set,
    (_BATCH, "Job"): workloads.decode_job,
    (_BATCH, "CronJob"): workloads.decode_cron_job,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscalers.decode_horizontal_pod_autoscaler,
    ("keda.sh", "ScaledObject"): autoscalers.decode_scaled_object,
    ("argoproj.io", "Rollout"): workloads.decode_rollout,
    ("policy", "PodDisruptionBudget"): workloads.decode_pod_disruption_budget,
    ("storage.k8s.io", "StorageClass"): storage.decode_storage_class,
    ("storage.k8s.io", "CSINode"): nodes.decode_csi_node,
    (_CORE, "LimitRange"): admission.decode_limit_range,
    ("node.k8s.io", "RuntimeClass"): admission.decode_runtime_class,
    (_KARPENTER, "NodePool"): nodepools.decode_nodepool,
    (_KARPENTER, "NodeClaim"): nodeclaims.decode_nodeclaim,
    (_KARPENTER_AWS, "EC2NodeClass"): nodeclasses.decode_nodeclass,
}
_LEGACY: dict[tuple[str, str, str], Callable[[dict[str, Any]], Conversion]] = {
    (_KARPENTER, "v1alpha5", "Provisioner"): legacy_nodepools.convert_provisioner,
    (_KARPENTER, "v1alpha5", "Machine"): legacy_nodepools.convert_alpha_nodeclaim,
    (_KARPENTER, "v1beta1", "NodePool"): legacy_nodepools.convert_beta_nodepool,
    (_KARPENTER, "v1beta1", "NodeClaim"): legacy_nodepools.convert_beta_nodeclaim,
    (_KARPENTER_AWS, "v1alpha1", "AWSNodeTemplate"): legacy_nodeclasses.convert_node_template,
    (_KARPENTER_AWS, "v1beta1", "EC2NodeClass"): legacy_nodeclasses.convert_beta_nodeclass,
}
_VERSIONS: dict[str, tuple[str, ...]] = {
    _BATCH: ("v1", "v1beta1"),
    "policy": ("v1", "v1beta1"),
    "storage.k8s.io": ("v1", "v1beta1"),
    "autoscaling": ("v2", "v1", "v2beta1", "v2beta2"),
    "keda.sh": ("v1alpha1",),
    "argoproj.io": ("v1alpha1",),
}
_GROUP_OF = {kind: group for group, kind in _DECODERS} | {kind: group for group, _, kind in _LEGACY}
_GROUPS = frozenset(_GROUP_OF.values())
_REMOVED_GROUPS = frozenset({"extensions"})
_OTHER_KINDS = frozenset(
    (
        "ConfigMap Secret Event Endpoints EndpointSlice ResourceQuota PodTemplate "
        "ServiceAccount Binding ControllerRevision NodeOverlay CSIDriver CSIStorageCapacity "
        "VolumeAttachment VolumeAttributesClass Eviction ComponentStatus "
        "PodSecurityPolicy List ScaledJob Scale Application ApplicationSet Workflow"
    ).split()
)
"""Other kinds of these groups, which are not misspelt kinds."""
_CLUSTER_SCOPED = frozenset(
    (
        "Node PersistentVolume Namespace StorageClass CSINode RuntimeClass NodePool NodeClaim EC2NodeClass"
    ).split()
)


class DecodedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object as a value of the model, with its raw form."""

    kind: str
    namespace: str
    name: str
    model: Any
    source: RawObject
    current: dict[str, Any]
    """The object as written, or the v1 object that a legacy object converts to."""
    kubelet: LegacyKubelet | None = None
    """Kubelet settings of a legacy NodePool; in v1 they belong to its node class."""
    notes: tuple[ConversionNote, ...] = ()
    """Changes of meaning by the conversion of a legacy object."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.kind, self.namespace, self.name)


class ReadResult(msgspec.Struct):
    """Result of reading one raw object."""

    objects: list[DecodedObject] = []
    errors: list[FieldError] = []
    notes: list[FieldError] = []
    """Values that are probably mistyped, and that the API server accepts."""
    ignored: str | None = None
    """The kind, if no decision depends on it."""


def read_object(
    raw: RawObject,
    *,
    trusted: bool = False,
    unknown_fields: bool = False,
    kubelet_expressions: bool = True,
    cache: dict[Any, Any],
) -> ReadResult:
    """Decode one object; ``trusted`` objects come from a live cluster.

    An object with a UID has been validated by an API server, in any file:
    unknown fields are no errors then, and neither with ``unknown_fields``, unless they
    are misspelt. ``cache`` shares equal values.
    """
    value = raw.value
    api_version, kind = value.get("apiVersion"), value.get("kind")
    problem = _check_header(api_version, kind, value)
    if problem is not None:
        return ReadResult(errors=[raw.error_at(*problem)])
    group, _, version = str(api_version).rpartition("/")
    misspelling = None if trusted else _check_spelling(group, version, str(kind))
    if misspelling is not None:
        return ReadResult(errors=[raw.error_at(*misspelling)])
    meta = value.get("metadata")
    strict = not trusted and not (isinstance(meta, dict) and meta.get("uid"))
    convert = _LEGACY.get((group, version, str(kind)))
    if convert is not None:
        return _read_converted(raw, convert(value), strict, cache)
    if (group, str(kind)) not in _DECODERS:
        return ReadResult(ignored=str(kind))
    malformed = [key for key in ("metadata", "spec") if not isinstance(value.get(key), dict | None)]
    if malformed:
        return ReadResult(errors=[raw.error_at((key,), "must be a map") for key in malformed])
    context = DecodeContext(
        strict=strict,
        kubelet_expressions=kubelet_expressions,
        typos_are_notes=group not in (_KARPENTER, _KARPENTER_AWS),
        cache=cache,
    )
    decoded = _decode(raw, value, context)
    if strict and not unknown_fields and group in (_KARPENTER, _KARPENTER_AWS):
        check_unknown_fields(Field(value, context), str(kind))
    return ReadResult(
        objects=[decoded],
        errors=[raw.error_at(path, message) for path, message in context.errors],
        notes=[raw.error_at(path, message) for path, message in context.notes],
    )


def _read_converted(
    raw: RawObject, conversion: Conversion, strict: bool, cache: dict[Any, Any]
) -> ReadResult:
    objects: list[DecodedObject] = []
    errors: list[ConversionNote] = list(conversion.errors)
    for converted in conversion.objects:
        context = DecodeContext(strict=strict, cache=cache)
        decoded = _decode(raw, converted.value, context)
        kubelet = conversion.kubelet if decoded.kind == "NodePool" else None
        objects.append(msgspec.structs.replace(decoded, kubelet=kubelet, notes=converted.notes))
        errors.extend((converted.old_path(path), message) for path, message in context.errors)
    if conversion.kubelet is not None:
        context = DecodeContext(strict=strict)
        decode_kubelet(Field(conversion.kubelet.settings, context))
        errors.extend(((*conversion.kubelet.path, *path), message) for path, message in context.errors)
    # Several fields can convert to one, and repeat its error.
    unique = dict.fromkeys(errors)
    return ReadResult(objects=objects, errors=[raw.error_at(path, message) for path, message in unique])


def _decode(raw: RawObject, value: dict[str, Any], context: DecodeContext) -> DecodedObject:
    kind = str(value["kind"])
    group = str(value["apiVersion"]).rpartition("/")[0]
    model = _DECODERS[(group, kind)](Field(value, context))
    namespace = "" if kind in _CLUSTER_SCOPED else getattr(model, "namespace", "")
    return DecodedObject(
        kind=kind, namespace=namespace, name=model.name, model=model, source=raw, current=value
    )


Problem = tuple[tuple[str | int, ...], str]
"""Path of a field, and what is wrong with it."""


def _check_header(api_version: Any, kind: Any, fields: Mapping[str, Any]) -> Problem | None:
    if api_version is None and kind is None and {"home", "nodePools"} <= fields.keys():
        return (), (
            "is a cluster.yaml, not a Kubernetes manifest; write its manifests with "
            "`dovetail cluster render --format manifests`"
        )
    if api_version is None and kind is None:
        return (), "has neither apiVersion nor kind; is this a Kubernetes manifest?"
    for name, value in (("kind", kind), ("apiVersion", api_version)):
        if value is None or value == "":
            return (name,), "is missing"
        if not isinstance(value, str):
            return (name,), f"must be text, not {str(value)[:60]}"
    return None


def _check_spelling(group: str, version: str, kind: str) -> Problem | None:
    """Return the problem of a misspelt kind or group; None if it is of another API."""
    written = f"{group}/{version}" if group else version
    if (group, kind) in _DECODERS or (group, version, kind) in _LEGACY:
        if (group, version, kind) in _LEGACY or version in _VERSIONS.get(group, ("v1",)):
            return None
        return ("apiVersion",), f"{written!r} is not supported; did you mean {_api_version(group, kind)!r}?"
    is_known_group = group in _GROUPS or group in _REMOVED_GROUPS
    if kind in _GROUP_OF:
        expected = _GROUP_OF[kind]
        if not is_known_group and nearest_match(group, [expected]) is None:
            return None
        return ("apiVersion",), f"{written!r} has no {kind}; did you mean {_api_version(expected, kind)!r}?"
    if kind in _OTHER_KINDS or not is_known_group:
        return None
    nearest = nearest_match(kind, _GROUP_OF, cutoff=0.85)
    return None if nearest is None else (("kind",), f"{kind!r} is not a kind; did you mean {nearest!r}?")


def _api_version(group: str, kind: str) -> str:
    current = _VERSIONS.get(group, ("v1",))[0]
    version = next((v for g, v, k in _LEGACY if k == kind and (g, k) not in _DECODERS), current)
    return f"{group}/{version}" if group else version


def is_legacy_object(value: dict[str, Any]) -> bool:
    """Return True if a raw object is of an older version that is converted to v1."""
    group, _, version = str(value.get("apiVersion")).rpartition("/")
    return (group, version, str(value.get("kind"))) in _LEGACY
