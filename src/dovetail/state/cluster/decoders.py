"""Decoders of the cluster cache, by kind."""

from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, ref

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter import capacitybuffers, nodeclaims, nodeclasses, nodeoverlays, nodepools
from dovetail.codec.kube import admission, nodes, storage, workloads
from dovetail.codec.kube.pods import decode_pod, update_pod
from dovetail.codec.kube.requirements import decode_selector
from dovetail.model.kube.workloads import TemplateVersion, WorkloadController
from dovetail.model.settings import FeatureGates
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.state.cluster.store import Decoder


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that is attached to a node, or being attached or detached."""

    name: str
    node_name: str
    volume: str
    """The PersistentVolume; empty for inline volumes."""


def _decode_attachment(root: Field) -> VolumeAttachment:
    spec = root["spec"]
    return VolumeAttachment(
        name=root["metadata"]["name"].text(),
        node_name=spec["nodeName"].text(),
        volume=spec["source"]["persistentVolumeName"].text(),
    )


def _decode_controller(kind: str) -> Callable[[Field], WorkloadController]:
    def decode_controller(root: Field) -> WorkloadController:
        # Without its pod template: every pod that starts or stops changes the status.
        meta = root["metadata"]
        return WorkloadController(
            kind=kind,
            namespace=meta.text_of("namespace") or "default",
            name=meta.text_of("name"),
            selector=decode_selector(root["spec"]["selector"]),
            generation=meta["generation"].integer() or 0,
        )

    return decode_controller


def _decode_template_version(root: Field) -> TemplateVersion:
    meta = root["metadata"]
    return TemplateVersion(
        namespace=meta["namespace"].text(),
        name=meta["name"].text(),
        generation=meta["generation"].integer() or 0,
    )


DECODERS: dict[Resource, Callable[[Field], Any]] = {
    kinds.PODS: decode_pod,
    kinds.NODES: nodes.decode_node,
    kinds.NODE_CLAIMS: nodeclaims.decode_nodeclaim,
    kinds.NODE_POOLS: nodepools.decode_nodepool,
    kinds.EC2_NODE_CLASSES: nodeclasses.decode_nodeclass,
    kinds.DAEMON_SETS: workloads.decode_daemon_set,
    kinds.REPLICA_SETS: _decode_controller("ReplicaSet"),
    kinds.STATEFUL_SETS: _decode_controller("StatefulSet"),
    kinds.POD_DISRUPTION_BUDGETS: workloads.decode_pod_disruption_budget,
    kinds.SERVICES: workloads.decode_service,
    kinds.NAMESPACES: workloads.decode_namespace,
    kinds.PERSISTENT_VOLUMES: storage.decode_persistent_volume,
    kinds.PERSISTENT_VOLUME_CLAIMS: storage.decode_persistent_volume_claim,
    kinds.STORAGE_CLASSES: storage.decode_storage_class,
    kinds.CSI_NODES: nodes.decode_csi_node,
    kinds.VOLUME_ATTACHMENTS: _decode_attachment,
    kinds.LIMIT_RANGES: admission.decode_limit_range,
    kinds.RUNTIME_CLASSES: admission.decode_runtime_class,
    kinds.NODE_OVERLAYS: nodeoverlays.decode_nodeoverlay,
    kinds.CAPACITY_BUFFERS: capacitybuffers.decode_capacitybuffer,
    kinds.DEPLOYMENTS: _decode_template_version,
    kinds.POD_TEMPLATES: _decode_template_version,
}
"""The cached kinds."""


def cached_resources(gates: FeatureGates) -> Iterator[Resource]:
    """Return the kinds to cache; CRDs behind a disabled feature gate need not be installed."""
    switched = {
        kinds.NODE_OVERLAYS: gates.NodeOverlay,
        kinds.CAPACITY_BUFFERS: gates.CapacityBuffer,
        kinds.DEPLOYMENTS: gates.CapacityBuffer,
        kinds.POD_TEMPLATES: gates.CapacityBuffer,
    }
    return (resource for resource in DECODERS if switched.get(resource, True))


_MAX_REQUIREMENTS: Final = 10_000
"""Maximum number of lists of requirements whose parts are known, including those that are gone."""


class SharedValues:
    """Equal parts of many objects, once, for as long as an object has them.

    Pods come and go: a cache that kept the parts of deleted ones would grow with every
    large spec that someone creates and deletes.
    """

    def __init__(self) -> None:
        self._interned: WeakKeyDictionary[Any, ReferenceType[Any]] = WeakKeyDictionary()
        self._decoded: WeakValueDictionary[Any, Any] = WeakValueDictionary()
        self._requirements: dict[Any, tuple[ReferenceType[Any], ...]] = {}
        """Digest of a list of requirements → its parts: a tuple cannot be referenced weakly."""

    def __len__(self) -> int:
        return len(self._interned) + len(self._decoded) + len(self._requirements)

    def get(self, key: Any) -> Any:
        """Return the decoded value of a key, or None."""
        value = self._decoded.get(key)
        if value is not None:
            return value
        references = self._requirements.get(key)
        if references is None:
            return None
        parts = tuple(reference() for reference in references)
        return None if any(part is None for part in parts) else parts

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep a decoded value."""
        if not isinstance(value, tuple):
            self._decoded[key] = value
            return
        if len(self._requirements) >= _MAX_REQUIREMENTS:
            self._requirements.clear()
        self._requirements[key] = tuple(ref(part) for part in value)

    def setdefault(self, value: Any, _: Any) -> Any:
        """Return the value that equals ``value``, which is kept if there is none."""
        reference = self._interned.get(value)
        known = None if reference is None else reference()
        if known is not None:
            return known
        self._interned[value] = ref(value)
        return value


UPDATERS: Final[dict[Resource, Callable[[Field, Object, Any], Any]]] = {
    kinds.PODS: update_pod,
    kinds.NODE_CLAIMS: nodeclaims.update_nodeclaim,
}
"""Decoders of a newer version of an object.

They get the old version too, and what it was decoded to; None: decode it without them.
"""


def create_decoder(resource: Resource, shared: SharedValues) -> Decoder[Any]:
    """Return the decoder of a kind; ``shared`` keeps equal parts of objects once.

    The API server has validated these objects, so there is no validation here:
    invalid fields count as absent.
    """
    read, update = DECODERS[resource], UPDATERS.get(resource)

    def decode(obj: Object, old: Object | None = None, model: Any = None) -> Any:
        root = Field(obj, DecodeContext(strict=False, cache=shared))
        updated = update(root, old, model) if update is not None and old is not None else None
        return read(root) if updated is None else updated

    return decode
