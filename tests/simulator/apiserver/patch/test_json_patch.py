"""The kinds of patches, on values and through the server."""

from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, NODES, PODS, SERVICES
from dovetail.ports.kube_errors import ApiError, BadRequest, Invalid, RequestEntityTooLarge
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.patch.json_patch import apply_json_patch, apply_merge_patch
from dovetail.simulator.apiserver.patch.strategic_merge import apply_strategic_merge_patch
from tests.support.simulator.api_server import Cluster, a_node


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_give_what_rfc_7386_says(target: Any, patch: Any, merged: Any) -> None:
    assert apply_merge_patch(target, patch) == merged


@pytest.mark.parametrize(
    ("document", "operation", "patched"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": 1}, {"foo": "bar", "baz": 1}),
        ({"foo": [1, 3]}, {"op": "add", "path": "/foo/1", "value": 2}, {"foo": [1, 2, 3]}),
        ({"foo": [1]}, {"op": "add", "path": "/foo/-", "value": [2]}, {"foo": [1, [2]]}),
        ({"foo": 1}, {"op": "add", "path": "", "value": {"bar": 2}}, {"bar": 2}),
        ({"a": 1, "b": 2}, {"op": "remove", "path": "/a"}, {"b": 2}),
        ({"foo": [1, 2, 3]}, {"op": "remove", "path": "/foo/1"}, {"foo": [1, 3]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/0", "value": 9}, {"a": [9, 2]}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ({"a": [1, 2, 3]}, {"op": "move", "from": "/a/0", "path": "/a/2"}, {"a": [2, 3, 1]}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/c"}, {"a": [1], "c": [1]}),
        ({"a/b": 1, "m": 2}, {"op": "replace", "path": "/a~1b", "value": 3}, {"a/b": 3, "m": 2}),
        ({"~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"~1": 10}),
        ({"": 1}, {"op": "replace", "path": "/", "value": 2}, {"": 2}),
    ],
)  # fmt: skip
def test_json_patches_give_what_rfc_6902_says(document: Any, operation: dict[str, Any], patched: Any) -> None:
    assert apply_json_patch(document, [operation]) == patched


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ({"op": "test", "path": "/a", "value": 2}, Invalid),
        ({"op": "test", "path": "/a", "value": True}, Invalid),
        ({"op": "test", "path": "/missing", "value": 1}, Invalid),
        ({"op": "remove", "path": "/missing"}, Invalid),
        ({"op": "replace", "path": "/missing", "value": 1}, Invalid),
        ({"op": "add", "path": "/missing/b", "value": 1}, Invalid),
        ({"op": "add", "path": "/list/9", "value": 1}, Invalid),
        ({"op": "add", "path": "/list/01", "value": 1}, Invalid),
        ({"op": "remove", "path": "/list/-"}, Invalid),
        ({"op": "add", "path": "/a/b", "value": 1}, Invalid),
        ({"op": "move", "from": "/list", "path": "/list/0"}, BadRequest),
        ({"op": "add", "path": "/b"}, BadRequest),
        ({"op": "invent", "path": "/a"}, BadRequest),
        ({"op": "add", "path": "a", "value": 1}, BadRequest),
        ({"path": "/a"}, BadRequest),
    ],
)
def test_an_invalid_json_patch_is_rejected_and_changes_nothing(
    operation: dict[str, Any], error: type[ApiError]
) -> None:
    document = {"a": 1, "list": [1]}

    with pytest.raises(error):
        apply_json_patch(document, [{"op": "add", "path": "/first", "value": 1}, operation])

    assert document == {"a": 1, "list": [1]}


def test_a_strategic_merge_finds_list_items_by_their_key() -> None:
    target = {
        "containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]},
            {"name": "b", "image": "b:1"},
        ]
    }
    patch = {
        "containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "c", "image": "c:1"}]
    }

    merged = apply_strategic_merge_patch(PODS, target, patch)

    assert merged["containers"] == [
        {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
        {"name": "b", "image": "b:1"},
        {"name": "c", "image": "c:1"},
    ]


def test_a_strategic_merge_applies_its_directives() -> None:
    target = {
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}],
        "finalizers": ["x", "y"],
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "affinity": {"nodeAffinity": {"a": 1}},
        "selector": {"app": "web"},
    }
    patch = {
        "volumes": [{"$patch": "delete", "name": "a"}, {"name": "c", "emptyDir": {}}],
        "$setElementOrder/volumes": [{"name": "c"}, {"name": "b"}],
        "$deleteFromPrimitiveList/finalizers": ["x"],
        "finalizers": ["z"],
        "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
        "affinity": {"$patch": "replace", "podAffinity": {"b": 2}},
        "selector": {"$patch": "delete"},
    }

    merged = apply_strategic_merge_patch(DEPLOYMENTS, target, patch)

    assert merged == {
        "volumes": [{"name": "c", "emptyDir": {}}, {"name": "b", "emptyDir": {}}],
        "finalizers": ["y", "z"],
        "strategy": {"type": "Recreate"},
        "affinity": {"podAffinity": {"b": 2}},
    }


def test_a_whole_list_can_be_replaced_by_a_strategic_merge() -> None:
    patch = {"env": [{"$patch": "replace"}, {"name": "B", "value": "2"}]}

    merged = apply_strategic_merge_patch(PODS, {"env": [{"name": "A", "value": "1"}]}, patch)

    assert merged == {"env": [{"name": "B", "value": "2"}]}


def test_a_list_item_without_its_key_cannot_be_merged() -> None:
    with pytest.raises(BadRequest, match="merge key: name"):
        apply_strategic_merge_patch(PODS, {}, {"containers": [{"image": "a"}]})
    with pytest.raises(BadRequest, match="directive"):
        apply_strategic_merge_patch(PODS, {}, {"spec": {"$patch": "explode"}})


def test_ports_of_containers_and_of_services_have_different_keys() -> None:
    container = apply_strategic_merge_patch(
        PODS, {"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "name": "w"}]}
    )
    service = apply_strategic_merge_patch(
        SERVICES, {"ports": [{"port": 80}]}, {"ports": [{"port": 80, "name": "w"}]}
    )

    assert container["ports"] == [{"containerPort": 80, "name": "w"}]
    assert service["ports"] == [{"port": 80, "name": "w"}]


def test_taints_and_tolerations_are_replaced_whole() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    other = {"key": "b", "effect": "NoSchedule"}

    assert apply_strategic_merge_patch(NODES, {"taints": [taint]}, {"taints": [other]}) == {"taints": [other]}


@pytest.mark.parametrize(
    ("patch", "how"),
    [
        ({"a": 1}, PatchType.JSON),
        ([], PatchType.MERGE),
        ({"metadata": None}, PatchType.MERGE),
        ({"metadata": {"name": "other"}}, PatchType.MERGE),
        ([{"op": "add", "path": "", "value": 1}], PatchType.JSON),
    ],
)
def test_a_patch_that_removes_the_metadata_is_a_bad_request(patch: Any, how: PatchType) -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("n"))

    with pytest.raises(BadRequest):
        cluster.patch(NODES, "n", patch, how)


def test_a_patch_that_doubles_the_document_is_refused_before_it_grows() -> None:
    document = {"spec": {"data": "x" * 1000}}
    operations = [{"op": "copy", "from": "/spec", "path": f"/spec/copy{index}"} for index in range(40)]

    with pytest.raises(RequestEntityTooLarge, match="copies add more than"):
        apply_json_patch(document, operations)


def test_a_patch_of_too_many_operations_is_refused() -> None:
    with pytest.raises(RequestEntityTooLarge, match="10000, got 10001"):
        apply_json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)
