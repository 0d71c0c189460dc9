"""Subnets that were there before: which of them can hold a cluster."""

import pytest

from dovetail.eks.apply.subnet_check import Unfit, check_subnets
from dovetail.eks.plan.resource import Existing, Observed, Resource
from tests.support.clusters import ACCOUNT

Place = tuple[str, str]


def _seen(**subnets: Place) -> Observed:
    found = {
        f"subnet-{name}": {"VpcId": vpc, "AvailabilityZone": zone}
        for name, (vpc, zone) in subnets.items()
    }
    selection = Existing(kind="subnet-selection", name="nodes", properties={"Subnets": found})
    return Observed(account=ACCOUNT, resources={selection.address: selection})


def _asked(*ids: str, vpc: str | None = None) -> list[Resource]:
    within = {"VpcId": vpc} if vpc else {}
    properties = {"Ids": [f"subnet-{one}" for one in ids], **within}
    return [Resource(kind="subnet-selection", name="nodes", properties=properties, given=True)]


def test_subnets_of_one_vpc_in_two_zones_will_do() -> None:
    check_subnets(_asked("a", "b", vpc="vpc-1"), _seen(a=("vpc-1", "za"), b=("vpc-1", "zb")))


@pytest.mark.parametrize(
    ("asked", "seen", "told"),
    [
        (
            _asked("a", "b", "c"),
            _seen(a=("vpc-1", "za"), b=("vpc-1", "zb")),
            "vpc.existing.subnets: there is no subnet-c in this account and region",
        ),
        (
            _asked("a", "b", vpc="vpc-1"),
            _seen(a=("vpc-1", "za"), b=("vpc-2", "zb")),
            "vpc.existing.subnets: subnet-b is in vpc-2, not in vpc-1",
        ),
        (
            _asked("a", "b"),
            _seen(a=("vpc-1", "za"), b=("vpc-2", "zb")),
            "these are in more than one VPC: vpc-1, vpc-2; say vpc.existing.id",
        ),
        (
            _asked("a", "b"),
            _seen(a=("vpc-1", "za"), b=("vpc-1", "za")),
            "all are in za; EKS wants two zones at least",
        ),
    ],
)
def test_subnets_that_cannot_hold_a_cluster_are_refused_with_the_reason(
    asked: list[Resource], seen: Observed, told: str
) -> None:
    with pytest.raises(Unfit, match=told):
        check_subnets(asked, seen)


def test_nodes_of_a_guest_may_be_in_one_zone() -> None:
    house = Resource(kind="eks-cluster", name="theirs", given=True)

    check_subnets([*_asked("a"), house], _seen(a=("vpc-1", "za")))


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Unfit) as refused:
        check_subnets(_asked("a", "c", vpc="vpc-9"), _seen(a=("vpc-1", "za")))

    assert len(str(refused.value).splitlines()) == 4
