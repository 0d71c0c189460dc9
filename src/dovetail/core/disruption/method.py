"""Disruption method: one reason to disrupt nodes, and how it selects them.

A method is a value. Controllers and ``explain`` read everything that differs
between methods from it, so that a new method is a new module plus one entry
in ``registry.METHODS``.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.core.disruption.candidates import Candidate, DisruptionClass, StateNode
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings


class Eligibility(msgspec.Struct, frozen=True):
    """Eligibility of a node for a method, before candidate checks and budgets."""

    is_eligible: bool = False
    eligible_at: datetime | None = None
    """When the node becomes eligible if nothing changes until then."""
    disabled_by: str = ""
    """The setting that disables the method for a node that qualifies otherwise."""


ELIGIBLE: Final = Eligibility(is_eligible=True)
NOT_ELIGIBLE: Final = Eligibility()


class MethodInput(msgspec.Struct, frozen=True, kw_only=True):
    """Input of ``Method.decide``."""

    candidates: tuple[Candidate, ...]
    allowed_disruptions: Mapping[str, int]
    """NodePool → nodes that its budgets allow to disrupt now."""
    context: DisruptionContext | None = None
    """The whole cluster; set for methods with ``needs_context``."""
    limit_headroom: Mapping[str, int] = FrozenDict()
    """Static NodePool → nodes that ``limits.nodes`` allows beside the existing ones."""
    settings: ConsolidationSettings = ConsolidationSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    policy: Policy = DEFAULT_POLICY
    """Finds and chooses the moves of consolidation."""

    @property
    def required_context(self) -> DisruptionContext:
        """The context; ValueError if there is none."""
        if self.context is None:
            raise ValueError("a disruption method with needs_context got no context")
        return self.context


class Decision(msgspec.Struct, frozen=True):
    """Result of ``Method.decide``."""

    commands: tuple[Command, ...] = ()
    """To be started in this order."""
    over_budget: tuple[Candidate, ...] = ()
    keep_reasons: tuple[KeepReason, ...] = ()
    policy_failure: str = ""
    """Why the plug-in did not choose the commands; empty: it did, or was not asked."""
    policy_answered: bool = False
    """A plug-in was asked and answered."""


class ValidationFailure(msgspec.Struct, frozen=True):
    """Why a command is dropped."""

    code: str
    """``churn``, ``budget`` or ``scheduling``."""
    message: str


class ValidationResult(msgspec.Struct, frozen=True):
    """Commands that are still valid, and the others with their failures."""

    valid: tuple[Command, ...] = ()
    failures: tuple[tuple[Command, ValidationFailure], ...] = ()


Validate = Callable[
    [Sequence[Command], DisruptionContext, Mapping[str, int], SchedulingSettings], ValidationResult
]
"""(commands, new context, allowed disruptions by NodePool, scheduling settings)."""


class Validation(msgspec.Struct, frozen=True):
    """Second evaluation of commands on a new context, before they start."""

    delay: timedelta
    """Time between decision and validation."""
    validate: Validate


def get_claim_backoff_key(claim: NodeClaim) -> str:
    """Return the key under which failed replacements of one NodeClaim are counted."""
    return f"{claim.pool}/{claim.name}"


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One disruption method. Several methods may share a reason."""

    reason: DisruptionReason
    """Selects the budgets; also the reason in conditions, Events and metrics."""
    disruption_class: DisruptionClass
    check_eligibility: Callable[[StateNode, NodePool | None, datetime], Eligibility]
    """Called for every node in every scan: must be cheap for nodes that do not qualify."""
    get_ineligible_reason: Callable[[Candidate], str | None] = lambda _: None
    """Return why an eligible candidate cannot be disrupted by this method, or None."""
    decide: Callable[[MethodInput], Decision]
    needs_empty_nodes: bool = False
    """Only empty nodes are eligible: a scan leaves out nodes that have pods."""
    needs_context: bool = False
    """``decide`` needs the whole cluster. It runs in a thread, at most once per scan interval."""
    get_time_state: Callable[[DisruptionContext], Hashable] | None = None
    """Returns what ``decide`` derives from the time of its context.

    If it and the rest of the input are equal, so is the decision, which need not be computed
    again. None: unknown.
    """
    trigger_condition: str = ""
    """NodeClaim condition that eligible nodes have; when it becomes True, the scan interval is skipped."""
    validation: Validation | None = None
    """None: commands start at once."""
    launches_replacements: bool = True
    """Commands may launch nodes. If False, failed replacements do not delay the method."""
    backoff_key: Callable[[NodeClaim], str] = get_claim_backoff_key
    """NodeClaims with equal keys share the backoff after a failed replacement."""
    consolidation_type: Callable[[int], str] = lambda _: ""
    """Number of disrupted nodes → value of the metric label ``consolidation_type``."""
    explain: Callable[[NodeClaim], str] | None = None
    """Why an eligible node is disrupted. None: that depends on other nodes, ask ``decide``."""
