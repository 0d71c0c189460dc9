"""Bottlerocket: TOML settings, the user's merged with ours."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from typing import Any, Final

from dovetail.aws.amifamily.family import (
    LATEST,
    NEURON,
    NVIDIA,
    STANDARD,
    AmiFamilyProvider,
    AmiParameter,
    default_volume,
)
from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_labels
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import BlockDevice
from dovetail.ports.cloudprovider import NodeClassNotReadyError

_KUBERNETES_SETTINGS: Final = frozenset(
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
"""Keys of ``settings.kubernetes``. An AMI that reads another key does not boot."""
_ROOT_DEVICE: Final = "/dev/xvda"
_STORAGE_COMMAND: Final = "000-mount-instance-storage"
_BIND_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_DEFAULT_BIND_VERSION: Final = (1, 46, 0)
"""From this version on ``ephemeral-storage bind`` has default directories."""
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class Bottlerocket(AmiFamilyProvider):
    """Bottlerocket for Kubernetes, published by the Bottlerocket project."""

    name = AmiFamily.BOTTLEROCKET

    def render_user_data(self, bootstrap: Bootstrap) -> str:
        """Return the merged settings as TOML; our values win."""
        document = _parse_toml(bootstrap.user_data or "")
        settings = _table(document, "settings")
        user_values = _table(settings, "kubernetes")
        kubernetes = {
            key: value for key, value in user_values.items() if key in _KUBERNETES_SETTINGS
        } | _kubernetes_settings(bootstrap)
        labels = {**_table(user_values, "node-labels"), **kubelet_labels(bootstrap.labels)}
        settings = {**settings, "kubernetes": {**kubernetes, "node-labels": labels}}
        if bootstrap.raid0:
            settings["bootstrap-commands"] = {
                **_table(settings, "bootstrap-commands"),
                _STORAGE_COMMAND: _mount_command(bootstrap.ami_version),
            }
        return to_toml({**document, "settings": settings})

    def ami_parameters(self, version: str, kubernetes: str) -> Iterable[AmiParameter]:
        """Yield a parameter per architecture, with and without NVIDIA drivers."""
        release = LATEST if version == LATEST else version.removeprefix("v")
        for suffix, arch, variants in (
            ("", "x86_64", (STANDARD, NEURON)),
            ("", "arm64", (STANDARD,)),
            ("-nvidia", "x86_64", (NVIDIA,)),
            ("-nvidia", "arm64", (NVIDIA,)),
        ):
            folder = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}"
            yield AmiParameter(
                name=f"{folder}/{release}/image_id", variants=variants, mutable=version == LATEST
            )

    def default_block_devices(self) -> tuple[BlockDevice, ...]:
        """Return the volume of the operating system and the data volume."""
        root = default_volume(_ROOT_DEVICE, ami_family_facts(self.name).system_bytes)
        return (root, *super().default_block_devices())


def parse_version(name: str) -> str:
    """Return the version in an alias or an AMI name; empty if there is none."""
    if name == LATEST:
        return name
    # The first number in an AMI name is the Kubernetes version, which has two parts only.
    match = _VERSION.search(name)
    return ".".join(match.groups()) if match else ""


def _kubernetes_settings(bootstrap: Bootstrap) -> dict[str, Any]:
    kubelet = bootstrap.kubelet
    taints: dict[str, list[str]] = {}
    for taint in bootstrap.all_taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    settings: dict[str, Any] = {
        "api-server": bootstrap.cluster.endpoint,
        "cluster-certificate": bootstrap.cluster.ca_bundle,
        "cluster-name": bootstrap.cluster.name,
        "cluster-dns-ip": bootstrap.cluster_dns[0] if bootstrap.cluster_dns else None,
        "max-pods": bootstrap.max_pods,
        "node-taints": taints,
        "system-reserved": kubelet.system_reserved.to_quantities() or None,
        "kube-reserved": kubelet.kube_reserved.to_quantities() or None,
        "eviction-hard": dict(kubelet.eviction_hard) or None,
        "eviction-soft": dict(kubelet.eviction_soft) or None,
        "eviction-soft-grace-period": dict(kubelet.eviction_soft_grace) or None,
        "eviction-max-pod-grace-period": kubelet.eviction_max_pod_grace,
        "image-gc-high-threshold-percent": _text(kubelet.image_gc_high),
        "image-gc-low-threshold-percent": _text(kubelet.image_gc_low),
        "cpu-cfs-quota-enforced": kubelet.cpu_cfs_quota,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _mount_command(version: str) -> dict[str, Any]:
    bind = ["apiclient", "ephemeral-storage", "bind"]
    if not _has_default_directories(version):
        bind += ["--dirs", *_BIND_DIRECTORIES]
    return {
        "commands": [["apiclient", "ephemeral-storage", "init"], bind],
        "essential": True,
        "mode": "always",
    }


def _has_default_directories(version: str) -> bool:
    if version == LATEST:
        return True
    match = _VERSION.fullmatch(version)
    return match is not None and tuple(map(int, match.groups())) >= _DEFAULT_BIND_VERSION


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NodeClassNotReadyError(
            f"spec.userData is not TOML, which Bottlerocket requires: {error}"
        ) from error


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise NodeClassNotReadyError(f"spec.userData: {name} must be a table")
    return table


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def to_toml(document: Mapping[str, Any]) -> str:
    """Return a document as TOML; keys are sorted, tables come last."""
    return "\n".join(_lines(document, ())).strip() + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    has_header = bool(path) and bool(values or not table)
    if has_header:
        yield f"[{'.'.join(_key(key) for key in path)}]"
    for key in sorted(values):
        yield f"{_key(key)} = {_value(values[key])}"
    if has_header:
        yield ""
    for key in sorted(table.keys() - values.keys()):
        yield from _lines(table[key], (*path, key))


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quote(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(element) for element in value)}]"
    if isinstance(value, Mapping):
        inline = (f"{_key(key)} = {_value(inner)}" for key, inner in sorted(value.items()))
        return f"{{{', '.join(inline)}}}"
    return _quote(str(value))


def _quote(text: str) -> str:
    # JSON escapes are valid in TOML. 0x7f, which JSON does not escape, must be escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
