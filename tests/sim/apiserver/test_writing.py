"""Creating and updating: what the server decides, what the writer may."""

import copy
from typing import Any

import pytest

from dovetail.ports.kubeerrors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from dovetail.ports.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
)
from dovetail.sim.apiserver.frozen import thaw
from dovetail.sim.apiserver.options import PatchType
from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.apiserver.writing import WriteOptions
from tests.support.cluster import (
    Cluster,
    a_config_map,
    a_node,
    a_node_pool,
    a_pod,
    a_replica_set,
    names,
    owned_by,
    with_finalizer,
)


def test_a_new_object_gets_uid_creation_time_and_resource_version_from_the_server() -> None:
    cluster = Cluster()
    cluster.wait(90)

    pod = cluster.create(PODS, a_pod("a"))

    assert pod["metadata"]["uid"]
    assert pod["metadata"]["creationTimestamp"] == "2026-01-01T09:01:30Z"
    assert pod["metadata"]["resourceVersion"] == cluster.resource_version
    assert pod["metadata"]["generation"] == 1
    assert pod["status"]["phase"] == "Pending"


def test_no_two_objects_share_a_uid_even_under_one_name() -> None:
    cluster = Cluster()

    first = cluster.create(PODS, a_pod("a"))
    cluster.delete(PODS, "a", "default")
    second = cluster.create(PODS, a_pod("a"))

    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_generated_names_differ_from_each_other_and_are_the_same_in_every_run() -> None:
    def create(disturbed: bool) -> list[str]:
        cluster = Cluster()
        made = []
        for _ in range(50):
            if disturbed:
                cluster.create(PODS, {"metadata": {"generateName": "db-"}}, "default")
            made.append(cluster.create(PODS, {"metadata": {"generateName": "web-"}}, "default"))
        return names(made)

    calm, disturbed = create(False), create(True)

    assert len(set(calm)) == 50
    assert all(one.startswith("web-") and len(one) == 9 for one in calm)
    assert calm == disturbed


def test_a_generated_name_avoids_one_that_is_taken() -> None:
    probe, cluster = Cluster(), Cluster()
    would_be = probe.create(PODS, {"metadata": {"generateName": "web-"}}, "default")
    cluster.create(PODS, a_pod(would_be["metadata"]["name"]))

    made = cluster.create(PODS, {"metadata": {"generateName": "web-"}}, "default")

    assert made["metadata"]["name"] != would_be["metadata"]["name"]


def test_a_taken_name_is_refused_with_already_exists() -> None:
    cluster = Cluster()
    cluster.create(PODS, a_pod("a"))

    with pytest.raises(AlreadyExists) as refused:
        cluster.create(PODS, a_pod("a"))

    status = refused.value.status()
    assert (status["code"], status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'pods "a" already exists'
    assert status["details"] == {"name": "a", "kind": "pods"}


def test_an_object_without_any_name_is_invalid() -> None:
    with pytest.raises(Invalid, match="name or generateName is required"):
        Cluster().create(NODES, {"metadata": {}})


@pytest.mark.parametrize("name", ["Upper", "-a", "a_b", "a" * 254, "a..b"])
def test_a_name_that_is_no_dns_name_is_invalid(name: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name"):
        Cluster().create(NODES, a_node(name))


def test_all_mistakes_are_told_at_once() -> None:
    wrong = a_node("Upper", **{"a": "not a value!"})

    with pytest.raises(Invalid) as refused:
        Cluster().create(NODES, wrong)

    fields = [one["field"] for one in refused.value.details["causes"]]
    assert fields == ["metadata.name", "metadata.labels[a]"]


def test_a_new_object_may_not_bring_a_resource_version() -> None:
    pod = a_pod("a")
    pod["metadata"]["resourceVersion"] = "7"

    with pytest.raises(BadRequest, match="resourceVersion should not be set"):
        Cluster().create(PODS, pod)


def test_an_object_of_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match="its kind is Pod, not Node"):
        Cluster().create(NODES, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": "n"},
        {"metadata": {"name": 7}},
        {"metadata": {"name": "n", "labels": ["a"]}},
        {"metadata": {"name": "n", "ownerReferences": ["a"]}},
        {"metadata": {"name": "n"}, "spec": "large"},
    ],
)
def test_what_cannot_be_read_as_an_object_is_a_bad_request(wrong: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("n"))

    with pytest.raises(BadRequest, match="cannot be decoded"):
        cluster.create(NODES, wrong)
    with pytest.raises(BadRequest, match="cannot be decoded"):
        cluster.update(NODES, wrong)
    with pytest.raises(BadRequest, match="cannot be decoded"):
        cluster.apply(NODES, wrong, manager="me")


def test_the_namespace_of_a_new_object_must_exist() -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        Cluster().create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "nowhere")


def test_nothing_new_goes_into_a_namespace_that_is_being_deleted() -> None:
    cluster = Cluster()
    cluster.create(NAMESPACES, {"metadata": {"name": "old"}})
    held = with_finalizer({"metadata": {"name": "held"}}, "example.com/hold")
    cluster.create(CONFIG_MAPS, held, "old")
    cluster.delete(NAMESPACES, "old")

    with pytest.raises(Forbidden, match="because it is being terminated"):
        cluster.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, "old")


def test_the_namespace_of_the_request_and_of_the_object_must_agree() -> None:
    with pytest.raises(BadRequest, match="does not match the namespace"):
        Cluster().create(PODS, a_pod("a"), "kube-system")


def test_a_status_given_at_creation_is_dropped_except_for_nodes() -> None:
    cluster = Cluster()
    status = {"conditions": [{"type": "Ready", "status": "True"}]}

    pool = cluster.create(NODE_POOLS, {**a_node_pool("p"), "status": status})
    node = cluster.create(NODES, {**a_node("n"), "status": status})

    assert "status" not in pool
    assert node["status"] == status


def test_generation_counts_changes_of_the_spec_only() -> None:
    cluster = Cluster()
    pool = thaw(cluster.create(NODE_POOLS, a_node_pool("p", weight=1)))

    def generation_after(patch: dict[str, Any], subresource: str = "") -> int:
        changed = cluster.patch(NODE_POOLS, "p", patch, PatchType.MERGE, subresource=subresource)
        return int(changed["metadata"]["generation"])

    assert pool["metadata"]["generation"] == 1
    assert generation_after({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation_after({"status": {"ready": True}}, "status") == 1
    assert generation_after({"spec": {"weight": 2}}) == 2
    assert generation_after({"metadata": {"generation": 9}}) == 2


def test_the_main_door_ignores_status_and_the_status_door_ignores_the_rest() -> None:
    cluster = Cluster()
    cluster.create(NODE_POOLS, a_node_pool("p", weight=1))
    both = {"spec": {"weight": 2}, "status": {"nodes": 3}, "metadata": {"labels": {"a": "b"}}}

    through_status = cluster.patch(NODE_POOLS, "p", both, PatchType.MERGE, subresource="status")
    through_main = cluster.patch(NODE_POOLS, "p", {**both, "status": {"nodes": 9}}, PatchType.MERGE)

    assert (through_status["spec"], through_status["status"]) == ({"weight": 1}, {"nodes": 3})
    assert "labels" not in through_status["metadata"]
    assert (through_main["spec"], through_main["status"]) == ({"weight": 2}, {"nodes": 3})


def test_a_write_on_top_of_an_old_version_conflicts() -> None:
    cluster = Cluster()
    old = thaw(cluster.create(CONFIG_MAPS, a_config_map("a", x="1")))
    cluster.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, PatchType.MERGE, "default")

    old["data"]["x"] = "3"
    with pytest.raises(Conflict, match="the object has been modified") as refused:
        cluster.update(CONFIG_MAPS, old)

    assert refused.value.code == 409
    assert cluster.get(CONFIG_MAPS, "a", "default")["data"] == {"x": "2"}


def test_a_patch_that_names_a_resource_version_is_checked_too() -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("n"))
    patch = {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}

    with pytest.raises(Conflict):
        cluster.patch(NODES, "n", patch, PatchType.MERGE)


def test_an_update_without_resource_version_overwrites_built_in_kinds_only() -> None:
    cluster = Cluster()
    cluster.create(CONFIG_MAPS, a_config_map("a", x="1"))
    cluster.create(NODE_POOLS, a_node_pool("p"))

    assert cluster.update(CONFIG_MAPS, a_config_map("a", x="2"))["data"] == {"x": "2"}
    with pytest.raises(Invalid, match="must be specified for an update"):
        cluster.update(NODE_POOLS, a_node_pool("p", weight=1))


def test_an_update_meant_for_a_predecessor_of_the_same_name_conflicts() -> None:
    cluster = Cluster()
    first = thaw(cluster.create(CONFIG_MAPS, a_config_map("a")))
    cluster.delete(CONFIG_MAPS, "a", "default")
    cluster.create(CONFIG_MAPS, a_config_map("a"))

    del first["metadata"]["resourceVersion"]
    with pytest.raises(Conflict, match="UID in precondition"):
        cluster.update(CONFIG_MAPS, first)


def test_writing_the_same_again_changes_no_resource_version_and_tells_no_watcher() -> None:
    cluster = Cluster()
    pod = cluster.create(PODS, a_pod("a", labels={"x": "y"}))
    watch = cluster.watch(PODS)
    watch.take()
    before = cluster.resource_version

    again = cluster.update(PODS, pod)
    empties: dict[str, Any] = {"metadata": {"annotations": {}, "finalizers": []}}
    patched = cluster.patch(PODS, "a", empties, PatchType.MERGE, "default")

    assert again == patched == pod
    assert cluster.resource_version == before
    assert watch.take() == []


def test_what_the_server_decides_cannot_be_written() -> None:
    cluster = Cluster()
    before = cluster.create(NODES, a_node("n"))
    meta = {"creationTimestamp": "1970-01-01T00:00:00Z", "deletionTimestamp": "x", "selfLink": None}

    after = cluster.patch(NODES, "n", {"metadata": meta}, PatchType.MERGE)

    assert after == before


def test_updating_what_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match='nodes "n" not found'):
        Cluster().update(NODES, a_node("n"))


def test_what_the_server_returns_cannot_be_changed_and_what_it_took_is_a_copy() -> None:
    cluster = Cluster()
    given = a_pod("a", labels={"x": "y"})
    returned = cluster.create(PODS, given)

    given["metadata"]["labels"]["x"] = "z"
    given["spec"]["containers"].append({"name": "more"})
    with pytest.raises(TypeError, match="cannot be changed"):
        returned["metadata"]["labels"]["x"] = "z"
    with pytest.raises(TypeError, match="cannot be changed"):
        returned["spec"]["containers"].append({})
    editable = copy.deepcopy(returned)
    editable["metadata"]["labels"]["x"] = "z"

    kept = cluster.get(PODS, "a", "default")
    assert kept["metadata"]["labels"] == {"x": "y"}
    assert len(kept["spec"]["containers"]) == 1


def test_a_dry_run_answers_like_the_real_one_and_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create(CONFIG_MAPS, a_config_map("a", x="1"))
    before = cluster.resource_version
    dry = WriteOptions(dry_run=True)

    created = cluster.create(PODS, a_pod("a"), options=dry)
    patch = {"data": {"x": "2"}}
    patched = cluster.patch(CONFIG_MAPS, "a", patch, PatchType.MERGE, "default", options=dry)

    assert created["status"]["phase"] == "Pending"
    assert patched["data"] == {"x": "2"}
    assert cluster.resource_version == before
    assert cluster.get(CONFIG_MAPS, "a", "default")["data"] == {"x": "1"}


def test_a_pods_spec_stays_as_it_is_but_for_images_and_further_tolerations() -> None:
    cluster = Cluster()
    cluster.create(PODS, a_pod("a"))
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "app:2"}]
    node = [{"op": "add", "path": "/spec/nodeName", "value": "n1"}]
    toleration = [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]
    intolerance = [{"op": "remove", "path": "/spec/tolerations"}]

    for allowed in (image, toleration):
        cluster.patch(PODS, "a", allowed, PatchType.JSON, "default")
    for forbidden in (node, intolerance):
        with pytest.raises(Invalid):
            cluster.patch(PODS, "a", forbidden, PatchType.JSON, "default")


def test_a_nodeclaims_spec_and_a_deployments_selector_are_immutable() -> None:
    cluster = Cluster()
    cluster.create(NODE_CLAIMS, {"metadata": {"name": "c"}, "spec": {"expireAfter": "720h"}})
    cluster.create(DEPLOYMENTS, a_replica_set("d"))
    selector = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}

    with pytest.raises(Invalid, match="spec: field is immutable"):
        cluster.patch(NODE_CLAIMS, "c", {"spec": {"expireAfter": "1h"}}, PatchType.MERGE)
    with pytest.raises(Invalid, match=r"spec\.selector: field is immutable"):
        cluster.patch(DEPLOYMENTS, "d", selector, PatchType.MERGE, "default")


def test_an_owner_reference_without_uid_is_invalid() -> None:
    cluster = Cluster()
    owner = cluster.create(NODES, a_node("n"))
    pod = owned_by(a_pod("a"), owner)
    pod["metadata"]["ownerReferences"][0]["uid"] = ""

    with pytest.raises(Invalid, match="uid: must not be empty"):
        cluster.create(PODS, pod)


def test_two_servers_given_the_same_calls_hold_the_same_objects() -> None:
    def run() -> ApiServer:
        cluster = Cluster()
        for name in "abc":
            cluster.create(PODS, a_pod(name))
        cluster.delete(PODS, "b", "default")
        cluster.create(PODS, {"metadata": {"generateName": "d-"}}, "default")
        return cluster

    assert run().list(PODS) == run().list(PODS)
