"""Validation of the controller, the add-ons and additional objects."""

import re
from collections.abc import Iterator
from typing import Any, Final

from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.suggestions import pluralize
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.error_messages import FieldError
from dovetail.eks.config.node_groups import ControllerFargate, ControllerNodeGroup, ExistingCluster
from dovetail.eks.desired.charts import CONTROLLERS, is_chart_directory
from dovetail.eks.desired.iam_roles import addon_identity
from dovetail.eks.desired.names import MAX_ROLE_NAME, Names
from dovetail.model.cloud.ec2_catalog import Catalog

_RETENTION_DAYS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""Retention of CloudWatch log groups: the values that PutRetentionPolicy documents."""


_ADDON_NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]*", re.ASCII)


def validate_addons(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate the controller, the add-ons and additional objects."""
    handler = config.addons.node_termination_handler
    if handler is not None and handler.enabled and config.controller.interruption_queue:
        yield (
            ("addons", "node-termination-handler"),
            "conflicts with the interruption queue: both would drain the same node at the same "
            "time, and the handler's drain prevents the controller from replacing it first; "
            "disable it, or set controller.interruptionQueue: false",
        )
    yield from _validate_home(config)
    yield from _validate_other_addons(config)
    values = config.controller.values.get("controller", {})
    has_image_value = isinstance(values, dict) and "image" in values
    if config.controller.kind == "dovetail" and not (config.controller.image or has_image_value):
        yield ("controller", "image"), "is missing: the address of your controller image"
    yield from _validate_chart_version(config)
    if config.logging.types and config.logging.retention_days not in _RETENTION_DAYS:
        nearest = min(_RETENTION_DAYS, key=lambda days: abs(days - config.logging.retention_days))
        message = (
            f"CloudWatch does not keep logs for {config.logging.retention_days} days; it does for {nearest}"
        )
        yield ("logging", "retentionDays"), message
    yield from _validate_objects(config)


def _validate_other_addons(config: ClusterConfig) -> Iterator[FieldError]:
    """Validate the EKS add-ons that have no field of their own."""
    names = Names.from_config(config)
    for name, addon in config.addons.others.items():
        path: FieldPath = ("addons", name)
        if _ADDON_NAME.fullmatch(name) is None:
            yield path, f"{name!r} is not the name of an EKS add-on: letters, digits, '-' and '_'"
        if name == "eks-pod-identity-agent":
            yield path, "is the field pod-identity-agent here"
        identity = addon_identity(name, addon)
        if identity is None:
            if addon.role is not None and addon.role.policies is None:
                yield (*path, "role"), "has neither policies nor statements"
            continue
        if not identity.service_account:
            message = f"is missing: the service account of {name} is not known here"
            yield (*path, "role", "serviceAccount"), message
        role = names.addon_role(name)
        if len(role) > MAX_ROLE_NAME:
            message = f"the role name {role!r} has {len(role)} characters; IAM allows {MAX_ROLE_NAME}"
            yield path, f"{message}: set a shorter iam.prefix"
        for number, policy in enumerate(addon.role.policies or () if addon.role else ()):
            if ":" in policy and not policy.startswith("arn:"):
                message = f"{policy!r} is neither an ARN nor the name of an AWS managed policy"
                yield (*path, "role", "policies", number), message


def _validate_chart_version(config: ClusterConfig) -> Iterator[FieldError]:
    """Validate that helm can choose the version: a directory has one chart of one version."""
    if config.controller.version is None:
        return
    charts = (config.controller.chart, config.controller.crd_chart)
    for default, given, field in zip(
        CONTROLLERS[config.controller.kind], charts, ("chart", "crdChart"), strict=True
    ):
        location = given or default.chart
        if is_chart_directory(location):
            yield (
                ("controller", "version"),
                f"has no effect on the chart in the directory {location}: remove it, or set "
                f"controller.{field} to an oci:// address",
            )


def _validate_objects(config: ClusterConfig) -> Iterator[FieldError]:
    keys: set[tuple[str, ...]] = {
        ("ServiceAccount", account.namespace, account.name) for account in config.service_accounts
    }
    for number, manifest in enumerate(config.objects):
        path: FieldPath = ("objects", number)
        metadata = manifest.get("metadata")
        if not (_is_text(manifest.get("apiVersion")) and _is_text(manifest.get("kind"))):
            yield path, "has no apiVersion or no kind"
        if not isinstance(metadata, dict) or not _is_text(metadata.get("name")):
            yield path, "has no metadata.name"
        elif not _is_text(metadata.get("namespace", "default")):
            value = metadata["namespace"]
            yield (*path, "metadata", "namespace"), f"{value!r} is not a namespace"
        else:
            key = (str(manifest.get("kind")), metadata.get("namespace", ""), metadata["name"])
            if key in keys:
                yield path, f"{'/'.join(filter(None, key))} is defined twice"
            keys.add(key)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _validate_home(config: ClusterConfig) -> Iterator[FieldError]:
    """Validate what the controller needs where it runs."""
    agent = config.addons.pod_identity_agent
    if not isinstance(config.home, ExistingCluster):
        if not config.uses_irsa and agent is not None and not agent.enabled:
            message = "must be enabled: identity is pod-identity, and the agent gives pods their roles"
            yield ("addons", "pod-identity-agent"), message
        if not config.addons.vpc_cni.enabled and isinstance(config.home, ControllerNodeGroup):
            message = "must be enabled: nodes without a network plugin never become ready"
            yield ("addons", "vpc-cni"), message
    if isinstance(config.home, ControllerFargate) and "kube-system" not in config.home.namespaces:
        yield (
            ("home", "namespaces"),
            "must contain kube-system: CoreDNS runs there; without it the controller resolves no "
            "AWS endpoint, and CoreDNS waits for nodes that the controller cannot launch",
        )
    if isinstance(config.home, ControllerFargate):
        for number, namespace in enumerate(config.home.namespaces):
            if namespace.startswith("eks-"):
                message = f"{namespace}: its Fargate profile would have this name, which begins with 'eks-'"
                yield ("home", "namespaces", number), message
    if isinstance(config.home, ControllerNodeGroup) and config.home.desired < config.controller.replicas:
        yield (
            ("home", "desired"),
            f"{pluralize(config.home.desired, 'node')} for {config.controller.replicas} replicas of the "
            "controller, which do not share a node: increase nodes or decrease replicas",
        )
