"""Machines that run already: instance, claim and node of each, and pods on them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import (
    DAEMON_SETS,
    NODE_CLAIMS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    VOLUME_ATTACHMENTS,
)
from dovetail.simulator.apiserver.delete import DeleteOptions
from tests.support import wire
from tests.support.cloud import TYPE, ZONE
from tests.support.world import World

ZONE_LABELS = {
    label_keys.ZONE: ZONE,
    label_keys.INSTANCE_TYPE: TYPE,
    label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
}
JOINED = {label_keys.REGISTERED: "true", label_keys.INITIALIZED: "true"}


def provider_id_of(node: str) -> str:
    return f"aws:///{ZONE}/i-{node}"


def a_machine(
    world: World,
    node: str = "node",
    *,
    claim: str = "",
    pool: str = "default",
    conditions: Mapping[str, Condition] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    **claim_fields: Any,
) -> None:
    """Have a running machine whose claim is named after its node, unless it says otherwise.

    ``labels`` and ``annotations`` are the node's; an empty label is left out.
    """
    claim = claim or node.replace("node", "claim")
    identity = provider_id_of(node)
    world.cloud.has(identity, claim=claim, nodepool=pool)
    own = {label_keys.NODEPOOL: pool, label_keys.EC2_NODE_CLASS: "default", **ZONE_LABELS}
    so_far = {
        kind: Condition(status=TRUE, reason=kind, since=world.now, generation=1)
        for kind in ("Launched", "Registered", "Initialized", "Ready")
    }
    world.add(
        NODE_CLAIMS,
        wire.claim(
            claim,
            pool=pool,
            labels=ZONE_LABELS,
            finalizers=[label_keys.TERMINATION_FINALIZER],
            provider_id=identity,
            node_name=node,
            conditions=FrozenDict({**so_far, **(conditions or {})}),
            **claim_fields,
        ),
    )
    worn = {**own, **JOINED, label_keys.HOSTNAME: node, **(labels or {})}
    world.add(
        NODES,
        wire.node(
            node,
            provider_id=identity,
            taints=(),
            ready=ready,
            labels={key: value for key, value in worn.items() if value},
            annotations=dict(annotations or {}),
            finalizers=[label_keys.TERMINATION_FINALIZER],
        ),
    )


def a_pod(
    world: World,
    name: str = "pod",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    grace: int = 30,
    **more: Any,
) -> None:
    """Have a pod that runs on a node (``node=``), or waits for one (``node=""``)."""
    made = wire.pod(name, terminationGracePeriodSeconds=grace, **more)
    made["metadata"].update(labels=dict(labels or {}), annotations=dict(annotations or {}))
    status = "True" if ready else "False"
    made["status"]["conditions"] = [{"type": "Ready", "status": status}]
    made["status"]["startTime"] = f"{world.now:%Y-%m-%dT%H:%M:%SZ}"
    world.add(PODS, made)


def an_owner(world: World, kind: str, name: str = "web") -> dict[str, Any]:
    """Have an object that owns pods, and return the reference to it."""
    resource = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}.get(kind, DAEMON_SETS)
    if kind == "Node":
        found = world.get(NODES, name)
    else:
        found = world.get(resource, name, "default") or world.add(
            resource,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
                    },
                },
            },
        )
    return wire.owner(kind, name, uid=found["metadata"]["uid"], controller=True)


def stop_pod(world: World, name: str = "pod") -> None:
    """Have a kubelet report that a pod's containers have ended: it is gone."""
    world.api.delete(PODS, name, "default", options=DeleteOptions(grace_seconds=0))
    world.wait(0)


def is_asked_to_go(world: World, name: str = "pod") -> bool:
    found = world.get(PODS, name, "default")
    return found is None or "deletionTimestamp" in found["metadata"]


def a_budget(
    world: World, name: str = "budget", *, allowed: int = 0, app: str = "web", **spec: Any
) -> None:
    """Have a PodDisruptionBudget over the pods of an app; by default it lets nobody go."""
    rule = spec or {"minAvailable": "100%"}
    world.add(
        POD_DISRUPTION_BUDGETS,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}, **rule},
            "status": {"disruptionsAllowed": allowed},
        },
    )


def an_attached_volume(world: World, name: str = "volume", *, node: str = "node") -> None:
    """Have a volume attached to a node; its claim has its name."""
    world.add(
        PERSISTENT_VOLUME_CLAIMS,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumeName": f"pv-{name}"},
        },
    )
    world.add(
        VOLUME_ATTACHMENTS,
        {
            "metadata": {"name": f"attachment-{name}"},
            "spec": {
                "attacher": "ebs.csi.aws.com",
                "nodeName": node,
                "source": {"persistentVolumeName": f"pv-{name}"},
            },
        },
    )


def in_seconds(world: World, seconds: float) -> str:
    """A moment from now as Kubernetes writes it."""
    return f"{world.now + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
