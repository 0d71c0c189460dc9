"""Running nodes: instance, NodeClaim and Node of each, and the pods on them."""

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
from dovetail.simulator.apiserver.options import DeleteOptions
from tests.support.controllers.cloud_provider import TYPE, ZONE
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

ZONE_LABELS = {
    label_keys.ZONE: ZONE,
    label_keys.INSTANCE_TYPE: TYPE,
    label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
}
JOINED = {label_keys.REGISTERED: "true", label_keys.INITIALIZED: "true"}


def provider_id_of(node: str) -> str:
    return f"aws:///{ZONE}/i-{node}"


def add_running_node(
    env: ControllerEnvironment,
    node: str = "node",
    *,
    claim: str = "",
    pool: str = "default",
    conditions: Mapping[str, Condition] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    claim_annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    **claim_fields: Any,
) -> None:
    """Add a running instance with its claim and node.

    The claim is named after the node unless ``claim`` is given. ``labels`` and
    ``annotations`` are those of the node; an empty label is omitted.
    """
    claim = claim or node.replace("node", "claim")
    provider_id = provider_id_of(node)
    env.cloud.add_instance(provider_id, claim=claim, nodepool=pool)
    own = {label_keys.NODEPOOL: pool, label_keys.EC2_NODE_CLASS: "default", **ZONE_LABELS}
    default_conditions = {
        kind: Condition(status=TRUE, reason=kind, last_transition_time=env.now, observed_generation=1)
        for kind in ("Launched", "Registered", "Initialized", "Ready")
    }
    env.add(
        NODE_CLAIMS,
        manifests.claim(
            claim,
            pool=pool,
            labels=ZONE_LABELS,
            finalizers=[label_keys.TERMINATION_FINALIZER],
            provider_id=provider_id,
            node_name=node,
            conditions=FrozenDict({**default_conditions, **(conditions or {})}),
            annotations=FrozenDict(claim_annotations or {}),
            **claim_fields,
        ),
    )
    node_labels = {**own, **JOINED, label_keys.HOSTNAME: node, **(labels or {})}
    env.add(
        NODES,
        manifests.node(
            node,
            provider_id=provider_id,
            taints=(),
            ready=ready,
            labels={key: value for key, value in node_labels.items() if value},
            annotations=dict(annotations or {}),
            finalizers=[label_keys.TERMINATION_FINALIZER],
        ),
    )


def add_pod(
    env: ControllerEnvironment,
    name: str = "pod",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    grace: int = 30,
    **more: Any,
) -> None:
    """Add a pod that runs on a node (``node=``), or is pending (``node=""``)."""
    pod = manifests.pod(name, terminationGracePeriodSeconds=grace, **more)
    pod["metadata"].update(labels=dict(labels or {}), annotations=dict(annotations or {}))
    status = "True" if ready else "False"
    pod["status"]["conditions"] = [{"type": "Ready", "status": status}]
    pod["status"]["startTime"] = f"{env.now:%Y-%m-%dT%H:%M:%SZ}"
    env.add(PODS, pod)


def add_owner(env: ControllerEnvironment, kind: str, name: str = "web") -> dict[str, Any]:
    """Add a controller of pods if it is missing; return an owner reference to it."""
    resource = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}.get(kind, DAEMON_SETS)
    if kind == "Node":
        owner = env.get(NODES, name)
    else:
        owner = env.get(resource, name, "default") or env.add(
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
    return manifests.owner(kind, name, uid=owner["metadata"]["uid"], controller=True)


def stop_pod(env: ControllerEnvironment, name: str = "pod") -> None:
    """Delete a pod as its kubelet does once the containers have stopped."""
    env.api.delete(PODS, name, "default", options=DeleteOptions(grace_period_seconds=0))
    env.wait(0)


def is_terminating(env: ControllerEnvironment, name: str = "pod") -> bool:
    pod = env.get(PODS, name, "default")
    return pod is None or "deletionTimestamp" in pod["metadata"]


def add_pdb(
    env: ControllerEnvironment, name: str = "budget", *, allowed: int = 0, app: str = "web", **spec: Any
) -> None:
    """Add a PodDisruptionBudget for an app; by default it allows no eviction."""
    rule = spec or {"minAvailable": "100%"}
    env.add(
        POD_DISRUPTION_BUDGETS,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}, **rule},
            "status": {"disruptionsAllowed": allowed},
        },
    )


def add_attached_volume(env: ControllerEnvironment, name: str = "volume", *, node: str = "node") -> None:
    """Add a volume that is attached to a node; its claim has the same name."""
    env.add(
        PERSISTENT_VOLUME_CLAIMS,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": f"pv-{name}",
            },
        },
    )
    env.add(
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


def in_seconds(env: ControllerEnvironment, seconds: float) -> str:
    """Return a time from now in the format of Kubernetes."""
    return f"{env.now + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
