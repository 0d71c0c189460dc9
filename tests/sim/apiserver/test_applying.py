"""Server-side apply: who owns which field, and what follows from it."""

from typing import Any

import pytest

from dovetail.ports.kubeerrors import BadRequest, Conflict, NotFound
from dovetail.ports.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODE_POOLS,
    NODES,
    Resource,
)
from dovetail.sim.apiserver.frozen import Object, thaw
from dovetail.sim.apiserver.options import PatchType
from dovetail.sim.apiserver.writing import WriteOptions
from tests.support.cluster import Cluster, a_config_map, a_node, a_node_pool, a_replica_set


def owners(obj: Object) -> dict[str, Any]:
    return {one["manager"]: one["fieldsV1"] for one in obj["metadata"].get("managedFields", ())}


def apply(
    cluster: Cluster, resource: Resource, config: Object, who: str, *, force: bool = False
) -> Object:
    return cluster.apply(resource, config, manager=who, force=force)


def a_deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    base = a_replica_set("d")
    template = {"spec": {"containers": list(containers)}}
    selector = base["spec"]["selector"]
    return {**base, "spec": {"selector": selector, "template": template, **spec}}


def test_applying_what_is_not_there_creates_it() -> None:
    cluster = Cluster()

    made = apply(cluster, CONFIG_MAPS, a_config_map("a", x="1"), "me")

    assert made["data"] == {"x": "1"}
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:x": {}}}
    assert entry["apiVersion"] == "v1"


def test_applying_the_same_again_is_no_write() -> None:
    cluster = Cluster()
    first = apply(cluster, CONFIG_MAPS, a_config_map("a", x="1"), "me")
    cluster.wait(60)

    assert apply(cluster, CONFIG_MAPS, a_config_map("a", x="1"), "me") == first


def test_a_field_no_longer_applied_goes_away() -> None:
    cluster = Cluster()
    apply(cluster, CONFIG_MAPS, a_config_map("a", x="1", y="2"), "me")

    after = apply(cluster, CONFIG_MAPS, a_config_map("a", x="1"), "me")

    assert after["data"] == {"x": "1"}


def test_a_field_that_someone_else_applies_too_stays() -> None:
    cluster = Cluster()
    apply(cluster, CONFIG_MAPS, a_config_map("a", x="1", y="2"), "me")
    apply(cluster, CONFIG_MAPS, a_config_map("a", y="2"), "you")

    after = apply(cluster, CONFIG_MAPS, a_config_map("a", x="1"), "me")

    assert after["data"] == {"x": "1", "y": "2"}
    assert owners(after) == {"me": {"f:data": {"f:x": {}}}, "you": {"f:data": {"f:y": {}}}}


def test_another_value_for_someone_elses_field_is_a_conflict_that_names_both() -> None:
    cluster = Cluster()
    apply(cluster, CONFIG_MAPS, a_config_map("a", x="1"), "me")

    with pytest.raises(Conflict) as refused:
        apply(cluster, CONFIG_MAPS, a_config_map("a", x="2"), "you")

    assert str(refused.value) == 'Apply failed with 1 conflict: conflict with "me": .data.x'
    assert refused.value.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.x"}
    ]


def test_force_takes_the_field_over() -> None:
    cluster = Cluster()
    apply(cluster, CONFIG_MAPS, a_config_map("a", x="1", y="2"), "me")

    after = apply(cluster, CONFIG_MAPS, a_config_map("a", x="2"), "you", force=True)

    assert after["data"] == {"x": "2", "y": "2"}
    assert owners(after) == {"me": {"f:data": {"f:y": {}}}, "you": {"f:data": {"f:x": {}}}}


def test_an_ordinary_write_takes_over_what_it_changes() -> None:
    cluster = Cluster()
    apply(cluster, CONFIG_MAPS, a_config_map("a", x="1", y="2"), "me")

    patch, editor = {"data": {"x": "9"}}, WriteOptions(manager="editor")
    edited = cluster.patch(CONFIG_MAPS, "a", patch, PatchType.MERGE, "default", options=editor)

    assert owners(edited) == {"me": {"f:data": {"f:y": {}}}, "editor": {"f:data": {"f:x": {}}}}
    with pytest.raises(Conflict, match='"editor"'):
        apply(cluster, CONFIG_MAPS, a_config_map("a", x="1", y="2"), "me")


def test_what_was_written_before_the_first_apply_has_an_owner_too() -> None:
    cluster = Cluster()
    cluster.create(CONFIG_MAPS, a_config_map("a", x="1"))

    with pytest.raises(Conflict, match="before-first-apply"):
        apply(cluster, CONFIG_MAPS, a_config_map("a", x="2"), "me")

    shared = apply(cluster, CONFIG_MAPS, a_config_map("a", x="1"), "me")
    assert set(owners(shared)) == {"before-first-apply", "me"}


def test_creating_with_a_manager_keeps_ownership_from_the_start() -> None:
    cluster = Cluster()

    options = WriteOptions(manager="kubectl-create")
    made = cluster.create(CONFIG_MAPS, a_config_map("a", x="1"), options=options)

    assert owners(made) == {"kubectl-create": {"f:data": {"f:x": {}}}}


def test_items_of_a_keyed_list_are_merged_and_owned_one_by_one() -> None:
    cluster = Cluster()
    web = {"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}
    sidecar = {"name": "proxy", "image": "proxy:1"}
    apply(cluster, DEPLOYMENTS, a_deployment(web), "me")

    both = apply(cluster, DEPLOYMENTS, a_deployment(sidecar), "mesh")
    containers = both["spec"]["template"]["spec"]["containers"]
    fields = owners(both)["mesh"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    alone = apply(cluster, DEPLOYMENTS, a_deployment(), "mesh")

    assert [one["name"] for one in containers] == ["web", "proxy"]
    assert fields == {'k:{"name":"proxy"}': {".": {}, "f:image": {}, "f:name": {}}}
    assert alone["spec"]["template"]["spec"]["containers"] == [web]


def test_ports_that_differ_in_protocol_only_are_two_items() -> None:
    cluster = Cluster()
    udp = {"containerPort": 53, "protocol": "UDP"}
    tcp = {"containerPort": 53}
    apply(cluster, DEPLOYMENTS, a_deployment({"name": "dns", "ports": [udp]}), "me")

    after = apply(cluster, DEPLOYMENTS, a_deployment({"name": "dns", "ports": [tcp]}), "you")

    (container,) = after["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [udp, tcp]


def test_a_field_left_to_an_autoscaler_is_not_reset() -> None:
    cluster = Cluster()
    apply(cluster, DEPLOYMENTS, a_deployment(replicas=3), "me")
    scale = {"spec": {"replicas": 7}}
    scaler = WriteOptions(manager="hpa")
    cluster.patch(
        DEPLOYMENTS, "d", scale, PatchType.MERGE, "default", subresource="scale", options=scaler
    )

    after = apply(cluster, DEPLOYMENTS, a_deployment(), "me")

    assert after["spec"]["replicas"] == 7


def test_finalizers_are_a_set_and_atomic_lists_have_one_owner() -> None:
    cluster = Cluster()
    taint = {"key": "a", "effect": "NoSchedule"}
    mine = {"metadata": {"name": "n", "finalizers": ["x.io/a"]}, "spec": {"taints": [taint]}}
    apply(cluster, NODES, mine, "me")

    yours = {"metadata": {"name": "n", "finalizers": ["x.io/b"]}}
    after = apply(cluster, NODES, yours, "you")

    assert after["metadata"]["finalizers"] == ["x.io/a", "x.io/b"]
    with pytest.raises(Conflict, match=r"\.spec\.taints"):
        apply(cluster, NODES, {**yours, "spec": {"taints": []}}, "you")
    assert apply(cluster, NODES, {"metadata": {"name": "n"}}, "you")["metadata"]["finalizers"] == [
        "x.io/a"
    ]


def test_status_is_applied_through_its_own_door() -> None:
    cluster = Cluster()
    cluster.create(NODE_POOLS, a_node_pool("p", weight=1))
    config = {**a_node_pool("p", weight=5), "status": {"nodes": 3}}

    after = cluster.apply(NODE_POOLS, config, manager="me", subresource="status")

    assert (after["spec"], after["status"]) == ({"weight": 1}, {"nodes": 3})
    with pytest.raises(NotFound):
        cluster.apply(NODE_POOLS, a_node_pool("q"), manager="me", subresource="status")


def test_an_applied_status_is_ignored_at_the_main_door() -> None:
    cluster = Cluster()

    made = apply(cluster, NODE_POOLS, {**a_node_pool("p", weight=1), "status": {"x": 1}}, "me")

    assert "status" not in made
    assert owners(made)["me"] == {"f:spec": {"f:weight": {}}}


def test_an_empty_map_leaves_what_others_put_into_it() -> None:
    cluster = Cluster()
    apply(cluster, NODES, {"metadata": {"name": "n", "labels": {"a": "b"}}}, "me")

    after = apply(cluster, NODES, {"metadata": {"name": "n", "labels": {}}}, "you")

    assert after["metadata"]["labels"] == {"a": "b"}


def test_ownership_goes_with_the_field() -> None:
    cluster = Cluster()
    apply(cluster, CONFIG_MAPS, a_config_map("a", x="1", y="2"), "me")

    after = cluster.patch(CONFIG_MAPS, "a", {"data": {"x": None}}, PatchType.MERGE, "default")

    assert owners(after) == {"me": {"f:data": {"f:y": {}}}}


def test_apply_needs_a_manager_and_a_name() -> None:
    cluster = Cluster()
    node = thaw(cluster.create(NODES, a_node("n"), options=WriteOptions(manager="m")))

    for config, manager in ((a_node("n"), ""), ({"metadata": {}}, "me"), (node, "me")):
        with pytest.raises(BadRequest):
            cluster.apply(NODES, config, manager=manager)


def test_a_dry_run_applies_nothing() -> None:
    cluster = Cluster()

    shown = cluster.apply(NODES, a_node("n"), manager="me", dry_run=True)

    assert shown["metadata"]["name"] == "n"
    assert cluster.list(NODES).items == []
