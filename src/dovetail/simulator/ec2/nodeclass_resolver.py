"""Resolution of a node class: subnets, security groups, AMIs, instance profile."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

import msgspec

from dovetail.codec.karpenter.nodeclasses import encode_capacity_reservation
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import ALIAS_FAMILIES, AmiFamily
from dovetail.model.karpenter.condition_types import VALIDATION_SUCCEEDED
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.ports.cloudprovider import NodeClassStatus
from dovetail.simulator.ec2.amis import SimulatedAmi, family_amis, hash_digits
from dovetail.state.nodeclass_validation import KubeletCheck, find_nodeclass_problem

_NO_VERSIONS: Final[Mapping[str, str]] = FrozenDict()


class AccountNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Network resources that selector terms can match.

    The account has no tags, so every term matches everything, except for those with a value
    that is ``missing``.
    """

    zones: FrozenDict[str, str]
    """Zone → zone ID; each zone has one subnet."""
    missing: tuple[str, ...] = ()
    """Globs over ``key=value`` of tags, IDs, names and aliases (``*=none``)."""

    @staticmethod
    def from_region(
        region: Region, *, zones: Iterable[str] = (), missing: Iterable[str] = ()
    ) -> "AccountNetwork":
        """Return a network in these zones, or in all zones that offer enough types."""
        selected = frozenset(zones) or region.zones.keys() - region.sparse_zones
        return AccountNetwork(
            zones=FrozenDict({zone: name for zone, name in region.zones.items() if zone in selected}),
            missing=tuple(missing),
        )

    def matches(self, terms: Iterable[Mapping[str, Any]]) -> bool:
        """Return True if at least one term matches something."""
        return any(
            not any(fnmatchcase(value, glob) for value in _selector_values(term) for glob in self.missing)
            for term in terms
        )


def resolve_nodeclass(
    node_class: Mapping[str, Any],
    *,
    network: AccountNetwork,
    reservations: Iterable[CapacityReservation],
    cluster: str,
    latest: Mapping[str, str] = _NO_VERSIONS,
    check_kubelet: KubeletCheck | None = None,
) -> NodeClassStatus:
    """Return the status of a node class, with problems for selectors without a match.

    ``latest`` maps an AMI family to its latest version, if one was released since the
    start. Without ``check_kubelet``, kubelet expressions are disabled.
    """
    spec = node_class.get("spec", {})
    status: dict[str, Any] = {}
    problems: dict[str, tuple[str, str]] = {}
    subnets = spec.get("subnetSelectorTerms", ())
    if network.zones and network.matches(subnets):
        status["subnets"] = _encode_subnets(subnets, network)
    else:
        problems["SubnetsReady"] = ("SubnetsNotFound", "no subnet matches the selector")
    groups = spec.get("securityGroupSelectorTerms", ())
    if network.matches(groups):
        status["securityGroups"] = [{"id": f"sg-0{hash_digits(cluster)}", "name": f"{cluster}-nodes"}]
    else:
        problems["SecurityGroupsReady"] = ("SecurityGroupsNotFound", "no security group matches the selector")
    images = spec.get("amiSelectorTerms", ())
    if network.matches(images):
        status["amis"] = [ami.encode() for ami in _select_amis(spec, latest)]
    else:
        problems["AMIsReady"] = ("AMINotFound", "no image matches the selector")
    if network.matches(spec.get("capacityReservationSelectorTerms", ())):
        status["capacityReservations"] = [
            encode_capacity_reservation(reservation) for reservation in reservations
        ]
    name = node_class.get("metadata", {}).get("name", "")
    status["instanceProfile"] = spec.get("instanceProfile") or instance_profile_name(cluster, name)
    invalid = find_nodeclass_problem(node_class, check_kubelet)
    if invalid is not None:
        problems[VALIDATION_SUCCEEDED] = invalid
    return NodeClassStatus(status=status, false_conditions=FrozenDict(problems))


@lru_cache
def instance_profile_name(cluster: str, node_class: str) -> str:
    """Return the name of the instance profile that is created for a node class."""
    return f"{cluster}_{int(hash_digits(node_class), 16)}"


def _encode_subnets(terms: Iterable[Mapping[str, Any]], network: AccountNetwork) -> list[dict[str, str]]:
    """Encode one subnet per zone; selected subnet IDs go to the zones in turn."""
    subnet_ids = [term["id"] for term in terms if "id" in term and network.matches([term])]
    zones = list(network.zones.items())
    if subnet_ids:
        pairs = zip(subnet_ids, zones * (len(subnet_ids) // len(zones) + 1), strict=False)
    else:
        pairs = zip((f"subnet-0{hash_digits(zone)}" for zone, _ in zones), zones, strict=True)
    return [{"id": subnet_id, "zone": zone, "zoneID": zone_id} for subnet_id, (zone, zone_id) in pairs]


def _select_amis(spec: Mapping[str, Any], latest: Mapping[str, str]) -> list[SimulatedAmi]:
    for term in spec.get("amiSelectorTerms", ()):
        alias, _, version = term.get("alias", "").partition("@")
        if alias in ALIAS_FAMILIES:
            newest = latest.get(ALIAS_FAMILIES[alias], "")
            family = AmiFamily.parse(spec.get("amiFamily") or ALIAS_FAMILIES[alias])
            return family_amis(family, newest if version in ("", "latest") else version)
    family = AmiFamily.parse(spec.get("amiFamily") or AmiFamily.CUSTOM)
    return family_amis(family, latest.get(family, ""))


def _selector_values(term: Mapping[str, Any]) -> Iterable[str]:
    """Yield the values of a term that ``missing`` can match."""
    for value in term.values():
        if isinstance(value, Mapping):
            yield from (f"{name}={selected}" for name, selected in value.items())
        else:
            yield str(value)
