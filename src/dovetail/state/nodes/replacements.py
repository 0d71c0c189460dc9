"""Replacements under way, found by the claims that go and by those that come."""

from collections.abc import Iterable

from dovetail.core.disruption.replacement import Undertaking, read_undertaking
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.store import Change


class Undertakings:
    """What claims say of whom they replace; nothing that is not in the API server."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._of: dict[str, Undertaking] = {}
        """By the name of a claim that was made for it."""
        self._known: dict[str, Undertaking] = {}
        self._leaving: dict[str, set[str]] = {}
        """Keys, by the name of a claim that goes."""
        mirror.subscribe(NODE_CLAIMS, self._of_claim)

    def get(self, key: str) -> Undertaking | None:
        return self._known.get(key)

    def all(self) -> Iterable[Undertaking]:
        return self._known.values()

    def concerning(self, claim: NodeClaim) -> list[str]:
        """Return the keys of all in which a claim has a part, coming or going."""
        keys = set(self._leaving.get(claim.name, ()))
        made_for = read_undertaking(claim)
        if made_for is not None:
            keys.add(made_for.key)
        return sorted(keys)

    def takes(self, claim: NodeClaim) -> bool:
        """Tell whether a claim goes once its replacements are ready."""
        return any(
            (one.name, one.uid) == (claim.name, claim.uid)
            for key in self._leaving.get(claim.name, ())
            for one in self._known[key].leaving
        )

    def waiting(self) -> int:
        """Return how many nodes wait for what replaces them."""
        return sum(
            1
            for one in self._known.values()
            for it in one.leaving
            if (claim := self._mirror.claim(it.name)) and claim.uid == it.uid and not claim.deleting
        )

    def _of_claim(self, change: Change) -> None:
        name, new = change.either.name, change.new
        before = self._of.get(name)
        after = read_undertaking(new) if new is not None else None
        if before == after:
            return
        if before is not None:
            del self._of[name]
            if all(other not in self._of for other in before.replacements):
                self._drop(before)
        if after is not None:
            self._of[name] = self._known[after.key] = after
            for one in after.leaving:
                self._leaving.setdefault(one.name, set()).add(after.key)

    def _drop(self, one: Undertaking) -> None:
        self._known.pop(one.key, None)
        for it in one.leaving:
            keys = self._leaving.get(it.name, set())
            keys.discard(one.key)
            if not keys:
                self._leaving.pop(it.name, None)
