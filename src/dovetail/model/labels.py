"""Label keys, their aliases, and which of them mean something to us."""

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
"""Annotation of a claim: whether a pool's minValues were undercut for it."""
PRICE_OVERLAID = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAID = "karpenter.sh/capacity-overlay-applied"
"""Annotations of a claim: NodeOverlays had a say in what it may buy."""
BUFFER_POD = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE = "karpenter.sh/capacity-buffer-namespace"
"""Annotations of pods that only stand for room in a CapacityBuffer."""
PROMISED_TO = "dovetail/promised-to"
"""Annotation of a claim: the pods it was made for; a restart does not buy for them again."""
REPLACES = "dovetail/replaces"
"""Annotation of a claim: the claims that go once it, and those made with it, are ready."""
REPLACEMENTS = "dovetail/replacements"
"""Annotation of a claim: all claims that were made together to replace others."""
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
"""Annotation of a claim: when draining its node must be over."""
TERMINATION_FINALIZER = "karpenter.sh/termination"
"""On NodeClaims and Nodes: there is a machine to give back first."""
EXCLUDED_FROM_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
"""On a node that drains: load balancers send it no new connections."""
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
PLACEMENT_GROUP_ID = f"{AWS_DOMAIN}/placement-group-id"
PLACEMENT_GROUP_PARTITION = f"{AWS_DOMAIN}/placement-group-partition"
CAPACITY_RESERVATION_ID = f"{AWS_DOMAIN}/capacity-reservation-id"
CAPACITY_RESERVATION_TYPE = f"{AWS_DOMAIN}/capacity-reservation-type"
CAPACITY_RESERVATION_INTERRUPTIBLE = f"{AWS_DOMAIN}/capacity-reservation-interruptible"
AWS_INSTANCE_LABELS = tuple(
    f"{AWS_DOMAIN}/instance-{name}"
    for name in (
        "category",
        "generation",
        "family",
        "size",
        "capability-flex",
        "cpu",
        "cpu-manufacturer",
        "cpu-sustained-clock-speed-mhz",
        "memory",
        "ebs-bandwidth",
        "network-bandwidth",
        "local-nvme",
        "gpu-name",
        "gpu-manufacturer",
        "gpu-count",
        "gpu-memory",
        "accelerator-name",
        "accelerator-manufacturer",
        "accelerator-count",
        "hypervisor",
        "encryption-in-transit-supported",
        "tenancy",
    )
)

ON_DEMAND = "on-demand"
SPOT = "spot"
RESERVED = "reserved"
CAPACITY_TYPES = (ON_DEMAND, SPOT, RESERVED)

ALIASES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "topology.ebs.csi.aws.com/zone": ZONE,
}
"""Older spellings, read as the stable ones wherever a requirement is built."""

CORE_WELL_KNOWN = frozenset(
    {NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD}
)
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
"""Keys that a pod may narrow although no NodePool defines them."""

_RESTRICTED_DOMAIN = "karpenter.sh"


def stable_key(key: str) -> str:
    """Return the present-day name of a label key."""
    return ALIASES.get(key, key)


def is_restricted(key: str) -> bool:
    """Tell whether neither pods nor NodePools may ask for this key."""
    if key in WELL_KNOWN:
        return False
    domain = key.rpartition("/")[0]
    in_domain = domain == _RESTRICTED_DOMAIN or domain.endswith("." + _RESTRICTED_DOMAIN)
    return key == HOSTNAME or in_domain


def similar_key(key: str) -> str | None:
    """Return a well-known key that ends like this one, or is spelt nearly so."""
    name = key.rpartition("/")[2]
    known = sorted(WELL_KNOWN | set(ALIASES))
    same = [one for one in known if one.rpartition("/")[2] == name]
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.85)
    ending = [one for one in known if one.endswith(f"-{name}")]
    for guess in (*same, *close, *ending):
        return stable_key(guess)
    return None
