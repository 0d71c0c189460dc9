"""Garbage collection: what goes along with its owner, and what stays."""

from dovetail.ports.api_resources import LEASES
from tests.contract.apiserver.objects import (
    NO_FINALIZERS,
    a_lease,
    exists,
    held,
    left,
    owned_by,
    told,
)
from tests.contract.apiserver.subject import Object, Subject


def a_family(server: Subject, *, blocks: bool = False) -> Object:
    """A grandmother, her daughter, and two of the daughter's."""
    first = server.create(LEASES, a_lease("first"))
    second = server.create(LEASES, owned_by(a_lease("second"), first, blocks=blocks))
    for name in ("third-a", "third-b"):
        server.create(LEASES, owned_by(a_lease(name), second, blocks=blocks))
    return second


def test_what_an_object_owns_is_collected_after_it_generation_by_generation(
    server: Subject,
) -> None:
    a_family(server)
    watch = server.watch(LEASES)
    watch.take(4)

    server.delete(LEASES, "first")
    server.settle()

    gone = told(watch.take(4))
    assert [kind for kind, _ in gone] == ["DELETED"] * 4
    assert [name for _, name in gone][:2] == ["first", "second"]
    assert left(server) == []
    watch.stop()


def test_an_owner_that_waits_for_finalizers_keeps_its_dependents(server: Subject) -> None:
    owner = server.create(LEASES, held(a_lease("owner")))
    server.create(LEASES, owned_by(a_lease("child"), owner))

    server.delete(LEASES, "owner")
    server.settle()

    assert exists(server, LEASES, "child")
    server.patch(LEASES, "owner", NO_FINALIZERS)
    server.settle()
    assert left(server) == []


def test_an_object_with_another_living_owner_only_loses_the_reference(server: Subject) -> None:
    first = server.create(LEASES, a_lease("first"))
    second = server.create(LEASES, a_lease("second"))
    server.create(LEASES, owned_by(a_lease("child"), first, second))

    server.delete(LEASES, "first")
    server.settle()

    owners = server.get(LEASES, "child")["metadata"]["ownerReferences"]
    assert [one["name"] for one in owners] == ["second"]


def test_an_object_whose_owner_is_already_gone_is_collected(server: Subject) -> None:
    owner = server.create(LEASES, a_lease("owner"))
    server.delete(LEASES, "owner")

    server.create(LEASES, owned_by(a_lease("late"), owner))
    server.settle()

    assert not exists(server, LEASES, "late")


def test_an_object_owned_by_a_kind_that_is_not_served_is_left_alone(server: Subject) -> None:
    foreign = {"apiVersion": "x.io/v1", "kind": "Rollout", "metadata": {"name": "r", "uid": "u"}}

    server.create(LEASES, owned_by(a_lease("child"), foreign))
    server.settle()

    assert exists(server, LEASES, "child")


def test_orphaned_dependents_stay_and_forget_their_owner(server: Subject) -> None:
    a_family(server)

    server.delete(LEASES, "first", propagation="Orphan")
    server.settle()

    assert left(server) == ["second", "third-a", "third-b"]
    assert not server.get(LEASES, "second")["metadata"].get("ownerReferences")


def test_in_the_foreground_the_owner_goes_last(server: Subject) -> None:
    second = a_family(server, blocks=True)
    server.create(LEASES, owned_by(held(a_lease("slow")), second, blocks=True))

    server.delete(LEASES, "first", propagation="Foreground")
    server.settle()

    assert server.get(LEASES, "first")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert left(server) == ["first", "second", "slow"]
    server.patch(LEASES, "slow", NO_FINALIZERS)
    server.settle()
    assert left(server) == []


def test_in_the_foreground_nobody_waits_for_dependents_that_do_not_block(
    server: Subject,
) -> None:
    owner = server.create(LEASES, a_lease("owner"))
    server.create(LEASES, owned_by(held(a_lease("slow")), owner, blocks=False))

    server.delete(LEASES, "owner", propagation="Foreground")
    server.settle()

    assert left(server) == ["slow"]
    assert server.get(LEASES, "slow")["metadata"]["deletionTimestamp"]
    server.patch(LEASES, "slow", NO_FINALIZERS)


def test_a_dependent_that_stops_blocking_lets_its_owner_go(server: Subject) -> None:
    owner = server.create(LEASES, a_lease("owner"))
    server.create(LEASES, owned_by(held(a_lease("slow")), owner, blocks=True))
    server.delete(LEASES, "owner", propagation="Foreground")

    server.patch(LEASES, "slow", {"metadata": {"ownerReferences": None}})
    server.settle()

    assert left(server) == ["slow"]
    server.patch(LEASES, "slow", NO_FINALIZERS)
