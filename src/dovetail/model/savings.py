"""Savings ledger: disruption commands, and the times that give their savings.

A record has times and costs but no amounts: amounts follow from them and the
clock (``core.disruption.savings``), so that a step which is repeated after a
crash counts nothing twice.
"""

from datetime import datetime
from typing import Final

import msgspec

VERSION: Final = 2
"""Of the format in the ConfigMap."""
LEDGER_CONFIG_MAP: Final = "dovetail-savings"
LEDGER_KEY: Final = "ledger.json"
"""Key in the ConfigMap's data."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Part of the ledger; the format leaves out defaults."""


class RemovedNode(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A node that a command removes."""

    claim: str
    uid: str
    node: str
    nodepool: str
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    cost: float = 0.0
    """USD per hour, with node cost."""
    gone_at: datetime | None = None
    """When its NodeClaim was found to be gone: from then on it costs nothing."""
    until: datetime | None = None
    """When its capacity was needed again: the NodePool launched a node for pending pods."""
    kept: bool = False
    """The command failed or was dropped for this node."""


class AddedNode(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A replacement that a command launches."""

    claim: str
    instance_type: str = ""
    cost: float | None = None
    """USD per hour, with node cost; None until it is launched."""
    launched_at: datetime | None = None
    gone_at: datetime | None = None


class SavingsRecord(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """One disruption command."""

    id: str
    at: datetime
    reason: str
    """A ``DisruptionReason``."""
    expected: float = 0.0
    """USD per hour."""
    pods: int = 0
    """Pods that had to move."""
    replacements: int = 0
    """Number of nodes to launch instead."""
    removed: tuple[RemovedNode, ...]
    added: tuple[AddedNode, ...] = ()
    """Replacements that have been found, by the annotations of their NodeClaims."""


class ReasonTotals(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """Sums over commands of one reason; amounts in USD."""

    decisions: int = 0
    nodes: int = 0
    expected: float = 0.0
    """As if every command had saved what it expected, for as long as its saving lasted."""
    realized: float = 0.0


class LaunchCursor(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """Up to where launches have been counted against deletions."""

    at: datetime
    names: tuple[str, ...] = ()
    """NodeClaims created at this very time; creation times have whole seconds."""


class SavingsLedger(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The newest records, and totals of those that were dropped."""

    version: int = VERSION
    since: datetime | None = None
    records: tuple[SavingsRecord, ...] = ()
    """Oldest first."""
    totals: dict[str, ReasonTotals] = {}
    """Reason → sums of dropped records."""
    launches: LaunchCursor | None = None
