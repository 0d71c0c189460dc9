"""Zones: names mean different zones in different accounts."""

import pytest

from dovetail.eks.desired.zones import ZoneError, with_account_zones
from tests.support.eks.configs import a_cluster

ZONES = {
    "us-east-1a": "use1-az3",
    "us-east-1b": "use1-az1",
    "us-east-1c": "use1-az2",
    "us-east-1d": "use1-az4",
}


def _zones(zones: int | list[str], in_use: list[str] | None = None) -> list[str]:
    config = with_account_zones(a_cluster(vpc={"create": {"zones": zones}}), ZONES, in_use or [])
    assert config.vpc is not None
    assert config.vpc.create is not None
    assert isinstance(config.vpc.create.zones, list)
    return config.vpc.create.zones


def test_zones_without_a_control_plane_are_left_out_by_id() -> None:
    assert _zones(3) == ["us-east-1b", "us-east-1c", "us-east-1d"]


def test_zones_with_subnets_of_the_cluster_come_first() -> None:
    assert _zones(2, in_use=["us-east-1d"]) == ["us-east-1d", "us-east-1b"]


def test_zone_that_supports_no_control_plane_in_this_account_is_rejected() -> None:
    with pytest.raises(ZoneError, match=r"zones\[1\]: us-east-1a is use1-az3 in this account"):
        _zones(["us-east-1b", "us-east-1a"])


def test_zone_that_the_account_does_not_have_is_rejected_with_those_it_has() -> None:
    with pytest.raises(ZoneError, match="has no zone us-east-1f; it has us-east-1a, us-east-1b"):
        _zones(["us-east-1b", "us-east-1f"])


def test_more_zones_than_the_account_has_are_rejected() -> None:
    with pytest.raises(ZoneError, match="this account has 3 zones in us-east-1 that support"):
        _zones(4)


def test_names_of_zones_that_only_some_accounts_have_are_accepted_offline() -> None:
    assert a_cluster(
        region="us-west-1",
        vpc={"create": {"zones": ["us-west-1a", "us-west-1c"]}},
        nodePools=[{"name": "default", "zones": ["us-west-1c"]}],
    )
