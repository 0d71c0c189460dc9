"""Objects decode to equal values from a real and from the simulated API server.

Kubernetes sets more defaults than the simulated server does. A decoded object
must not depend on them.
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
from dovetail.state.cluster.decoders import SharedValues, create_decoder
from tests.contract.apiserver.in_memory import InMemoryServer
from tests.contract.apiserver.live import LiveServer, connect
from tests.contract.apiserver.objects import a_node_claim, a_node_class, a_node_pool, a_pdb
from tests.contract.apiserver.subject import Object, Subject
from tests.live.cluster import Cluster
from tests.support.scheduling.pod_strategies import workloads

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
ANTI_AFFINITY: Object = {
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
        "affinity": {"podAntiAffinity": ANTI_AFFINITY},
        "tolerations": [{"key": "team", "operator": "Exists"}],
    },
}
HOST_NETWORK: Object = {
    "hostNetwork": True,
    "priorityClassName": "system-node-critical",
    "containers": [{"name": "main", "image": "app", "ports": [{"containerPort": 9100}]}],
}
NODE: Object = {
    "spec": {
        "providerID": "aws:///a/i-1",
        "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
    },
    "status": {"capacity": {"cpu": "4", "pods": "20"}, "allocatable": {"cpu": "4", "pods": "20"}},
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
ATTACHED = {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
OVERLAY = {"requirements": [{"key": "team", "operator": "Exists"}], "price": "0.1"}
BUFFER = {"podTemplateRef": {"name": "web"}, "replicas": 2}

SAMPLES: list[tuple[Resource, Object]] = [
    (kinds.PODS, TEMPLATE),
    (kinds.PODS, {"spec": HOST_NETWORK}),
    (kinds.NODES, NODE),
    (kinds.NODE_CLAIMS, a_node_claim("")),
    (kinds.NODE_POOLS, a_node_pool("")),
    (kinds.EC2_NODE_CLASSES, a_node_class("")),
    (kinds.DAEMON_SETS, {"spec": {"selector": WEB, "template": TEMPLATE}}),
    (kinds.REPLICA_SETS, {"spec": {"selector": WEB, "template": TEMPLATE}}),
    (kinds.STATEFUL_SETS, {"spec": STATEFUL}),
    (kinds.POD_DISRUPTION_BUDGETS, a_pdb("", maxUnavailable=1)),
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
    (kinds.LIMIT_RANGES, {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
    (kinds.RUNTIME_CLASSES, {"handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}),
    (kinds.NODE_OVERLAYS, {"spec": OVERLAY}),
    (kinds.CAPACITY_BUFFERS, {"spec": BUFFER}),
]


@pytest.fixture(scope="module")
def real(cluster_with_crds: Cluster) -> Iterator[LiveServer]:
    connection = connect(cluster_with_crds)
    live = LiveServer(cluster_with_crds, connection)
    yield live
    live.clean_up()
    connection.close()


def decoded(server: Subject, resource: Resource, obj: Object) -> Any:
    """Return a new object as the cluster cache stores it, without unique fields."""
    created = server.create(resource, obj, dry_run=True)
    meta = {name: value for name, value in created["metadata"].items() if name not in _UNIQUE}
    if resource.namespaced:
        meta["namespace"] = "test"
    return create_decoder(resource, SharedValues())({**created, "metadata": meta})


_UNIQUE = {"uid", "creationTimestamp", "resourceVersion", "selfLink", "managedFields"}


@pytest.mark.parametrize(("resource", "sample"), SAMPLES, ids=[resource.kind for resource, _ in SAMPLES])
def test_an_object_of_every_cached_kind_decodes_to_the_same_value(
    real: LiveServer, resource: Resource, sample: Object
) -> None:
    meta = {**(sample.get("metadata") or {}), "name": f"decoded-{secrets.token_hex(4)}"}
    obj = {**sample, "metadata": meta}

    assert decoded(InMemoryServer(), resource, obj) == decoded(real, resource, obj)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pods=workloads(most=1))
def test_any_pod_decodes_to_the_same_value(real: LiveServer, pods: list[Pod]) -> None:
    spec = encode_pod(pods[0])["spec"]
    containers = [{**container, "image": "app"} for container in spec["containers"]]
    meta = {"name": "decoded", "labels": dict(pods[0].labels)}
    obj = {"metadata": meta, "spec": {**spec, "containers": containers}}
    try:
        expected = decoded(real, kinds.PODS, obj)
    except Invalid as error:
        event(f"rejected: {error}")
        reject()

    assert decoded(InMemoryServer(), kinds.PODS, obj) == expected
