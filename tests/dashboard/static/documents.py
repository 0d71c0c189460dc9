"""A document with something on every page, and one whose every string is an attack."""

import types
import typing
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

from dovetail.view.document import (
    VERSION,
    BlockerView,
    ClusterInfo,
    ConditionView,
    DecisionKind,
    DecisionState,
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
    PodView,
    SavingsByReason,
    SavingsView,
    Totals,
    Usage,
    View,
    WorkloadView,
)

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
PAYLOAD = """<img src=x onerror="window.pwned=1">'"><script>window.pwned=1</script>"""


def rich_node(key: str, *, state: NodeState = NodeState.READY, pods: int = 6, zone: str = "a") -> NodeView:
    workloads = (
        WorkloadView(
            namespace="shop",
            kind="Deployment",
            name="web",
            pods=tuple(PodView(name=f"web-{key}-{i}", cpu=250, memory=512 << 20) for i in range(pods)),
        ),
        WorkloadView(
            namespace="kube-system", kind="DaemonSet", name="cni", pods=(PodView(name=f"cni-{key}", cpu=50),)
        ),
    )
    return NodeView(
        key=key,
        name=f"ip-10-0-0-{key}.ec2.internal",
        node_claim=key,
        node_pool="default",
        state=state,
        state_since=START,
        instance_type="m6g.large",
        zone=f"us-east-1{zone}",
        capacity_type="spot",
        arch="arm64",
        price_per_hour=0.077,
        created_at=START - timedelta(hours=3),
        cpu=Usage(requested=250 * pods, allocatable=1930),
        memory=Usage(requested=pods * (512 << 20), allocatable=7 << 30),
        pods=Usage(requested=pods + 1, allocatable=29),
        workloads=workloads if pods else (),
        conditions=(ConditionView(type="Drifted", status="True", reason="AMIDrift", message="a newer AMI"),),
        keep=KeepView(
            code="spared",
            message="Pdb shop/web prevents pod evictions",
            blocker=ObjectRef(kind="PodDisruptionBudget", name="shop/web"),
        ),
    )


def rich_view(seconds: float = 0, *, nodes: tuple[NodeView, ...] | None = None, **more: Any) -> View:
    if nodes is None:
        states = [NodeState.LAUNCHING, NodeState.JOINING, NodeState.DRAINING, NodeState.NOT_READY]
        nodes = tuple(rich_node(str(10 + i), zone="abc"[i % 3]) for i in range(6))
        nodes += tuple(rich_node(str(20 + i), state=state) for i, state in enumerate(states))
    values: dict[str, Any] = {
        "cluster": ClusterInfo(name="production", source="live", autoscaler="dovetail", region="us-east-1"),
        "totals": Totals(
            nodes=len(nodes),
            pods=60,
            pending_pods=1,
            price_per_hour=0.77,
            price_per_month=562.1,
            cpu=Usage(requested=15000, allocatable=19300),
            memory=Usage(requested=30 << 30, allocatable=70 << 30),
            lower_bound_per_hour=0.6,
            gap_per_hour=0.17,
            blocked_saving_per_hour=0.1,
            available_saving_per_hour=0.02,
        ),
        "savings": SavingsView(
            since=START,
            expected=1.2,
            realized=1.1,
            by_reason={"Underutilized": SavingsByReason(decisions=1, nodes=2, expected=1.2, realized=1.1)},
        ),
        "node_pools": {"default": NodePoolView(name="default", nodes=len(nodes))},
        "pending_pods": {
            "shop/big": PendingPodView(
                key="shop/big",
                namespace="shop",
                name="big",
                cpu=64000,
                memory=1 << 30,
                reason=PendingReason.CANNOT_BE_SCHEDULED,
                messages=("NodePool default: no instance type has 64 CPUs",),
                nearest_fit="m6g.16xlarge would fit without the limit of 8 CPUs",
            )
        },
        "decisions": {
            "c1": DecisionView(
                key="c1",
                kind=DecisionKind.CONSOLIDATED,
                at=START + timedelta(seconds=20),
                state=DecisionState.RUNNING,
                reason="Underutilized",
                message="its pods fit on other nodes",
                node_pools=("default",),
                nodes=("ip-10-0-0-10.ec2.internal", "gone"),
                replacements=("21",),
                expected_per_hour=0.2134,
                realized_per_hour=0.2,
                realized=1.1,
                pods=4,
            ),
            "l1": DecisionView(
                key="l1", kind=DecisionKind.LAUNCHED, at=START + timedelta(seconds=5), node_claims=("20",)
            ),
            "r1": DecisionView(
                key="r1", kind=DecisionKind.REFUSED, at=START, reason="budget", nodes=("ip-10-0-0-11",)
            ),
        },
        "blockers": {
            "pdb": BlockerView(
                key="pdb",
                kind="PodDisruptionBudget",
                name="shop/web",
                message="prevents pod evictions",
                nodes=("ip-10-0-0-10.ec2.internal",),
                price_per_hour=0.4,
                saving_per_hour=0.1,
            )
        },
        "notices": {"n": Notice(code="n", message="Karpenter runs here", remedy="see migrate")},
        **more,
    }
    return View(at=START + timedelta(seconds=seconds), nodes={node.key: node for node in nodes}, **values)


def hostile_view() -> View:
    """Return a document in which every string and every key is the attack."""
    view: View = _hostile(View)
    claim: NodeClaimView = _hostile(NodeClaimView)
    claims = {PAYLOAD: msgspec.structs.replace(claim, name=PAYLOAD)}
    return msgspec.structs.replace(view, version=VERSION, at=START, node_claims=claims)


def _hostile(kind: Any) -> Any:
    """Return a value of a type, with the attack in every string."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        return PAYLOAD
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: _hostile(hints[field.name]) for field in msgspec.structs.fields(kind)})
    if origin is tuple:
        return (_hostile(arguments[0]),)
    if origin is dict:
        return {PAYLOAD: _hostile(arguments[1])}
    if origin in (typing.Union, types.UnionType):
        return _hostile(next(each for each in arguments if each is not type(None)))
    return {int: 7, float: 0.5, bool: True, datetime: START}[kind]
