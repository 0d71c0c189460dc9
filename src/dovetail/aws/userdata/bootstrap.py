"""Values that user data is rendered from, and the kubelet flags that families share."""

from collections.abc import Mapping
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ec2nodeclass import KubeletConfiguration
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint

_RESTRICTED_DOMAINS: Final = ("kubernetes.io", "k8s.io", "node-restriction.kubernetes.io")
"""The API server rejects nodes that label themselves in these domains."""


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The EKS cluster that an instance joins."""

    name: str
    endpoint: str = ""
    ca_bundle: str = ""
    """Base64."""
    cidr: str = ""
    """Service CIDR; empty until it is known."""
    dns: str = ""
    """Address of the DNS service; empty if it could not be resolved."""
    version: str = ""
    """Kubernetes minor version: ``1.34``."""

    @property
    def ipv6(self) -> bool:
        """Return True if services have IPv6 addresses."""
        return ":" in self.dns


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the user data of an instance contains."""

    cluster: ClusterInfo
    kubelet: KubeletConfiguration = KubeletConfiguration()
    max_pods: int = 110
    labels: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    user_data: str | None = None
    """``spec.userData`` of the node class."""
    raid0: bool = False
    ami_version: str = ""
    """Of Bottlerocket: ``1.46.0`` or ``latest``; empty if unknown."""

    @property
    def cluster_dns(self) -> tuple[str, ...]:
        """Return ``spec.kubelet.clusterDNS``, or the cluster's DNS service."""
        discovered = (self.cluster.dns,) if self.cluster.dns else ()
        return self.kubelet.cluster_dns or discovered

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        """Return the taints with the one that keeps pods away until registration."""
        has_unregistered = any(taint.key == UNREGISTERED_TAINT.key for taint in self.taints)
        return self.taints if has_unregistered else (*self.taints, UNREGISTERED_TAINT)


def kubelet_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a kubelet may set, sorted.

    Registration adds the others to the Node.
    """
    allowed = {key: value for key, value in labels.items() if not _is_restricted(key)}
    # The kubelet registers with all taints, so registration need not sync them.
    allowed[label_keys.DO_NOT_SYNC_TAINTS] = "true"
    return dict(sorted(allowed.items()))


def kubelet_flags(bootstrap: Bootstrap) -> str:
    """Return the kubelet's command line flags in a fixed order.

    The order matters: user data is part of the launch template's name.
    """
    kubelet = bootstrap.kubelet
    flags = [
        _map_flag("node-labels", kubelet_labels(bootstrap.labels)),
        f'--register-with-taints="{",".join(str(taint) for taint in bootstrap.all_taints)}"',
        f"--max-pods={bootstrap.max_pods}",
        _flag("pods-per-core", kubelet.pods_per_core),
        _map_flag("system-reserved", kubelet.system_reserved.to_quantities()),
        _map_flag("kube-reserved", kubelet.kube_reserved.to_quantities()),
        _map_flag("eviction-hard", kubelet.eviction_hard, "<"),
        _map_flag("eviction-soft", kubelet.eviction_soft, "<"),
        _map_flag("eviction-soft-grace-period", kubelet.eviction_soft_grace),
        _flag("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace),
        _flag("image-gc-high-threshold", kubelet.image_gc_high),
        _flag("image-gc-low-threshold", kubelet.image_gc_low),
        _flag("cpu-cfs-quota", kubelet.cpu_cfs_quota),
    ]
    return " ".join(flag for flag in flags if flag)


def _map_flag(name: str, values: Mapping[str, str], sign: str = "=") -> str:
    if not values:
        return ""
    pairs = ",".join(f"{key}{sign}{value}" for key, value in sorted(values.items()))
    return f'--{name}="{pairs}"'


def _flag(name: str, value: int | None) -> str:
    if value is None:
        return ""
    return f"--{name}={str(value).lower() if isinstance(value, bool) else value}"


def _is_restricted(key: str) -> bool:
    prefix = key.rpartition("/")[0]
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in _RESTRICTED_DOMAINS)
