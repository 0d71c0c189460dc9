"""Versions of Kubernetes that a running cluster can go to."""

import pytest

from dovetail.eks.apply.version_check import NoWay, check_version
from dovetail.eks.plan.resource import Existing, Observed, Resource
from tests.support.clusters import ACCOUNT


def _from_to(runs: str, asked: str, *, given: bool = False) -> None:
    wanted = Resource(kind="eks-cluster", name="dev", properties={"Version": asked}, given=given)
    existing = Existing(kind="eks-cluster", name="dev", properties={"Version": runs})
    check_version([wanted], Observed(account=ACCOUNT, resources={existing.address: existing}))


@pytest.mark.parametrize(("runs", "asked"), [("1.33", "1.33"), ("1.33", "1.34"), ("", "1.34")])
def test_the_same_version_and_the_next_one_can_be_had(runs: str, asked: str) -> None:
    _from_to(runs, asked)


def test_a_cluster_does_not_go_back() -> None:
    with pytest.raises(NoWay, match=r"runs 1\.33, and EKS does not go back to 1\.32"):
        _from_to("1.33", "1.32")


def test_a_cluster_goes_up_by_one_at_a_time_and_the_next_is_named() -> None:
    with pytest.raises(NoWay, match=r"apply 1\.32 first, then the next, up to 1\.34"):
        _from_to("1.31", "1.34")


def test_the_version_of_somebody_elses_cluster_is_theirs() -> None:
    _from_to("1.31", "1.34", given=True)
