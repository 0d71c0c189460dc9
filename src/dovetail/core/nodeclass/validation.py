"""Validation of an EC2NodeClass without calls to AWS."""

from typing import Final

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass

Problem = tuple[str, str]
"""Reason and message."""

_RESERVED_TAGS: Final = frozenset(
    {"", "eks:eks-cluster-name", label_keys.NODEPOOL, "karpenter.sh/nodeclaim", label_keys.EC2_NODE_CLASS}
)
_RESERVED_TAG_PREFIX: Final = "kubernetes.io/cluster"


def validate_nodeclass(node_class: EC2NodeClass) -> Problem | None:
    """Return the first validation error of a node class, or None.

    The CRD rejects most of these errors, but an object may be older than the rule.
    """
    tags = sorted(
        key for key in node_class.launch.tags if key in _RESERVED_TAGS or key.startswith(_RESERVED_TAG_PREFIX)
    )
    if tags:
        listed = ", ".join(repr(key) for key in tags)
        return "TagValidationFailed", f"spec.tags: {listed} is set automatically; remove it"
    unsupported = [
        f"spec.kubelet.{name}: {why}" for name, why in node_class.unsupported_kubelet_fields.items()
    ]
    if unsupported:
        return "UnsupportedKubeletConfiguration", "; ".join(unsupported)
    return None
