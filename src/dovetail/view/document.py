"""Document of the live view, for ``dovetail top``, dashboard and JSON.

JSON names are in camel case. CPU is in millicores, memory in bytes, money in the
currency of the prices, times in RFC 3339. Ages and durations are left to the
reader: a document of an unchanged cluster differs in ``at`` only.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

VERSION: Final = 2
"""Incremented when a field is removed or changes its meaning; new fields do not count."""
HOURS_PER_MONTH: Final = 730


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Part of the document."""


class NodeState(StrEnum):
    """Where a node is in its life."""

    LAUNCHING = "launching"
    """A NodeClaim without an instance."""
    JOINING = "joining"
    """The instance runs, but the node is not initialized."""
    READY = "ready"
    NOT_READY = "notReady"
    DISRUPTED = "disrupted"
    """Tainted; its replacement is starting."""
    DRAINING = "draining"
    TERMINATING = "terminating"
    """Drained; the instance is being terminated."""


class ClaimPhase(StrEnum):
    """Step of a NodeClaim in flight."""

    LAUNCH = "launch"
    REGISTRATION = "registration"
    INITIALIZATION = "initialization"
    DRAIN = "drain"
    VOLUME_DETACHMENT = "volumeDetachment"
    TERMINATION = "termination"


class DecisionKind(StrEnum):
    """Kind of a decision."""

    LAUNCHED = "launched"
    CONSOLIDATED = "consolidated"
    DRIFTED = "drifted"
    EXPIRED = "expired"
    INTERRUPTED = "interrupted"
    REPAIRED = "repaired"
    DELETED = "deleted"
    """By a user, or by the controller for another reason."""
    REFUSED = "refused"
    """Not disrupted, or not launched."""


class DecisionState(StrEnum):
    """Progress of a disruption."""

    RUNNING = "running"
    """Replacements start, or nodes drain."""
    DONE = "done"
    FAILED = "failed"
    """Rolled back: the nodes were kept."""


class PendingReason(StrEnum):
    """Why a pod has no node."""

    NODE_ON_ITS_WAY = "nodeOnItsWay"
    FITS_EXISTING_NODE = "fitsExistingNode"
    """kube-scheduler has not bound it yet."""
    NODE_WILL_BE_LAUNCHED = "nodeWillBeLaunched"
    CANNOT_BE_SCHEDULED = "cannotBeScheduled"
    NOT_PROVISIONABLE = "notProvisionable"
    """Not for the autoscaler: not marked unschedulable yet, or gated."""
    UNKNOWN = "unknown"
    """Not evaluated yet."""


class PriceBasis(StrEnum):
    """Where the price of a node comes from."""

    OFFERING = "offering"
    """Its offering in the NodePool: instance type, zone and capacity type."""
    PRICE_BOOK = "priceBook"
    """Price book by instance type and zone: a node without NodePool, or of a removed offering."""
    UNKNOWN = "unknown"


class Usage(_Part, frozen=True, kw_only=True):
    """Requests of pods, and the allocatable amount."""

    requested: int = 0
    allocatable: int = 0


class ObjectRef(_Part, frozen=True, kw_only=True):
    """Kind and name of an object; ``namespace/name`` if it has a namespace."""

    kind: str
    name: str


class ConditionView(_Part, frozen=True, kw_only=True):
    """A condition that deserves attention."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None


class PodView(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A pod on a node; JSON leaves out fields with their default, since there are many pods."""

    name: str
    cpu: int = 0
    memory: int = 0
    phase: str = "Running"
    ready: bool = True
    deleting: bool = False
    do_not_disrupt: bool = False
    created_at: datetime | None = None


class WorkloadView(_Part, frozen=True, kw_only=True):
    """Pods of one workload on one node."""

    namespace: str
    kind: str
    """``Deployment``, ``StatefulSet``, ``DaemonSet``, ``Job``, … ; ``Pod`` for a pod without an owner."""
    name: str
    cpu: int = 0
    memory: int = 0
    """Requests of all pods together."""
    pods: tuple[PodView, ...] = ()


class KeepView(_Part, frozen=True, kw_only=True):
    """Why a node is kept, or that it is about to be disrupted (code ``goes``)."""

    code: str
    message: str
    blocker: ObjectRef | None = None
    """The object to change so that the node can be disrupted."""
    saving_per_hour: float = 0.0
    """Saved by the removal, for code ``goes``."""


class NodeView(_Part, frozen=True, kw_only=True):
    """A node, or a NodeClaim that will become one."""

    key: str
    """Key in ``nodes``: the NodeClaim's name, else the node's; it stays when the node joins."""
    name: str
    """The node's name; until it is known, the NodeClaim's."""
    node_claim: str = ""
    node_pool: str = ""
    state: NodeState
    state_since: datetime | None = None
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    arch: str = ""
    instance_id: str = ""
    price_per_hour: float | None = None
    """Of the instance; None: unknown."""
    price_basis: PriceBasis = PriceBasis.UNKNOWN
    node_cost_per_hour: float = 0.0
    """Beyond the instance: volumes, public address."""
    created_at: datetime | None = None
    conditions: tuple[ConditionView, ...] = ()
    annotations: dict[str, str] = {}
    """``karpenter.sh/do-not-disrupt`` only."""
    cordoned: bool = False
    cpu: Usage = Usage()
    memory: Usage = Usage()
    pods: Usage = Usage()
    """Number of pods, and the maximum."""
    workloads: tuple[WorkloadView, ...] = ()
    """By namespace, kind and name."""
    keep: KeepView | None = None
    """None: not evaluated yet."""


class BudgetView(_Part, frozen=True, kw_only=True):
    """A disruption budget of a NodePool."""

    nodes: str
    reasons: tuple[str, ...] = ()
    """Empty: all."""
    schedule: str = ""
    active: bool = True


class NodePoolView(_Part, frozen=True, kw_only=True):
    """A NodePool with its nodes added up."""

    name: str
    ready: bool = True
    message: str = ""
    """Why it is not ready."""
    node_class: str = ""
    weight: int = 0
    replicas: int | None = None
    """Number of nodes of a static NodePool; None: dynamic."""
    nodes: int = 0
    limits: dict[str, int] = {}
    usage: dict[str, int] = {}
    """Capacity of its nodes: the resources that can be limited."""
    cpu: Usage = Usage()
    memory: Usage = Usage()
    price_per_hour: float = 0.0
    node_cost_per_hour: float = 0.0
    consolidation_policy: str = ""
    consolidate_after_seconds: float | None = None
    """None: never."""
    budgets: tuple[BudgetView, ...] = ()
    allowed_disruptions: dict[str, int] = {}
    """Reason → number of nodes that may be disrupted now."""
    disrupting: int = 0
    """Nodes that count against the budgets now."""


class PendingPodView(_Part, frozen=True, kw_only=True):
    """A pod without a node."""

    key: str
    """``namespace/name``, also its key in ``pendingPods``."""
    namespace: str
    name: str
    workload: ObjectRef | None = None
    cpu: int = 0
    memory: int = 0
    created_at: datetime | None = None
    reason: PendingReason = PendingReason.UNKNOWN
    messages: tuple[str, ...] = ()
    """Why no node can be launched: one line per NodePool or rule."""
    nearest_fit: str = ""
    """Change that would help, or the instance type that would be launched."""
    node: str = ""
    """Existing node that has room."""
    node_claim: str = ""
    """NodeClaim that was created for it."""
    expected_at: datetime | None = None
    """When its node is expected to be initialized, from earlier NodeClaims."""


class PhaseView(_Part, frozen=True, kw_only=True):
    """A phase of a NodeClaim; without ``ended_at`` it lasts."""

    phase: ClaimPhase
    started_at: datetime
    ended_at: datetime | None = None


class NodeClaimView(_Part, frozen=True, kw_only=True):
    """A NodeClaim in flight: not initialized yet, or being deleted."""

    name: str
    node_pool: str = ""
    node: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    phase: ClaimPhase
    phases: tuple[PhaseView, ...] = ()
    message: str = ""
    """Reason why its phase lasts, by its condition."""
    pods: int = 0
    """Pods that it was created for."""
    replaces: tuple[str, ...] = ()
    """NodeClaims that are deleted once it is initialized."""
    created_at: datetime | None = None
    expected_at: datetime | None = None


class DecisionView(_Part, frozen=True, kw_only=True):
    """Something that the autoscaler decided."""

    key: str
    kind: DecisionKind
    at: datetime
    state: DecisionState = DecisionState.DONE
    reason: str = ""
    """Short: ``Empty``, ``Underutilized``, ``Drifted``, ``SpotInterrupted``, … or the code of a refusal."""
    message: str = ""
    node_pools: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    """Nodes that go, or that are kept by a refusal."""
    node_claims: tuple[str, ...] = ()
    """NodeClaims that go or were launched."""
    replacements: tuple[str, ...] = ()
    """NodeClaims launched instead."""
    pods: int = 0
    """Pods that have to move."""
    expected_per_hour: float | None = None
    realized_per_hour: float | None = None
    """Price of what went minus price of what came, now; None: not known yet."""
    realized: float | None = None
    """Amount saved so far."""
    until: datetime | None = None
    """When the saving ended: a replacement is gone; None: it lasts."""


class SavingsByReason(_Part, frozen=True, kw_only=True):
    """Totals of the ledger for one reason."""

    decisions: int = 0
    nodes: int = 0
    expected: float = 0.0
    """Amount if every saving had been as expected for as long as it was counted."""
    realized: float = 0.0
    """Amount saved."""


class SavingsView(_Part, frozen=True, kw_only=True):
    """Totals of the savings ledger."""

    since: datetime | None = None
    """First record; None: no ledger."""
    expected: float = 0.0
    realized: float = 0.0
    expected_per_hour: float = 0.0
    realized_per_hour: float = 0.0
    """Of the decisions whose saving lasts."""
    by_reason: dict[str, SavingsByReason] = {}


class BlockerView(_Part, frozen=True, kw_only=True):
    """An object that prevents disruption, with the nodes that it keeps."""

    key: str
    kind: str
    name: str
    message: str = ""
    nodes: tuple[str, ...] = ()
    price_per_hour: float = 0.0
    """Of all these nodes."""
    saving_per_hour: float | None = None
    """Saved without this blocker; None: not computed."""


class Totals(_Part, frozen=True, kw_only=True):
    """Sums over the cluster."""

    nodes: int = 0
    ready_nodes: int = 0
    pods: int = 0
    """Pods on nodes that have not finished."""
    pending_pods: int = 0
    evictions: int = 0
    """Pods that the Eviction API has evicted, for any cause, since the source began to watch."""
    node_claims: int = 0
    """NodeClaims in flight."""
    price_per_hour: float = 0.0
    price_per_month: float = 0.0
    """In 730 hours."""
    unpriced_nodes: int = 0
    """Nodes with an unknown price, which are not in the sums."""
    node_cost_per_hour: float = 0.0
    cpu: Usage = Usage()
    memory: Usage = Usage()
    target_per_hour: float | None = None
    """Price after a consolidation of all nodes that may be replaced; None: not computed."""
    lower_bound_per_hour: float | None = None
    """No fleet of the NodePools is cheaper for the running pods; None: not computed."""
    gap_per_hour: float | None = None
    """Price minus lower bound."""
    available_saving_per_hour: float = 0.0
    """Of the nodes that are about to be disrupted."""
    blocked_saving_per_hour: float | None = None
    """Held up by blockers; None: not computed."""
    blocked_price_per_hour: float = 0.0
    """Price of the nodes that blockers keep."""
    evaluated_at: datetime | None = None
    """When keep reasons, target, lower bound and blockers were computed; None: not yet."""


class Notice(_Part, frozen=True, kw_only=True):
    """Something that the view cannot show, and why."""

    code: str
    message: str
    remedy: str = ""


class ClusterInfo(_Part, frozen=True, kw_only=True):
    """The cluster that is shown, and its source."""

    name: str = ""
    source: str = ""
    """``live``, ``dump``, ``simulation`` or ``controller``."""
    autoscaler: str = ""
    """``dovetail``, ``karpenter``, or empty if there is none or it is not known."""
    region: str = ""
    prices: str = ""
    """Source and date of the prices, with assumptions."""
    currency: str = "USD"


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The document. All collections are maps by key."""

    version: int = VERSION
    at: datetime
    """The instant that it describes; of a dump, when it was made."""
    cluster: ClusterInfo = ClusterInfo()
    totals: Totals = Totals()
    savings: SavingsView = SavingsView()
    node_pools: dict[str, NodePoolView] = {}
    nodes: dict[str, NodeView] = {}
    pending_pods: dict[str, PendingPodView] = {}
    node_claims: dict[str, NodeClaimView] = {}
    decisions: dict[str, DecisionView] = {}
    blockers: dict[str, BlockerView] = {}
    notices: dict[str, Notice] = {}


def encode_view(view: View) -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(view)


def decode_view(data: bytes) -> View:
    """Return the document of JSON; ``msgspec.ValidationError`` if it is none."""
    return msgspec.json.decode(data, type=View)


def view_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    schema = msgspec.json.schema(View)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Live view of a cluster, version {VERSION}",
        **schema,
    }
