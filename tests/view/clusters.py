"""Small clusters of decoded objects, and their documents."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.pod import OwnerReference, Pod, PodPhase, PodSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.node import NodeObject
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.build import ViewInputs, build_view
from dovetail.view.document import View
from tests.support.scheduling.instance_types import DEFAULT_TYPES

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BORN = NOW - timedelta(hours=1)
TYPE = DEFAULT_TYPES[0]
OFFERING = TYPE.offerings[0]
_ALLOCATABLE = Resources({"cpu": 3900, "memory": 8 << 30, "pods": 58})

Environment = dict[Resource, list[Any]]


def conditions(*types: str, since: datetime = BORN) -> FrozenDict[str, Condition]:
    return FrozenDict(
        {name: Condition(status=TRUE, reason=name, last_transition_time=since) for name in types}
    )


def an_environment(**pool: Any) -> Environment:
    values = {"name": "default", "conditions": conditions("Ready"), **pool}
    return {kinds.NODE_POOLS: [NodePool(**values)], kinds.NODES: [], kinds.NODE_CLAIMS: [], kinds.PODS: []}


def labels(**more: str) -> FrozenDict[str, str]:
    return FrozenDict(
        {
            label_keys.NODEPOOL: "default",
            label_keys.INSTANCE_TYPE: TYPE.name,
            label_keys.ZONE: OFFERING.zone,
            label_keys.CAPACITY_TYPE: OFFERING.capacity_type,
            label_keys.REGISTERED: "true",
            label_keys.INITIALIZED: "true",
            **more,
        }
    )


def add_node(
    env: Environment,
    name: str = "node",
    *,
    annotations: dict[str, str] | None = None,
    claim: dict[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Add a ready node of the NodePool with its NodeClaim."""
    provider_id = f"aws:///zone/i-{name}"
    values = {
        "labels": labels(),
        "provider_id": provider_id,
        "created": BORN,
        "capacity": _ALLOCATABLE,
        "allocatable": _ALLOCATABLE,
        "conditions": conditions("Ready"),
        "annotations": FrozenDict(annotations or {}),
        **fields,
    }
    env[kinds.NODES].append(NodeObject(name=name, **values))
    add_claim(env, f"claim-{name}", **{"provider_id": provider_id, "node_name": name, **(claim or {})})


def add_claim(env: Environment, name: str, **fields: Any) -> None:
    values = {
        "uid": name,
        "labels": labels(),
        "created": BORN,
        "conditions": conditions("Launched", "Registered", "Initialized"),
        **fields,
    }
    env[kinds.NODE_CLAIMS].append(NodeClaim(name=name, **values))


def add_pod(env: Environment, name: str = "web-abc-1", **fields: Any) -> None:
    values = {
        "uid": name,
        "node_name": "node",
        "phase": PodPhase.RUNNING,
        "labels": FrozenDict({"pod-template-hash": "abc"}),
        "owner": OwnerReference("apps/v1", "ReplicaSet", "web-abc"),
        "spec": PodSpec(requests=Resources({"cpu": 500, "memory": 1 << 30, "pods": 1})),
        "annotations": FrozenDict(fields.pop("annotations", {})),
        **fields,
    }
    env[kinds.PODS].append(Pod(name=name, **values))


def a_cache(env: Environment) -> ClusterCache:
    return ClusterCache.from_objects(env)


def a_view(env: Environment, **inputs: Any) -> View:
    values = {"now": NOW, "types": {"default": DEFAULT_TYPES}, **inputs}
    return build_view(a_cache(env), ViewInputs(**values))
