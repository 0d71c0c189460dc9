"""Condition transitions: an Event and a metric per status change of a condition."""

from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import condition_transition
from dovetail.controllers.runtime.manager import Controller
from dovetail.core.conditions import NODECLAIM_CONDITIONS, NODEPOOL_CONDITIONS
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import UNKNOWN
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, Resource
from dovetail.ports.metric_types import Counter
from dovetail.ports.metrics import (
    NODECLAIM_CONDITION_TRANSITIONS,
    NODEPOOL_CONDITION_TRANSITIONS,
    TransitionLabels,
)
from dovetail.state.cluster.cache import ObjectChange

_ORDER: Final = (*NODECLAIM_CONDITIONS.dependents, *NODEPOOL_CONDITIONS.dependents, NODECLAIM_CONDITIONS.root)


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that changed its status."""

    object: NodeClaim | NodePool
    type: str
    before: str
    after: str
    reason: str


class TransitionReporter(ControllerBase):
    """Collects transitions in its event handler and reports them in ``reconcile``.

    Transitions that a crash interrupts are lost.
    """

    def __init__(self, metric: Counter[TransitionLabels], context: ControllerContext) -> None:
        super().__init__(context)
        self._metric = metric
        self._pending: dict[str, list[Transition]] = {}

    def handle_change(self, change: ObjectChange) -> Iterable[str]:
        """Return the object's name if one of its conditions has a new status."""
        old, new = change.old, change.new
        if old is None or new is None or old.conditions == new.conditions:
            return ()
        transitions = get_transitions(old, new)
        if not transitions:
            return ()
        name: str = new.name
        self._pending.setdefault(name, []).extend(transitions)
        return (name,)

    async def reconcile(self, name: str) -> None:
        for transition in self._pending.pop(name, ()):
            message = (
                f"Status condition transitioned, Type: {transition.type}, "
                f"Status: {transition.before} -> {transition.after}, Reason: {transition.reason}"
            )
            self._events.publish(transition.object, condition_transition(transition.type), message)
            self._metrics.inc(
                self._metric,
                TransitionLabels(type=transition.type, status=transition.after, reason=transition.reason),
            )


def get_transitions(before: NodeClaim | NodePool, after: NodeClaim | NodePool) -> list[Transition]:
    """Return conditions with a new status; a new condition counts as Unknown before."""
    transitions = []
    for condition_type in sorted(after.conditions, key=_get_order):
        condition = after.conditions[condition_type]
        previous = before.conditions.get(condition_type)
        status = UNKNOWN if previous is None else previous.status
        if status != condition.status:
            transitions.append(
                Transition(
                    object=after,
                    type=condition_type,
                    before=status,
                    after=condition.status,
                    reason=condition.reason,
                )
            )
    return transitions


def _get_order(condition_type: str) -> tuple[int, str]:
    """Sort conditions that change together by their dependencies."""
    return (_ORDER.index(condition_type) if condition_type in _ORDER else len(_ORDER), condition_type)


def nodeclaim_controller(context: ControllerContext) -> Controller:
    """Return the registration for NodeClaims."""
    return _controller("nodeclaim.status", NODE_CLAIMS, NODECLAIM_CONDITION_TRANSITIONS, context)


def nodepool_controller(context: ControllerContext) -> Controller:
    """Return the registration for NodePools."""
    return _controller("nodepool.status", NODE_POOLS, NODEPOOL_CONDITION_TRANSITIONS, context)


def _controller(
    name: str, resource: Resource, metric: Counter[TransitionLabels], context: ControllerContext
) -> Controller:
    reconciler = TransitionReporter(metric, context)
    return Controller(name=name, reconciler=reconciler, watches=[(resource, reconciler.handle_change)])
