"""Ownership: only resources with the ownership tag are changed or deleted.

A name proves nothing. A role that has the name of ours, a queue of another team,
a cluster created by hand: adopting such a resource would change it now, and
delete it together with the cluster.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from dovetail.eks.plan.resource import (
    OWNERSHIP_TAG,
    REGION_TAG,
    DesiredResource,
    ObservedResource,
    ObservedState,
)
from dovetail.eks.plan.resource_kinds import GLOBAL_KINDS, KINDS
from dovetail.errors import DovetailError

_PART_OF_CLUSTER: Final = frozenset(
    {
        "eks-node-group",
        "eks-fargate-profile",
        "eks-addon",
        "eks-access-entry",
        "pod-identity-association",
        "oidc-provider",
        "log-group",
        "helm-release",
        "kubernetes-object",
    }
)
"""Kinds that belong to the cluster. EKS creates some: access entries, aws-auth, logs."""
_LABELLED: Final = ("kubernetes-object", "helm-release")
"""Kinds without AWS tags that carry the ownership tag as a label or description."""


class OwnershipError(DovetailError):
    """Resources of other owners exist under the names of desired resources."""


def check_ownership(desired: Sequence[DesiredResource], observed: ObservedState, cluster: str) -> None:
    """Raise ``OwnershipError`` if a resource was not created for this cluster.

    Within a cluster that we own, every resource is ours: it is deleted together
    with the cluster.
    """
    unowned = _find_unowned(desired, observed, cluster)
    eks_cluster = observed.resources.get(f"eks-cluster/{cluster}")
    # In an unowned cluster only the cluster itself is reported, not its parts.
    is_inside = eks_cluster is not None and (
        is_owned(eks_cluster, cluster, observed.account.region) or eks_cluster in unowned
    )
    errors = [
        _error_message(resource, cluster, observed.account.region)
        for resource in unowned
        if OWNERSHIP_TAG in resource.tags or not (is_inside and resource.kind in _PART_OF_CLUSTER)
    ]
    if errors:
        raise OwnershipError("\n".join([*errors, "nothing was changed"]))


def filter_owned(desired: Sequence[DesiredResource], observed: ObservedState, cluster: str) -> ObservedState:
    """Return the state reduced to what we may delete.

    That is what has the ownership tag, and what cannot have one but depends on no
    unowned resource.
    """
    unowned = {resource.address for resource in _find_unowned(desired, observed, cluster)}
    dependencies = {resource.address: resource.dependencies() for resource in desired}
    owned = {
        address: resource
        for address, resource in observed.resources.items()
        if is_owned(resource, cluster, observed.account.region)
        or not (_can_be_tagged(resource.kind) or unowned.intersection(dependencies.get(address, ())))
    }
    return msgspec.structs.replace(observed, resources=owned)


def is_owned(resource: ObservedResource, cluster: str, region: str) -> bool:
    """Return True if the resource has the ownership tag of the cluster in the region."""
    if resource.tags.get(OWNERSHIP_TAG) != cluster:
        return False
    return resource.kind not in GLOBAL_KINDS or resource.tags.get(REGION_TAG, region) == region


def _find_unowned(
    desired: Sequence[DesiredResource], observed: ObservedState, cluster: str
) -> list[ObservedResource]:
    """Return resources that could have our ownership tag, but do not have it."""
    external = {resource.address for resource in desired if resource.external}
    return [
        resource
        for resource in observed.resources.values()
        if resource.address not in external
        and _can_be_tagged(resource.kind)
        and not is_owned(resource, cluster, observed.account.region)
    ]


def _can_be_tagged(kind: str) -> bool:
    return KINDS[kind].taggable or kind in _LABELLED


def _error_message(resource: ObservedResource, cluster: str, region: str) -> str:
    name = f"{KINDS[resource.kind].display_name} {resource.name}"
    owner = resource.tags.get(OWNERSHIP_TAG)
    if owner == cluster:
        owner_region = resource.tags[REGION_TAG]
        return (
            f"{name} belongs to cluster {owner} in {owner_region}: set another iam.prefix, or, if it "
            f"does not, change its tag {REGION_TAG} to {region}"
        )
    if owner:
        return f"{name} belongs to cluster {owner}"
    if resource.kind == "helm-release":
        action = "uninstall it, or choose another name or namespace"
    elif resource.kind == "kubernetes-object":
        action = f"delete it, rename ours, or add the label {OWNERSHIP_TAG}={cluster} to adopt it"
    else:
        tags = [f"{OWNERSHIP_TAG}={cluster}"]
        if resource.kind in GLOBAL_KINDS:
            tags.append(f"{REGION_TAG}={region}")
        noun = "tag" if len(tags) == 1 else "tags"
        action = f"delete it, rename ours, or add the {noun} {' and '.join(tags)} to adopt it"
    return f"{name} exists and was not created for this cluster: {action}"
