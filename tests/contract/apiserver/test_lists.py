"""Lists: selectors, order, pages and versions."""

from typing import Any

import pytest

from dovetail.ports.api_resources import LEASES, PODS
from dovetail.ports.kube_errors import BadRequest, Gone, Timeout
from tests.contract.apiserver.objects import a_lease, a_pod, names
from tests.contract.apiserver.subject import Subject

TOO_LARGE = str(1 << 40)


def test_a_list_is_ordered_by_name_and_selects_by_labels(server: Subject) -> None:
    for name, app in (("c", "web"), ("a", "web"), ("b", "db")):
        server.create(LEASES, a_lease(name, app=app, **{name: "x"}))

    def listed(labels: str) -> list[str]:
        return names(server.list(LEASES, label_selector=labels)["items"])

    assert listed("") == ["a", "b", "c"]
    assert listed("app=web") == ["a", "c"]
    assert listed("app!=web") == ["b"]
    assert listed("app in (web, db),!c") == ["a", "b"]
    assert listed("app notin (db),a") == ["a"]
    assert listed("app=web,app!=web") == []


def test_pods_can_be_selected_by_their_node_and_phase(server: Subject) -> None:
    for name in ("a", "b", "c"):
        server.create(PODS, a_pod(name))
    server.bind("a", {"target": {"kind": "Node", "name": "n1"}})

    def listed(fields: str) -> list[str]:
        return names(server.list(PODS, field_selector=fields)["items"])

    assert listed("spec.nodeName=n1") == ["a"]
    assert listed("spec.nodeName=") == ["b", "c"]
    assert listed("spec.nodeName!=n1,metadata.name!=c") == ["b"]
    assert listed("status.phase=Pending,metadata.name==a") == ["a"]
    assert listed("status.phase=Running") == []


@pytest.mark.parametrize(
    "options", [{"label_selector": "a in"}, {"field_selector": "spec.image=x"}, {"resource_version": "soon"}]
)
def test_an_invalid_selector_is_a_bad_request(server: Subject, options: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        server.list(PODS, **options)


def test_all_pages_of_a_list_have_one_version(server: Subject) -> None:
    for name in "abcde":
        server.create(LEASES, a_lease(name))

    first = server.list(LEASES, limit=2)
    server.delete(LEASES, "c")
    server.create(LEASES, a_lease("bb"))
    second = server.list(LEASES, limit=2, continue_token=first["metadata"]["continue"])
    third = server.list(LEASES, limit=2, continue_token=second["metadata"]["continue"])

    assert [names(page["items"]) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert first["metadata"]["remainingItemCount"] == 3
    assert not third["metadata"].get("continue")
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


def test_an_unknown_continue_token_is_a_bad_request(server: Subject) -> None:
    with pytest.raises(BadRequest):
        server.list(LEASES, limit=2, continue_token="nonsense")  # noqa: S106 - not a password


def test_a_list_can_be_at_an_earlier_version(server: Subject) -> None:
    server.create(LEASES, a_lease("a", pool="x"))
    server.create(LEASES, a_lease("b"))
    then = server.list(LEASES)
    server.patch(LEASES, "a", {"metadata": {"labels": {"pool": "y"}}})
    server.delete(LEASES, "b")
    server.create(LEASES, a_lease("c"))

    version = then["metadata"]["resourceVersion"]
    exactly = server.list(LEASES, resource_version=version, exact=True)
    at_least = server.list(LEASES, resource_version=version)

    assert exactly["items"] == then["items"]
    assert names(at_least["items"]) == ["a", "c"]


def test_a_list_at_a_compacted_version_is_gone(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    with pytest.raises(Gone):
        server.list(LEASES, resource_version=server.compacted_version(), exact=True)


def test_a_version_from_the_future_times_out(server: Subject) -> None:
    with pytest.raises(Timeout, match="Too large resource version"):
        server.list(LEASES, resource_version=TOO_LARGE)
