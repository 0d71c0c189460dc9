"""Checks before apply: existing subnets, the Kubernetes version, replacements."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.desired.charts import CHARTS_WITH_CRDS, CONTROLLER_CHARTS
from dovetail.eks.desired.names import DISCOVERY
from dovetail.eks.plan.planner import Action, Plan, Step, chart_name, moved_releases
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource, ObservedState
from dovetail.eks.plan.resource_kinds import FAILED_VALUE
from dovetail.eks.versions import VersionError, parse_minor, validate_upgrade
from dovetail.errors import DovetailError

_SUBNET_FIELDS: Final = {"nodes": "vpc.existing.subnets", "control-plane": "vpc.existing.controlPlaneSubnets"}
"""Name of a subnet selection → field of cluster.yaml."""
_MAX_KUBELET_SKEW: Final = 3
"""Minor versions by which Kubernetes allows a kubelet to be older than the API server."""


_NETWORK_FIELDS: Final = {"IpFamily": "ipFamily", "ServiceIpv4Cidr": "serviceCidr"}
"""Property of the cluster's network configuration → field of cluster.yaml."""


class SubnetError(DovetailError):
    """Existing subnets cannot be used for the cluster."""


class AccessModeError(DovetailError):
    """EKS cannot change from access entries back to aws-auth."""


class EncryptionError(DovetailError):
    """EKS cannot turn the encryption of Secrets off, or change its key."""


class ReplacementError(DovetailError):
    """A change of the file would replace what a running cluster uses."""


def validate_existing_subnets(desired: Sequence[DesiredResource], observed: ObservedState) -> None:
    """Validate existing subnets: they exist, are in one VPC and span two zones.

    Raises ``SubnetError`` with all errors.
    """
    errors = existing_subnet_errors(desired, observed)
    if errors:
        raise SubnetError("\n".join([*errors, "nothing was changed"]))


def existing_subnet_errors(desired: Sequence[DesiredResource], observed: ObservedState) -> list[str]:
    """Return what is wrong with existing subnets, by field of cluster.yaml."""
    errors: list[str] = []
    selections = [resource for resource in desired if resource.kind == "subnet-selection"]
    uses_existing_cluster = any(resource.kind == "eks-cluster" and resource.external for resource in desired)
    ipv6 = any(
        resource.properties.get("KubernetesNetworkConfig", {}).get("IpFamily") == "ipv6"
        for resource in desired
        if resource.kind == "eks-cluster"
    )
    for number, selection in enumerate(selections):
        current = observed.resources.get(selection.address)
        if current is not None:
            # The control plane uses the last selection.
            for_control_plane = number == len(selections) - 1 and not uses_existing_cluster
            subnets = current.properties["Subnets"]
            field = _SUBNET_FIELDS[selection.name]
            messages = _subnet_errors(selection.properties, subnets, for_control_plane)
            errors += [f"{field}: {message}" for message in messages]
            if ipv6:
                lacking = [subnet_id for subnet_id, subnet in subnets.items() if not subnet["HasIpv6"]]
                errors += [
                    f"{field}: {name} has no IPv6 block; ipFamily: ipv6 requires one" for name in lacking
                ]
    return errors


def _subnet_errors(
    selection: Mapping[str, Any], subnets: Mapping[str, Mapping[str, Any]], for_control_plane: bool
) -> Iterator[str]:
    for subnet_id in selection.get("Ids", ()):
        if subnet_id not in subnets:
            yield f"{subnet_id} does not exist in this account and region"
    vpc = selection.get("VpcId")
    vpcs = sorted({subnet["VpcId"] for subnet in subnets.values()})
    if vpc is not None:
        for subnet_id, subnet in subnets.items():
            if subnet["VpcId"] != vpc:
                yield f"{subnet_id} is in {subnet['VpcId']}, not in {vpc}"
    elif len(vpcs) > 1:
        yield f"the subnets are in more than one VPC: {', '.join(vpcs)}; set vpc.existing.id"
    zones = sorted({subnet["AvailabilityZone"] for subnet in subnets.values()})
    if for_control_plane and len(zones) == 1:
        yield f"all subnets are in {zones[0]}; EKS requires at least two zones"


def validate_version_change(desired: Sequence[DesiredResource], observed: ObservedState) -> None:
    """Raise ``VersionError`` for a downgrade, or an upgrade by several versions.

    The nodes of a group may be older than the control plane, by three versions.
    """
    for resource in desired:
        current = observed.resources.get(resource.address)
        if resource.kind != "eks-cluster" or resource.external or current is None:
            continue
        running = str(current.properties["Version"])
        target = str(resource.properties["Version"])
        if not running:
            continue
        try:
            validate_upgrade(running, target)
        except VersionError as error:
            raise VersionError(f"version: {error}") from None
        if target != running:
            _validate_skew(running, target, observed)


def _validate_skew(running: str, target: str, observed: ObservedState) -> None:
    """Raise ``VersionError`` if a node group is too old for the next version."""
    for group in observed.resources.values():
        version = str(group.properties.get("Version") or "")
        if group.kind != "eks-node-group" or not version:
            continue
        if parse_minor(target) - parse_minor(version) > _MAX_KUBELET_SKEW:
            raise VersionError(
                f"version: node group {group.name} runs {version}, and a control plane of {target} needs "
                f"nodes of 1.{parse_minor(target) - _MAX_KUBELET_SKEW} or later; apply {running} first: it "
                "updates the group"
            )


def validate_replacements(plan: Plan, observed: ObservedState) -> None:
    """Raise ``ReplacementError`` if a step deletes what a running cluster uses.

    EKS cannot change the VPC and the role of a cluster. Subnets of the control
    plane stay in use as long as it runs, and roles as long as a node has them.
    """
    clusters = [resource for resource in observed.resources.values() if resource.kind == "eks-cluster"]
    if not clusters or clusters[0].properties.get("RoleArn") == FAILED_VALUE:
        return
    errors = [error for step in plan.steps if (error := _replacement_error(step)) is not None]
    errors += _template_errors(plan, observed)
    _validate_moved_releases(plan)
    if errors:
        advice = "set it back, or destroy the cluster and create it again; nothing was changed"
        raise ReplacementError("\n".join([*dict.fromkeys(errors), advice]))


def _template_errors(plan: Plan, observed: ObservedState) -> Iterator[str]:
    """Yield an error for every launch template that a node group would lose."""
    deleted = {step.address for step in plan.steps if step.action is Action.DELETE}
    names = {
        observed.resources[address].attributes.get("id"): observed.resources[address].name
        for address in deleted
        if address.startswith("launch-template/") and address in observed.resources
    }
    for group in observed.resources.values():
        template = (group.properties.get("LaunchTemplate") or {}).get("Id")
        if group.kind == "eks-node-group" and group.address not in deleted and template in names:
            yield (
                f"launchTemplate: node group {group.name} uses the launch template {names[template]}, and "
                "EKS cannot take it away from a group: add a group under another name instead"
            )
    for step in plan.steps:
        if step.kind != "eks-node-group" or step.action is not Action.UPDATE or step.observed is None:
            continue
        has_template = bool(step.observed.properties.get("LaunchTemplate"))
        if not has_template and any(change.property == "LaunchTemplate" for change in step.changes):
            yield (
                f"launchTemplate: node group {step.name} was created without a launch template, and EKS "
                "cannot add one to a group: add a group under another name instead"
            )


def _replacement_error(step: Step) -> str | None:
    if step.action is not Action.DELETE:
        return None
    change = step.changes[0] if step.is_replacement else None
    before = change.before if change is not None else ""
    if step.kind == "vpc" and change is not None:
        return f"vpc.create.cidr: the VPC of the running cluster has {before}; EKS cannot change its VPC"
    if step.kind == "subnet" and change is not None:
        if change.property == "VpcId":
            return None  # The VPC itself is reported.
        kind, _, zone = step.name.partition("-")
        return f"vpc.create.{kind}Subnets: the subnet in {zone} has {before} and is in use by the cluster"
    if step.kind == "subnet" and step.name.startswith("private-"):
        zone = step.name.removeprefix("private-")
        return f"vpc.create.zones: the subnet in {zone} is in use by the cluster and cannot be removed"
    if step.kind == "eks-cluster" and change is not None:
        if change.property == "RoleArn":
            return f"iam.prefix, iam.path: the running cluster has the role {before}, which EKS cannot change"
        return f"{change}: EKS cannot change this of a cluster that exists"
    if step.kind == "iam-role" and change is not None:
        return f"iam.path: IAM role {step.name} has the path {before} and is in use; IAM cannot move it"
    return None


def _validate_moved_releases(plan: Plan) -> None:
    """Raise ``ReplacementError`` if a release with CRDs would move.

    Its CRDs belong to the old release and would be deleted with it, and with them
    every object: NodePools, and so all nodes.
    """
    releases = [step for step in plan.steps if step.kind == "helm-release"]
    deletes = [step for step in releases if step.action is Action.DELETE]
    moved = moved_releases(releases, deletes)
    errors = [
        f"addons.{step.name.rpartition('/')[2]}.namespace: {moved[step.id].partition('/')[2]} is installed, "
        "and its CRDs would be deleted with it, and all objects of them"
        for step in releases
        if step.id in moved and _chart_after(step) in CHARTS_WITH_CRDS
    ]
    old = [step.name for step in releases if _chart_before(step) in CONTROLLER_CHARTS]
    new = [step.name for step in releases if _chart_after(step) in CONTROLLER_CHARTS]
    if old and new:
        errors.append(
            f"controller: the namespace, release or kind of {old[0]} would change; its CRDs would be deleted "
            "with it, and all NodePools with their nodes. Karpenter and Dovetail replace each other as in "
            "docs/guides/migrate.md"
        )
    if errors:
        raise ReplacementError("\n".join([*errors, "set it back; nothing was changed"]))


def _chart_before(step: Step) -> str:
    """Return the name of a release's chart that the step takes away."""
    before = chart_name(step.observed.properties) if step.observed is not None else ""
    return "" if before == _chart_after(step) else before


def _chart_after(step: Step) -> str:
    """Return the name of a release's chart that the step installs."""
    return chart_name(step.desired.properties) if step.desired is not None else ""


def validate_access_mode(desired: Sequence[DesiredResource], observed: ObservedState) -> None:
    """Raise ``AccessModeError`` for a change from access entries to aws-auth."""
    for resource in desired:
        current = observed.resources.get(resource.address)
        if resource.kind != "eks-cluster" or resource.external or current is None:
            continue
        running = current.properties["AccessConfig"]["AuthenticationMode"]
        if running == "API" and resource.properties["AccessConfig"]["AuthenticationMode"] != "API":
            raise AccessModeError(
                "access.mode: the cluster uses access entries, and EKS cannot change back to aws-auth; "
                "set entries; nothing was changed"
            )


def validate_encryption(desired: Sequence[DesiredResource], observed: ObservedState) -> None:
    """Raise ``EncryptionError`` if the encryption of Secrets would be turned off or changed."""
    for resource in desired:
        current = observed.resources.get(resource.address)
        if resource.kind != "eks-cluster" or resource.external or current is None:
            continue
        running, wanted = _key_arn(current.properties), _key_arn(resource.properties)
        own = observed.resources.get("kms-key/secrets")
        own_arn = own.attributes["arn"] if own is not None else ""
        if wanted == ref("kms-key/secrets", "arn"):
            wanted = own_arn
        if not running or wanted == running:
            continue
        setting = "true" if running == own_arn else f"{{keyArn: {running}}}"
        raise EncryptionError(
            f"secretsEncryption: the cluster encrypts Secrets with {running}; EKS can neither turn that off "
            f"nor change the key: set it to {setting}; nothing was changed"
        )


def _key_arn(properties: Mapping[str, Any]) -> str:
    config = properties.get("EncryptionConfig") or [{}]
    return str(config[0].get("Provider", {}).get("KeyArn", ""))


def validate_network_config(desired: Sequence[DesiredResource], observed: ObservedState) -> None:
    """Raise ``ReplacementError`` if the address family or the Services' block would change."""
    for resource in desired:
        current = observed.resources.get(resource.address)
        if resource.kind != "eks-cluster" or resource.external or current is None:
            continue
        running = current.properties.get("KubernetesNetworkConfig") or {}
        wanted = {"IpFamily": "ipv4", **resource.properties.get("KubernetesNetworkConfig", {})}
        for name, field in _NETWORK_FIELDS.items():
            if name in wanted and running.get(name, wanted[name]) != wanted[name]:
                raise ReplacementError(
                    f"{field}: the cluster has {running[name]}, and EKS cannot change it to {wanted[name]}; "
                    "set it back, or create another cluster; nothing was changed"
                )


def validate_foreign_tags(observed: ObservedState) -> None:
    """Raise ``SubnetError`` if a discovery tag of another cluster would be overwritten."""
    errors: list[str] = []
    for resource in observed.resources.values():
        if resource.kind == "ec2-tags":
            for resource_id, value in resource.attributes["foreign"].items():
                errors.append(
                    f"vpc.existing.discovery: {resource_id} has the tag {DISCOVERY}={value}, by which node "
                    "classes of another cluster select it; use discovery: ids"
                )
    if errors:
        raise SubnetError("\n".join([*errors, "nothing was changed"]))
