"""What is wrong with a node class that can be seen without asking the cloud."""

from collections.abc import Iterable
from typing import Final

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import NodeClass

Problem = tuple[str, str]
"""Reason and message."""

_TAKEN: Final = frozenset(
    {
        "",
        "eks:eks-cluster-name",
        label_keys.NODEPOOL,
        "karpenter.sh/nodeclaim",
        label_keys.EC2_NODE_CLASS,
    }
)
_OURS: Final = "kubernetes.io/cluster"
_HANDED_ON: Final = frozenset({"AL2023", "Custom"})
"""Families whose boot program reads a whole kubelet configuration, or that need none of it."""


def class_problem(node_class: NodeClass, unreadable: Iterable[str] = ()) -> Problem | None:
    """Return the first thing that is wrong with a class, or None.

    The API refuses most of this; a class may have got past it where the API is
    older than the rule. ``unreadable`` is what the reader of the class could make
    nothing of.
    """
    tags = sorted(key for key in node_class.launch.tags if key in _TAKEN or key.startswith(_OURS))
    if tags:
        listed = ", ".join(repr(key) for key in tags)
        return "TagValidationFailed", f"spec.tags: {listed} is set for you; leave it out"
    wrong = [*unreadable, *_kubelet_mistakes(node_class)]
    if wrong:
        return "InvalidKubeletConfiguration", "; ".join(wrong)
    unsupported = [*_unsupported(node_class)]
    if unsupported:
        return "UnsupportedKubeletConfiguration", "; ".join(unsupported)
    return None


def _kubelet_mistakes(node_class: NodeClass) -> Iterable[str]:
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


def _unsupported(node_class: NodeClass) -> Iterable[str]:
    family, kubelet = node_class.ami_family, node_class.kubelet
    if family in _HANDED_ON:
        return
    for name in sorted(kubelet.others):
        yield f"spec.kubelet.{name}: only AL2023 can be told of it, not {family}"
    if family == "Bottlerocket" and kubelet.pods_per_core:
        yield "spec.kubelet.podsPerCore: Bottlerocket has no such setting"
    if len(kubelet.cluster_dns) > 1:
        yield f"spec.kubelet.clusterDNS: {family} takes one address only"
