"""Garbage collection: deletion of dependents with their owner."""

from dovetail.ports.api_resources import LEASES
from tests.contract.apiserver.objects import (
    NO_FINALIZERS,
    a_lease,
    event_names,
    exists,
    lease_names,
    owned_by,
    with_finalizers,
)
from tests.contract.apiserver.subject import Object, Subject


def a_family(server: Subject, *, blocks: bool = False) -> Object:
    """A grandmother, her daughter, and two of the daughter's."""
    first = server.create(LEASES, a_lease("first"))
    second = server.create(LEASES, owned_by(a_lease("second"), first, blocks=blocks))
    for name in ("third-a", "third-b"):
        server.create(LEASES, owned_by(a_lease(name), second, blocks=blocks))
    return second


def test_dependents_are_collected_generation_by_generation(server: Subject) -> None:
    a_family(server)
    watch = server.watch(LEASES)
    watch.next_events(4)

    server.delete(LEASES, "first")
    server.wait_for_controllers()

    gone = event_names(watch.next_events(4))
    assert [kind for kind, _ in gone] == ["DELETED"] * 4
    assert [name for _, name in gone][:2] == ["first", "second"]
    assert lease_names(server) == []
    watch.stop()


def test_an_owner_that_waits_for_finalizers_keeps_its_dependents(server: Subject) -> None:
    owner = server.create(LEASES, with_finalizers(a_lease("owner")))
    server.create(LEASES, owned_by(a_lease("child"), owner))

    server.delete(LEASES, "owner")
    server.wait_for_controllers()

    assert exists(server, LEASES, "child")
    server.patch(LEASES, "owner", NO_FINALIZERS)
    server.wait_for_controllers()
    assert lease_names(server) == []


def test_an_object_with_another_existing_owner_only_loses_the_reference(server: Subject) -> None:
    first = server.create(LEASES, a_lease("first"))
    second = server.create(LEASES, a_lease("second"))
    server.create(LEASES, owned_by(a_lease("child"), first, second))

    server.delete(LEASES, "first")
    server.wait_for_controllers()

    owners = server.get(LEASES, "child")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["second"]


def test_an_object_whose_owner_is_already_gone_is_collected(server: Subject) -> None:
    owner = server.create(LEASES, a_lease("owner"))
    server.delete(LEASES, "owner")

    server.create(LEASES, owned_by(a_lease("late"), owner))
    server.wait_for_controllers()

    assert not exists(server, LEASES, "late")


def test_an_object_owned_by_an_unserved_kind_is_kept(server: Subject) -> None:
    foreign = {"apiVersion": "x.io/v1", "kind": "Rollout", "metadata": {"name": "r", "uid": "u"}}

    server.create(LEASES, owned_by(a_lease("child"), foreign))
    server.wait_for_controllers()

    assert exists(server, LEASES, "child")


def test_orphaned_dependents_stay_and_lose_their_owner_reference(server: Subject) -> None:
    a_family(server)

    server.delete(LEASES, "first", propagation_policy="Orphan")
    server.wait_for_controllers()

    assert lease_names(server) == ["second", "third-a", "third-b"]
    assert not server.get(LEASES, "second")["metadata"].get("ownerReferences")


def test_in_foreground_deletion_the_owner_is_removed_last(server: Subject) -> None:
    second = a_family(server, blocks=True)
    server.create(LEASES, owned_by(with_finalizers(a_lease("slow")), second, blocks=True))

    server.delete(LEASES, "first", propagation_policy="Foreground")
    server.wait_for_controllers()

    assert server.get(LEASES, "first")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert lease_names(server) == ["first", "second", "slow"]
    server.patch(LEASES, "slow", NO_FINALIZERS)
    server.wait_for_controllers()
    assert lease_names(server) == []


def test_foreground_deletion_does_not_wait_for_dependents_that_do_not_block(server: Subject) -> None:
    owner = server.create(LEASES, a_lease("owner"))
    server.create(LEASES, owned_by(with_finalizers(a_lease("slow")), owner, blocks=False))

    server.delete(LEASES, "owner", propagation_policy="Foreground")
    server.wait_for_controllers()

    assert lease_names(server) == ["slow"]
    assert server.get(LEASES, "slow")["metadata"]["deletionTimestamp"]
    server.patch(LEASES, "slow", NO_FINALIZERS)


def test_a_dependent_that_stops_blocking_unblocks_its_owner(server: Subject) -> None:
    owner = server.create(LEASES, a_lease("owner"))
    server.create(LEASES, owned_by(with_finalizers(a_lease("slow")), owner, blocks=True))
    server.delete(LEASES, "owner", propagation_policy="Foreground")

    server.patch(LEASES, "slow", {"metadata": {"ownerReferences": None}})
    server.wait_for_controllers()

    assert lease_names(server) == ["slow"]
    server.patch(LEASES, "slow", NO_FINALIZERS)
