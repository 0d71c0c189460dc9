"""Pods, their ports, and selecting them by labels."""

from typing import Any

import pytest

from dovetail.model.kube.pod import HostPort, Pod, PodPhase
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import PodDisruptionBudget
from tests.support.scheduling.builders import a_pod, owned_by, selector

ANY4, ANY6 = "0.0.0.0", "::"  # noqa: S104


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HostPort(80), HostPort(80)),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.1")),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip=ANY4)),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip=ANY6)),
        (HostPort(80, ip="fd00::1"), HostPort(80, ip=ANY6)),
        (HostPort(80, ip=""), HostPort(80, ip="10.0.0.1")),
    ],
)
def test_r11_the_same_port_conflicts_on_the_same_or_any_address(first: HostPort, second: HostPort) -> None:
    assert first.conflicts_with(second)
    assert second.conflicts_with(first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HostPort(80), HostPort(81)),
        (HostPort(80, "TCP"), HostPort(80, "UDP")),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2")),
    ],
)
def test_r11_another_port_protocol_or_address_does_not_conflict(first: HostPort, second: HostPort) -> None:
    assert not first.conflicts_with(second)
    assert not second.conflicts_with(first)


def test_a_succeeded_or_failed_pod_is_terminal() -> None:
    phases = {phase for phase in PodPhase if Pod(name="p", phase=phase).is_terminal}

    assert phases == {PodPhase.SUCCEEDED, PodPhase.FAILED}


def test_pods_of_daemon_sets_and_kubelets_are_recognized_by_their_owner() -> None:
    assert a_pod("p", owner=owned_by("DaemonSet", "d")).is_owned_by_daemon_set
    assert a_pod("p", owner=owned_by("Node", "n")).is_static
    assert not a_pod("p", owner=owned_by("ReplicaSet", "r")).is_owned_by_daemon_set
    assert not a_pod("p").is_static


def test_pods_of_one_template_have_equal_specs_that_can_be_keys() -> None:
    first, second = a_pod("a", cpu="1"), a_pod("b", cpu="1000m")

    assert first.spec == second.spec
    assert len({first.spec, second.spec}) == 1


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
def test_t4_a_selector_that_kubernetes_would_reject_is_invalid(wrong: RequirementSpec) -> None:
    assert not LabelSelector(expressions=(wrong,)).is_valid


def test_a_selector_has_the_keys_that_it_uses() -> None:
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
def test_s58_a_budget_that_never_allows_a_disruption_blocks_all_evictions(
    budget: dict[str, Any], blocks: bool
) -> None:
    assert PodDisruptionBudget(namespace="n", name="b", **budget).blocks_all_evictions is blocks
