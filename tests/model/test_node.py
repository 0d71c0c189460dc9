"""Existing nodes: effective taints and resources."""

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import PodPhase
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint, TaintEffect
from dovetail.model.node import Node
from tests.support.scheduling.builders import a_node, a_pod

NOT_READY = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE)
READINESS = Taint("readiness.k8s.io/network", TaintEffect.NO_SCHEDULE)
STARTUP = Taint("cilium", TaintEffect.NO_SCHEDULE, "starting")
DEDICATED = Taint("dedicated", TaintEffect.NO_SCHEDULE)
EVERY = (NOT_READY, READINESS, STARTUP, DEDICATED, UNREGISTERED_TAINT)


def test_c10_s46_ephemeral_readiness_and_startup_taints_of_a_starting_node_are_ignored() -> None:
    node = a_node("n", pool="p", initialized=False, taints=EVERY, startup_taints=(STARTUP,))

    assert node.effective_taints() == (DEDICATED,)


def test_s46_a_startup_taint_matches_by_key_and_effect_with_any_value() -> None:
    node = a_node(
        "n",
        pool="p",
        initialized=False,
        taints=(Taint("cilium", TaintEffect.NO_SCHEDULE, "nearly"),),
        startup_taints=(STARTUP,),
    )

    assert node.effective_taints() == ()


def test_c10_s47_every_taint_of_an_initialized_node_counts() -> None:
    node = a_node("n", pool="p", initialized=True, taints=EVERY, startup_taints=(STARTUP,))

    assert node.effective_taints() == EVERY


def test_c10_every_taint_of_an_unmanaged_node_counts() -> None:
    node = a_node("n", initialized=False, taints=EVERY)

    assert node.effective_taints() == EVERY


def test_c11_capacity_includes_one_node_at_every_stage() -> None:
    stages = [
        a_node("ready", pool="p"),
        a_node("starting", pool="p", initialized=False),
        Node(name="launched", claim="launched", registered=False, initialized=False),
    ]

    assert [node.effective_capacity()["nodes"] for node in stages] == [1, 1, 1]


def test_s54_resources_reported_as_zero_are_taken_from_the_claim() -> None:
    claimed = Resources({"cpu": 4000, "memory": 100, "nvidia.com/gpu": 2})
    reported = Resources({"cpu": 3900, "nvidia.com/gpu": 0})
    node = Node(
        name="n",
        claim="n",
        initialized=False,
        capacity=reported,
        allocatable=reported,
        claim_capacity=claimed,
        claim_allocatable=claimed,
    )

    expected = {"cpu": 3900, "memory": 100, "nvidia.com/gpu": 2}
    assert node.effective_allocatable() == expected
    assert node.effective_capacity() == {**expected, "nodes": 1}


def test_s54_resources_reported_by_an_initialized_node_count() -> None:
    node = Node(
        name="n",
        claim="n",
        allocatable=Resources({"cpu": 3900, "nvidia.com/gpu": 0}),
        claim_allocatable=Resources({"nvidia.com/gpu": 2}),
    )

    assert node.effective_allocatable() == {"cpu": 3900, "nvidia.com/gpu": 0}


def test_c3_terminal_pods_use_no_resources() -> None:
    running, ended = a_pod("a", cpu=1), a_pod("b", cpu=2, phase=PodPhase.SUCCEEDED)

    left = a_node("n", cpu=4, room=10, pods=[running, ended]).available()

    assert (left["cpu"], left["pods"]) == (3000, 9)


def test_a_node_is_managed_by_its_claim_or_its_pool_label() -> None:
    assert Node(name="n", claim="n").is_managed
    assert a_node("n", labels={label_keys.NODEPOOL: "p"}).is_managed
    assert not a_node("n").is_managed


def test_a_node_without_a_hostname_label_has_its_name_as_hostname() -> None:
    assert Node(name="n").hostname == "n"
    assert a_node("n", labels={label_keys.HOSTNAME: "other"}).hostname == "other"
