"""What is there: every kind looked for, with calls that change nothing."""

from collections.abc import Sequence
from typing import Any

from dovetail.eks.plan.references import Reference, Unresolved, resolved
from dovetail.eks.plan.resolver import found
from dovetail.eks.plan.resource import Account, Existing, Observed, Resource
from dovetail.eks.resources.handler import Handler
from dovetail.ports.event_loop import Loop


class Observer:
    """Looks with one handler a kind, in two goes.

    What joins others (a route, an access entry) is known by what it joins; so
    those are looked for once the others have been found.
    """

    def __init__(
        self,
        *,
        loop: Loop,
        account: Account,
        cluster: str,
        goes: Sequence[Sequence[Handler]],
    ) -> None:
        self._loop = loop
        self._account = account
        self._cluster = cluster
        self._goes = goes

    async def observe(self, wanted: Sequence[Resource]) -> Observed:
        """Return all that is wanted and there, and all that is tagged as the cluster's."""
        by_address = {one.address: one for one in wanted}
        observed = Observed(account=self._account)
        for handlers in self._goes:
            known = dict(observed.resources)
            looks = [self._look(one, wanted, by_address, observed) for one in handlers]
            for seen in await self._loop.together(looks):
                if isinstance(seen, Exception):
                    raise seen
                known |= {one.address: one for one in seen}
            observed = Observed(account=self._account, resources=known)
        return observed

    async def _look(
        self,
        handler: Handler,
        wanted: Sequence[Resource],
        by_address: dict[str, Resource],
        observed: Observed,
    ) -> list[Existing]:
        def look_up(reference: Reference) -> Any:
            try:
                return found(reference, observed=observed, wanted=by_address)
            except Unresolved:
                return str(reference)

        mine = [
            Resource(
                kind=one.kind,
                name=one.name,
                properties=resolved(one.properties, look_up),
                tags=one.tags,
                given=one.given,
            )
            for one in wanted
            if one.kind == handler.kind
        ]
        return list(await handler.observe(self._cluster, mine))
