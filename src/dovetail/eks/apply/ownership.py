"""Whose things are: ours by their mark, or somebody's who must not lose them.

A name proves nothing. A role that happens to be called as ours would be, a
queue of another team, a cluster made by hand: whoever takes such a thing for
its own changes it now, and removes it when the cluster goes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from dovetail.eks.plan.resource import OWNER_TAG, Existing, Observed, Resource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.errors import DovetailError

_GOES_WITH_THE_CLUSTER: Final = frozenset(
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
"""What is the cluster's own: EKS itself makes some of it (access entries, aws-auth, logs)."""
_MARKED_INSIDE: Final = ("kubernetes-object", "helm-release")
"""Kinds without tags that carry our mark all the same: as a label, or in a description."""


class NotOurs(DovetailError):
    """Things of somebody else stand where ours should be."""


def check_owners(wanted: Sequence[Resource], observed: Observed, cluster: str) -> None:
    """Refuse to take for ours what was not made for this cluster; raises ``NotOurs``.

    Inside a cluster of ours everything is: it goes with the cluster anyway.
    """
    strange = _unmarked(wanted, observed, cluster)
    house = observed.resources.get(f"eks-cluster/{cluster}")
    # In a cluster of ours it is ours, and in a strange one it is that cluster's.
    inside = house is not None and (is_marked(house, cluster) or house in strange)
    told = [
        _sentence(one, cluster)
        for one in strange
        if OWNER_TAG in one.tags or not (inside and one.kind in _GOES_WITH_THE_CLUSTER)
    ]
    if told:
        raise NotOurs("\n".join([*told, "nothing was changed"]))


def ours(wanted: Sequence[Resource], observed: Observed, cluster: str) -> Observed:
    """Return what we may take away: what carries our mark, or hangs on what does."""
    strange = {one.address for one in _unmarked(wanted, observed, cluster)}
    needs = {one.address: one.needs() for one in wanted}
    kept = {
        address: one
        for address, one in observed.resources.items()
        if is_marked(one, cluster)
        or not (_can_be_marked(one.kind) or strange.intersection(needs.get(address, ())))
    }
    return msgspec.structs.replace(observed, resources=kept)


def is_marked(one: Existing, cluster: str) -> bool:
    """Tell whether something says of itself that it was made for a cluster."""
    return one.tags.get(OWNER_TAG) == cluster


def _unmarked(wanted: Sequence[Resource], observed: Observed, cluster: str) -> list[Existing]:
    """Return what is there under a name of ours and could carry our mark, but does not."""
    given = {one.address for one in wanted if one.given}
    return [
        one
        for one in observed.resources.values()
        if one.address not in given and _can_be_marked(one.kind) and not is_marked(one, cluster)
    ]


def _can_be_marked(kind: str) -> bool:
    return KINDS[kind].tagged or kind in _MARKED_INSIDE


def _sentence(one: Existing, cluster: str) -> str:
    what = f"{KINDS[one.kind].called} {one.name}"
    owner = one.tags.get(OWNER_TAG)
    if owner:
        return f"{what} belongs to cluster {owner}"
    if one.kind == "helm-release":
        way = "uninstall it, or choose another name or namespace"
    elif one.kind == "kubernetes-object":
        way = f"delete it, rename ours, or hand it over with the label {OWNER_TAG}={cluster}"
    else:
        way = f"remove it, rename ours, or hand it over with the tag {OWNER_TAG}={cluster}"
    return f"{what} is there and was not made for this cluster: {way}"
