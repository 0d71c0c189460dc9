"""Checks: controller and add-ons, and what does not go together."""

from collections.abc import Iterator
from typing import Any

from dovetail.codec.text.field_path import Path
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeExisting, HomeFargate, HomeGroup
from dovetail.eks.validation.finding import Finding
from dovetail.model.cloud.ec2_catalog import Catalog


def software_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check the controller, the add-ons and further objects."""
    handler = spec.addons.node_termination_handler
    if handler is not None and handler.enabled and spec.controller.interruption_queue:
        yield (
            ("addons", "node-termination-handler"),
            "does not go with the interruption queue: both would drain the same node at the same "
            "time, and the handler's drain keeps the controller from replacing it first; leave "
            "it out, or set controller.interruptionQueue: false",
        )
    yield from _home_findings(spec)
    given = spec.controller.values.get("controller", {})
    elsewhere = isinstance(given, dict) and "image" in given
    if spec.controller.kind == "dovetail" and not (spec.controller.image or elsewhere):
        yield ("controller", "image"), "is missing: where you keep the controller's image"
    yield from _object_findings(spec)


def _object_findings(spec: ClusterSpec) -> Iterator[Finding]:
    seen: set[tuple[str, ...]] = {
        ("ServiceAccount", one.namespace, one.name) for one in spec.service_accounts
    }
    for number, one in enumerate(spec.objects):
        path: Path = ("objects", number)
        meta = one.get("metadata")
        if not (_is_text(one.get("apiVersion")) and _is_text(one.get("kind"))):
            yield path, "has no apiVersion or no kind"
        if not isinstance(meta, dict) or not _is_text(meta.get("name")):
            yield path, "has no metadata.name"
        elif not _is_text(meta.get("namespace", "default")):
            yield (*path, "metadata", "namespace"), f"{meta['namespace']!r} is no namespace"
        else:
            key = (str(one.get("kind")), meta.get("namespace", ""), meta["name"])
            if key in seen:
                yield path, f"{'/'.join(filter(None, key))} is there twice"
            seen.add(key)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _home_findings(spec: ClusterSpec) -> Iterator[Finding]:
    agent = spec.addons.pod_identity_agent
    if not isinstance(spec.home, HomeExisting):
        if not spec.uses_irsa and agent is not None and not agent.enabled:
            yield (
                ("addons", "pod-identity-agent"),
                "must be on: identity is pod-identity, and pods get their roles from it",
            )
        if not spec.addons.vpc_cni.enabled and isinstance(spec.home, HomeGroup):
            yield (
                ("addons", "vpc-cni"),
                "must be on: nodes without a network plugin never become ready",
            )
    if isinstance(spec.home, HomeFargate) and "kube-system" not in spec.home.namespaces:
        yield (
            ("home", "namespaces"),
            "must hold kube-system: CoreDNS runs there, and without it the controller finds "
            "neither AWS nor the nodes that CoreDNS would wait for",
        )
    if isinstance(spec.home, HomeGroup) and spec.home.desired < spec.controller.replicas:
        yield (
            ("home", "desired"),
            f"{spec.home.desired} nodes for {spec.controller.replicas} replicas of the "
            "controller, which do not share a node: raise one or lower the other",
        )
