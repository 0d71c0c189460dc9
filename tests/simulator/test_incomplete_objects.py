"""Objects with missing and empty parts: what the API server stores ends no simulated component."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from dovetail.ports.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import ApiError, BadRequest
from dovetail.simulator.apiserver.options import PatchType
from tests.support.simulator.clusters import build_cluster

LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
REQUIRED_TERM = {"labelSelector": SELECTOR, "topologyKey": "kubernetes.io/hostname"}
NODE_TERM = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}
POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "app:1",
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
            "ports": [{"containerPort": 80, "hostPort": 80}],
        }
    ],
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}],
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": NODE_TERM}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [REQUIRED_TERM]},
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
        }
    ],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}],
}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
WORKLOAD = {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}
JOB_SPEC = {"template": {**TEMPLATE, "spec": {**POD_SPEC, "restartPolicy": "Never"}}, "completions": 1}
OBJECTS: dict[Resource, dict[str, Any]] = {
    PODS: {"spec": POD_SPEC},
    DEPLOYMENTS: {"spec": {**WORKLOAD, "strategy": {"rollingUpdate": {"maxSurge": 1}}}},
    REPLICA_SETS: {"spec": WORKLOAD},
    STATEFUL_SETS: {
        "spec": {
            **WORKLOAD,
            "serviceName": "web",
            "updateStrategy": {"rollingUpdate": {"partition": 0}},
            "volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": CLAIM_SPEC}],
        }
    },
    DAEMON_SETS: {
        "spec": {
            **{name: value for name, value in WORKLOAD.items() if name != "replicas"},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}},
        }
    },
    JOBS: {"spec": JOB_SPEC},
    CRON_JOBS: {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB_SPEC}}},
    POD_DISRUPTION_BUDGETS: {"spec": {"selector": SELECTOR, "minAvailable": 1}},
    PERSISTENT_VOLUMES: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            "claimRef": {"name": "disk", "namespace": "default"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [NODE_TERM]}},
        }
    },
    PERSISTENT_VOLUME_CLAIMS: {"spec": {**CLAIM_SPEC, "volumeName": "a", "storageClassName": "gp3"}},
    NODES: {
        "spec": {"providerID": "aws:///us-west-2a/i-1", "taints": [{"key": "a", "effect": "NoExecute"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"cpu": "2"},
            "allocatable": {"cpu": "2"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    },
}


def variants(value: Any) -> Iterator[Any]:
    """Yield the value with each part removed, and with each part empty."""
    parts = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, part in parts:
        removed = deepcopy(value)
        del removed[key]
        yield removed
        if isinstance(part, dict | list | str):
            emptied = deepcopy(value)
            emptied[key] = type(part)()
            yield emptied
        if isinstance(part, dict | list):
            for variant in variants(part):
                changed = deepcopy(value)
                changed[key] = variant
                yield changed


@pytest.mark.parametrize("resource", OBJECTS, ids=lambda resource: resource.kind)
def test_incomplete_objects_end_no_component(resource: Resource) -> None:
    cluster = build_cluster()
    stored = 0
    for number, variant in enumerate([OBJECTS[resource], *variants(OBJECTS[resource])]):
        name = f"odd-{number}"
        namespace = "default" if resource.namespaced else ""
        try:
            cluster.api.create(resource, {**variant, "metadata": {"name": name}}, namespace)
        except ApiError:
            continue
        stored += 1
        try:
            cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=2))
        except Exception as error:  # noqa: BLE001 - whatever it is, say of which object
            pytest.fail(f"{type(error).__name__}: {error} with {variant}")
        cluster.api.delete(resource, name, namespace)

    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=70))
    assert stored >= 5


@pytest.mark.parametrize("resource", OBJECTS, ids=lambda resource: resource.kind)
@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"conditions": None},
        {"conditions": [{}]},
        {"conditions": [None]},
        {"conditions": [{"type": "Ready"}]},
        {"conditions": [{"status": "True"}]},
        {"containerStatuses": [None], "phase": ""},
        {"addresses": [None]},
    ],
    ids=str,
)
def test_an_incomplete_status_ends_no_component(resource: Resource, status: Any) -> None:
    cluster = build_cluster()
    namespace = "default" if resource.namespaced else ""
    cluster.api.create(resource, {**OBJECTS[resource], "metadata": {"name": "odd"}}, namespace)
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=3))

    odd = cluster.api.get(resource, "odd", namespace)
    written = cluster.api.update(resource, {**odd, "status": status}, subresource="status")
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=70))

    assert all(
        condition.keys() >= {"type", "status"} for condition in written["status"].get("conditions") or ()
    )


@pytest.mark.parametrize("conditions", [5, "Ready", {"type": "Ready"}, [5], ["Ready"]], ids=str)
def test_conditions_that_cannot_be_decoded_are_refused(conditions: Any) -> None:
    cluster = build_cluster()
    cluster.api.create(NODES, {"metadata": {"name": "odd"}})

    patch = {"status": {"conditions": conditions}}
    with pytest.raises(BadRequest, match=r"wrong type of status\.conditions"):
        cluster.api.patch(NODES, "odd", patch, PatchType.MERGE, subresource="status")
