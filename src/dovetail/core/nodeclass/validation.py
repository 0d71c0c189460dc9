"""Validation of an EC2NodeClass without calls to AWS."""

from collections.abc import Iterable
from typing import Final

from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass

Problem = tuple[str, str]
"""Reason and message."""

_RESERVED_TAGS: Final = frozenset(
    {"", "eks:eks-cluster-name", label_keys.NODEPOOL, "karpenter.sh/nodeclaim", label_keys.EC2_NODE_CLASS}
)
_RESERVED_TAG_PREFIX: Final = "kubernetes.io/cluster"


def validate_nodeclass(node_class: EC2NodeClass, decode_errors: Iterable[str] = ()) -> Problem | None:
    """Return the first validation error of a node class, or None.

    The CRD rejects most of these errors, but an object may be older than the rule.
    ``decode_errors`` are fields that could not be decoded.
    """
    tags = sorted(
        key for key in node_class.launch.tags if key in _RESERVED_TAGS or key.startswith(_RESERVED_TAG_PREFIX)
    )
    if tags:
        listed = ", ".join(repr(key) for key in tags)
        return "TagValidationFailed", f"spec.tags: {listed} is set automatically; remove it"
    errors = [*decode_errors, *_validate_kubelet(node_class)]
    if errors:
        return "InvalidKubeletConfiguration", "; ".join(errors)
    unsupported = [*_find_unsupported(node_class)]
    if unsupported:
        return "UnsupportedKubeletConfiguration", "; ".join(unsupported)
    return None


def _validate_kubelet(node_class: EC2NodeClass) -> Iterable[str]:
    kubelet = node_class.kubelet
    if "registerWithTaints" in kubelet.others:
        yield "spec.kubelet.registerWithTaints: write taints in the NodePool"
    soft, grace = kubelet.eviction_soft.keys(), kubelet.eviction_soft_grace.keys()
    for signal in sorted(soft - grace):
        yield f"spec.kubelet.evictionSoft: {signal} has no evictionSoftGracePeriod"
    for signal in sorted(grace - soft):
        yield f"spec.kubelet.evictionSoftGracePeriod: {signal} has no evictionSoft"
    high, low = kubelet.image_gc_high, kubelet.image_gc_low
    if high is not None and low is not None and high <= low:
        yield "spec.kubelet.imageGCHighThresholdPercent must be more than the low one"


def _find_unsupported(node_class: EC2NodeClass) -> Iterable[str]:
    family, kubelet = node_class.ami_family, node_class.kubelet
    facts = ami_family_facts(family)
    if not facts.validates_kubelet:
        return
    for name in sorted(kubelet.others):
        yield f"spec.kubelet.{name}: only AL2023 supports it, not {family}"
    if kubelet.pods_per_core and not facts.supports_pods_per_core:
        yield f"spec.kubelet.podsPerCore: {family} has no such setting"
    if len(kubelet.cluster_dns) > 1:
        yield f"spec.kubelet.clusterDNS: {family} supports only one address"
