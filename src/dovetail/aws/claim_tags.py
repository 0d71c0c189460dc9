"""Instance tags that name NodeClaims: which instance belongs to which claim.

One CreateFleet request launches instances for many claims, and EC2 gives all of
them the same tags. So every instance carries the list of all claims of its
request:

    dovetail.sh/nodeclaims-0: "default-/a1b2c=3f9a01/x7k2p=77c2e4"
                               prefix   name  uid hash

Instances are assigned to claims in a fixed order: instances by id, claims as
listed. A process that lost the response of CreateFleet, or started later,
therefore makes the same assignment as the process that launched. If the status
of a claim in the cluster already names an instance, that has priority.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Final, Protocol, TypeVar

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim

CLUSTER_TAG: Final = "eks:eks-cluster-name"
NODECLAIM_TAG: Final = "karpenter.sh/nodeclaim"
_LIST_PREFIX: Final = "dovetail.sh/nodeclaims-"
CLAIM_LIST_TAG: Final = f"{_LIST_PREFIX}0"
"""First tag of the list; every instance that Dovetail launched has it."""
_MAX_VALUE_LENGTH: Final = 256
"""Limit of EC2, in characters."""
_MAX_TAGS: Final = 50
"""Limit of EC2, per instance."""
_TAGS_ADDED_LATER: Final = 2
"""``Name`` and ``NODECLAIM_TAG``, which are added after registration."""

InstanceT = TypeVar("InstanceT", bound="TaggedInstance")


def cluster_tags(cluster: str, *, pool: str, node_class: str) -> dict[str, str]:
    """Return the ownership tags, which IAM policies of the controller require too."""
    return {
        f"kubernetes.io/cluster/{cluster}": "owned",
        CLUSTER_TAG: cluster,
        label_keys.NODEPOOL: pool,
        label_keys.EC2_NODE_CLASS: node_class,
    }


def claim_list_tags(claims: Sequence[NodeClaim]) -> dict[str, str]:
    """Return the tags that list the claims of one request, in order of assignment."""
    prefix = _common_prefix(claim.name for claim in claims)
    values: list[str] = []
    for claim in claims:
        entry = f"/{claim.name[len(prefix) :]}={_uid_hash(claim.uid)}"
        if values and len(values[-1]) + len(entry) <= _MAX_VALUE_LENGTH:
            values[-1] += entry
        else:
            values.append(prefix + entry)
    return {f"{_LIST_PREFIX}{number}": value for number, value in enumerate(values)}


def count_excess_tags(tags: Mapping[str, str]) -> int:
    """Return how many of these tags an instance cannot have beside those of its claim."""
    return max(0, len(tags) + 1 + _TAGS_ADDED_LATER - _MAX_TAGS)


def count_fitting_claims(claims: Sequence[NodeClaim], tags: Mapping[str, str]) -> int:
    """Return how many of the claims can be listed beside these tags; at least one."""
    max_list_tags = _MAX_TAGS - _TAGS_ADDED_LATER - len(tags)
    fitting = len(claims)
    while fitting > 1 and len(claim_list_tags(claims[:fitting])) > max_list_tags:
        fitting = fitting * 3 // 4
    return fitting


class TaggedInstance(Protocol):
    """An instance with its tags."""

    @property
    def id(self) -> str: ...
    @property
    def tags(self) -> Mapping[str, str]: ...
    @property
    def is_terminating(self) -> bool: ...


def no_known_instance(_: str) -> str | None:
    """Return "": every claim exists and has no instance yet."""
    return ""


def assign_instances(
    instances: Iterable[InstanceT], known_instance: Callable[[str], str | None] = no_known_instance
) -> dict[str, tuple[str, InstanceT]]:
    """Assign instances to claims: claim key → (claim name, instance).

    ``known_instance`` returns the instance id in a claim's status, "" if there is
    none yet, None if the claim does not exist. Known instances stay with their
    claim, whatever an eventually consistent DescribeInstances shows. The others
    go to claims without one; terminating instances come last.
    """
    by_list: dict[tuple[str, ...], list[InstanceT]] = {}
    for instance in instances:
        values = _list_values(instance.tags)
        if values:
            by_list.setdefault(values, []).append(instance)
    assigned: dict[str, tuple[str, InstanceT]] = {}
    for values, launched in by_list.items():
        known = {name: known_instance(name) for name, _ in _entries(values)}
        owners = {instance_id: name for name, instance_id in known.items() if instance_id}
        free = sorted(
            (instance for instance in launched if instance.id not in owners),
            key=lambda instance: (instance.is_terminating, instance.id),
        )
        owned = {owners[instance.id]: instance for instance in launched if instance.id in owners}
        for name, uid_hash in _entries(values):
            if name in owned:
                assigned[f"{name}={uid_hash}"] = (name, owned[name])
            elif known[name] == "" and free:
                assigned[f"{name}={uid_hash}"] = (name, free.pop(0))
    return assigned


def listed_claim_keys(tags: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the keys of all claims that are listed in the tags of instances."""
    lists = {_list_values(instance_tags) for instance_tags in tags}
    return {f"{name}={uid_hash}" for values in lists for name, uid_hash in _entries(values)}


def claim_key(claim: NodeClaim) -> str:
    """Return the key of a claim; a later claim of the same name has another."""
    return f"{claim.name}={_uid_hash(claim.uid)}"


def _common_prefix(names: Iterable[str]) -> str:
    """Return the common prefix of all names: that of the first and the last sorted."""
    ordered = sorted(names)
    first, last = ordered[0], ordered[-1]
    length = 0
    while length < len(first) and first[length] == last[length]:
        length += 1
    return first[:length]


def _uid_hash(uid: str) -> str:
    return sha256(uid.encode()).hexdigest()[:6]


def _list_values(tags: Mapping[str, str]) -> tuple[str, ...]:
    values: list[str] = []
    for number in count():
        value = tags.get(f"{_LIST_PREFIX}{number}")
        if value is None:
            return tuple(values)
        values.append(value)
    raise AssertionError("unreachable")


def _entries(values: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield claim name and uid hash."""
    for value in values:
        prefix, *entries = value.split("/")
        for entry in entries:
            name, _, uid_hash = entry.rpartition("=")
            yield prefix + name, uid_hash
