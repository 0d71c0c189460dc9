"""Observation: read the resources that exist, with calls that change nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.eks.plan.references import Reference, UnresolvedReferenceError, resolve_references
from dovetail.eks.plan.resolver import resolve_reference
from dovetail.eks.plan.resource import Account, DesiredResource, ObservedResource, ObservedState
from dovetail.eks.resources.handler import Handler
from dovetail.ports.event_loop import EventLoop


class Observer:
    """Observes with every handler, one group of handlers after the other.

    A resource that joins others (a route, an access entry) is identified by what
    it joins. Its handler is in the second group and runs once those are known.
    """

    def __init__(
        self, *, loop: EventLoop, account: Account, cluster: str, handler_groups: Sequence[Sequence[Handler]]
    ) -> None:
        self._loop = loop
        self._account = account
        self._cluster = cluster
        self._handler_groups = handler_groups

    async def observe(self, desired: Sequence[DesiredResource]) -> ObservedState:
        """Return desired resources that exist, and all that the cluster owns."""
        by_address = {resource.address: resource for resource in desired}
        state = ObservedState(account=self._account)
        for handlers in self._handler_groups:
            resources = dict(state.resources)
            results = await self._loop.gather(
                [self._observe_kind(handler, by_address, state) for handler in handlers]
            )
            for result in results:
                if isinstance(result, Exception):
                    raise result
                resources |= {resource.address: resource for resource in result}
            state = ObservedState(account=self._account, resources=resources)
        return state

    async def _observe_kind(
        self, handler: Handler, desired: Mapping[str, DesiredResource], state: ObservedState
    ) -> list[ObservedResource]:
        def lookup(reference: Reference) -> Any:
            try:
                return resolve_reference(reference, observed=state, desired=desired)
            except UnresolvedReferenceError:
                return str(reference)

        resources = [
            DesiredResource(
                kind=resource.kind,
                name=resource.name,
                properties=resolve_references(resource.properties, lookup),
                tags=resource.tags,
                external=resource.external,
            )
            for resource in desired.values()
            if resource.kind == handler.kind
        ]
        return list(await handler.observe(self._cluster, resources))
