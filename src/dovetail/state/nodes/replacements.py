"""In-flight replacements, indexed by replaced and by new NodeClaims."""

from collections.abc import Iterable

from dovetail.core.disruption.replacement import Replacement, decode_replacement
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.node import Node
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.store import ObjectChange


class Replacements:
    """Replacements decoded from NodeClaim annotations; no state beyond the API server."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._by_new_claim: dict[str, Replacement] = {}
        """Name of a new NodeClaim → its replacement."""
        self._by_key: dict[str, Replacement] = {}
        self._keys_by_replaced_claim: dict[str, set[str]] = {}
        """Name of a replaced NodeClaim → keys of replacements."""
        cache.subscribe(NODE_CLAIMS, self._on_claim)

    def get(self, key: str) -> Replacement | None:
        return self._by_key.get(key)

    def all(self) -> Iterable[Replacement]:
        return self._by_key.values()

    def get_keys(self, claim: NodeClaim) -> list[str]:
        """Return the keys of all replacements of a NodeClaim, replaced or new."""
        keys = set(self._keys_by_replaced_claim.get(claim.name, ()))
        made_for = decode_replacement(claim)
        if made_for is not None:
            keys.add(made_for.key)
        return sorted(keys)

    def is_replaced(self, claim: NodeClaim) -> bool:
        """Return True if a NodeClaim is deleted once its replacement is initialized."""
        return any(
            (replaced.name, replaced.uid) == (claim.name, claim.uid)
            for key in self._keys_by_replaced_claim.get(claim.name, ())
            for replaced in self._by_key[key].replaced
        )

    def count_waiting_nodes(self) -> int:
        """Return the number of nodes that wait for their replacement."""
        return sum(
            1
            for replacement in self._by_key.values()
            for replaced in replacement.replaced
            if (claim := self._cache.claim(replaced.name))
            and claim.uid == replaced.uid
            and not claim.deleting
        )

    def _on_claim(self, change: ObjectChange) -> None:
        name, new = change.latest.name, change.new
        before = self._by_new_claim.get(name)
        after = decode_replacement(new) if new is not None else None
        if before == after:
            return
        if before is not None:
            del self._by_new_claim[name]
            if all(other not in self._by_new_claim for other in before.new_claims):
                self._remove(before)
        if after is not None:
            self._by_new_claim[name] = self._by_key[after.key] = after
            for replaced in after.replaced:
                self._keys_by_replaced_claim.setdefault(replaced.name, set()).add(after.key)

    def _remove(self, replacement: Replacement) -> None:
        self._by_key.pop(replacement.key, None)
        for replaced in replacement.replaced:
            keys = self._keys_by_replaced_claim.get(replaced.name, set())
            keys.discard(replacement.key)
            if not keys:
                self._keys_by_replaced_claim.pop(replaced.name, None)


def is_awaiting_replacement(node: Node, cache: ClusterCache) -> bool:
    """Return True if a node keeps its pods while its replacement starts.

    The taint keeps new pods off. The command that set it has planned where the
    pods go, so they need no scheduling before the node is deleted.
    """
    if not node.deleting or not node.claim:
        return False
    claim, node_object = cache.claim(node.claim), cache.node(node.name)
    if claim is None or node_object is None or claim.deleting or node_object.deleting:
        return False
    return not is_true(claim.conditions, INSTANCE_TERMINATING)
