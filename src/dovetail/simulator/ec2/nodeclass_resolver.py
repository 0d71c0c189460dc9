"""What a node class finds in the virtual account: network, images, profile."""

from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

import msgspec

from dovetail.codec.karpenter.nodeclasses import encode_reservation
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.ports.cloudprovider import ClassStatus
from dovetail.simulator.ec2.amis import Image, digits, images_of

_POOR: Final = 0.25
"""Of the types that a region's best zone sells: in a zone below that nobody has subnets."""
FAMILIES: Final = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
"""Alias → the family whose images it means."""
_NONE_RELEASED: Final[Mapping[str, str]] = FrozenDict()


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """What is there for selectors to find.

    Every term finds everything, since nobody has tagged this account; but for
    those that say something that is ``missing``.
    """

    zones: FrozenDict[str, str]
    """Zone → zone id; each has one subnet."""
    missing: tuple[str, ...] = ()
    """Globs over ``key=value`` of tags, over ids, names and aliases (``*=none``)."""

    @staticmethod
    def of(region: Region, *, zones: Iterable[str] = (), missing: Iterable[str] = ()) -> "Network":
        """Return a network in these zones, or in all that sell more than a few types."""
        sold = Counter(zone for places in region.offered.values() for zone in places)
        most = max(sold.values(), default=0)
        wanted = frozenset(zones) or {zone for zone in sold if sold[zone] >= _POOR * most}
        return Network(
            zones=FrozenDict({zone: name for zone, name in region.zones.items() if zone in wanted}),
            missing=tuple(missing),
        )

    def finds(self, terms: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether at least one term finds something."""
        return any(
            not any(fnmatchcase(word, glob) for word in _words(term) for glob in self.missing)
            for term in terms
        )


def resolve(
    node_class: Mapping[str, Any],
    *,
    network: Network,
    reservations: Iterable[CapacityReservation],
    cluster: str,
    latest: Mapping[str, str] = _NONE_RELEASED,
) -> ClassStatus:
    """Return the status of a node class, and what it selects in vain.

    ``latest`` is the newest version of the images of a family, where there was one
    since the beginning.
    """
    spec = node_class.get("spec", {})
    status: dict[str, Any] = {}
    problems: dict[str, tuple[str, str]] = {}
    subnets = spec.get("subnetSelectorTerms", ())
    if network.zones and network.finds(subnets):
        status["subnets"] = _subnets(subnets, network)
    else:
        problems["SubnetsReady"] = ("SubnetsNotFound", "no subnet matches the selector")
    groups = spec.get("securityGroupSelectorTerms", ())
    if network.finds(groups):
        status["securityGroups"] = [{"id": f"sg-0{digits(cluster)}", "name": f"{cluster}-nodes"}]
    else:
        problems["SecurityGroupsReady"] = (
            "SecurityGroupsNotFound",
            "no security group matches the selector",
        )
    images = spec.get("amiSelectorTerms", ())
    if network.finds(images):
        status["amis"] = [one.wire() for one in _images(spec, latest)]
    else:
        problems["AMIsReady"] = ("AMINotFound", "no image matches the selector")
    if network.finds(spec.get("capacityReservationSelectorTerms", ())):
        status["capacityReservations"] = [encode_reservation(one) for one in reservations]
    name = node_class.get("metadata", {}).get("name", "")
    status["instanceProfile"] = spec.get("instanceProfile") or profile_of(cluster, name)
    return ClassStatus(status=status, problems=FrozenDict(problems))


@lru_cache
def profile_of(cluster: str, node_class: str) -> str:
    """Return the name of the instance profile that is made for a class."""
    return f"{cluster}_{int(digits(node_class), 16)}"


def _subnets(terms: Iterable[Mapping[str, Any]], network: Network) -> list[dict[str, str]]:
    """One for each zone; ids that are asked for are given to the zones in turn."""
    asked = [term["id"] for term in terms if "id" in term and network.finds([term])]
    zones = list(network.zones.items())
    if asked:
        pairs = zip(asked, zones * (len(asked) // len(zones) + 1), strict=False)
    else:
        pairs = zip((f"subnet-0{digits(zone)}" for zone, _ in zones), zones, strict=True)
    return [{"id": one, "zone": zone, "zoneID": zone_id} for one, (zone, zone_id) in pairs]


def _images(spec: Mapping[str, Any], latest: Mapping[str, str]) -> list[Image]:
    for term in spec.get("amiSelectorTerms", ()):
        alias, _, version = term.get("alias", "").partition("@")
        if alias in FAMILIES:
            newest = latest.get(FAMILIES[alias], "")
            family = spec.get("amiFamily") or FAMILIES[alias]
            return images_of(family, newest if version in ("", "latest") else version)
    family = spec.get("amiFamily") or "Custom"
    return images_of(family, latest.get(family, ""))


def _words(term: Mapping[str, Any]) -> Iterable[str]:
    """Return what can be scripted as missing."""
    for value in term.values():
        if isinstance(value, Mapping):
            yield from (f"{name}={wanted}" for name, wanted in value.items())
        else:
            yield str(value)
