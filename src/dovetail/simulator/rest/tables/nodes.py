"""The columns of nodes and of Karpenter's kinds."""

from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Show,
    condition,
    count,
    joined,
    label,
    text,
)

_ROLE: Final = "node-role.kubernetes.io/"
_OLD_ROLE: Final = "kubernetes.io/role"
_UNKNOWN: Final = "<unknown>"


def _status(obj: Object, now: datetime) -> Cell:
    ready = condition("Ready")(obj, now)
    words = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    if look(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(obj: Object, _: datetime) -> Cell:
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    if labels.get(_OLD_ROLE):
        roles.add(labels[_OLD_ROLE])
    return joined(sorted(roles))


def _address(kind: str) -> Show:
    def show(obj: Object, _: datetime) -> Cell:
        for one in look(obj, "status", "addresses") or ():
            if one.get("type") == kind:
                return str(one.get("address", ""))
        return NONE

    return show


def _info(field: str, missing: str = _UNKNOWN) -> Show:
    return text("status", "nodeInfo", field, missing=missing)


NODE_COLUMNS: Final = (
    NAME,
    Column("Status", _status),
    Column("Roles", _roles),
    AGE,
    Column("Version", _info("kubeletVersion", missing="")),
    Column("Internal-IP", _address("InternalIP"), wide=True),
    Column("External-IP", _address("ExternalIP"), wide=True),
    Column("OS-Image", _info("osImage"), wide=True),
    Column("Kernel-Version", _info("kernelVersion"), wide=True),
    Column("Container-Runtime", _info("containerRuntimeVersion"), wide=True),
)
NODE_POOL_COLUMNS: Final = (
    NAME,
    Column("NodeClass", text("spec", "template", "spec", "nodeClassRef", "name")),
    Column("Nodes", count("status", "nodes"), type="integer"),
    Column("Ready", condition("Ready")),
    AGE,
    Column("Weight", text("spec", "weight"), wide=True),
    Column("CPU", text("status", "resources", "cpu"), wide=True),
    Column("Memory", text("status", "resources", "memory"), wide=True),
)
NODE_CLAIM_COLUMNS: Final = (
    NAME,
    Column("Type", label("node.kubernetes.io/instance-type")),
    Column("Capacity", label("karpenter.sh/capacity-type")),
    Column("Zone", label("topology.kubernetes.io/zone")),
    Column("Node", text("status", "nodeName")),
    Column("Ready", condition("Ready")),
    AGE,
    Column("ImageID", text("status", "imageID"), wide=True),
    Column("ID", text("status", "providerID"), wide=True),
    Column("NodePool", label("karpenter.sh/nodepool"), wide=True),
    Column("NodeClass", text("spec", "nodeClassRef", "name"), wide=True),
    Column("Drifted", condition("Drifted"), wide=True),
)
EC2_NODE_CLASS_COLUMNS: Final = (
    NAME,
    Column("Ready", condition("Ready")),
    AGE,
    Column("Role", text("spec", "role"), wide=True),
)
NODE_OVERLAY_COLUMNS: Final = (
    NAME,
    Column("Ready", condition("Ready")),
    AGE,
    Column("Weight", text("spec", "weight"), wide=True),
)
BUFFER_COLUMNS: Final = (
    NAME,
    Column("Strategy", text("spec", "provisioningStrategy")),
    Column("PodTemplate", text("status", "podTemplateRef", "name")),
    Column("Replicas", text("status", "replicas")),
    Column("Ready", condition("ReadyForProvisioning")),
    AGE,
)
