"""Resolution of a node class: subnets, security groups, AMIs, instance profile."""

from collections.abc import Collection, Iterable, Mapping
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


class RecordedNodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """A node class of a live cluster: its selectors, and what AWS resolved them to.

    As long as a selector stays the same, it resolves to the same.
    """

    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    release: int = 0
    """Number of new images since; its selectors resolve to those if they select the latest."""

    @property
    def subnets(self) -> FrozenDict[str, str]:
        """Zone → the first subnet there."""
        return FrozenDict(
            {entry.get("zone", ""): entry["id"] for entry in reversed(self.status.get("subnets") or ())}
        )

    @property
    def security_groups(self) -> tuple[str, ...]:
        return tuple(entry["id"] for entry in self.status.get("securityGroups") or ())

    def resolve(self, spec: Mapping[str, Any], simulated: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status of the class now; changed selectors resolve as ``simulated``.

        Changed subnet and security group selectors resolve to others than before, in the same
        zones: tags of subnets are not known.
        """
        status = dict(simulated)
        same = {
            field
            for field, names in _SELECTORS.items()
            if field in self.status and all(spec.get(name) == self.spec.get(name) for name in names)
        }
        if _pins_version(spec, self.status.get("amis") or ()):
            same.add("amis")
        status |= {field: self.status[field] for field in same}
        if self.release and "amis" in same:
            status["amis"] = [_release_image(image, self.release) for image in self.status["amis"]]
        if "subnets" in status and "subnets" not in same:
            status["subnets"] = self._other_subnets(spec.get("subnetSelectorTerms") or (), status["subnets"])
        if "securityGroups" in status and "securityGroups" not in same:
            terms = spec.get("securityGroupSelectorTerms") or ()
            ids = [term["id"] for term in terms if "id" in term] or [f"sg-0{hash_digits(str(terms))}"]
            status["securityGroups"] = [{"id": group_id, "name": group_id} for group_id in ids]
        return status

    def _other_subnets(
        self, terms: Iterable[Mapping[str, Any]], simulated: list[dict[str, str]]
    ) -> list[dict[str, str]]:
        if any("id" in term for term in terms):
            known = {subnet["id"]: subnet for subnet in self.status.get("subnets") or ()}
            return [known.get(subnet["id"], subnet) for subnet in simulated]
        by_zone = {subnet.get("zone", ""): subnet for subnet in self.status.get("subnets") or ()}
        return [
            {**subnet, "id": f"subnet-0{hash_digits(f'{zone}{terms}')}"} for zone, subnet in by_zone.items()
        ] or simulated


_SELECTORS: Final = {
    "subnets": ("subnetSelectorTerms",),
    "securityGroups": ("securityGroupSelectorTerms",),
    "amis": ("amiSelectorTerms", "amiFamily"),
    "instanceProfile": ("role", "instanceProfile"),
    "capacityReservations": ("capacityReservationSelectorTerms",),
}
"""Field of the status → fields of the spec that it is resolved from."""


def _pins_version(spec: Mapping[str, Any], images: Collection[Mapping[str, Any]]) -> bool:
    """Return True if an alias pins the version of these images: ``al2023@v20260101``."""
    for term in spec.get("amiSelectorTerms") or ():
        version = str(term.get("alias", "")).partition("@")[2]
        if version not in ("", "latest"):
            return bool(images) and all(str(image.get("name", "")).endswith(version) for image in images)
    return False


def _release_image(image: Mapping[str, Any], release: int) -> dict[str, Any]:
    name = f"{image.get('name', image['id'])}-{release}"
    return {**image, "id": f"{_IMAGE_PREFIX}{hash_digits(image['id'] + '/' + name)}", "name": name}


_IMAGE_PREFIX: Final = "ami-0"


def selects_latest_image(spec: Mapping[str, Any]) -> bool:
    """Return True if a new image changes what the node class selects: no ID, no pinned version."""
    terms = spec.get("amiSelectorTerms") or ()
    return any(
        "id" not in term and str(term.get("alias", "@latest")).partition("@")[2] in ("", "latest")
        for term in terms
    )


def selects_by_alias(spec: Mapping[str, Any]) -> bool:
    """Return True if images follow the control plane version: an alias selects by it."""
    return any("alias" in term for term in spec.get("amiSelectorTerms") or ())


def resolve_nodeclass(
    node_class: Mapping[str, Any],
    *,
    network: AccountNetwork,
    reservations: Iterable[CapacityReservation],
    cluster: str,
    latest: Mapping[str, str] = _NO_VERSIONS,
    check_kubelet: KubeletCheck | None = None,
    recorded: RecordedNodeClass | None = None,
) -> NodeClassStatus:
    """Return the status of a node class, with problems for selectors without a match.

    ``latest`` maps an AMI family to its latest version, if one was released since the
    start. Without ``check_kubelet``, kubelet expressions are disabled. A ``recorded`` class
    resolves as it did in its cluster.
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
    if recorded is not None:
        status = recorded.resolve(spec, status)
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
