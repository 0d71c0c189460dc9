"""Checks before apply: existing subnets and the Kubernetes version."""

import pytest

from dovetail.eks.apply.preflight import SubnetError, validate_existing_subnets, validate_version_change
from dovetail.eks.plan.resource import DesiredResource, ObservedResource, ObservedState
from dovetail.eks.versions import VersionError
from tests.support.eks.configs import ACCOUNT

VpcAndZone = tuple[str, str]


def _observed(**subnets: VpcAndZone) -> ObservedState:
    properties = {
        f"subnet-{name}": {"VpcId": vpc, "AvailabilityZone": zone} for name, (vpc, zone) in subnets.items()
    }
    selection = ObservedResource(kind="subnet-selection", name="nodes", properties={"Subnets": properties})
    return ObservedState(account=ACCOUNT, resources={selection.address: selection})


def _selection(*ids: str, vpc: str | None = None) -> list[DesiredResource]:
    within = {"VpcId": vpc} if vpc else {}
    properties = {"Ids": [f"subnet-{subnet_id}" for subnet_id in ids], **within}
    return [DesiredResource(kind="subnet-selection", name="nodes", properties=properties, external=True)]


def test_subnets_of_one_vpc_in_two_zones_are_accepted() -> None:
    validate_existing_subnets(
        _selection("a", "b", vpc="vpc-1"), _observed(a=("vpc-1", "za"), b=("vpc-1", "zb"))
    )


@pytest.mark.parametrize(
    ("desired", "observed", "message"),
    [
        (
            _selection("a", "b", "c"),
            _observed(a=("vpc-1", "za"), b=("vpc-1", "zb")),
            "vpc.existing.subnets: subnet-c does not exist in this account and region",
        ),
        (
            _selection("a", "b", vpc="vpc-1"),
            _observed(a=("vpc-1", "za"), b=("vpc-2", "zb")),
            "vpc.existing.subnets: subnet-b is in vpc-2, not in vpc-1",
        ),
        (
            _selection("a", "b"),
            _observed(a=("vpc-1", "za"), b=("vpc-2", "zb")),
            "the subnets are in more than one VPC: vpc-1, vpc-2; set vpc.existing.id",
        ),
        (
            _selection("a", "b"),
            _observed(a=("vpc-1", "za"), b=("vpc-1", "za")),
            "all subnets are in za; EKS requires at least two zones",
        ),
    ],
)
def test_unusable_subnets_are_rejected_with_the_reason(
    desired: list[DesiredResource], observed: ObservedState, message: str
) -> None:
    with pytest.raises(SubnetError, match=message):
        validate_existing_subnets(desired, observed)


def test_nodes_of_an_existing_cluster_may_be_in_one_zone() -> None:
    cluster = DesiredResource(kind="eks-cluster", name="theirs", external=True)

    validate_existing_subnets([*_selection("a"), cluster], _observed(a=("vpc-1", "za")))


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(SubnetError) as raised:
        validate_existing_subnets(_selection("a", "c", vpc="vpc-9"), _observed(a=("vpc-1", "za")))

    assert len(str(raised.value).splitlines()) == 4


def _validate(running: str, target: str, *, external: bool = False) -> None:
    desired = DesiredResource(
        kind="eks-cluster", name="dev", properties={"Version": target}, external=external
    )
    current = ObservedResource(kind="eks-cluster", name="dev", properties={"Version": running})
    validate_version_change([desired], ObservedState(account=ACCOUNT, resources={current.address: current}))


@pytest.mark.parametrize(("running", "target"), [("1.33", "1.33"), ("1.33", "1.34"), ("", "1.34")])
def test_same_and_next_minor_version_are_accepted(running: str, target: str) -> None:
    _validate(running, target)


def test_downgrade_is_rejected() -> None:
    with pytest.raises(VersionError, match=r"runs 1\.33; EKS cannot downgrade to 1\.32"):
        _validate("1.33", "1.32")


def test_upgrade_by_several_versions_is_rejected_and_names_the_next() -> None:
    with pytest.raises(VersionError, match=r"1\.32 first, then the next, up to 1\.34"):
        _validate("1.31", "1.34")


def test_version_of_an_existing_cluster_is_not_checked() -> None:
    _validate("1.31", "1.34", external=True)
