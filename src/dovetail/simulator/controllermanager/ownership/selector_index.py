"""Index of label selectors: finds those that match a set of labels."""

from collections.abc import Iterator, Mapping

from dovetail.simulator.apiserver.storage.selectors import LabelSelector, Operator, labels_match
from dovetail.simulator.apiserver.storage.store import ObjectKey

_Bucket = tuple[str, str, str]
_ANY = ("", "")


class SelectorIndex:
    """Selectors by one label that they require, so that most are never evaluated."""

    def __init__(self) -> None:
        self._terms: dict[ObjectKey, LabelSelector] = {}
        self._buckets: dict[_Bucket, dict[ObjectKey, None]] = {}

    def update(self, key: ObjectKey, terms: LabelSelector) -> None:
        """Add the selector of the object at ``key``, or replace it."""
        if self._terms.get(key) == terms:
            return
        self.remove(key)
        self._terms[key] = terms
        for bucket in _buckets(key[0], terms):
            self._buckets.setdefault(bucket, {})[key] = None

    def remove(self, key: ObjectKey) -> None:
        terms = self._terms.pop(key, None)
        if terms is None:
            return
        for bucket in _buckets(key[0], terms):
            del self._buckets[bucket][key]
            if not self._buckets[bucket]:
                del self._buckets[bucket]

    def matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[ObjectKey]:
        """Yield the keys in a namespace whose selector matches the labels."""
        for label in (_ANY, *labels.items()):
            for key in tuple(self._buckets.get((namespace, *label), ())):
                if labels_match(self._terms[key], labels):
                    yield key


def _buckets(namespace: str, terms: LabelSelector) -> list[_Bucket]:
    for term in terms:
        if term.operator is Operator.IN:
            return [(namespace, term.key, value) for value in sorted(term.values)]
    return [(namespace, *_ANY)]
