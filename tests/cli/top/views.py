"""Documents for tests of ``dovetail top``."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from dovetail.dashboard.sources.source import Publisher, SourceStatus, ViewUpdate
from dovetail.view.document import (
    BlockerView,
    ClaimPhase,
    ClusterInfo,
    DecisionKind,
    DecisionView,
    KeepView,
    NodeClaimView,
    NodePoolView,
    NodeState,
    NodeView,
    Notice,
    ObjectRef,
    PendingPodView,
    PendingReason,
    PhaseView,
    PodView,
    SavingsView,
    Totals,
    Usage,
    View,
    WorkloadView,
)

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
GIB = 1024**3


def node(
    name: str,
    *,
    pool: str = "default",
    price: float | None = 0.0960,
    cpu: int = 1000,
    memory: int = 2 * GIB,
    code: str = "not-cheaper",
    message: str = "a replacement costs as much",
    blocker: ObjectRef | None = None,
    workloads: tuple[WorkloadView, ...] = (),
    **fields: object,
) -> NodeView:
    return NodeView(
        **{
            "key": name,
            "name": f"{name}.ec2.internal",
            "node_claim": f"claim-{name}",
            "node_pool": pool,
            "state": NodeState.READY,
            "instance_type": "m5.large",
            "zone": "us-east-1a",
            "capacity_type": "on-demand",
            "arch": "amd64",
            "price_per_hour": price,
            "created_at": NOW - timedelta(hours=3),
            "cpu": Usage(requested=cpu, allocatable=2000),
            "memory": Usage(requested=memory, allocatable=8 * GIB),
            "pods": Usage(requested=sum(len(each.pods) for each in workloads), allocatable=29),
            "workloads": workloads,
            "keep": KeepView(code=code, message=message, blocker=blocker),
            **fields,
        }
    )


def workload(name: str, pods: int, *, kind: str = "Deployment", cpu: int = 250) -> WorkloadView:
    return WorkloadView(
        namespace="default",
        kind=kind,
        name=name,
        cpu=cpu * pods,
        memory=pods * GIB,
        pods=tuple(
            PodView(name=f"{name}-{number}", cpu=cpu, memory=GIB, created_at=NOW - timedelta(minutes=5))
            for number in range(pods)
        ),
    )


def view_of(*nodes: NodeView, **parts: object) -> View:
    price = sum(each.price_per_hour or 0.0 for each in nodes)
    totals = Totals(
        nodes=len(nodes),
        ready_nodes=sum(each.state is NodeState.READY for each in nodes),
        pods=sum(each.pods.requested for each in nodes),
        pending_pods=len(parts.get("pending_pods", {})),
        price_per_hour=price,
        price_per_month=price * 730,
        unpriced_nodes=sum(each.price_per_hour is None for each in nodes),
        cpu=Usage(
            requested=sum(each.cpu.requested for each in nodes),
            allocatable=sum(each.cpu.allocatable for each in nodes),
        ),
        memory=Usage(
            requested=sum(each.memory.requested for each in nodes),
            allocatable=sum(each.memory.allocatable for each in nodes),
        ),
        lower_bound_per_hour=price / 2,
        gap_per_hour=price / 2,
        blocked_saving_per_hour=0.0321,
    )
    return View(
        **{
            "at": NOW,
            "cluster": ClusterInfo(name="prod", source="dump", autoscaler="dovetail", region="us-east-1"),
            "totals": totals,
            "nodes": {each.key: each for each in nodes},
            **parts,
        }
    )


def small_view() -> View:
    """Return three nodes, a pending pod, a decision, a NodeClaim in flight and a blocker."""
    return view_of(
        node(
            "ip-10-0-0-1",
            price=0.3840,
            cpu=500,
            zone="us-east-1b",
            instance_type="m5.2xlarge",
            code="spared",
            message="Pod default/db-0 has the annotation karpenter.sh/do-not-disrupt",
            blocker=ObjectRef(kind="Pod", name="default/db-0"),
            workloads=(workload("db", 1, kind="StatefulSet"), workload("web", 2)),
        ),
        node("ip-10-0-0-2", cpu=1900, pool="web", capacity_type="spot", price=0.0410),
        node("ip-10-0-0-3", price=None, state=NodeState.DRAINING, code="leaving", message="is being deleted"),
        pending_pods={
            "default/gpu": PendingPodView(
                key="default/gpu",
                namespace="default",
                name="gpu",
                cpu=4000,
                memory=GIB,
                created_at=NOW - timedelta(seconds=90),
                reason=PendingReason.CANNOT_BE_SCHEDULED,
                messages=("NodePool default: no instance type has nvidia.com/gpu",),
                nearest_fit="a NodePool that allows g5.xlarge",
            )
        },
        decisions={
            "d1": DecisionView(
                key="d1",
                kind=DecisionKind.CONSOLIDATED,
                at=NOW - timedelta(minutes=4),
                reason="Underutilized",
                message="replaced by a cheaper node",
                nodes=("ip-10-0-0-9.ec2.internal",),
                replacements=("claim-ip-10-0-0-2",),
                expected_per_hour=0.05,
                realized_per_hour=0.045,
                realized=0.003,
            ),
            "d2": DecisionView(key="d2", kind=DecisionKind.LAUNCHED, at=NOW - timedelta(minutes=9)),
        },
        node_claims={
            "claim-new": NodeClaimView(
                name="claim-new",
                node_pool="default",
                phase=ClaimPhase.REGISTRATION,
                phases=(PhaseView(phase=ClaimPhase.LAUNCH, started_at=NOW - timedelta(seconds=40)),),
                message="node not registered",
                created_at=NOW - timedelta(seconds=40),
            )
        },
        blockers={
            "Pod default/db-0": BlockerView(
                key="Pod default/db-0",
                kind="Pod",
                name="default/db-0",
                message="has the annotation karpenter.sh/do-not-disrupt",
                nodes=("ip-10-0-0-1.ec2.internal",),
                price_per_hour=0.384,
                saving_per_hour=0.0321,
            )
        },
        node_pools={
            "default": NodePoolView(name="default", nodes=2),
            "web": NodePoolView(name="web", nodes=1),
        },
        savings=SavingsView(since=NOW - timedelta(days=1), realized=12.5),
    )


def many_nodes(count: int, pods: int = 25) -> View:
    """Return a large cluster."""
    return view_of(
        *(
            node(
                f"ip-10-{number // 250}-{number % 250}-7",
                price=0.05 + number % 37 / 100,
                cpu=number * 7 % 2000,
                pool=f"pool-{number % 5}",
                zone=f"us-east-1{'abc'[number % 3]}",
                workloads=(workload(f"app-{number % 40}", pods),),
            )
            for number in range(count)
        ),
        notices={"a": Notice(code="a", message="no rights to list persistentvolumes", remedy="grant list")},
    )


class FeedSource:
    """Source whose documents a test publishes."""

    def __init__(self, view: View) -> None:
        self.first = view
        self.is_closed = False

    async def start(self) -> None:
        self._publisher = Publisher()
        await self.publish(self.first)

    async def publish(self, view: View, status: SourceStatus | None = None) -> None:
        await self._publisher.publish(ViewUpdate(view, status or SourceStatus()))

    def current(self) -> ViewUpdate:
        return self._publisher.current()

    def updates(self) -> AsyncIterator[ViewUpdate]:
        return self._publisher.updates()

    async def close(self) -> None:
        self.is_closed = True
        await self._publisher.close()
