"""Tells whenever a condition of a claim or pool comes to another status."""

from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.controllers.runtime.manager import Registration
from dovetail.core.conditions import CLAIM, POOL
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import UNKNOWN
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, Resource
from dovetail.ports.telemetry import Events, Metrics
from dovetail.state.cluster.cache import Change

_ORDER: Final = (*CLAIM.dependents, *POOL.dependents, CLAIM.root)


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that changed its status."""

    uid: str
    kind: str
    before: str
    after: str
    reason: str


class Transitions:
    """Notes what changes, and tells it afterwards; what a crash cuts off is not told."""

    def __init__(self, resource: Resource, *, events: Events, metrics: Metrics) -> None:
        self._resource = resource
        self._events = events
        self._metrics = metrics
        self._noted: dict[str, list[Transition]] = {}

    def note(self, change: Change) -> Iterable[str]:
        """Return the object's name when there is something to tell of it."""
        old, new = change.old, change.new
        if old is None or new is None or old.conditions == new.conditions:
            return ()
        found = transitions(old, new)
        if not found:
            return ()
        name: str = new.name
        self._noted.setdefault(name, []).extend(found)
        return (name,)

    async def reconcile(self, name: str) -> None:
        for one in self._noted.pop(name, ()):
            self._events.publish(
                self._resource,
                name,
                uid=one.uid,
                reason=one.kind,
                message=(
                    f"Status condition transitioned, Type: {one.kind}, "
                    f"Status: {one.before} -> {one.after}, Reason: {one.reason}"
                ),
            )
            self._metrics.count(
                f"operator_{self._resource.kind.lower()}_status_condition_transitions_total",
                type=one.kind,
                status=one.after,
                reason=one.reason,
            )


def transitions(before: NodeClaim | NodePool, after: NodeClaim | NodePool) -> list[Transition]:
    """Return the conditions that changed their status; one that came new was Unknown before."""
    found = []
    for kind in sorted(after.conditions, key=_as_they_come):
        one = after.conditions[kind]
        known = before.conditions.get(kind)
        status = UNKNOWN if known is None else known.status
        if status != one.status:
            found.append(
                Transition(
                    uid=after.uid, kind=kind, before=status, after=one.status, reason=one.reason
                )
            )
    return found


def _as_they_come(kind: str) -> tuple[int, str]:
    """Several may come true at once; they are told in the order in which they depend."""
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), kind)


def claims_registration(*, events: Events, metrics: Metrics) -> Registration:
    """Return the controller that tells of claims."""
    return _registration("nodeclaim.status", NODE_CLAIMS, events, metrics)


def pools_registration(*, events: Events, metrics: Metrics) -> Registration:
    """Return the controller that tells of pools."""
    return _registration("nodepool.status", NODE_POOLS, events, metrics)


def _registration(name: str, resource: Resource, events: Events, metrics: Metrics) -> Registration:
    controller = Transitions(resource, events=events, metrics=metrics)
    return Registration(name=name, controller=controller, watches=[(resource, controller.note)])
