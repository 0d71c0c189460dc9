"""The kinds that mean something to us, and who reads each."""

from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.codec.conversion import nodeclasses as legacyclasses
from dovetail.codec.conversion import nodepools as legacy
from dovetail.codec.conversion.converted_object import Converted, OldKubelet, Remark, Successor
from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter import nodeclaims, nodeclasses, nodepools
from dovetail.codec.kube import nodes, storage, workloads
from dovetail.codec.kube.pods import decode_pod
from dovetail.codec.text.documents import Misplaced, RawObject
from dovetail.codec.text.suggestions import nearest

Decoder = Callable[[Field], Any]
_CORE, _APPS, _BATCH = "", "apps", "batch"
_KARPENTER, _KARPENTER_AWS = "karpenter.sh", "karpenter.k8s.aws"

_DECODERS: dict[tuple[str, str], Decoder] = {
    (_CORE, "Pod"): decode_pod,
    (_CORE, "Node"): nodes.decode_node,
    (_CORE, "PersistentVolume"): storage.decode_volume,
    (_CORE, "PersistentVolumeClaim"): storage.decode_claim,
    (_CORE, "Namespace"): workloads.decode_namespace,
    (_CORE, "Service"): workloads.decode_service,
    (_CORE, "ReplicationController"): workloads.decode_replication_controller,
    (_APPS, "Deployment"): workloads.decode_deployment,
    (_APPS, "ReplicaSet"): workloads.decode_replica_set,
    (_APPS, "StatefulSet"): workloads.decode_stateful_set,
    (_APPS, "DaemonSet"): workloads.decode_daemon_set,
    (_BATCH, "Job"): workloads.decode_job,
    (_BATCH, "CronJob"): workloads.decode_cron_job,
    ("policy", "PodDisruptionBudget"): workloads.decode_budget,
    ("storage.k8s.io", "StorageClass"): storage.decode_storage_class,
    ("storage.k8s.io", "CSINode"): nodes.decode_csi_node,
    (_KARPENTER, "NodePool"): nodepools.decode_node_pool,
    (_KARPENTER, "NodeClaim"): nodeclaims.decode_node_claim,
    (_KARPENTER_AWS, "EC2NodeClass"): nodeclasses.decode_node_class,
}
_LEGACY: dict[tuple[str, str, str], Callable[[dict[str, Any]], Converted]] = {
    (_KARPENTER, "v1alpha5", "Provisioner"): legacy.from_provisioner,
    (_KARPENTER, "v1alpha5", "Machine"): legacy.from_machine,
    (_KARPENTER, "v1beta1", "NodePool"): legacy.from_beta_node_pool,
    (_KARPENTER, "v1beta1", "NodeClaim"): legacy.from_beta_node_claim,
    (_KARPENTER_AWS, "v1alpha1", "AWSNodeTemplate"): legacyclasses.from_node_template,
    (_KARPENTER_AWS, "v1beta1", "EC2NodeClass"): legacyclasses.from_beta_node_class,
}
_VERSIONS: dict[str, tuple[str, ...]] = {
    _BATCH: ("v1", "v1beta1"),
    "policy": ("v1", "v1beta1"),
    "storage.k8s.io": ("v1", "v1beta1"),
}
_GROUP_OF = {kind: group for group, kind in _DECODERS} | {kind: group for group, _, kind in _LEGACY}
_GROUPS = frozenset(_GROUP_OF.values())
_RETIRED_GROUPS = frozenset({"extensions"})
_OTHER_KINDS = frozenset(
    (
        "ConfigMap Secret Event Endpoints EndpointSlice LimitRange ResourceQuota PodTemplate "
        "ServiceAccount Binding ControllerRevision NodeOverlay CSIDriver CSIStorageCapacity "
        "VolumeAttachment VolumeAttributesClass Eviction ComponentStatus "
        "PodSecurityPolicy List"
    ).split()
)
"""Real kinds of the groups we read; they are no misspellings of ours."""
_NO_NAMESPACE = frozenset(
    "Node PersistentVolume Namespace StorageClass CSINode NodePool NodeClaim EC2NodeClass".split()
)


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """One object as a value of the model, with the text it came from."""

    kind: str
    namespace: str
    name: str
    model: Any
    source: RawObject
    today: dict[str, Any]
    """The object itself, or the v1 object that an older one means."""
    kubelet: OldKubelet | None = None
    """Of an old pool: what its node class must know today."""
    remarks: tuple[Remark, ...] = ()
    """Of an old object: what changed its meaning on the way to today."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.kind, self.namespace, self.name)


class Read(msgspec.Struct):
    """What became of one raw object."""

    objects: list[Decoded] = []
    mistakes: list[Misplaced] = []
    ignored: str | None = None
    """The kind, when it is none of ours."""


def read_object(raw: RawObject, *, trusted: bool = False, pool: dict[Any, Any]) -> Read:
    """Read one object; ``trusted`` ones come out of a live cluster.

    What an API server has taken is not searched for misspellings, wherever it
    stands: it is recognised by its uid. ``pool`` holds values that may be shared.
    """
    value = raw.value
    api_version, kind = value.get("apiVersion"), value.get("kind")
    problem = _header_problem(api_version, kind)
    if problem is not None:
        return Read(mistakes=[_misplaced(raw, *problem)])
    group, _, version = str(api_version).rpartition("/")
    spelling = None if trusted else _spelling_problem(group, version, str(kind))
    if spelling is not None:
        return Read(mistakes=[_misplaced(raw, *spelling)])
    meta = value.get("metadata")
    by_hand = not trusted and not (isinstance(meta, dict) and meta.get("uid"))
    convert = _LEGACY.get((group, version, str(kind)))
    if convert is not None:
        return _read_converted(raw, convert(value), by_hand, pool)
    if (group, str(kind)) not in _DECODERS:
        return Read(ignored=str(kind))
    shapeless = [(key,) for key in ("metadata", "spec") if not _may_be_map(value.get(key))]
    if shapeless:
        return Read(mistakes=[_misplaced(raw, path, "must be a map") for path in shapeless])
    findings = Findings(written_by_hand=by_hand, pool=pool)
    decoded = _decoded(raw, value, findings)
    return Read(
        objects=[decoded],
        mistakes=[_misplaced(raw, path, message) for path, message in findings.found],
    )


def _may_be_map(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _read_converted(
    raw: RawObject, converted: Converted, by_hand: bool, pool: dict[Any, Any]
) -> Read:
    objects: list[Decoded] = []
    found: list[Remark] = list(converted.problems)
    for one in converted.objects:
        findings = Findings(written_by_hand=by_hand, pool=pool)
        objects.append(_successor(raw, one, converted, findings))
        found.extend((one.old_path(path), message) for path, message in findings.found)
    if converted.kubelet is not None:
        found.extend(_kubelet_mistakes(converted.kubelet, by_hand))
    unique = dict.fromkeys(found)
    return Read(
        objects=objects, mistakes=[_misplaced(raw, path, message) for path, message in unique]
    )


def _successor(raw: RawObject, one: Successor, converted: Converted, findings: Findings) -> Decoded:
    decoded = _decoded(raw, one.value, findings)
    kubelet = converted.kubelet if decoded.kind == "NodePool" else None
    return msgspec.structs.replace(decoded, kubelet=kubelet, remarks=one.remarks)


def _kubelet_mistakes(kubelet: OldKubelet, by_hand: bool) -> list[Remark]:
    findings = Findings(written_by_hand=by_hand)
    nodeclasses.decode_kubelet(Field(kubelet.settings, findings))
    return [((*kubelet.path, *path), message) for path, message in findings.found]


def _decoded(raw: RawObject, value: dict[str, Any], findings: Findings) -> Decoded:
    kind = str(value["kind"])
    group = str(value["apiVersion"]).rpartition("/")[0]
    root = Field(value, findings)
    model = _DECODERS[(group, kind)](root)
    namespace = "" if kind in _NO_NAMESPACE else getattr(model, "namespace", "")
    return Decoded(
        kind=kind, namespace=namespace, name=model.name, model=model, source=raw, today=value
    )


def _misplaced(raw: RawObject, path: tuple[str | int, ...], message: str) -> Misplaced:
    return Misplaced(raw.file, raw.document, raw.path + path, message)


Problem = tuple[tuple[str | int, ...], str]


def _header_problem(api_version: Any, kind: Any) -> Problem | None:
    if api_version is None and kind is None:
        return (), "has neither apiVersion nor kind; is this a Kubernetes manifest?"
    for name, value in (("kind", kind), ("apiVersion", api_version)):
        if value is None or value == "":
            return (name,), "is missing"
        if not isinstance(value, str):
            return (name,), f"must be text, not {str(value)[:60]}"
    return None


def _spelling_problem(group: str, version: str, kind: str) -> Problem | None:
    """Tell a misspelt kind or group of ours from one that is somebody else's."""
    known = (group, kind) in _DECODERS or (group, version, kind) in _LEGACY
    if known:
        return _version_problem(group, version, kind)
    if kind in _GROUP_OF:
        home = _GROUP_OF[kind]
        ours = group in _GROUPS or group in _RETIRED_GROUPS or nearest(group, [home]) is not None
        if not ours:
            return None
        proper = _api_version(home, kind)
        found = f"{group}/{version}" if group else version
        return ("apiVersion",), f"{found!r} has no {kind}; did you mean {proper!r}?"
    if kind in _OTHER_KINDS or (group not in _GROUPS and group not in _RETIRED_GROUPS):
        return None
    guess = nearest(kind, _GROUP_OF, likeness=0.85)
    return None if guess is None else (("kind",), f"{kind!r} is no kind; did you mean {guess!r}?")


def _version_problem(group: str, version: str, kind: str) -> Problem | None:
    if (group, version, kind) in _LEGACY or version in _VERSIONS.get(group, ("v1",)):
        return None
    proper = _api_version(group, kind)
    found = f"{group}/{version}" if group else version
    return ("apiVersion",), f"{found!r} is not understood; did you mean {proper!r}?"


def _api_version(group: str, kind: str) -> str:
    version = next((v for g, v, k in _LEGACY if k == kind and (g, k) not in _DECODERS), "v1")
    return f"{group}/{version}" if group else version


def is_of_older_version(value: dict[str, Any]) -> bool:
    """Tell whether a raw object is one that we turn into today's."""
    group, _, version = str(value.get("apiVersion")).rpartition("/")
    return (group, version, str(value.get("kind"))) in _LEGACY
