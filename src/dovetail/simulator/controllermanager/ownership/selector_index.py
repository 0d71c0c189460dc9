"""Finding whose selector matches some labels without asking everybody."""

from collections.abc import Iterator, Mapping

from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.selectors import Ask, LabelTerms, labels_match

_Bucket = tuple[str, str, str]
_ANY = ("", "")


class SelectorIndex:
    """Selectors by one label that they ask for, so that most are never looked at."""

    def __init__(self) -> None:
        self._terms: dict[Key, LabelTerms] = {}
        self._buckets: dict[_Bucket, dict[Key, None]] = {}

    def put(self, key: Key, terms: LabelTerms) -> None:
        """Keep the selector of the object at ``key``, in place of an earlier one."""
        if self._terms.get(key) == terms:
            return
        self.drop(key)
        self._terms[key] = terms
        for bucket in _buckets(key[0], terms):
            self._buckets.setdefault(bucket, {})[key] = None

    def drop(self, key: Key) -> None:
        terms = self._terms.pop(key, None)
        if terms is None:
            return
        for bucket in _buckets(key[0], terms):
            del self._buckets[bucket][key]
            if not self._buckets[bucket]:
                del self._buckets[bucket]

    def matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Key]:
        """Return the keys in a namespace whose selector matches the labels."""
        for label in (_ANY, *labels.items()):
            for key in tuple(self._buckets.get((namespace, *label), ())):
                if labels_match(self._terms[key], labels):
                    yield key


def _buckets(namespace: str, terms: LabelTerms) -> list[_Bucket]:
    for term in terms:
        if term.test is Ask.IN:
            return [(namespace, term.key, value) for value in sorted(term.values)]
    return [(namespace, *_ANY)]
