"""From the wire to what the mirror keeps, kind by kind."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter import (
    capacitybuffers,
    nodeclaims,
    nodeclasses,
    nodeoverlays,
    nodepools,
)
from dovetail.codec.kube import nodes, storage, workloads
from dovetail.codec.kube.pods import decode_pod
from dovetail.model.kube.workloads import Controller
from dovetail.model.settings import Gates
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """A volume on its way to a node, on it, or on its way off."""

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


def _controller_of(decode: Callable[[Field], workloads.Workload]) -> Callable[[Field], Any]:
    def read(root: Field) -> Controller | None:
        return workloads.controller(decode(root))

    return read


DECODERS: dict[Resource, Callable[[Field], Any]] = {
    kinds.PODS: decode_pod,
    kinds.NODES: nodes.decode_node,
    kinds.NODE_CLAIMS: nodeclaims.decode_node_claim,
    kinds.NODE_POOLS: nodepools.decode_node_pool,
    kinds.EC2_NODE_CLASSES: nodeclasses.decode_node_class,
    kinds.DAEMON_SETS: workloads.decode_daemon_set,
    kinds.REPLICA_SETS: _controller_of(workloads.decode_replica_set),
    kinds.STATEFUL_SETS: _controller_of(workloads.decode_stateful_set),
    kinds.POD_DISRUPTION_BUDGETS: workloads.decode_budget,
    kinds.SERVICES: workloads.decode_service,
    kinds.NAMESPACES: workloads.decode_namespace,
    kinds.PERSISTENT_VOLUMES: storage.decode_volume,
    kinds.PERSISTENT_VOLUME_CLAIMS: storage.decode_claim,
    kinds.STORAGE_CLASSES: storage.decode_storage_class,
    kinds.CSI_NODES: nodes.decode_csi_node,
    kinds.VOLUME_ATTACHMENTS: _decode_attachment,
    kinds.NODE_OVERLAYS: nodeoverlays.decode_overlay,
    kinds.CAPACITY_BUFFERS: capacitybuffers.decode_buffer,
}
"""The kinds that are mirrored."""


def mirrored(gates: Gates) -> Iterator[Resource]:
    """Return the kinds to mirror: those of what is switched off need not even be installed."""
    switched = {
        kinds.NODE_OVERLAYS: gates.NodeOverlay,
        kinds.CAPACITY_BUFFERS: gates.CapacityBuffer,
    }
    return (one for one in DECODERS if switched.get(one, True))


_MOST_SHARED: Final = 200_000
"""Parts kept to be shared; beyond that sharing begins anew, lest those of the dead pile up."""


def decoder(resource: Resource, shared: dict[Any, Any]) -> Callable[[Object], Any]:
    """Return what reads one kind; equal parts of objects are kept once, in ``shared``.

    An API server has accepted these objects, so mistakes in them are not looked
    for: what cannot be read counts as not said.
    """
    read = DECODERS[resource]

    def decode(obj: Object) -> Any:
        if len(shared) > _MOST_SHARED:
            shared.clear()
        return read(Field(obj, Findings(written_by_hand=False, pool=shared)))

    return decode
