"""Server-side apply: field ownership and conflicts."""

from typing import Any

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS, DEPLOYMENTS, NODE_POOLS, NODES
from dovetail.ports.kube_errors import BadRequest, Conflict, Invalid, NotFound
from tests.contract.apiserver.objects import a_config_map, a_deployment, a_node_pool, exists
from tests.contract.apiserver.subject import Object, Subject


def owners(obj: Object) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


def keys_owned(obj: Object, manager: str) -> set[str]:
    """The keys of a ConfigMap's data that a manager owns."""
    return set(owners(obj).get(manager, {}).get("f:data", {})) - {"."}


def with_containers(*containers: Object, **spec: Any) -> Object:
    deployment = a_deployment("d", **spec)
    deployment["spec"]["template"]["spec"]["containers"] = list(containers)
    return deployment


def test_applying_a_missing_object_creates_it(server: Subject) -> None:
    created = server.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")

    assert created["data"] == {"x": "1"}
    (entry,) = created["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")
    assert keys_owned(created, "me") == {"f:x"}


def test_applying_the_same_again_is_no_write(server: Subject) -> None:
    first = server.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")

    again = server.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")

    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_field_no_longer_applied_is_removed(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1", y="2"), manager="me")

    after = server.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")

    assert after["data"] == {"x": "1"}


def test_a_field_with_another_applier_stays(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1", y="2"), manager="me")
    server.apply(CONFIG_MAPS, a_config_map("a", y="2"), manager="you")

    after = server.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")

    assert after["data"] == {"x": "1", "y": "2"}
    assert (keys_owned(after, "me"), keys_owned(after, "you")) == ({"f:x"}, {"f:y"})


def test_another_value_for_an_owned_field_is_a_conflict_that_names_both(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")

    with pytest.raises(Conflict) as error:
        server.apply(CONFIG_MAPS, a_config_map("a", x="2"), manager="you")

    assert str(error.value) == 'Apply failed with 1 conflict: conflict with "me": .data.x'
    assert error.value.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.x"}
    ]


def test_force_takes_the_field_over(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1", y="2"), manager="me")

    after = server.apply(CONFIG_MAPS, a_config_map("a", x="2"), manager="you", force=True)

    assert after["data"] == {"x": "2", "y": "2"}
    assert (keys_owned(after, "me"), keys_owned(after, "you")) == ({"f:y"}, {"f:x"})


def test_an_ordinary_write_takes_over_what_it_changes(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1", y="2"), manager="me")

    edited = server.patch(CONFIG_MAPS, "a", {"data": {"x": "9"}}, manager="editor")

    assert (keys_owned(edited, "me"), keys_owned(edited, "editor")) == ({"f:y"}, {"f:x"})
    with pytest.raises(Conflict, match='conflict with "editor" using v1'):
        server.apply(CONFIG_MAPS, a_config_map("a", x="1", y="2"), manager="me")


def test_creating_with_a_manager_keeps_ownership_from_the_start(server: Subject) -> None:
    created = server.create(CONFIG_MAPS, a_config_map("a", x="1"), manager="kubectl-create")

    assert keys_owned(created, "kubectl-create") == {"f:x"}


def test_items_of_a_keyed_list_are_merged_and_owned_one_by_one(server: Subject) -> None:
    web = {"name": "web", "image": "web:1"}
    sidecar = {"name": "proxy", "image": "proxy:1"}
    server.apply(DEPLOYMENTS, with_containers(web), manager="me")

    applied = {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [sidecar]}}}}
    both = server.apply(DEPLOYMENTS, applied, manager="mesh")
    none = {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": []}}}}
    alone = server.apply(DEPLOYMENTS, none, manager="mesh")

    fields = owners(both)["mesh"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    containers = both["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["web", "proxy"]
    assert set(fields['k:{"name":"proxy"}']) == {".", "f:image", "f:name"}
    containers = alone["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["web"]


def test_ports_that_differ_in_protocol_only_are_two_items(server: Subject) -> None:
    udp = {"containerPort": 53, "protocol": "UDP"}
    tcp = {"containerPort": 53, "protocol": "TCP"}
    dns = {"name": "dns", "image": "dns:1"}
    server.apply(DEPLOYMENTS, with_containers({**dns, "ports": [udp]}), manager="me")

    after = server.apply(DEPLOYMENTS, with_containers({**dns, "ports": [tcp]}), manager="you")

    (container,) = after["spec"]["template"]["spec"]["containers"]
    assert [port["protocol"] for port in container["ports"]] == ["UDP", "TCP"]


def test_a_field_left_to_an_autoscaler_is_not_reset(server: Subject) -> None:
    main = {"name": "main", "image": "app:1"}
    server.apply(DEPLOYMENTS, with_containers(main, replicas=3), manager="me")
    server.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 7}}, subresource="scale", manager="hpa")

    after = server.apply(DEPLOYMENTS, with_containers(main), manager="me")

    assert after["spec"]["replicas"] == 7


def test_a_conflict_with_a_scaled_field_names_the_subresource(server: Subject) -> None:
    main = {"name": "main", "image": "app:1"}
    server.apply(DEPLOYMENTS, with_containers(main, replicas=3), manager="me")
    server.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 7}}, subresource="scale", manager="hpa")

    with pytest.raises(Conflict, match='"hpa" with subresource "scale" using apps/v1'):
        server.apply(DEPLOYMENTS, with_containers(main, replicas=3), manager="me")


def test_finalizers_are_a_set_and_taints_have_one_owner(server: Subject) -> None:
    name = server.unique("n")
    taint = {"key": "a", "effect": "NoSchedule"}
    applied = {"metadata": {"name": name, "finalizers": ["x.io/a"]}, "spec": {"taints": [taint]}}
    server.apply(NODES, applied, manager="me")

    yours = {"metadata": {"name": name, "finalizers": ["x.io/b"]}}
    after = server.apply(NODES, yours, manager="you")

    assert after["metadata"]["finalizers"] == ["x.io/a", "x.io/b"]
    with pytest.raises(Conflict, match=r"\.spec\.taints"):
        server.apply(NODES, {**yours, "spec": {"taints": []}}, manager="you")
    last = server.apply(NODES, {"metadata": {"name": name}}, manager="you")
    assert last["metadata"]["finalizers"] == ["x.io/a"]


def test_the_status_is_applied_through_its_subresource(server: Subject) -> None:
    name, missing = server.unique("p"), server.unique("q")
    server.create(NODE_POOLS, a_node_pool(name, weight=1))
    config = {**a_node_pool(name, weight=5), "status": {"nodes": 3}}

    after = server.apply(NODE_POOLS, config, manager="me", subresource="status")

    assert (after["spec"]["weight"], after["status"]["nodes"]) == (1, 3)
    with pytest.raises(NotFound):
        server.apply(NODE_POOLS, a_node_pool(missing), manager="me", subresource="status")


def test_an_applied_status_is_ignored_outside_its_subresource(server: Subject) -> None:
    pool = {**a_node_pool(server.unique("p"), weight=1), "status": {"nodes": 1}}

    created = server.apply(NODE_POOLS, pool, manager="me")

    assert created.get("status", {}).get("nodes", 0) == 0
    assert set(owners(created)["me"]) == {"f:spec"}


def test_defaults_are_not_owned_by_the_applier(server: Subject) -> None:
    created = server.apply(NODE_POOLS, a_node_pool(server.unique("p")), manager="me")

    assert created["spec"]["disruption"]["consolidateAfter"] == "0s"
    assert "f:disruption" not in owners(created)["me"]["f:spec"]


def test_an_empty_map_keeps_the_entries_of_others(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")

    after = server.apply(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {}}, manager="you")

    assert after["data"] == {"x": "1"}


def test_an_empty_map_is_not_stored_and_is_owned_by_its_first_applier(server: Subject) -> None:
    empty = {"metadata": {"name": "a"}, "data": {}}
    created = server.apply(CONFIG_MAPS, empty, manager="me")

    with pytest.raises(Conflict, match="\\.data"):
        server.apply(CONFIG_MAPS, empty, manager="you")

    assert not created.get("data")


def test_conflicts_over_several_fields_are_grouped_by_owner(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1", y="1"), manager="me")

    with pytest.raises(Conflict) as error:
        server.apply(CONFIG_MAPS, a_config_map("a", x="2", y="2"), manager="you")

    message = 'Apply failed with 2 conflicts: conflicts with "me":\n- .data.x\n- .data.y'
    assert str(error.value) == message
    assert [cause["field"] for cause in error.value.details["causes"]] == [".data.x", ".data.y"]


def test_ownership_goes_with_the_field(server: Subject) -> None:
    server.apply(CONFIG_MAPS, a_config_map("a", x="1", y="2"), manager="me")

    after = server.patch(CONFIG_MAPS, "a", {"data": {"x": None}}, manager="editor")

    assert keys_owned(after, "me") == {"f:y"}


def test_apply_needs_a_manager_and_an_object_without_managed_fields(server: Subject) -> None:
    created = server.create(CONFIG_MAPS, a_config_map("a", x="1"), manager="m")

    with pytest.raises(Invalid, match="fieldManager"):
        server.apply(CONFIG_MAPS, a_config_map("a"), manager="")
    with pytest.raises(BadRequest):
        server.apply(CONFIG_MAPS, created, manager="me")


def test_a_dry_run_applies_nothing(server: Subject) -> None:
    shown = server.apply(CONFIG_MAPS, a_config_map("a"), manager="me", dry_run=True)

    assert shown["metadata"]["name"] == "a"
    assert not exists(server, CONFIG_MAPS, "a")
