"""Patch types that each kind supports."""

from typing import Any

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS, DEPLOYMENTS, NODE_POOLS, NODES
from dovetail.ports.kube_errors import BadRequest, Invalid, UnsupportedMediaType
from tests.contract.apiserver.objects import a_config_map, a_deployment, a_node_pool
from tests.contract.apiserver.subject import JSON, MERGE, STRATEGIC, Object, Subject


def containers(deployment: Object) -> list[Object]:
    items: list[Object] = deployment["spec"]["template"]["spec"]["containers"]
    return items


def test_a_merge_patch_sets_its_fields_and_removes_null_ones(server: Subject) -> None:
    server.create(CONFIG_MAPS, a_config_map("a", x="1", y="2"))

    after = server.patch(CONFIG_MAPS, "a", {"data": {"x": None, "z": "3"}}, MERGE)

    assert after["data"] == {"y": "2", "z": "3"}


def test_a_merge_patch_replaces_lists_whole(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d"))
    other = [{"name": "other", "image": "other:1"}]

    after = server.patch(DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": other}}}}, MERGE)

    assert [container["name"] for container in containers(after)] == ["other"]


def test_a_json_patch_applies_its_operations_in_order(server: Subject) -> None:
    server.create(CONFIG_MAPS, a_config_map("a", x="1"))

    after = server.patch(
        CONFIG_MAPS,
        "a",
        [
            {"op": "test", "path": "/data/x", "value": "1"},
            {"op": "move", "from": "/data/x", "path": "/data/y"},
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/a~1b", "value": "c"},
        ],
        JSON,
    )

    assert after["data"] == {"y": "1"}
    assert after["metadata"]["annotations"] == {"a/b": "c"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/x", "value": "2"},
        {"op": "remove", "path": "/data/missing"},
        {"op": "add", "path": "/missing/b", "value": "1"},
    ],
)
def test_a_json_patch_that_does_not_apply_is_invalid_and_changes_nothing(
    server: Subject, operation: Object
) -> None:
    server.create(CONFIG_MAPS, a_config_map("a", x="1"))
    first = {"op": "add", "path": "/data/first", "value": "1"}

    with pytest.raises(Invalid):
        server.patch(CONFIG_MAPS, "a", [first, operation], JSON)

    assert server.get(CONFIG_MAPS, "a")["data"] == {"x": "1"}


def test_a_strategic_merge_finds_list_items_by_their_key(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d"))
    sidecar = {"name": "proxy", "image": "proxy:1"}
    changed = {"name": "main", "image": "app:2"}

    after = server.patch(
        DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": [sidecar, changed]}}}}, STRATEGIC
    )

    images = {container["name"]: container["image"] for container in containers(after)}
    assert images == {"main": "app:2", "proxy": "proxy:1"}


def test_a_strategic_merge_deletes_an_item_by_directive(server: Subject) -> None:
    extra = [{"name": "main", "image": "app:1"}, {"name": "proxy", "image": "proxy:1"}]
    deployment = a_deployment("d")
    deployment["spec"]["template"]["spec"]["containers"] = extra
    server.create(DEPLOYMENTS, deployment)

    gone = {"$patch": "delete", "name": "proxy"}
    after = server.patch(
        DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": [gone]}}}}, STRATEGIC
    )

    assert [container["name"] for container in containers(after)] == ["main"]


def test_a_nodes_conditions_are_patched_one_by_one(server: Subject) -> None:
    name = server.unique("n")
    pressure = {"type": "Custom", "status": "False"}
    ready = {"type": "Ready", "status": "False"}
    server.create(NODES, {"metadata": {"name": name}, "status": {"conditions": [ready, pressure]}})

    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    node = server.patch(NODES, name, patch, STRATEGIC, subresource="status")

    statuses = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
    assert statuses == {"Ready": "True", "Custom": "False"}


def test_custom_resources_do_not_support_strategic_merge(server: Subject) -> None:
    name = server.unique("p")
    server.create(NODE_POOLS, a_node_pool(name))

    with pytest.raises(UnsupportedMediaType):
        server.patch(NODE_POOLS, name, {}, STRATEGIC)


@pytest.mark.parametrize(
    ("patch", "how"), [({"a": 1}, JSON), ([], MERGE), ({"metadata": {"name": "other"}}, MERGE)]
)
def test_a_malformed_patch_is_a_bad_request(server: Subject, patch: Any, how: str) -> None:
    server.create(CONFIG_MAPS, a_config_map("a"))

    with pytest.raises(BadRequest):
        server.patch(CONFIG_MAPS, "a", patch, how)
