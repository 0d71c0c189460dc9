"""What Dovetail sees of an object is the same, whichever API server has completed it.

Kubernetes fills in more than the simulated server does, and all of that has to
be something that is read as if it had been there.
"""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, reject, settings

from dovetail.codec.kube.pod_encoding import encode_pod
from dovetail.model.kube.pod import Pod
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Invalid
from dovetail.state.cluster.decoders import decoder
from tests.contract.apiserver.inmemory import InMemory
from tests.contract.apiserver.live import Live, connected
from tests.contract.apiserver.objects import a_budget, a_node_claim, a_node_class, a_node_pool
from tests.contract.apiserver.subject import Object, Subject
from tests.live.cluster import Cluster
from tests.support.pod_strategies import workloads

WEB = {"matchLabels": {"app": "web"}}
CONTAINER = {
    "name": "main",
    "image": "app",
    "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "protocol": "UDP"}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"memory": "512Mi"}},
    "volumeMounts": [{"name": "disk", "mountPath": "/disk"}],
}
SIDECAR = {
    "name": "sidecar",
    "image": "app",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "100m"}},
}
CLAIM: Object = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "fast",
    "resources": {"requests": {"storage": "1Gi"}},
}
ZONAL_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": WEB,
}
APART: Object = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": WEB}
    ]
}
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [SIDECAR],
        "volumes": [
            {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
            {"name": "host", "hostPath": {"path": "/"}},
            {"name": "empty", "emptyDir": {}},
        ],
        "topologySpreadConstraints": [ZONAL_SPREAD],
        "affinity": {"podAntiAffinity": APART},
        "tolerations": [{"key": "team", "operator": "Exists"}],
    },
}
ON_HOST: Object = {
    "hostNetwork": True,
    "priorityClassName": "system-node-critical",
    "containers": [{"name": "main", "image": "app", "ports": [{"containerPort": 9100}]}],
}
NODE: Object = {
    "spec": {
        "providerID": "aws:///a/i-1",
        "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
    },
    "status": {
        "capacity": {"cpu": "4", "pods": "20"},
        "allocatable": {"cpu": "4", "pods": "20"},
    },
}
DRIVER = {"name": "ebs.csi.aws.com", "nodeID": "i-1", "allocatable": {"count": 25}}
VOLUME: Object = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
}
STATEFUL: Object = {
    "serviceName": "web",
    "selector": WEB,
    "template": TEMPLATE,
    "volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": CLAIM}],
}
ATTACHED = {
    "attacher": "ebs.csi.aws.com",
    "nodeName": "n",
    "source": {"persistentVolumeName": "v"},
}
OVERLAY = {"requirements": [{"key": "team", "operator": "Exists"}], "price": "0.1"}
BUFFER = {"podTemplateRef": {"name": "web"}, "replicas": 2}

SAMPLES: list[tuple[Resource, Object]] = [
    (kinds.PODS, TEMPLATE),
    (kinds.PODS, {"spec": ON_HOST}),
    (kinds.NODES, NODE),
    (kinds.NODE_CLAIMS, a_node_claim("")),
    (kinds.NODE_POOLS, a_node_pool("")),
    (kinds.EC2_NODE_CLASSES, a_node_class("")),
    (kinds.DAEMON_SETS, {"spec": {"selector": WEB, "template": TEMPLATE}}),
    (kinds.REPLICA_SETS, {"spec": {"selector": WEB, "template": TEMPLATE}}),
    (kinds.STATEFUL_SETS, {"spec": STATEFUL}),
    (kinds.POD_DISRUPTION_BUDGETS, a_budget("", maxUnavailable=1)),
    (
        kinds.SERVICES,
        {"spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": WEB["matchLabels"]}},
    ),
    (kinds.NAMESPACES, {}),
    (kinds.PERSISTENT_VOLUMES, {"spec": VOLUME}),
    (kinds.PERSISTENT_VOLUME_CLAIMS, {"spec": CLAIM}),
    (kinds.STORAGE_CLASSES, {"provisioner": "ebs.csi.aws.com"}),
    (kinds.CSI_NODES, {"spec": {"drivers": [DRIVER]}}),
    (kinds.VOLUME_ATTACHMENTS, {"spec": ATTACHED}),
    (kinds.NODE_OVERLAYS, {"spec": OVERLAY}),
    (kinds.CAPACITY_BUFFERS, {"spec": BUFFER}),
]


@pytest.fixture(scope="module")
def real(equipped_cluster: Cluster) -> Iterator[Live]:
    connection = connected(equipped_cluster)
    live = Live(equipped_cluster, connection)
    yield live
    live.leave()
    connection.close()


def seen(server: Subject, resource: Resource, obj: Object) -> Any:
    """What the mirror would keep of a new object, but for what no two objects share."""
    made = server.create(resource, obj, dry_run=True)
    meta = {name: value for name, value in made["metadata"].items() if name not in _UNIQUE}
    if resource.namespaced:
        meta["namespace"] = "somewhere"
    return decoder(resource, {})({**made, "metadata": meta})


_UNIQUE = {"uid", "creationTimestamp", "resourceVersion", "selfLink", "managedFields"}


@pytest.mark.parametrize(("resource", "sample"), SAMPLES, ids=[one.kind for one, _ in SAMPLES])
def test_an_object_of_every_mirrored_kind_is_seen_alike(
    real: Live, resource: Resource, sample: Object
) -> None:
    meta = {**(sample.get("metadata") or {}), "name": f"alike-{secrets.token_hex(4)}"}
    obj = {**sample, "metadata": meta}

    assert seen(InMemory(), resource, obj) == seen(real, resource, obj)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=workloads(most=1))
def test_any_pod_is_seen_alike(real: Live, some: list[Pod]) -> None:
    spec = encode_pod(some[0])["spec"]
    containers = [{**one, "image": "app"} for one in spec["containers"]]
    meta = {"name": "alike", "labels": dict(some[0].labels)}
    obj = {"metadata": meta, "spec": {**spec, "containers": containers}}
    try:
        expected = seen(real, kinds.PODS, obj)
    except Invalid as error:
        event(f"refused: {error}")
        reject()

    assert seen(InMemory(), kinds.PODS, obj) == expected
