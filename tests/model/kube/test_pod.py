"""Pods, their ports, and selecting them by labels."""

from typing import Any

import pytest

from dovetail.model.kube.pod import HostPort, Phase, Pod
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import DisruptionBudget
from tests.support.build import a_pod, owned_by, selector

ANY4, ANY6 = "0.0.0.0", "::"  # noqa: S104


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HostPort(80), HostPort(80)),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.1")),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip=ANY4)),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip=ANY6)),
        (HostPort(80, ip="fd00::1"), HostPort(80, ip=ANY6)),
        (HostPort(80, ip=""), HostPort(80, ip="10.0.0.1")),
    ],
)
def test_r11_the_same_port_clashes_on_the_same_or_any_address(
    one: HostPort, other: HostPort
) -> None:
    assert one.clashes(other)
    assert other.clashes(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HostPort(80), HostPort(81)),
        (HostPort(80, "TCP"), HostPort(80, "UDP")),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2")),
    ],
)
def test_r11_another_port_protocol_or_address_does_not_clash(
    one: HostPort, other: HostPort
) -> None:
    assert not one.clashes(other)
    assert not other.clashes(one)


def test_a_pod_that_has_ended_is_terminal() -> None:
    phases = {phase for phase in Phase if Pod(name="p", phase=phase).terminal}

    assert phases == {Phase.SUCCEEDED, Phase.FAILED}


def test_pods_of_daemon_sets_and_kubelets_are_known_by_their_owner() -> None:
    assert a_pod("p", owner=owned_by("DaemonSet", "d")).of_daemon_set
    assert a_pod("p", owner=owned_by("Node", "n")).static
    assert not a_pod("p", owner=owned_by("ReplicaSet", "r")).of_daemon_set
    assert not a_pod("p").static


def test_pods_of_one_template_have_equal_specs_that_can_be_keys() -> None:
    one, other = a_pod("a", cpu="1"), a_pod("b", cpu="1000m")

    assert one.spec == other.spec
    assert len({one.spec, other.spec}) == 1


# --- Selecting --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("select", "matches"),
    [
        (selector(), True),
        (selector({"app": "web"}), True),
        (selector({"app": "web", "tier": "front"}), False),
        (selector({"app": "db"}), False),
        (selector({}, ("app", "In", ["web", "db"])), True),
        (selector({}, ("app", "NotIn", ["db"])), True),
        (selector({}, ("tier", "NotIn", ["front"])), True),
        (selector({}, ("app", "NotIn", ["web"])), False),
        (selector({}, ("app", "Exists")), True),
        (selector({}, ("tier", "Exists")), False),
        (selector({}, ("tier", "DoesNotExist")), True),
        (selector({"app": "web"}, ("app", "DoesNotExist")), False),
    ],
)
def test_a_selector_matches_labels_as_kubernetes_does(select: LabelSelector, matches: bool) -> None:
    assert select.is_valid
    assert select.matches({"app": "web"}) is matches


@pytest.mark.parametrize(
    "wrong",
    [
        RequirementSpec("app", Operator.IN),
        RequirementSpec("app", Operator.NOT_IN),
        RequirementSpec("app", Operator.EXISTS, ("web",)),
        RequirementSpec("app", Operator.GT, ("1",)),
    ],
)
def test_t4_a_selector_that_kubernetes_would_refuse_is_invalid(wrong: RequirementSpec) -> None:
    assert not LabelSelector(expressions=(wrong,)).is_valid


def test_a_selector_names_the_keys_it_looks_at() -> None:
    assert selector({"app": "web"}, ("tier", "Exists")).keys == {"app", "tier"}


@pytest.mark.parametrize(
    ("budget", "blocks"),
    [
        ({"max_unavailable": "0"}, True),
        ({"max_unavailable": "0%"}, True),
        ({"min_available": "100%"}, True),
        ({"max_unavailable": "1"}, False),
        ({"min_available": "99%"}, False),
        ({"min_available": "1"}, False),
    ],
)
def test_s58_a_budget_that_lets_nobody_go_blocks_fully(
    budget: dict[str, Any], blocks: bool
) -> None:
    assert DisruptionBudget(namespace="n", name="b", **budget).blocks_fully is blocks
