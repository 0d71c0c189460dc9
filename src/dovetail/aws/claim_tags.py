"""Tags that say for whom machines were bought, so that no answer is needed to know it.

One CreateFleet buys for many claims, and EC2 tags all its instances alike. So
every instance carries the whole list, and both the process that bought and any
that comes after it deal the instances in the same order: the instances by their
ids, the claims as listed. What a claim says in the cluster counts for more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Final, Protocol, TypeVar

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim

CLUSTER: Final = "eks:eks-cluster-name"
CLAIM: Final = "karpenter.sh/nodeclaim"
_LIST: Final = "dovetail.sh/nodeclaims-"
FIRST_OF_LIST: Final = f"{_LIST}0"
_LONGEST: Final = 256
"""Characters that EC2 takes as the value of a tag."""
_MOST: Final = 50
"""Tags that EC2 takes on an instance."""
_ADDED_LATER: Final = 2
"""``Name`` and the claim's own tag, once the node is there."""

M = TypeVar("M", bound="Tagged")


def cluster_tags(cluster: str, *, pool: str, node_class: str) -> dict[str, str]:
    """Return the tags by which a cluster knows what is its own; access rules need them too."""
    return {
        f"kubernetes.io/cluster/{cluster}": "owned",
        CLUSTER: cluster,
        label_keys.NODEPOOL: pool,
        label_keys.EC2_NODE_CLASS: node_class,
    }


def listed(claims: Sequence[NodeClaim]) -> dict[str, str]:
    """Return the tags that name all claims of one purchase, in the order of dealing."""
    prefix = _beginning(claim.name for claim in claims)
    values: list[str] = []
    for claim in claims:
        entry = f"/{claim.name[len(prefix) :]}={_mark(claim.uid)}"
        if values and len(values[-1]) + len(entry) <= _LONGEST:
            values[-1] += entry
        else:
            values.append(prefix + entry)
    return {f"{_LIST}{number}": value for number, value in enumerate(values)}


def fitting(claims: Sequence[NodeClaim], tags: Mapping[str, str]) -> int:
    """Return how many of the claims can be listed beside these tags; at least one."""
    room = _MOST - _ADDED_LATER - len(tags)
    many = len(claims)
    while many > 1 and len(listed(claims[:many])) > room:
        many = many * 3 // 4
    return many


class Tagged(Protocol):
    """A machine that says for whom it was bought."""

    @property
    def id(self) -> str: ...
    @property
    def tags(self) -> Mapping[str, str]: ...
    @property
    def ending(self) -> bool: ...


def nobody_has_one(_: str) -> str | None:
    """Say of every claim that it is there and has no machine yet."""
    return ""


def deal(
    machines: Iterable[M], machine_of: Callable[[str], str | None] = nobody_has_one
) -> dict[str, tuple[str, M]]:
    """Give machines to claims: claim's key → (claim's name, machine).

    Machines that a process died over are dealt as it would have done. Who has one
    already (``machine_of`` tells a claim's instance, "" for none yet, None when
    there is no such claim) keeps it, whatever EC2 shows or hides today; the rest
    are for those who have none, and those that end come last.
    """
    purchases: dict[tuple[str, ...], list[M]] = {}
    for one in machines:
        values = _values(one.tags)
        if values:
            purchases.setdefault(values, []).append(one)
    dealt: dict[str, tuple[str, M]] = {}
    for values, bought in purchases.items():
        held = {name: machine_of(name) for name, _ in _entries(values)}
        owners = {machine: name for name, machine in held.items() if machine}
        free = sorted(
            (one for one in bought if one.id not in owners), key=lambda one: (one.ending, one.id)
        )
        kept = {owners[one.id]: one for one in bought if one.id in owners}
        for name, mark in _entries(values):
            if name in kept:
                dealt[f"{name}={mark}"] = (name, kept[name])
            elif held[name] == "" and free:
                dealt[f"{name}={mark}"] = (name, free.pop(0))
    return dealt


def keys_in(tags: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the keys of all claims that machines with these tags were bought for."""
    purchases = {_values(one) for one in tags}
    return {f"{name}={mark}" for values in purchases for name, mark in _entries(values)}


def key_of(claim: NodeClaim) -> str:
    """Return the key of a claim among those dealt; another claim of its name has another."""
    return f"{claim.name}={_mark(claim.uid)}"


def _beginning(names: Iterable[str]) -> str:
    """Return how all names begin: those between the first and the last begin as both do."""
    ordered = sorted(names)
    first, last = ordered[0], ordered[-1]
    same = 0
    while same < len(first) and first[same] == last[same]:
        same += 1
    return first[:same]


def _mark(uid: str) -> str:
    return sha256(uid.encode()).hexdigest()[:6]


def _values(tags: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for number in count():
        value = tags.get(f"{_LIST}{number}")
        if value is None:
            return tuple(found)
        found.append(value)
    raise AssertionError("unreachable")


def _entries(values: Iterable[str]) -> Iterable[tuple[str, str]]:
    for value in values:
        prefix, *entries = value.split("/")
        for entry in entries:
            name, _, mark = entry.rpartition("=")
            yield prefix + name, mark
