"""Whether subnets that were there before can hold a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dovetail.eks.plan.resource import Observed, Resource
from dovetail.errors import DovetailError

_FIELDS = {
    "nodes": "vpc.existing.subnets",
    "control-plane": "vpc.existing.controlPlaneSubnets",
}


class Unfit(DovetailError):
    """What was there before is not what a cluster needs."""


def check_subnets(wanted: Sequence[Resource], observed: Observed) -> None:
    """Refuse subnets that are not there, not in one VPC, or not in two zones."""
    told: list[str] = []
    selections = [one for one in wanted if one.kind == "subnet-selection"]
    # The last one that is named is where the control plane goes.
    is_guest = any(one.kind == "eks-cluster" and one.given for one in wanted)
    for number, one in enumerate(selections):
        existing = observed.resources.get(one.address)
        if existing is not None:
            for_cluster = number == len(selections) - 1 and not is_guest
            seen = existing.properties["Subnets"]
            field = _FIELDS[one.name]
            told += [f"{field}: {why}" for why in _wrong(one.properties, seen, for_cluster)]
    if told:
        raise Unfit("\n".join([*told, "nothing was changed"]))


def _wrong(
    asked: Mapping[str, Any], seen: Mapping[str, Mapping[str, str]], for_cluster: bool
) -> Iterator[str]:
    for id_ in asked.get("Ids", ()):
        if id_ not in seen:
            yield f"there is no {id_} in this account and region"
    vpc = asked.get("VpcId")
    networks = sorted({one["VpcId"] for one in seen.values()})
    if vpc is not None:
        for id_, one in seen.items():
            if one["VpcId"] != vpc:
                yield f"{id_} is in {one['VpcId']}, not in {vpc}"
    elif len(networks) > 1:
        yield f"these are in more than one VPC: {', '.join(networks)}; say vpc.existing.id"
    zones = sorted({one["AvailabilityZone"] for one in seen.values()})
    if for_cluster and len(zones) == 1:
        yield f"all are in {zones[0]}; EKS wants two zones at least"
