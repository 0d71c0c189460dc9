"""Taints and tolerations, as Kubernetes matches them."""

import pytest

from dovetail.model.kube.taints import (
    DISRUPTED_TAINT,
    TOLERATE_PREFER_NO_SCHEDULE,
    UNREGISTERED_TAINT,
    Taint,
    TaintEffect,
    Toleration,
    find_untolerated_taint,
    is_ephemeral,
)

DEDICATED = Taint("dedicated", TaintEffect.NO_SCHEDULE, "gpu")


@pytest.mark.parametrize(
    "consent",
    [
        Toleration("dedicated", "Equal", "gpu", TaintEffect.NO_SCHEDULE),
        Toleration("dedicated", "Equal", "gpu"),
        Toleration("dedicated", "", "gpu"),
        Toleration("dedicated", "Exists", effect=TaintEffect.NO_SCHEDULE),
        Toleration("dedicated", "Exists"),
        Toleration(operator="Exists", effect=TaintEffect.NO_SCHEDULE),
        Toleration(operator="Exists"),
    ],
)
def test_p24_every_way_to_tolerate_a_taint_works(consent: Toleration) -> None:
    assert consent.tolerates(DEDICATED)
    assert find_untolerated_taint([DEDICATED], [consent]) is None


@pytest.mark.parametrize(
    "consent",
    [
        Toleration("other", "Equal", "gpu", TaintEffect.NO_SCHEDULE),
        Toleration("dedicated", "Equal", "cpu", TaintEffect.NO_SCHEDULE),
        Toleration("dedicated", "Equal", "gpu", TaintEffect.NO_EXECUTE),
        Toleration("dedicated", "Exists", effect=TaintEffect.NO_EXECUTE),
        Toleration(operator="Equal", value="gpu"),
        TOLERATE_PREFER_NO_SCHEDULE,
    ],
)
def test_p25_another_key_value_or_effect_does_not_tolerate(consent: Toleration) -> None:
    assert not consent.tolerates(DEDICATED)
    assert find_untolerated_taint([DEDICATED], [consent]) == DEDICATED


def test_p25_no_toleration_tolerates_nothing() -> None:
    assert find_untolerated_taint([DEDICATED], []) == DEDICATED


def test_p26_a_toleration_without_a_taint_is_harmless() -> None:
    assert find_untolerated_taint([], [Toleration("dedicated", "Exists")]) is None


def test_a_preference_counts_as_hard_until_it_is_tolerated() -> None:
    soft = Taint("busy", TaintEffect.PREFER_NO_SCHEDULE)

    assert find_untolerated_taint([soft], []) == soft
    assert find_untolerated_taint([soft], [TOLERATE_PREFER_NO_SCHEDULE]) is None


def test_every_taint_must_be_tolerated_and_the_first_that_is_not_is_named() -> None:
    other = Taint("other", TaintEffect.NO_EXECUTE)

    assert find_untolerated_taint([DEDICATED, other], [Toleration("dedicated", "Exists")]) == other


@pytest.mark.parametrize(
    ("operator", "bound", "tolerated"),
    [
        ("Gt", "900", True),
        ("Gt", "950", False),
        ("Lt", "1000", True),
        ("Lt", "950", False),
        ("Gt", "many", False),
        ("Lt", "", False),
    ],
)
def test_numeric_tolerations_compare_the_value_of_the_taint(
    operator: str, bound: str, tolerated: bool
) -> None:
    taint = Taint("sla", TaintEffect.NO_SCHEDULE, "950")

    assert Toleration("sla", operator, bound).tolerates(taint) is tolerated


def test_a_numeric_toleration_does_not_match_a_taint_that_is_no_number() -> None:
    assert not Toleration("sla", "Gt", "1").tolerates(Taint("sla", TaintEffect.NO_SCHEDULE, "high"))


# --- R12 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "taint",
    [
        Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE),
        Taint("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE),
        Taint("node.kubernetes.io/unreachable", TaintEffect.NO_SCHEDULE),
        Taint("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect.NO_SCHEDULE, "true"),
        UNREGISTERED_TAINT,
        Taint("readiness.k8s.io/network", TaintEffect.NO_SCHEDULE),
        Taint("readiness.k8s.io/storage", TaintEffect.PREFER_NO_SCHEDULE, "waiting"),
        Taint("readiness.k8s.io/gpu", TaintEffect.NO_EXECUTE),
    ],
)
def test_r12_taints_of_a_starting_node_are_recognized(taint: Taint) -> None:
    assert is_ephemeral(taint)


@pytest.mark.parametrize(
    "taint",
    [
        Taint("node.kubernetes.io/unreachable", TaintEffect.NO_EXECUTE),
        Taint("node.kubernetes.io/not-ready", TaintEffect.PREFER_NO_SCHEDULE),
        Taint("example.com/readiness.k8s.io/network", TaintEffect.NO_SCHEDULE),
        Taint("readiness.k8s.iox/network", TaintEffect.NO_SCHEDULE),
        DISRUPTED_TAINT,
        DEDICATED,
    ],
)
def test_r12_similar_taints_are_not_recognized(taint: Taint) -> None:
    assert not is_ephemeral(taint)


def test_a_taint_is_formatted_as_in_kubectl() -> None:
    assert str(DEDICATED) == "dedicated=gpu:NoSchedule"
    assert str(DISRUPTED_TAINT) == "karpenter.sh/disrupted:NoSchedule"
