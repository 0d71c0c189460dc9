"""Deletion: finalizers, preconditions, collections and namespaces."""

import pytest

from dovetail.ports.api_resources import LEASES, NAMESPACES, NODE_CLAIMS
from dovetail.ports.kube_errors import Conflict, Forbidden, Invalid, NotFound
from tests.contract.apiserver.objects import (
    NO_FINALIZERS,
    a_lease,
    a_node_claim,
    exists,
    lease_names,
    with_finalizers,
)
from tests.contract.apiserver.subject import Subject

ONE, OTHER = "contract.dovetail.dev/one", "contract.dovetail.dev/other"


def test_an_object_without_finalizers_is_removed_at_once(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    server.delete(LEASES, "a")

    assert not exists(server, LEASES, "a")
    with pytest.raises(NotFound):
        server.delete(LEASES, "a")


def test_an_object_with_finalizers_waits_for_the_last_of_them(server: Subject) -> None:
    server.create(LEASES, with_finalizers(a_lease("a"), ONE, OTHER))

    server.delete(LEASES, "a")
    waiting = server.patch(LEASES, "a", {"metadata": {"finalizers": [OTHER]}})

    assert waiting["metadata"]["deletionTimestamp"]
    assert exists(server, LEASES, "a")
    server.patch(LEASES, "a", NO_FINALIZERS)
    assert not exists(server, LEASES, "a")


def test_a_second_deletion_of_a_terminating_object_changes_nothing(server: Subject) -> None:
    server.create(LEASES, with_finalizers(a_lease("a")))
    server.delete(LEASES, "a")
    first = server.get(LEASES, "a")

    server.delete(LEASES, "a")

    assert server.get(LEASES, "a") == first
    server.patch(LEASES, "a", NO_FINALIZERS)


def test_a_terminating_object_accepts_no_new_finalizers(server: Subject) -> None:
    server.create(LEASES, with_finalizers(a_lease("a"), ONE))
    server.delete(LEASES, "a")

    with pytest.raises(Invalid, match="no new finalizers"):
        server.patch(LEASES, "a", {"metadata": {"finalizers": [ONE, OTHER]}})
    server.patch(LEASES, "a", NO_FINALIZERS)


def test_setting_the_deletion_timestamp_increments_the_generation(server: Subject) -> None:
    name = server.unique("c")
    server.create(NODE_CLAIMS, with_finalizers(a_node_claim(name)))

    server.delete(NODE_CLAIMS, name)

    assert server.get(NODE_CLAIMS, name)["metadata"]["generation"] == 2
    server.patch(NODE_CLAIMS, name, NO_FINALIZERS)


def test_an_unmet_precondition_is_a_conflict(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    with pytest.raises(Conflict, match="precondition"):
        server.delete(LEASES, "a", uid="other")
    with pytest.raises(Conflict, match="precondition"):
        server.delete(LEASES, "a", resource_version="1")

    assert exists(server, LEASES, "a")


def test_met_preconditions_allow_the_deletion(server: Subject) -> None:
    meta = server.create(LEASES, a_lease("a"))["metadata"]

    server.delete(LEASES, "a", uid=meta["uid"], resource_version=meta["resourceVersion"])

    assert not exists(server, LEASES, "a")


def test_a_collection_is_deleted_by_selector(server: Subject) -> None:
    for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
        server.create(LEASES, a_lease(name, app=app))

    server.delete_collection(LEASES, label_selector="app=web")

    assert lease_names(server) == ["b"]


def test_a_dry_run_deletes_nothing(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    server.delete(LEASES, "a", dry_run=True)

    assert exists(server, LEASES, "a")
    assert "deletionTimestamp" not in server.get(LEASES, "a")["metadata"]


def test_the_objects_of_a_deleted_namespace_are_deleted(server: Subject) -> None:
    old = server.unique("old")
    server.create(NAMESPACES, {"metadata": {"name": old}})
    server.create(LEASES, a_lease("inside"), namespace=old)
    server.create(LEASES, a_lease("elsewhere"))

    server.delete(NAMESPACES, old)
    server.wait_for_controllers()

    assert not exists(server, NAMESPACES, old)
    assert lease_names(server) == ["elsewhere"]
    with pytest.raises(NotFound):
        server.get(LEASES, "inside", namespace=old)


def test_a_namespace_waits_until_its_last_object_is_gone(server: Subject) -> None:
    old = server.unique("old")
    server.create(NAMESPACES, {"metadata": {"name": old}})
    server.create(LEASES, with_finalizers(a_lease("a")), namespace=old)

    server.delete(NAMESPACES, old)
    server.wait_for_controllers()

    assert server.get(NAMESPACES, old)["status"]["phase"] == "Terminating"
    server.patch(LEASES, "a", NO_FINALIZERS, namespace=old)
    server.wait_for_controllers()
    assert not exists(server, NAMESPACES, old)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(server: Subject, name: str) -> None:
    with pytest.raises(Forbidden):
        server.delete(NAMESPACES, name)
