"""Existing nodes: which taints count, and how much room there is."""

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Phase
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED, Effect, Taint
from dovetail.model.node import Node
from tests.support.build import a_node, a_pod

NOT_READY = Taint("node.kubernetes.io/not-ready", Effect.NO_EXECUTE)
READINESS = Taint("readiness.k8s.io/network", Effect.NO_SCHEDULE)
STARTUP = Taint("cilium", Effect.NO_SCHEDULE, "starting")
DEDICATED = Taint("dedicated", Effect.NO_SCHEDULE)
EVERY = (NOT_READY, READINESS, STARTUP, DEDICATED, UNREGISTERED)


def test_c10_s46_a_starting_node_sheds_ephemeral_readiness_and_startup_taints() -> None:
    node = a_node("n", pool="p", initialized=False, taints=EVERY, startup_taints=(STARTUP,))

    assert node.effective_taints() == (DEDICATED,)


def test_s46_a_startup_taint_is_known_by_key_and_effect_whatever_its_value() -> None:
    node = a_node(
        "n",
        pool="p",
        initialized=False,
        taints=(Taint("cilium", Effect.NO_SCHEDULE, "nearly"),),
        startup_taints=(STARTUP,),
    )

    assert node.effective_taints() == ()


def test_c10_s47_every_taint_of_an_initialised_node_counts() -> None:
    node = a_node("n", pool="p", initialized=True, taints=EVERY, startup_taints=(STARTUP,))

    assert node.effective_taints() == EVERY


def test_c10_every_taint_of_an_unmanaged_node_counts() -> None:
    node = a_node("n", initialized=False, taints=EVERY)

    assert node.effective_taints() == EVERY


def test_c11_capacity_includes_one_node_in_every_stage_of_life() -> None:
    stages = [
        a_node("ready", pool="p"),
        a_node("starting", pool="p", initialized=False),
        Node(name="launched", claim="launched", registered=False, initialized=False),
    ]

    assert [node.effective_capacity()["nodes"] for node in stages] == [1, 1, 1]


def test_s54_what_a_starting_kubelet_reports_as_zero_is_taken_from_the_claim() -> None:
    promised = Resources({"cpu": 4000, "memory": 100, "nvidia.com/gpu": 2})
    reported = Resources({"cpu": 3900, "nvidia.com/gpu": 0})
    node = Node(
        name="n",
        claim="n",
        initialized=False,
        capacity=reported,
        allocatable=reported,
        claim_capacity=promised,
        claim_allocatable=promised,
    )

    expected = {"cpu": 3900, "memory": 100, "nvidia.com/gpu": 2}
    assert node.effective_allocatable() == expected
    assert node.effective_capacity() == {**expected, "nodes": 1}


def test_s54_what_an_initialised_node_reports_is_believed() -> None:
    node = Node(
        name="n",
        claim="n",
        allocatable=Resources({"cpu": 3900, "nvidia.com/gpu": 0}),
        claim_allocatable=Resources({"nvidia.com/gpu": 2}),
    )

    assert node.effective_allocatable() == {"cpu": 3900, "nvidia.com/gpu": 0}


def test_c3_pods_that_have_ended_leave_their_room() -> None:
    running, ended = a_pod("a", cpu=1), a_pod("b", cpu=2, phase=Phase.SUCCEEDED)

    left = a_node("n", cpu=4, room=10, pods=[running, ended]).available()

    assert (left["cpu"], left["pods"]) == (3000, 9)


def test_a_node_is_managed_by_its_claim_or_its_pool_label() -> None:
    assert Node(name="n", claim="n").managed
    assert a_node("n", labels={label_keys.NODEPOOL: "p"}).managed
    assert not a_node("n").managed


def test_a_node_without_a_hostname_label_goes_by_its_name() -> None:
    assert Node(name="n").hostname == "n"
    assert a_node("n", labels={label_keys.HOSTNAME: "other"}).hostname == "other"
