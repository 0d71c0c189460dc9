"""Creation and update: fields of the server and of the client."""

from typing import Any

import pytest

from dovetail.ports.api_resources import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODE_POOLS,
    NODES,
    POD_TEMPLATES,
    PODS,
)
from dovetail.ports.kube_errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from tests.contract.apiserver.objects import (
    a_config_map,
    a_lease,
    a_node_pool,
    a_pod,
    event_names,
    exists,
    owned_by,
    with_finalizers,
)
from tests.contract.apiserver.subject import Object, Subject


def test_a_new_object_gets_uid_creation_time_and_resource_version(server: Subject) -> None:
    pod = server.create(PODS, a_pod("a"))

    meta = pod["metadata"]
    assert meta["uid"]
    assert meta["creationTimestamp"].endswith("Z")
    assert meta["resourceVersion"]
    assert meta["namespace"] == server.namespace
    assert pod["status"]["phase"] == "Pending"


def test_no_two_objects_share_a_uid_even_under_one_name(server: Subject) -> None:
    first = server.create(LEASES, a_lease("a"))
    server.delete(LEASES, "a")
    second = server.create(LEASES, a_lease("a"))

    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_generated_names_have_the_prefix_and_differ(server: Subject) -> None:
    names = {
        server.create(LEASES, {"metadata": {"generateName": "web-"}})["metadata"]["name"] for _ in range(10)
    }

    assert len(names) == 10
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


def test_an_existing_name_is_already_exists(server: Subject) -> None:
    server.create(PODS, a_pod("a"))

    with pytest.raises(AlreadyExists, match='pods "a" already exists') as refused:
        server.create(PODS, a_pod("a"))

    assert refused.value.details["name"] == "a"
    assert refused.value.details["kind"] == "pods"


def test_an_object_without_any_name_is_invalid(server: Subject) -> None:
    with pytest.raises(Invalid, match="name or generateName is required"):
        server.create(LEASES, {"metadata": {}})


@pytest.mark.parametrize("name", ["Upper", "-a", "a_b", "a" * 254, "a..b"])
def test_a_name_that_is_not_a_dns_name_is_invalid(server: Subject, name: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name"):
        server.create(LEASES, a_lease(name))


def test_all_validation_errors_are_reported_at_once(server: Subject) -> None:
    with pytest.raises(Invalid) as refused:
        server.create(LEASES, a_lease("Upper", a="not a value!"))

    fields = [cause["field"] for cause in refused.value.details["causes"]]
    assert [field.partition("[")[0] for field in fields] == ["metadata.name", "metadata.labels"]


def test_a_new_object_may_not_have_a_resource_version(server: Subject) -> None:
    lease = a_lease("a")
    lease["metadata"]["resourceVersion"] = "7"

    with pytest.raises(ApiError, match="resourceVersion should not be set"):
        server.create(LEASES, lease)


def test_an_object_of_another_kind_is_rejected(server: Subject) -> None:
    with pytest.raises(BadRequest):
        server.create(LEASES, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": "n"},
        {"metadata": {"name": "n", "labels": ["a"]}},
        {"metadata": {"name": "n"}, "spec": "large"},
    ],
)
def test_a_malformed_object_is_a_bad_request(server: Subject, wrong: Object) -> None:
    with pytest.raises(BadRequest):
        server.create(LEASES, wrong)


def test_the_namespace_of_a_new_object_must_exist(server: Subject) -> None:
    nowhere = server.unique("nowhere")

    with pytest.raises(NotFound, match=f'namespaces "{nowhere}" not found'):
        server.create(LEASES, a_lease("a"), namespace=nowhere)


def test_nothing_can_be_created_in_a_terminating_namespace(server: Subject) -> None:
    old = server.unique("old")
    server.create(NAMESPACES, {"metadata": {"name": old}})
    server.create(LEASES, with_finalizers(a_lease("held")), namespace=old)
    server.delete(NAMESPACES, old)

    with pytest.raises(Forbidden, match="because it is being terminated"):
        server.create(LEASES, a_lease("late"), namespace=old)


def test_the_namespace_of_the_request_and_of_the_object_must_agree(server: Subject) -> None:
    lease = a_lease("a")
    lease["metadata"]["namespace"] = "default"

    with pytest.raises(BadRequest, match="does not match the namespace"):
        server.create(LEASES, lease)


def test_a_status_given_at_creation_is_dropped_except_for_nodes(server: Subject) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": server.unique("n")}, "status": status}

    pool = server.create(NODE_POOLS, {**a_node_pool(server.unique("p")), "status": status})
    registered = server.create(NODES, node)

    assert "conditions" not in pool.get("status", {})
    assert registered["status"]["conditions"][0]["type"] == "Ready"


def test_generation_counts_changes_of_the_spec_only(server: Subject) -> None:
    name = server.unique("p")
    created = server.create(NODE_POOLS, a_node_pool(name, weight=1))

    def generation_after(patch: dict[str, Any], subresource: str = "") -> int:
        changed = server.patch(NODE_POOLS, name, patch, subresource=subresource)
        return int(changed["metadata"]["generation"])

    assert created["metadata"]["generation"] == 1
    assert generation_after({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation_after({"status": {"nodes": 3}}, "status") == 1
    assert generation_after({"spec": {"weight": 2}}) == 2
    assert generation_after({"metadata": {"generation": 9}}) == 2


def test_generation_of_a_pod_template_counts_changes_of_the_template(server: Subject) -> None:
    def template(image: str) -> Object:
        containers = [{"name": "main", "image": image}]
        return {"metadata": {"name": "a"}, "template": {"spec": {"containers": containers}}}

    created = server.create(POD_TEMPLATES, template("one"))
    labelled = server.patch(POD_TEMPLATES, "a", {"metadata": {"labels": {"a": "b"}}})
    changed = server.patch(POD_TEMPLATES, "a", {"template": template("two")["template"]})

    generations = [obj["metadata"]["generation"] for obj in (created, labelled, changed)]
    assert generations == [1, 1, 2]


def test_an_update_ignores_status_and_a_status_update_ignores_the_rest(server: Subject) -> None:
    name = server.unique("p")
    server.create(NODE_POOLS, a_node_pool(name, weight=1))
    both: Object = {"spec": {"weight": 2}, "status": {"nodes": 3}, "metadata": {"labels": {"a": "b"}}}

    through_status = server.patch(NODE_POOLS, name, both, subresource="status")
    through_main = server.patch(NODE_POOLS, name, {**both, "status": {"nodes": 9}})

    assert (through_status["spec"]["weight"], through_status["status"]["nodes"]) == (1, 3)
    assert "labels" not in through_status["metadata"]
    assert (through_main["spec"]["weight"], through_main["status"]["nodes"]) == (2, 3)


def test_a_status_gets_the_defaults_of_its_schema(server: Subject) -> None:
    name = server.unique("p")
    server.create(NODE_POOLS, a_node_pool(name))

    after = server.patch(NODE_POOLS, name, {"status": {"resources": {"nodes": "0"}}}, subresource="status")

    assert after["status"]["nodes"] == 0


def test_an_update_of_an_old_version_conflicts(server: Subject) -> None:
    old = server.create(CONFIG_MAPS, a_config_map("a", x="1"))
    server.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}})

    old["data"]["x"] = "3"
    with pytest.raises(Conflict, match="the object has been modified"):
        server.update(CONFIG_MAPS, old)

    assert server.get(CONFIG_MAPS, "a")["data"] == {"x": "2"}


def test_a_patch_that_names_a_resource_version_is_checked_too(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    with pytest.raises(Conflict):
        server.patch(LEASES, "a", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}})


def test_an_update_without_resource_version_overwrites_built_in_kinds_only(server: Subject) -> None:
    name = server.unique("p")
    server.create(CONFIG_MAPS, a_config_map("a", x="1"))
    server.create(NODE_POOLS, a_node_pool(name))

    assert server.update(CONFIG_MAPS, a_config_map("a", x="2"))["data"] == {"x": "2"}
    with pytest.raises(Invalid, match="must be specified for an update"):
        server.update(NODE_POOLS, a_node_pool(name, weight=1))


def test_an_update_with_the_uid_of_an_earlier_object_conflicts(server: Subject) -> None:
    first = server.create(CONFIG_MAPS, a_config_map("a"))
    server.delete(CONFIG_MAPS, "a")
    server.create(CONFIG_MAPS, a_config_map("a"))

    del first["metadata"]["resourceVersion"]
    with pytest.raises(Conflict, match="UID in precondition"):
        server.update(CONFIG_MAPS, first)


def test_an_update_without_change_keeps_the_version_and_sends_no_event(server: Subject) -> None:
    lease = server.create(LEASES, a_lease("a", x="y"))
    watch = server.watch(LEASES, resource_version=lease["metadata"]["resourceVersion"])

    again = server.update(LEASES, lease)
    patched = server.patch(LEASES, "a", {"metadata": {"annotations": {}, "finalizers": []}})
    server.create(LEASES, a_lease("next"))

    version = lease["metadata"]["resourceVersion"]
    assert again["metadata"]["resourceVersion"] == version
    assert patched["metadata"]["resourceVersion"] == version
    assert event_names(watch.next_events(1)) == [("ADDED", "next")]
    watch.stop()


def test_the_creation_timestamp_is_immutable(server: Subject) -> None:
    created = server.create(LEASES, a_lease("a"))["metadata"]

    after = server.patch(LEASES, "a", {"metadata": {"creationTimestamp": "1999-01-01T00:00:00Z"}})

    assert after["metadata"]["creationTimestamp"] == created["creationTimestamp"]


def test_a_deletion_cannot_be_started_by_an_update(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    with pytest.raises(Invalid, match="field is immutable"):
        server.patch(LEASES, "a", {"metadata": {"deletionTimestamp": "1999-01-01T00:00:00Z"}})


def test_updating_a_missing_object_is_not_found(server: Subject) -> None:
    with pytest.raises(NotFound, match='"a" not found'):
        server.update(CONFIG_MAPS, a_config_map("a"))
    with pytest.raises(NotFound, match='"a" not found'):
        server.patch(CONFIG_MAPS, "a", {})
    with pytest.raises(NotFound, match='"a" not found'):
        server.get(CONFIG_MAPS, "a")


def test_a_dry_run_returns_the_result_and_changes_nothing(server: Subject) -> None:
    server.create(CONFIG_MAPS, a_config_map("a", x="1"))

    created = server.create(PODS, a_pod("a"), dry_run=True)
    patched = server.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, dry_run=True)

    assert created["status"]["phase"] == "Pending"
    assert patched["data"] == {"x": "2"}
    assert not exists(server, PODS, "a")
    assert server.get(CONFIG_MAPS, "a")["data"] == {"x": "1"}


def test_an_owner_reference_without_uid_is_invalid(server: Subject) -> None:
    owner = server.create(LEASES, a_lease("owner"))
    lease = owned_by(a_lease("a"), owner)
    lease["metadata"]["ownerReferences"][0]["uid"] = ""

    with pytest.raises(Invalid, match="uid"):
        server.create(LEASES, lease)


def test_a_missing_subresource_is_not_found(server: Subject) -> None:
    server.create(CONFIG_MAPS, a_config_map("a"))

    for subresource in ("scale", "status"):
        with pytest.raises(NotFound):
            server.get(CONFIG_MAPS, "a", subresource=subresource)
