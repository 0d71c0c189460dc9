"""Result of the savings analysis. Field names are stable: add, never rename."""

import msgspec

from dovetail.core.cost.lower_bound import LowerBound
from dovetail.core.cost.node_groups import NodeGroup


class GroupBill(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of one group and what they cost."""

    group: NodeGroup
    nodes: int
    price: float
    """USD per hour of the nodes with a price."""
    unpriced: int = 0
    """Number of nodes without a price."""


class UnpricedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is not in any sum."""

    node: str
    group: NodeGroup
    message: str = msgspec.field(name="because")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the bill or of the saving, and what it assumes."""

    name: str
    price: float
    """USD per hour."""
    assumes: str


class BlockerLine(msgspec.Struct, frozen=True, kw_only=True):
    """An object that prevents the replacement of nodes."""

    blocker: str
    nodes: int
    price: float
    """USD per hour of these nodes; a node with several blockers counts for the first."""
    message: str = msgspec.field(name="because")


class OtherCloud(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster with no node of AWS, and the EC2 instances that its pods would need."""

    clouds: list[str]
    """Such as ``GKE``."""
    pods: int
    """Pods that were planned, DaemonSets' excluded."""
    nodes_on_ec2: int
    price_on_ec2: float
    """USD per hour."""
    unschedulable: int
    """Pods that fit on no EC2 instance."""
    message: str = msgspec.field(name="because", default="")
    """Why the first of them does not."""


class Savings(msgspec.Struct, frozen=True, kw_only=True):
    """Today's bill, where it goes, and what it could be; USD per hour."""

    nodes: int
    pods: int
    today: float
    groups: list[GroupBill]
    unpriced: list[UnpricedNode]
    consolidated: float
    """The bill after consolidation, with all blockers in place."""
    consolidated_nodes: int
    from_scratch: float
    """The bill of a fleet planned from scratch."""
    from_scratch_nodes: int
    bound: float
    """Lower bound: that of the pods, and the price of the nodes that stay in any case."""
    pods_bound: LowerBound
    fixed: float
    """Price of the nodes that stay: Fargate, EKS Auto Mode, and nodes whose pods fit no NodePool."""
    fixed_nodes: int
    uses: list[Line]
    """Where today's bill goes; the sum is ``today``."""
    steps: list[Line]
    """From today's bill down to the lower bound; the sum is ``today``."""
    blockers: list[BlockerLine]
    options: list[Line]
    """Further savings per hour, each alone and relative to the fleet planned from scratch."""
    inferred_pools: list[str]
    """NodePools that were inferred from node groups."""
    notes: list[str]
    """Assumptions, and kinds that are missing."""
    other_cloud: OtherCloud | None = None
    """Set if all nodes are of another cloud: every bill is then 0, because no price is known."""
