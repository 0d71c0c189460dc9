"""NodeClaims of nodes that were recorded without them, rebuilt from the nodes."""

from typing import Any, Final

from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.core.nodeclass.drift import select_image
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.condition_types import INITIALIZED, LAUNCHED, REGISTERED
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.conditions import READY
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import NO_RESOURCES
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.fork.decoding import decode
from dovetail.simulator.fork.records import Records
from dovetail.simulator.fork.report import ReportBuilder

_REQUIRED: Final = (
    *(label_keys.INSTANCE_TYPE, label_keys.ZONE, label_keys.CAPACITY_TYPE),
    *(label_keys.ARCH, label_keys.OS),
)
_POOL_HASHES: Final = (label_keys.NODEPOOL_HASH, label_keys.NODEPOOL_HASH_VERSION)
_CLASS_HASHES: Final = (label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)


def rebuild_claims(records: Records, report: ReportBuilder) -> None:
    """Add a NodeClaim for each node of a NodePool, if no NodeClaims were recorded at all."""
    if records[NODE_CLAIMS]:
        return
    classes = {name: decode(decode_nodeclass, obj) for (_, name), obj in records[EC2_NODE_CLASSES].items()}
    for (_, name), node in tuple(records[NODES].items()):
        pool_name = (node["metadata"].get("labels") or {}).get(label_keys.NODEPOOL)
        pool = records[NODE_POOLS].get(("", pool_name)) if pool_name else None
        if pool is None or not get_field(node, "spec", "providerID"):
            continue
        class_name = get_field(pool, "spec", "template", "spec", "nodeClassRef", "name") or ""
        records.put(NODE_CLAIMS, _build_claim(node, pool, classes.get(class_name), records))
        report.assume_of(
            "NodeClaim", name, "rebuilt from their nodes, as not drifted; no NodeClaims were recorded for"
        )


def _build_claim(
    node: Object, pool: Object, node_class: EC2NodeClass | None, records: Records
) -> dict[str, Any]:
    meta, template = node["metadata"], get_field(pool, "spec", "template", "spec") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != label_keys.HOSTNAME}
    owners: list[Object] = meta.get("ownerReferences") or []
    reference = next((owner for owner in owners if owner["kind"] == "NodeClaim"), Object())
    class_obj = records[EC2_NODE_CLASSES].get(("", node_class.name)) if node_class is not None else None
    annotations = {
        key: value
        for owner, keys in ((pool, _POOL_HASHES), (class_obj, _CLASS_HASHES))
        for key, value in (get_field(owner, "metadata", "annotations") or {}).items()
        if key in keys
    }
    since = meta["creationTimestamp"]
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
        for kind in (LAUNCHED, REGISTERED, INITIALIZED, READY)
    ]
    pool_meta = pool["metadata"]
    owner = {
        "apiVersion": pool["apiVersion"],
        "kind": "NodePool",
        "name": pool_meta["name"],
        "uid": pool_meta["uid"],
        "blockOwnerDeletion": True,
    }
    copied = ("nodeClassRef", "taints", "startupTaints", "expireAfter", "terminationGracePeriod")
    return {
        "metadata": {
            "name": reference.get("name") or f"{pool_meta['name']}-{meta['name'].partition('.')[0]}",
            "uid": reference.get("uid") or "",
            "creationTimestamp": since,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [label_keys.TERMINATION_FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {
            "requirements": [
                {"key": key, "operator": "In", "values": [labels[key]]} for key in _REQUIRED if key in labels
            ],
            **{name: template[name] for name in copied if name in template},
        },
        "status": {
            "providerID": node["spec"]["providerID"],
            "nodeName": meta["name"],
            "imageID": "" if node_class is None else _image(labels, node_class),
            "capacity": get_field(node, "status", "capacity") or {},
            "allocatable": get_field(node, "status", "allocatable") or {},
            "conditions": conditions,
        },
    }


def _image(labels: dict[str, str], node_class: EC2NodeClass) -> str:
    """Return the image that the node class selects for a node's type."""
    requirements = Requirements.from_requirements(
        Requirement.one_of(key, value) for key, value in labels.items()
    )
    node_type = InstanceType(name="", requirements=requirements, capacity=NO_RESOURCES)
    return select_image(node_class.resolved.amis, node_type) or ""
