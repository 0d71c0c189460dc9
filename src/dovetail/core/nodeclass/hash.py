"""Hash of an EC2NodeClass, to detect drift of its NodeClaims."""

import json
from base64 import b64decode
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass, KubeletConfiguration

NODECLASS_HASH_VERSION: Final = "dovetail-v1"
"""Differs from Karpenter's: a NodeClaim with another version gets a new hash, not a replacement."""


def compute_nodeclass_hash(node_class: EC2NodeClass, ca_bundle: str = "") -> str:
    """Return a hash of the fields that only a new instance can adopt.

    Selectors are excluded: what they resolve to is compared instead. So is the
    number of address prefixes, as in Karpenter. Order of tags and block devices
    does not matter.
    """
    launch = node_class.launch
    static: dict[str, Any] = {
        "amiFamily": node_class.ami_family.value,
        "caBundle": _normalize_certificates(ca_bundle),
        "kubelet": _kubelet_fields(node_class.kubelet),
        "blockDeviceMappings": sorted(_encode(block_device) for block_device in node_class.block_devices),
        "raid0": node_class.raid0,
        "role": launch.role,
        "instanceProfile": launch.instance_profile,
        "userData": launch.user_data,
        "tags": dict(launch.tags),
        "metadataOptions": msgspec.to_builtins(launch.metadata_options),
        "networkInterfaces": sorted(
            _encode(network_interface) for network_interface in launch.network_interfaces
        ),
        "connectionTracking": msgspec.to_builtins(launch.connection_tracking),
        "placementGroup": msgspec.to_builtins(launch.placement_group),
        "detailedMonitoring": launch.detailed_monitoring,
        "publicAddress": launch.associate_public_ip_address,
        "nestedVirtualization": launch.nested_virtualization,
        "context": launch.context,
    }
    fields = {name: value for name, value in static.items() if value is not None and value != ""}
    digest = sha256(json.dumps(fields, sort_keys=True).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def compute_nodeclass_hash_annotations(node_class: EC2NodeClass, ca_bundle: str = "") -> dict[str, str]:
    """Return the hash annotations of a node class and of NodeClaims launched from it."""
    return {
        label_keys.EC2_NODE_CLASS_HASH: compute_nodeclass_hash(node_class, ca_bundle),
        label_keys.EC2_NODE_CLASS_HASH_VERSION: NODECLASS_HASH_VERSION,
    }


def _kubelet_fields(kubelet: KubeletConfiguration) -> dict[str, Any]:
    """Return the fields to hash; those that came later only if they are set.

    An upgrade must not change the hash of a node class that does not use them.
    """
    fields: dict[str, Any] = msgspec.to_builtins(kubelet)
    if not kubelet.expressions:
        del fields["expressions"]
    return fields


def _normalize_certificates(bundle: str) -> str:
    """Return a CA bundle without line breaks.

    EKS, a kubeconfig and a pod's files give the same certificates with different
    line ends, which must not replace every node.
    """
    try:
        return "".join(b64decode(bundle, validate=True).decode().split())
    except ValueError:
        return bundle


def _encode(value: msgspec.Struct) -> str:
    return json.dumps(msgspec.to_builtins(value), sort_keys=True)
