"""Keys of labels and annotations, and normalization of deprecated label keys."""

import difflib

NODEPOOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
NODEPOOL_HASH = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION = "karpenter.sh/nodepool-hash-version"
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
"""Annotation of a NodeClaim: "true" if minValues of the NodePool were relaxed."""
PRICE_OVERLAY_APPLIED = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_APPLIED = "karpenter.sh/capacity-overlay-applied"
"""Annotations of a NodeClaim: a NodeOverlay changed prices or capacity of its types."""
CAPACITY_BUFFER_POD = "karpenter.sh/capacity-buffer-fake-pod"
CAPACITY_BUFFER_NAME = "karpenter.sh/capacity-buffer-name"
CAPACITY_BUFFER_NAMESPACE = "karpenter.sh/capacity-buffer-namespace"
"""Annotations of pods that represent the capacity of a CapacityBuffer."""
ASSIGNED_PODS_ANNOTATION = "dovetail.sh/assigned-pods"
"""Annotation of a NodeClaim: the pods it was created for, so that a restart reads them back."""
LAUNCH_REQUEST_ANNOTATION = "dovetail.sh/launch-request"
"""Annotation of a NodeClaim: time and client token of the last request to launch its instance."""
REPLACES_ANNOTATION = "dovetail.sh/replaces"
"""Annotation of a NodeClaim: the NodeClaims deleted once it and its siblings are initialized."""
REPLACEMENTS_ANNOTATION = "dovetail.sh/replacements"
"""Annotation of a NodeClaim: all NodeClaims created by the same disruption command."""
NODE_COST_ANNOTATION = "dovetail.sh/node-cost"
"""Annotation of a NodePool: what a node costs beyond its instance, in USD per hour."""
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
"""Annotation of a NodeClaim: deadline for draining its node."""
TERMINATION_FINALIZER = "karpenter.sh/termination"
"""Finalizer of NodeClaims and Nodes: the instance must be terminated first."""
EXCLUDE_FROM_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Label of a draining node: load balancers send it no new connections."""
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

HOSTNAME = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"

AWS_DOMAIN = "karpenter.k8s.aws"
ZONE_ID = "topology.k8s.aws/zone-id"
EC2_NODE_CLASS = f"{AWS_DOMAIN}/ec2nodeclass"
EC2_NODE_CLASS_HASH = f"{AWS_DOMAIN}/ec2nodeclass-hash"
EC2_NODE_CLASS_HASH_VERSION = f"{AWS_DOMAIN}/ec2nodeclass-hash-version"
INSTANCE_PROFILE = f"{AWS_DOMAIN}/instance-profile-name"
"""Annotation of a NodeClaim: the instance profile that its instance was launched with."""
PLACEMENT_GROUP_ID = f"{AWS_DOMAIN}/placement-group-id"
PLACEMENT_GROUP_PARTITION = f"{AWS_DOMAIN}/placement-group-partition"
CAPACITY_RESERVATION_ID = f"{AWS_DOMAIN}/capacity-reservation-id"
CAPACITY_RESERVATION_TYPE = f"{AWS_DOMAIN}/capacity-reservation-type"
CAPACITY_RESERVATION_INTERRUPTIBLE = f"{AWS_DOMAIN}/capacity-reservation-interruptible"
AWS_INSTANCE_LABELS = tuple(
    f"{AWS_DOMAIN}/instance-{name}"
    for name in (
        *("category", "generation", "family", "size", "capability-flex", "hypervisor", "tenancy"),
        *("cpu", "cpu-manufacturer", "cpu-sustained-clock-speed-mhz", "memory", "local-nvme"),
        *("ebs-bandwidth", "network-bandwidth", "encryption-in-transit-supported"),
        *("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"),
        *("accelerator-name", "accelerator-manufacturer", "accelerator-count"),
    )
)

ON_DEMAND = "on-demand"
SPOT = "spot"
RESERVED = "reserved"
CAPACITY_TYPES = (ON_DEMAND, SPOT, RESERVED)

NORMALIZED_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "topology.ebs.csi.aws.com/zone": ZONE,
}
"""Deprecated label key → stable key; applied to every requirement."""

CORE_WELL_KNOWN = frozenset({NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD})
WELL_KNOWN = CORE_WELL_KNOWN | {
    ZONE_ID,
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    EC2_NODE_CLASS,
    f"{AWS_DOMAIN}/nitro-sandbox",
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
    *AWS_INSTANCE_LABELS,
}
"""Well-known labels: pods may select them although no NodePool defines them."""

REMOVED_LABELS = {
    f"{AWS_DOMAIN}/instance-pods": "was removed in v1beta1; remove it, or select a size with "
    f"{AWS_DOMAIN}/instance-cpu"
}
"""Labels of earlier versions of Karpenter, and what to do instead."""
RENAMED_LABELS = {"karpenter.sh/provisioner-name": NODEPOOL}
"""Labels of earlier versions of Karpenter that pods select → today's."""

FOREIGN_LABELS = {
    "eks.amazonaws.com/nodegroup": "managed node groups",
    "eks.amazonaws.com/nodegroup-image": "managed node groups",
    "eks.amazonaws.com/capacityType": "managed node groups",
    "eks.amazonaws.com/compute-type": "EKS Auto Mode, Fargate and EKS Hybrid Nodes",
    "alpha.eksctl.io/nodegroup-name": "node groups of eksctl",
}
"""Labels that EKS or eksctl set on their own nodes, and on which nodes."""
_EKS_DOMAIN = "eks.amazonaws.com"

_RESTRICTED_DOMAIN = "karpenter.sh"


def normalize_key(key: str) -> str:
    """Return the stable key of a deprecated label key; others are returned unchanged."""
    return NORMALIZED_LABELS.get(key, key)


def is_restricted(key: str) -> bool:
    """Return True if neither pods nor NodePools may select this label key."""
    if key in WELL_KNOWN:
        return False
    domain = key.rpartition("/")[0]
    in_domain = domain == _RESTRICTED_DOMAIN or domain.endswith("." + _RESTRICTED_DOMAIN)
    return key == HOSTNAME or in_domain


def is_rejected_in_template(key: str) -> bool:
    """Return True if no NodePool may define a custom label of this key."""
    return is_restricted(key) or key.startswith(f"{AWS_DOMAIN}/")


def find_origin(key: str) -> str:
    """Return the nodes that alone have a label of EKS or eksctl; empty for other labels."""
    default = "EKS Auto Mode" if key.rpartition("/")[0] == _EKS_DOMAIN else ""
    return FOREIGN_LABELS.get(key, default)


def suggest_key(key: str) -> str | None:
    """Return the well-known key that is most similar to ``key``, or None.

    The new name of a renamed key comes first, then a key with the same name in
    another domain, a similar spelling, and a key with the same ending.
    """
    if key in RENAMED_LABELS:
        return RENAMED_LABELS[key]
    name = key.rpartition("/")[2]
    known_keys = sorted(WELL_KNOWN | set(NORMALIZED_LABELS))
    same_name = [label for label in known_keys if label.rpartition("/")[2] == name]
    similar = difflib.get_close_matches(key, known_keys, n=1, cutoff=0.85)
    same_ending = [label for label in known_keys if label.endswith(f"-{name}")]
    for suggestion in (*same_name, *similar, *same_ending):
        return normalize_key(suggestion)
    return None
