"""Memory capacity observed on nodes, by AMI and instance type."""

from collections.abc import Iterable, Mapping

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import MEMORY
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.store import ObjectChange

_NOTHING: FrozenDict[str, int] = FrozenDict()


class ObservedMemory:
    """Minimum observed memory; instance types without an observation are estimated.

    The memory that a kernel reserves depends on the AMI, so observations are per
    AMI. After a restart all nodes are observed again.
    """

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._bytes_by_image: dict[str, dict[str, int]] = {}
        """AMI → instance type → bytes."""
        self._results: dict[tuple[str, ...], FrozenDict[str, int]] = {}
        # Node and NodeClaim arrive in any order.
        cache.subscribe(NODES, self._on_node)
        cache.subscribe(NODE_CLAIMS, self._on_claim)

    def get(self, images: Iterable[str]) -> Mapping[str, int]:
        """Return instance type → bytes; the same object until there are new observations."""
        key = tuple(images)
        result = self._results.get(key)
        if result is None:
            least: dict[str, int] = {}
            for image in key:
                for name, amount in self._bytes_by_image.get(image, _NOTHING).items():
                    least[name] = min(amount, least.get(name, amount))
            result = self._results[key] = FrozenDict(least)
        return result

    def _on_node(self, change: ObjectChange) -> None:
        if change.new is not None:
            for claim in self._cache.claims_of(change.new.provider_id):
                self._record(change.new, claim)

    def _on_claim(self, change: ObjectChange) -> None:
        if change.new is not None and change.new.provider_id:
            for node in self._cache.nodes_of(change.new.provider_id):
                self._record(node, change.new)

    def _record(self, node: NodeObject, claim: NodeClaim) -> None:
        name = node.labels.get(label_keys.INSTANCE_TYPE, "")
        amount = node.capacity.get(MEMORY, 0)
        is_registered = node.labels.get(label_keys.REGISTERED) == "true"
        if not (name and amount and claim.image_id and is_registered):
            return
        by_type = self._bytes_by_image.setdefault(claim.image_id, {})
        if amount < by_type.get(name, amount + 1):
            by_type[name] = amount
            self._results.clear()
