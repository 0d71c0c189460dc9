"""Container images that are published for amd64 and arm64.

Sources: the official-images library of Docker (``Architectures:`` of each image), and the
manifest lists of the projects' own registries. Repositories without tag and registry host.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_OFFICIAL: Final = (
    *("alpine", "amazonlinux", "busybox", "caddy", "debian", "eclipse-temurin", "golang", "haproxy", "httpd"),
    *("mariadb", "memcached", "mongo", "mysql", "nginx", "node", "php", "postgres", "python", "rabbitmq"),
    *("redis", "registry", "ruby", "rust", "telegraf", "tomcat", "traefik", "ubuntu", "valkey", "wordpress"),
)
"""Docker official images: library/NAME, docker-library/official-images."""
_PROJECTS: Final = (
    "argoproj/argocd",
    "aws-ec2/aws-node-termination-handler",
    "aws-observability/aws-for-fluent-bit",
    "coredns/coredns",
    "ebs-csi-driver/aws-ebs-csi-driver",
    "eks/aws-load-balancer-controller",
    "envoyproxy/envoy",
    "external-dns/external-dns",
    "fluent/fluent-bit",
    "grafana/grafana",
    "grafana/loki",
    "ingress-nginx/controller",
    "istio/pilot",
    "istio/proxyv2",
    "jetstack/cert-manager-cainjector",
    "jetstack/cert-manager-controller",
    "jetstack/cert-manager-webhook",
    "karpenter/controller",
    "kube-state-metrics/kube-state-metrics",
    "metrics-server/metrics-server",
    "pause",
    "prometheus-operator/prometheus-operator",
    "prometheus/alertmanager",
    "prometheus/node-exporter",
    "prometheus/prometheus",
    "autoscaling/cluster-autoscaler",
)
"""Published as manifest lists with linux/amd64 and linux/arm64 by the projects."""
_MULTI_ARCH: Final = frozenset((*_OFFICIAL, *_PROJECTS))

Object = Mapping[str, Any]


def is_known_multi_arch(image: str) -> bool:
    """Return True if an image is in the list, whatever its tag and registry."""
    repository = image.partition("@")[0]
    head, slash, last = repository.rpartition("/")
    repository = head + slash + last.partition(":")[0]
    parts = repository.split("/")
    if len(parts) > 1 and ("." in parts[0] or ":" in parts[0] or parts[0] == "localhost"):
        parts = parts[1:]
    if parts[0] == "library":
        parts = parts[1:]
    # Mirrors put prefixes before the name; an official image has one word only.
    return "/".join(parts) in _MULTI_ARCH or "/".join(parts[-2:]) in _PROJECTS


def get_images(pod: Object) -> frozenset[str]:
    """Return the images of a pod, those of init containers included."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return frozenset(str(container.get("image") or "") for container in containers)


def find_multi_arch_images(pods: Iterable[Object], architectures: Mapping[str, str]) -> frozenset[str]:
    """Return the images in use that run on both architectures.

    Known ones, and those that run on nodes of both today. ``architectures`` maps node names.
    """
    seen: dict[str, set[str]] = {}
    for pod in pods:
        architecture = architectures.get(str((pod.get("spec") or {}).get("nodeName") or ""), "")
        for image in get_images(pod):
            seen.setdefault(image, set()).add(architecture)
    return frozenset(
        image for image, on in seen.items() if {"amd64", "arm64"} <= on or is_known_multi_arch(image)
    )
