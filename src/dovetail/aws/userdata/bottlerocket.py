"""User data of Bottlerocket: the user's settings, with ours in them."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_labels
from dovetail.aws.userdata.toml import to_toml
from dovetail.ports.cloudprovider import NodeClassNotReady

_KNOWN: Final = frozenset(
    (
        "api-server cloud-provider cluster-certificate cluster-name cluster-dns-ip cluster-domain "
        "credential-providers node-labels node-taints max-pods static-pods eviction-hard "
        "eviction-soft eviction-soft-grace-period eviction-max-pod-grace-period kube-reserved "
        "system-reserved allowed-unsafe-sysctls server-tls-bootstrap registry-qps registry-burst "
        "event-qps event-burst kube-api-qps kube-api-burst container-log-max-size "
        "container-log-max-files container-log-max-workers container-log-monitor-interval "
        "cpu-manager-policy cpu-manager-policy-options cpu-manager-reconcile-period "
        "memory-manager-policy memory-manager-reserved-memory topology-manager-scope "
        "topology-manager-policy topology-manager-policy-options image-gc-high-threshold-percent "
        "image-gc-low-threshold-percent ids-per-pod cpu-cfs-quota-enforced shutdown-grace-period "
        "shutdown-grace-period-for-critical-pods seccomp-default pod-pids-limit "
        "device-ownership-from-security-context single-process-oom-kill hostname-override-source "
        "hostname-override log-level authentication-mode bootstrap-token standalone-mode "
        "provider-id reserved-cpus pod-infra-container-image"
    ).split()
)
"""Of ``settings.kubernetes``: an image that meets another one does not boot."""
_STORAGE_COMMAND: Final = "000-mount-instance-storage"
_OLD_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_BINDS_BY_ITSELF: Final = (1, 46, 0)
"""From here on ``ephemeral-storage bind`` knows which directories are meant."""
_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def render(one: Bootstrap) -> str:
    """Return the whole as TOML; refuses user data that is not."""
    document = _read(one.user_data or "")
    settings = _table(document, "settings")
    theirs = _table(settings, "kubernetes")
    merged = {key: value for key, value in theirs.items() if key in _KNOWN} | _ours(one)
    labels = {**_table(theirs, "node-labels"), **kubelet_labels(one.labels)}
    settings = {**settings, "kubernetes": {**merged, "node-labels": labels}}
    if one.raid0:
        commands = {**_table(settings, "bootstrap-commands"), _STORAGE_COMMAND: _storage(one)}
        settings["bootstrap-commands"] = commands
    return to_toml({**document, "settings": settings})


def version_of(name: str) -> str:
    """Return the version that an alias or an image's name tells; empty when it tells none."""
    if name == "latest":
        return name
    # The first number in a name is that of Kubernetes, without a third part.
    found = _NUMBERS.search(name)
    return ".".join(found.groups()) if found else ""


def _ours(one: Bootstrap) -> dict[str, Any]:
    kubelet = one.kubelet
    taints: dict[str, list[str]] = {}
    for taint in one.all_taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    ours: dict[str, Any] = {
        "api-server": one.cluster.endpoint,
        "cluster-certificate": one.cluster.ca_bundle,
        "cluster-name": one.cluster.name,
        "cluster-dns-ip": one.cluster_dns[0] if one.cluster_dns else None,
        "max-pods": one.max_pods,
        "node-taints": taints,
        "system-reserved": kubelet.system_reserved.spelled() or None,
        "kube-reserved": kubelet.kube_reserved.spelled() or None,
        "eviction-hard": dict(kubelet.eviction_hard) or None,
        "eviction-soft": dict(kubelet.eviction_soft) or None,
        "eviction-soft-grace-period": dict(kubelet.eviction_soft_grace) or None,
        "eviction-max-pod-grace-period": kubelet.eviction_max_pod_grace,
        "image-gc-high-threshold-percent": _text(kubelet.image_gc_high),
        "image-gc-low-threshold-percent": _text(kubelet.image_gc_low),
        "cpu-cfs-quota-enforced": kubelet.cpu_cfs_quota,
    }
    return {key: value for key, value in ours.items() if value is not None}


def _storage(one: Bootstrap) -> dict[str, Any]:
    bind = ["apiclient", "ephemeral-storage", "bind"]
    if not _binds_by_itself(one.image_version):
        bind += ["--dirs", *_OLD_DIRECTORIES]
    return {
        "commands": [["apiclient", "ephemeral-storage", "init"], bind],
        "essential": True,
        "mode": "always",
    }


def _binds_by_itself(version: str) -> bool:
    if version == "latest":
        return True
    found = _NUMBERS.fullmatch(version)
    return found is not None and tuple(map(int, found.groups())) >= _BINDS_BY_ITSELF


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NodeClassNotReady(f"userData is no TOML, as Bottlerocket needs: {error}") from error


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name, {})
    if not isinstance(found, dict):
        raise NodeClassNotReady(f"userData: {name} must be a table")
    return found


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
