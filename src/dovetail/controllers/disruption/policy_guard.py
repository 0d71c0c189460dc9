"""Policy guard: stops asking a consolidation policy that fails.

A failed policy is asked again after a backoff; until then every move is taken, as without
it. After several failures in a row it is switched off until the process restarts.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import CONSOLIDATION_POLICY_FAILED
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.policy import Policy
from dovetail.ports.metrics import CONSOLIDATION_POLICY_ENABLED, CONSOLIDATION_POLICY_FAILURES, PolicyLabels

MAX_FAILURES: Final = 5
"""Failures in a row after which the policy is switched off."""
_FIRST_BACKOFF: Final = timedelta(minutes=1)
"""Doubles with every failure in a row."""


class PolicyGuard(ControllerBase):
    """Counts failures of the policy and reports them."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._policy = context.consolidation_policy
        self._labels = PolicyLabels(policy=self._policy.name)
        self._failures = 0
        self._blocked_until: datetime | None = None
        if self._policy.choose is not None:
            self._metrics.set(CONSOLIDATION_POLICY_ENABLED, 1, self._labels)

    @property
    def is_switched_off(self) -> bool:
        return self._failures >= MAX_FAILURES

    def get_policy(self, now: datetime) -> Policy:
        """Return the policy; one that takes every move while the policy is not asked."""
        is_blocked = self._blocked_until is not None and now < self._blocked_until
        return replace(self._policy, choose=None) if is_blocked or self.is_switched_off else self._policy

    def record_success(self) -> None:
        """Forget earlier failures."""
        self._failures, self._blocked_until = 0, None

    def record_failure(self, failure: str, candidates: Iterable[Candidate]) -> None:
        """Start a backoff, and report the failure on the NodePools of the candidates."""
        self._failures += 1
        backoff = _FIRST_BACKOFF * 2 ** (self._failures - 1)
        self._blocked_until = self._loop.now() + backoff
        self._metrics.inc(CONSOLIDATION_POLICY_FAILURES, self._labels)
        next_step = f"it is asked again in {backoff.total_seconds() / 60:.0f} min"
        if self.is_switched_off:
            next_step = f"after {self._failures} failures in a row it is switched off until a restart"
            self._metrics.set(CONSOLIDATION_POLICY_ENABLED, 0, self._labels)
        self._log.error(
            "consolidation policy failed", policy=self._policy.name, error=failure, next_step=next_step
        )
        message = (
            f"Consolidation policy {self._policy.name!r} failed: {failure}; every worthwhile move is "
            f"taken instead; {next_step}"
        )
        for pool in {candidate.pool.name: candidate.pool for candidate in candidates}.values():
            self._events.publish(pool, CONSOLIDATION_POLICY_FAILED, message)
