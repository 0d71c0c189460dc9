"""What user data is made of, and the kubelet's flags, which several families share."""

from collections.abc import Mapping
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ec2nodeclass import Kubelet
from dovetail.model.kube.taints import UNREGISTERED, Taint

_NOT_FOR_KUBELETS: Final = ("kubernetes.io", "k8s.io", "node-restriction.kubernetes.io")
"""The API server refuses nodes that give themselves labels of these domains."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that a machine is to join."""

    name: str
    endpoint: str = ""
    ca_bundle: str = ""
    """Base64."""
    cidr: str = ""
    """Of its services; empty while it is not known."""
    dns: str = ""
    """The address of its DNS service; empty when it could not be found out."""
    version: str = ""
    """Of Kubernetes: ``1.34``."""

    @property
    def ipv6(self) -> bool:
        return ":" in self.dns


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """All that user data says of one machine."""

    cluster: Cluster
    kubelet: Kubelet = Kubelet()
    max_pods: int = 110
    labels: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    user_data: str | None = None
    """The user's own."""
    raid0: bool = False
    image_version: str = ""
    """Of Bottlerocket: ``1.46.0`` or ``latest``; empty when it cannot be told."""

    @property
    def cluster_dns(self) -> tuple[str, ...]:
        """What the user says, else what the cluster has."""
        found = (self.cluster.dns,) if self.cluster.dns else ()
        return self.kubelet.cluster_dns or found

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        """With the one that keeps pods away until the node is known."""
        known = any(one.key == UNREGISTERED.key for one in self.taints)
        return self.taints if known else (*self.taints, UNREGISTERED)


def kubelet_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what a kubelet may say of itself, sorted; the rest is put on its Node later."""
    kept = {key: value for key, value in labels.items() if not _is_refused(key)}
    # Taints come with the kubelet: nobody has to bring them afterwards.
    kept[label_keys.DO_NOT_SYNC_TAINTS] = "true"
    return dict(sorted(kept.items()))


def kubelet_flags(one: Bootstrap) -> str:
    """Return the kubelet's command line, in an order that is always the same."""
    kubelet = one.kubelet
    flags = [
        _listed("node-labels", kubelet_labels(one.labels)),
        f'--register-with-taints="{",".join(str(taint) for taint in one.all_taints)}"',
        f"--max-pods={one.max_pods}",
        _single("pods-per-core", kubelet.pods_per_core),
        _listed("system-reserved", kubelet.system_reserved.spelled()),
        _listed("kube-reserved", kubelet.kube_reserved.spelled()),
        _listed("eviction-hard", kubelet.eviction_hard, "<"),
        _listed("eviction-soft", kubelet.eviction_soft, "<"),
        _listed("eviction-soft-grace-period", kubelet.eviction_soft_grace),
        _single("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace),
        _single("image-gc-high-threshold", kubelet.image_gc_high),
        _single("image-gc-low-threshold", kubelet.image_gc_low),
        _single("cpu-cfs-quota", kubelet.cpu_cfs_quota),
    ]
    return " ".join(flag for flag in flags if flag)


def _listed(name: str, values: Mapping[str, str], sign: str = "=") -> str:
    if not values:
        return ""
    joined = ",".join(f"{key}{sign}{value}" for key, value in sorted(values.items()))
    return f'--{name}="{joined}"'


def _single(name: str, value: int | None) -> str:
    if value is None:
        return ""
    return f"--{name}={str(value).lower() if isinstance(value, bool) else value}"


def _is_refused(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == one or domain.endswith(f".{one}") for one in _NOT_FOR_KUBELETS)
