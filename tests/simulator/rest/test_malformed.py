"""Malformed requests: every response is a Status with a client error."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulator.rest.objects import add_deployment, add_node, add_pod, add_pool
from tests.simulator.rest.rest_server import Cluster, Response, serve_cluster

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
OPERATIONS = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
POD = "/api/v1/namespaces/default/pods/web"
PODS = "/api/v1/namespaces/default/pods"
NODE = "/api/v1/nodes/ip-10-0-0-1"
POOL = "/apis/karpenter.sh/v1/nodepools/default"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all: nothing here is to change it."""
    with serve_cluster() as filled:
        add_node(filled)
        add_pod(filled, "web")
        add_deployment(filled)
        add_pool(filled)
        yield filled


def assert_blames_the_sender(answer: Response) -> None:
    assert 400 <= answer.status < 500, answer
    status = answer.json()
    assert status["kind"] == "Status"
    assert status["code"] == answer.status
    assert status["message"]


BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b"\xff\xfe\x00",
    b'{"metadata": null, "metadata": []}',
    b'{"metadata": 7}',
    b'{"metadata": {"name": 7}}',
    b'{"metadata": {"labels": []}}',
    b'{"metadata": {"labels": {"a": {}}}}',
    b'{"metadata": {"ownerReferences": [7]}}',
    b'{"metadata": {"name": "other"}}',
    b'{"kind": "Unicorn", "apiVersion": "v1"}',
    b'{"metadata": {"resourceVersion": "1"}}',
    b'{"spec": []}',
    b'{"spec": {"containers": "none"}}',
    b'{"spec": {"containers": [null]}}',
    b'{"spec": {"tolerations": {"a": 1}}}',
    b'{"a":' * 3000 + b"1" + b"}" * 3000,
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", PODS, JSON),
        ("PUT", POD, JSON),
        ("POST", PODS, PROTOBUF),
        ("POST", PODS, "text/csv"),
        ("PATCH", POD, APPLY),
        ("PATCH", POD, JSON),
    ],
)
def test_an_invalid_body_is_rejected(
    cluster: Cluster, method: str, path: str, kind: str, body: bytes
) -> None:
    answer = cluster.request(method, path, body, Content_Type=kind)

    assert_blames_the_sender(answer)
    assert cluster.writes == 0


@pytest.mark.parametrize(
    ("kind", "path", "patch"),
    [
        (MERGE, POD, []),
        (MERGE, POD, {"metadata": None}),
        (MERGE, POD, {"metadata": {"name": "other"}}),
        (MERGE, POD, {"spec": {"containers": 3}}),
        (MERGE, f"{POD}/status", {"status": {"conditions": "good"}}),
        (MERGE, f"{POD}/status", {"status": {"containerStatuses": [{"state": 7}]}}),
        (MERGE, f"{NODE}/status", {"status": {"allocatable": {"cpu": "many"}}}),
        (MERGE, f"{POOL}/status", {"status": {"conditions": "good"}}),
        (MERGE, POOL, {"spec": {"template": 3}}),
        (MERGE, POOL, {"spec": {"weight": "heavy"}}),
        (STRATEGIC, POOL, {"spec": {"weight": 3}}),
        (STRATEGIC, POD, {"spec": {"containers": [{"image": "nameless"}]}}),
        (STRATEGIC, POD, {"spec": {"$setElementOrder/containers": 7, "containers": []}}),
        (OPERATIONS, POD, {"op": "add"}),
        (OPERATIONS, POD, [7]),
        (OPERATIONS, POD, [{"op": "explode", "path": "/"}]),
        (OPERATIONS, POD, [{"op": "add", "path": "no-slash", "value": 1}]),
        (OPERATIONS, POD, [{"op": "remove", "path": "/nothing/here"}]),
        (OPERATIONS, POD, [{"op": "remove", "path": ""}]),
        (OPERATIONS, POD, [{"op": "move", "from": 7, "path": "/spec"}]),
        (OPERATIONS, POD, [{"op": "replace", "path": "/spec/containers", "value": "none"}]),
        (OPERATIONS, f"{DEPLOYMENT}/scale", [{"op": "remove", "path": "/metadata"}]),
        (MERGE, f"{DEPLOYMENT}/scale", {"spec": {"replicas": -1}}),
        (MERGE, f"{DEPLOYMENT}/scale", {"spec": {"replicas": "three"}}),
        (MERGE, f"{DEPLOYMENT}/scale", {"kind": "Unicorn"}),
        (APPLY, f"{DEPLOYMENT}/scale?fieldManager=me", {"spec": {"replicas": 1}}),
        (APPLY, DEPLOYMENT, {"metadata": {"name": "web"}}),
    ],
)
def test_an_invalid_patch_is_rejected(cluster: Cluster, kind: str, path: str, patch: Any) -> None:
    answer = cluster.request("PATCH", path, patch, Content_Type=kind)

    assert_blames_the_sender(answer)
    assert cluster.writes == 0


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=many",
        "limit=99999999999999999999",
        "continue=rubbish",
        "continue=1:x",
        "resourceVersion=yesterday",
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Maybe",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "labelSelector=a%20in%20b",
        "labelSelector=%3D%3D",
        "fieldSelector=spec.colour%3Dred",
        "fieldSelector=spec",
        "watch=perhaps",
        "watch=1&timeoutSeconds=soon",
        "watch=1&sendInitialEvents=true",
        "watch=1&resourceVersion=x",
        "watch=1&allowWatchBookmarks=x",
    ],
)
def test_an_invalid_query_is_rejected(cluster: Cluster, query: str) -> None:
    assert_blames_the_sender(cluster.request("GET", f"{PODS}?{query}"))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", POD, {"gracePeriodSeconds": "soon"}),
        ("DELETE", POD, {"gracePeriodSeconds": -1}),
        ("DELETE", POD, {"gracePeriodSeconds": True}),
        ("DELETE", POD, {"propagationPolicy": "Everywhere"}),
        ("DELETE", POD, {"propagationPolicy": ["Orphan"]}),
        ("DELETE", POD, {"preconditions": {"uid": 7}}),
        ("DELETE", POD, {"preconditions": {"uid": "another"}}),
        ("DELETE", POD, {"dryRun": ["Some"]}),
        ("DELETE", POD, {"dryRun": {"All": 1}}),
        ("DELETE", POD, []),
        ("DELETE", f"{POD}?gracePeriodSeconds=x", None),
        ("DELETE", f"{POD}?dryRun=Some", None),
        ("DELETE", f"{PODS}?labelSelector=%3D", None),
        ("POST", f"{POD}/eviction", {"deleteOptions": 7}),
        ("POST", f"{POD}/eviction", {"deleteOptions": {"gracePeriodSeconds": "x"}}),
        ("POST", f"{POD}/eviction", {"metadata": {"name": "other"}}),
        ("POST", f"{POD}/binding", {"target": 7}),
        ("POST", f"{POD}/binding", {}),
        ("POST", f"{POD}/binding?dryRun=All", {"target": {"name": "n"}}),
        ("GET", f"{POD}/log?tailLines=x", None),
        ("GET", f"{POD}/log?previous=true", None),
        ("POST", f"{PODS}?fieldValidation=Maybe", {"metadata": {"name": "x"}}),
        ("POST", f"{PODS}?dryRun=Maybe", {"metadata": {"name": "x"}}),
        ("POST", f"{PODS}?fieldManager={'x' * 200}", {"metadata": {"name": "x"}}),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", []),
    ],
)
def test_invalid_options_are_rejected(cluster: Cluster, method: str, path: str, body: Any) -> None:
    answer = cluster.request(method, path, body, Content_Type=JSON)

    assert_blames_the_sender(answer)
    assert cluster.writes == 0


def test_yaml_aliases_are_rejected_before_they_expand(cluster: Cluster) -> None:
    growing = b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"

    answer = cluster.request("PATCH", f"{POD}?fieldManager=me", growing, Content_Type=APPLY)

    assert_blames_the_sender(answer)
    assert "aliases" in answer.json()["message"]


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from([[], {}, [None], [{}], [""], {"": None}, {"a": []}, {"name": 7}, "-1", "50%"]),
)
_LABELS = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
_TERM = {"labelSelector": _LABELS, "topologyKey": "zone"}
_NODE_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}
_POD_SPEC = {
    "containers": [
        {
            "name": "a",
            "image": "b",
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            "env": [{"name": "A", "value": "b"}],
        }
    ],
    "initContainers": [{"name": "i", "image": "b", "restartPolicy": "Always"}],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _NODE_TERM}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_TERM}],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    "overhead": {"cpu": "1"},
    "priorityClassName": "",
    "schedulingGates": [{"name": "a/b"}],
    "terminationGracePeriodSeconds": 3,
}
_META = {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": _POD_SPEC}
_APPS = "/apis/apps/v1/namespaces/default"
SOUND: list[tuple[str, str, str, dict[str, Any]]] = [
    ("POST", PODS, JSON, {"metadata": _META, "spec": _POD_SPEC}),
    ("PATCH", f"{PODS}/x?fieldManager=me&force=1", APPLY, {"metadata": _META, "spec": _POD_SPEC}),
    ("PATCH", POD, MERGE, {"metadata": {"name": "web", "finalizers": ["e/f"]}, "spec": _POD_SPEC}),
    ("PATCH", POD, STRATEGIC, {"metadata": {"labels": {"x": "y"}}, "spec": _POD_SPEC}),
    (
        "PATCH",
        f"{POD}/status",
        STRATEGIC,
        {"status": {"conditions": [_CONDITION], "containerStatuses": [{"name": "a"}]}},
    ),
    (
        "POST",
        f"{_APPS}/deployments",
        JSON,
        {"metadata": _META, "spec": {"replicas": 1, "selector": _LABELS, "template": _TEMPLATE}},
    ),
    (
        "POST",
        f"{_APPS}/daemonsets",
        JSON,
        {"metadata": _META, "spec": {"selector": _LABELS, "template": _TEMPLATE}},
    ),
    (
        "POST",
        "/apis/batch/v1/namespaces/default/jobs",
        JSON,
        {"metadata": _META, "spec": {"completions": 2, "template": _TEMPLATE}},
    ),
    (
        "POST",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        JSON,
        {"metadata": _META, "spec": {"minAvailable": "50%", "selector": _LABELS}},
    ),
    (
        "POST",
        "/api/v1/nodes",
        JSON,
        {
            "metadata": _META,
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "providerID": "x"},
            "status": {"capacity": {"cpu": "1"}, "conditions": [_CONDITION], "nodeInfo": {}},
        },
    ),
    (
        "POST",
        "/apis/karpenter.sh/v1/nodepools",
        JSON,
        {
            "metadata": _META,
            "spec": {
                "weight": 1,
                "limits": {"cpu": "10"},
                "disruption": {"budgets": [{"nodes": "10%", "reasons": ["Empty"]}]},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {
                        "taints": [{"key": "a", "effect": "NoSchedule"}],
                        "requirements": [{"key": "a", "operator": "In", "values": ["b"]}],
                        "nodeClassRef": {"group": "a", "kind": "b", "name": "c"},
                    },
                },
            },
        },
    ),
    (
        "PATCH",
        f"{POOL}/status",
        MERGE,
        {"status": {"nodes": 1, "resources": {"cpu": "1"}, "conditions": [_CONDITION]}},
    ),
    ("POST", f"{POD}/eviction?dryRun=All", JSON, {"metadata": {}, "deleteOptions": {}}),
    ("POST", f"{POD}/binding", JSON, {"target": {"kind": "Node", "name": "n"}}),
    ("PUT", f"{DEPLOYMENT}/scale", JSON, {"metadata": {}, "spec": {"replicas": 1}}),
    (
        "POST",
        "/api/v1/namespaces/default/events",
        JSON,
        {"metadata": {"name": "x"}, "involvedObject": {"kind": "Pod"}, "source": {}, "count": 1},
    ),
    (
        "POST",
        "/api/v1/namespaces/default/services",
        JSON,
        {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    ),
]
PAGES = (
    PODS,
    "/api/v1/nodes",
    "/api/v1/events",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/daemonsets",
    "/apis/batch/v1/jobs",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/karpenter.sh/v1/nodepools",
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the way to every part of a value."""
    yield way
    keys: Iterable[Any] = value if isinstance(value, dict) else ()
    if isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        yield from places(value[key], (*way, key))


def spoilt(value: Any, way: tuple[Any, ...], junk: Any) -> Any:
    """Return a value with junk at one place."""
    if not way:
        return junk
    key, *rest = way
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = spoilt(copy[key], tuple(rest), junk)
    return copy


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_object_with_junk_anywhere_never_makes_the_server_fail(
    cluster: Cluster, data: st.DataObject
) -> None:
    method, path, kind, sound = data.draw(st.sampled_from(SOUND))
    way = data.draw(st.sampled_from(list(places(sound))))
    body = json.dumps(spoilt(sound, way, data.draw(JUNK))).encode()

    answer = cluster.request(method, path, body, Content_Type=kind)
    name = f"{path.partition('?')[0]}/x" if method == "POST" else f"{PODS}/x"
    tables = [cluster.request("GET", page, Accept=TABLE) for page in PAGES]
    cluster.request("DELETE", name, {"gracePeriodSeconds": 0}, Content_Type=JSON)

    assert answer.status < 500, answer
    assert [response.status for response in tables] == [200] * len(PAGES)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from([JSON, APPLY, PROTOBUF]),
    body=st.binary(max_size=60) | st.binary(max_size=60).map(lambda some: b"k8s\0" + some),
)
def test_no_body_makes_the_server_fail(cluster: Cluster, kind: str, body: bytes) -> None:
    answer = cluster.request("POST", PODS, body, Content_Type=kind)

    assert 400 <= answer.status < 500, answer
