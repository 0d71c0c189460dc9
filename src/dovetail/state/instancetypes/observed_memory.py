"""How much memory nodes turned out to have, by image and instance type."""

from collections.abc import Iterable, Mapping

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import MEMORY
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.store import Change

_NOTHING: FrozenDict[str, int] = FrozenDict()


class MemorySeen:
    """The least that was seen of each; an estimate is for what nobody has seen yet.

    What a kernel keeps for itself depends on the image, so another image means
    estimating again. After a restart all nodes are seen anew.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._seen: dict[str, dict[str, int]] = {}
        """Image → instance type → bytes."""
        self._answers: dict[tuple[str, ...], FrozenDict[str, int]] = {}
        # Of both, for either may be heard of first.
        mirror.subscribe(NODES, self._node_changed)
        mirror.subscribe(NODE_CLAIMS, self._claim_changed)

    def of(self, images: Iterable[str]) -> Mapping[str, int]:
        """Return instance type → bytes; the same object until something else is seen."""
        key = tuple(images)
        known = self._answers.get(key)
        if known is None:
            least: dict[str, int] = {}
            for image in key:
                for name, amount in self._seen.get(image, _NOTHING).items():
                    least[name] = min(amount, least.get(name, amount))
            known = self._answers[key] = FrozenDict(least)
        return known

    def _node_changed(self, change: Change) -> None:
        if change.new is not None:
            for claim in self._mirror.claims_of(change.new.provider_id):
                self._note(change.new, claim)

    def _claim_changed(self, change: Change) -> None:
        if change.new is not None and change.new.provider_id:
            for node in self._mirror.nodes_of(change.new.provider_id):
                self._note(node, change.new)

    def _note(self, node: NodeObject, claim: NodeClaim) -> None:
        name = node.labels.get(label_keys.INSTANCE_TYPE, "")
        amount = node.capacity.get(MEMORY, 0)
        is_registered = node.labels.get(label_keys.REGISTERED) == "true"
        if not (name and amount and claim.image_id and is_registered):
            return
        seen = self._seen.setdefault(claim.image_id, {})
        if amount < seen.get(name, amount + 1):
            seen[name] = amount
            self._answers.clear()
