"""Strip objects of a cluster to what scheduling and disruption read.

Environment variables, commands, arguments, user data and the names of Secrets and ConfigMaps
never get into a dump.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.karpenter.nodepools import decode_nodepool
from dovetail.core.cost.node_prices import CAPACITY_PROVISIONED
from dovetail.core.nodeclass.hash import compute_nodeclass_hash
from dovetail.core.nodepool.hash import compute_nodepool_hash
from dovetail.model import labels as label_keys

_ANNOTATION_DOMAINS: Final = (
    *("karpenter.sh", "karpenter.k8s.aws", "dovetail.sh", "compatibility.karpenter.sh"),
    *("pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io", "deployment.kubernetes.io"),
    *("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"),
)
_ANNOTATIONS: Final = (
    *(CAPACITY_PROVISIONED, label_keys.POD_DELETION_COST, "kubernetes.io/config.mirror"),
    *("cluster-autoscaler.kubernetes.io/safe-to-evict", "batch.kubernetes.io/job-completion-index"),
)
_METADATA: Final = (
    *("name", "namespace", "uid", "generation", "generateName", "creationTimestamp", "deletionTimestamp"),
    *(
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "resourceVersion",
    ),
)
_POD_SPEC_DROPPED: Final = (
    *("imagePullSecrets", "hostAliases", "dnsConfig", "securityContext", "subdomain", "hostname"),
    *("serviceAccount", "serviceAccountName", "automountServiceAccountToken", "enableServiceLinks"),
)
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")
_VOLUME_SOURCES: Final = ("persistentVolumeClaim", "ephemeral")
_POD_STATUS: Final = ("phase", "conditions", "startTime", "nominatedNodeName", "qosClass", "resize")
_CONTAINER_STATUS: Final = ("name", "ready", "started", "restartCount", "allocatedResources", "resources")
_NODE_STATUS: Final = ("capacity", "allocatable", "conditions", "nodeInfo", "volumesInUse", "volumesAttached")
_SERVICE_SPEC: Final = ("selector", "type")
_CSI: Final = ("driver", "volumeHandle", "fsType")
_PORT: Final = ("containerPort", "hostPort", "hostIP", "protocol")
_RESOURCES: Final = ("requests", "limits")
_VOLUME_SPEC: Final = (
    *("accessModes", "capacity", "claimRef", "csi", "nodeAffinity", "persistentVolumeReclaimPolicy"),
    *("storageClassName", "volumeAttributesClassName", "volumeMode"),
)

Object = dict[str, Any]


def strip_objects(objects: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return objects with only the fields that decisions read.

    A node class without its user data has another hash: that of the NodeClaims is changed with it.
    """
    originals = list(objects)
    stripped = [strip_object(obj) for obj in originals]
    rewrite_hashes(originals, stripped)
    return stripped


def strip_object(obj: Mapping[str, Any]) -> Object:
    """Return one object without what no decision reads."""
    result: Object = {
        key: value for key, value in obj.items() if key in ("apiVersion", "kind", "spec", "status", "data")
    }
    result["metadata"] = _strip_metadata(obj.get("metadata") or {})
    # ConfigMaps and Secrets have ``data``, too, and must not be here at all.
    if obj.get("kind") != "ControllerRevision":
        result.pop("data", None)
    for key, value in obj.items():
        if key not in result and key not in ("metadata", "data", "stringData", "binaryData", "immutable"):
            result[key] = value
    for key in ("spec", "data", "template"):
        if isinstance(result.get(key), Mapping):
            result[key] = _strip_templates(result[key])
    strip = _BY_KIND.get(str(obj.get("kind")))
    if strip is not None:
        strip(result)
    return result


def _strip_metadata(meta: Mapping[str, Any]) -> Object:
    kept = {key: meta[key] for key in _METADATA if key in meta}
    annotations = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key in _ANNOTATIONS or key.rpartition("/")[0] in _ANNOTATION_DOMAINS
    }
    kept.pop("annotations", None)
    return {**kept, "annotations": annotations} if annotations else kept


def _strip_templates(value: Any) -> Any:
    """Strip every pod spec inside a value: in pods, templates and revisions."""
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            return _strip_pod_spec(value)
        result = {key: _strip_templates(entry) for key, entry in value.items()}
        if isinstance(result.get("metadata"), Mapping):
            result["metadata"] = _strip_metadata(result["metadata"])
        return result
    if isinstance(value, list):
        return [_strip_templates(entry) for entry in value]
    return value


def _strip_pod_spec(spec: Mapping[str, Any]) -> Object:
    kept = {key: value for key, value in spec.items() if key not in _POD_SPEC_DROPPED}
    for key in ("containers", "initContainers"):
        if isinstance(kept.get(key), list):
            kept[key] = [_strip_container(container) for container in kept[key]]
    kept.pop("ephemeralContainers", None)
    if isinstance(kept.get("volumes"), list):
        kept["volumes"] = [_strip_volume(volume) for volume in kept["volumes"]]
    return kept


def _strip_container(container: Any) -> Object:
    kept = _keep(container, _CONTAINER)
    if isinstance(kept.get("ports"), list):
        kept["ports"] = [_keep(port, _PORT) for port in kept["ports"]]
    if isinstance(kept.get("resources"), Mapping):
        kept["resources"] = _keep(kept["resources"], _RESOURCES)
    return kept


def _strip_volume(volume: Any) -> Object:
    """Return a volume with its claim; any other source becomes an empty directory."""
    name = str(volume.get("name", "")) if isinstance(volume, Mapping) else ""
    sources = {key: volume[key] for key in _VOLUME_SOURCES if key in volume} if name else {}
    return {"name": name, **(sources or {"emptyDir": {}})}


def _keep(value: Any, keys: Iterable[str]) -> Object:
    return {key: value[key] for key in keys if key in value} if isinstance(value, Mapping) else {}


def _strip_pod(pod: Object) -> None:
    status = pod.get("status") or {}
    kept = _keep(status, _POD_STATUS)
    # Messages of conditions can quote names, paths and output of containers.
    conditions = kept.get("conditions") or ()
    kept["conditions"] = [
        {key: value for key, value in condition.items() if key != "message"} for condition in conditions
    ]
    for key in ("containerStatuses", "initContainerStatuses"):
        if isinstance(status.get(key), list):
            kept[key] = [_keep(entry, _CONTAINER_STATUS) for entry in status[key]]
    pod["status"] = kept


def _strip_node(node: Object) -> None:
    node["status"] = _keep(node.get("status") or {}, _NODE_STATUS)


def _strip_service(service: Object) -> None:
    service["spec"] = _keep(service.get("spec") or {}, _SERVICE_SPEC)
    service.pop("status", None)


def _strip_volume_object(volume: Object) -> None:
    """Keep the zone of a volume, not the servers and paths of its source."""
    spec = volume.get("spec") or {}
    kept = _keep(spec, _VOLUME_SPEC)
    if isinstance(kept.get("csi"), Mapping):
        kept["csi"] = _keep(kept["csi"], _CSI)
    volume["spec"] = kept | {key: {} for key in spec if key not in _VOLUME_SPEC and key != "mountOptions"}


def _strip_csinode(csinode: Object) -> None:
    drivers = (csinode.get("spec") or {}).get("drivers") or ()
    csinode["spec"] = {"drivers": [{k: v for k, v in each.items() if k != "nodeID"} for each in drivers]}


def _strip_priority_class(priority_class: Object) -> None:
    priority_class.pop("description", None)


def _strip_storage_class(storage_class: Object) -> None:
    storage_class.pop("parameters", None)


def _strip_nodeclass(node_class: Object) -> None:
    node_class["spec"] = {
        key: value
        for key, value in (node_class.get("spec") or {}).items()
        if key not in ("userData", "context")
    }


_BY_KIND: Final = {
    "Pod": _strip_pod,
    "Node": _strip_node,
    "Service": _strip_service,
    "PersistentVolume": _strip_volume_object,
    "PriorityClass": _strip_priority_class,
    "StorageClass": _strip_storage_class,
    "CSINode": _strip_csinode,
    "EC2NodeClass": _strip_nodeclass,
}


def rewrite_hashes(originals: Iterable[Mapping[str, Any]], changed: Iterable[Object]) -> None:
    """Replace hashes of changed NodePools and node classes, also on their NodeClaims.

    Only hashes by Dovetail's own rules can be replaced. Without that, every node of a changed
    node class would seem to have drifted.
    """
    replaced: dict[str, str] = {}
    objects = list(changed)
    for before, after in zip(originals, objects, strict=True):
        replaced |= find_replaced_hash(before, after)
    for obj in objects:
        replace_hashes(obj, replaced)


def find_replaced_hash(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return the recorded hash of a NodePool or node class and the one after a change, if they differ."""
    kind = _HASHED.get(str(before.get("kind")))
    if kind is None or "metadata" not in before:
        return {}
    key, compute = kind
    recorded = (before["metadata"].get("annotations") or {}).get(key)
    if not recorded or recorded != compute(before):
        return {}
    new = compute(after)
    return {recorded: new} if new != recorded else {}


def replace_hashes(obj: Object, replaced: Mapping[str, str]) -> None:
    """Replace hashes in the annotations of an object, in place."""
    annotations = obj["metadata"].get("annotations") or {}
    for key, _ in _HASHED.values():
        if annotations.get(key) in replaced:
            annotations[key] = replaced[annotations[key]]


def _hash_nodeclass(obj: Mapping[str, Any]) -> str:
    return compute_nodeclass_hash(decode_nodeclass(Field(obj, DecodeContext(strict=False))))


def _hash_nodepool(obj: Mapping[str, Any]) -> str:
    return compute_nodepool_hash(decode_nodepool(Field(obj, DecodeContext(strict=False))))


_HASHED: Final = {
    "EC2NodeClass": (label_keys.EC2_NODE_CLASS_HASH, _hash_nodeclass),
    "NodePool": (label_keys.NODEPOOL_HASH, _hash_nodepool),
}
