"""Taints and tolerations, as Kubernetes matches them."""

import pytest

from dovetail.model.kube.taints import (
    DISRUPTED,
    TOLERATE_PREFERENCES,
    UNREGISTERED,
    Effect,
    Taint,
    Toleration,
    is_ephemeral,
    untolerated,
)

DEDICATED = Taint("dedicated", Effect.NO_SCHEDULE, "gpu")


@pytest.mark.parametrize(
    "consent",
    [
        Toleration("dedicated", "Equal", "gpu", Effect.NO_SCHEDULE),
        Toleration("dedicated", "Equal", "gpu"),
        Toleration("dedicated", "", "gpu"),
        Toleration("dedicated", "Exists", effect=Effect.NO_SCHEDULE),
        Toleration("dedicated", "Exists"),
        Toleration(operator="Exists", effect=Effect.NO_SCHEDULE),
        Toleration(operator="Exists"),
    ],
)
def test_p24_every_way_to_tolerate_a_taint_works(consent: Toleration) -> None:
    assert consent.tolerates(DEDICATED)
    assert untolerated([DEDICATED], [consent]) is None


@pytest.mark.parametrize(
    "consent",
    [
        Toleration("other", "Equal", "gpu", Effect.NO_SCHEDULE),
        Toleration("dedicated", "Equal", "cpu", Effect.NO_SCHEDULE),
        Toleration("dedicated", "Equal", "gpu", Effect.NO_EXECUTE),
        Toleration("dedicated", "Exists", effect=Effect.NO_EXECUTE),
        Toleration(operator="Equal", value="gpu"),
        TOLERATE_PREFERENCES,
    ],
)
def test_p25_another_key_value_or_effect_does_not_tolerate(consent: Toleration) -> None:
    assert not consent.tolerates(DEDICATED)
    assert untolerated([DEDICATED], [consent]) == DEDICATED


def test_p25_no_toleration_tolerates_nothing() -> None:
    assert untolerated([DEDICATED], []) == DEDICATED


def test_p26_a_toleration_without_a_taint_is_harmless() -> None:
    assert untolerated([], [Toleration("dedicated", "Exists")]) is None


def test_a_preference_counts_as_hard_until_it_is_tolerated() -> None:
    soft = Taint("busy", Effect.PREFER_NO_SCHEDULE)

    assert untolerated([soft], []) == soft
    assert untolerated([soft], [TOLERATE_PREFERENCES]) is None


def test_every_taint_must_be_tolerated_and_the_first_that_is_not_is_named() -> None:
    other = Taint("other", Effect.NO_EXECUTE)

    assert untolerated([DEDICATED, other], [Toleration("dedicated", "Exists")]) == other


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
    taint = Taint("sla", Effect.NO_SCHEDULE, "950")

    assert Toleration("sla", operator, bound).tolerates(taint) is tolerated


def test_a_numeric_toleration_does_not_match_a_taint_that_is_no_number() -> None:
    assert not Toleration("sla", "Gt", "1").tolerates(Taint("sla", Effect.NO_SCHEDULE, "high"))


# --- R12 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "taint",
    [
        Taint("node.kubernetes.io/not-ready", Effect.NO_SCHEDULE),
        Taint("node.kubernetes.io/not-ready", Effect.NO_EXECUTE),
        Taint("node.kubernetes.io/unreachable", Effect.NO_SCHEDULE),
        Taint("node.cloudprovider.kubernetes.io/uninitialized", Effect.NO_SCHEDULE, "true"),
        UNREGISTERED,
        Taint("readiness.k8s.io/network", Effect.NO_SCHEDULE),
        Taint("readiness.k8s.io/storage", Effect.PREFER_NO_SCHEDULE, "waiting"),
        Taint("readiness.k8s.io/gpu", Effect.NO_EXECUTE),
    ],
)
def test_r12_taints_of_a_starting_node_are_known(taint: Taint) -> None:
    assert is_ephemeral(taint)


@pytest.mark.parametrize(
    "taint",
    [
        Taint("node.kubernetes.io/unreachable", Effect.NO_EXECUTE),
        Taint("node.kubernetes.io/not-ready", Effect.PREFER_NO_SCHEDULE),
        Taint("example.com/readiness.k8s.io/network", Effect.NO_SCHEDULE),
        Taint("readiness.k8s.iox/network", Effect.NO_SCHEDULE),
        DISRUPTED,
        DEDICATED,
    ],
)
def test_r12_taints_that_only_resemble_them_are_not(taint: Taint) -> None:
    assert not is_ephemeral(taint)


def test_a_taint_is_written_as_kubectl_does() -> None:
    assert str(DEDICATED) == "dedicated=gpu:NoSchedule"
    assert str(DISRUPTED) == "karpenter.sh/disrupted:NoSchedule"
