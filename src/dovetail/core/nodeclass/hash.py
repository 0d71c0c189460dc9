"""Hashes by which claims are seen to come from an older version of their node class."""

import json
from base64 import b64decode
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim

CLASS_HASH_VERSION: Final = "dovetail-v1"
"""Not upstream's: a claim with another version is stamped anew instead of replaced."""


def class_hash(node_class: NodeClass, ca_bundle: str = "") -> str:
    """Return a number that changes with what only a new machine can have.

    Selectors are left out: what they find is compared itself. So is the number
    of address prefixes, as upstream does. Order of tags and disks does not matter.
    """
    launch = node_class.launch
    static: dict[str, Any] = {
        "amiFamily": node_class.ami_family,
        "caBundle": _certificates(ca_bundle),
        "kubelet": msgspec.to_builtins(node_class.kubelet),
        "blockDeviceMappings": sorted(_spelled(one) for one in node_class.block_devices),
        "raid0": node_class.raid0,
        "role": launch.role,
        "instanceProfile": launch.instance_profile,
        "userData": launch.user_data,
        "tags": dict(launch.tags),
        "metadataOptions": msgspec.to_builtins(launch.metadata),
        "networkInterfaces": sorted(_spelled(one) for one in launch.interfaces),
        "connectionTracking": msgspec.to_builtins(launch.connection_tracking),
        "placementGroup": msgspec.to_builtins(launch.placement_group),
        "detailedMonitoring": launch.detailed_monitoring,
        "publicAddress": launch.public_address,
        "nestedVirtualization": launch.nested_virtualization,
        "context": launch.context,
    }
    said = {name: value for name, value in static.items() if value is not None and value != ""}
    digest = sha256(json.dumps(said, sort_keys=True).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def class_stamp(node_class: NodeClass, ca_bundle: str = "") -> dict[str, str]:
    """Return the annotations that a class, and a claim launched from it now, should have."""
    return {
        label_keys.EC2_NODE_CLASS_HASH: class_hash(node_class, ca_bundle),
        label_keys.EC2_NODE_CLASS_HASH_VERSION: CLASS_HASH_VERSION,
    }


def restamped_for_class(claim: NodeClaim, stamp: dict[str, str]) -> dict[str, str]:
    """Return the annotations that a claim needs after the version of hashes changed.

    A claim that has drifted keeps its hash, so that it stays drifted.
    """
    key = label_keys.EC2_NODE_CLASS_HASH_VERSION
    if claim.annotations.get(key) == stamp[key]:
        return {}
    return {key: stamp[key]} if "Drifted" in claim.conditions else stamp


def _certificates(bundle: str) -> str:
    """Return what a bundle holds, however its lines are broken.

    The same certificates come with other line ends from EKS, a kubeconfig and a
    pod's files: that alone must not replace every node.
    """
    try:
        return "".join(b64decode(bundle, validate=True).decode().split())
    except ValueError:
        return bundle


def _spelled(one: msgspec.Struct) -> str:
    return json.dumps(msgspec.to_builtins(one), sort_keys=True)
