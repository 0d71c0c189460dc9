"""The chart's roles are exactly what the controllers need: nothing missing, nothing unused."""

from typing import Any

import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.ports.kube_client import Kube
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.checks.invariants import GuardedKube, Invariants
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario_runner import Driver
from tests.cli.demos import bundled
from tests.support.charts import only, rendered
from tests.support.noting import NotingKube
from tests.support.permissions import (
    EVERYTHING,
    Permission,
    asked_for,
    granted,
    watched,
)

pytestmark = pytest.mark.slow
ALL_GATES = {
    "featureGates": {name[0].lower() + name[1:]: True for name in EVERYTHING.__struct_fields__}
}


def roles(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the controller; the one for people is no part of it."""
    return [
        one
        for one in objects
        if one["kind"] in ("ClusterRole", "Role") and not one["metadata"]["name"].endswith("-admin")
    ]


def rules(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rule for role in roles(objects) for rule in role["rules"]]


def test_nothing_is_missing_and_nothing_is_unused() -> None:
    objects = rendered(settings=ALL_GATES)

    assert granted(rules(objects)) == asked_for() | watched()


def test_what_a_feature_needs_is_granted_only_when_it_is_switched_on() -> None:
    usual, most = (granted(rules(rendered(settings=one))) for one in ({}, ALL_GATES))

    assert {one.resource.partition("/")[0] for one in most - usual} == {
        *("nodeoverlays", "capacitybuffers", "podtemplates"),
        *("deployments", "replicasets", "statefulsets"),
    }


@pytest.mark.parametrize("name", ["inflate", "delete-node", "spot-storm"])
def test_what_controllers_do_in_a_whole_cluster_is_allowed(name: str) -> None:
    done: set[Permission] = set()

    def recorded(api: ApiServer, invariants: Invariants) -> Kube:
        return NotingKube(GuardedKube(api, invariants), done)

    story = bundled(name)
    box = Box(story, catalog=bundled_catalog(), prices=bundled_prices(), kube=recorded)
    Driver(box, story).run()

    assert done - granted(rules(rendered())) == set()
    assert Permission("karpenter.sh", "nodeclaims", "create") in done


def test_secrets_are_not_read_and_workloads_not_written() -> None:
    allowed = granted(rules(rendered(settings=ALL_GATES)))

    assert not [one for one in allowed if one.resource.startswith(("secrets", "configmaps"))]
    written = {one for one in allowed if one.verb not in ("get", "list", "watch")}
    assert {one.resource for one in written} == {
        *("nodeclaims", "nodeclaims/status", "nodepools", "nodepools/status"),
        *("ec2nodeclasses", "ec2nodeclasses/status", "nodeoverlays/status"),
        *("capacitybuffers/status", "nodes", "pods", "pods/eviction", "pods/status"),
        *("events", "leases"),
    }
    assert Permission("", "pods", "create") not in allowed
    assert "*" not in {part for one in allowed for part in one}


def test_the_lease_is_written_in_the_own_namespace_only_and_by_name() -> None:
    objects = rendered(settings={"leaderElectionName": "who-leads"})

    everywhere = granted(only(objects, "ClusterRole")["rules"])
    assert {one.verb for one in everywhere if one.resource == "leases"} == {"list"}
    here = only(objects, "Role")
    assert here["metadata"]["namespace"] == "kube-system"
    named = [one for one in here["rules"] if one.get("resourceNames") == ["who-leads"]]
    assert {one.verb for one in granted(named)} == {"get", "patch"}


def test_without_an_election_no_lease_is_written() -> None:
    objects = rendered(settings={"disableLeaderElection": True}, replicas=1)

    assert {one.verb for one in granted(rules(objects)) if one.resource == "leases"} == {"list"}


def test_every_role_is_bound_to_the_controllers_account_and_to_nobody_else() -> None:
    objects = rendered()

    bound = [one for one in objects if one["kind"].endswith("RoleBinding")]
    account = {"kind": "ServiceAccount", "name": "dovetail", "namespace": "kube-system"}
    assert all(one["subjects"] == [account] for one in bound)
    assert sorted((one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bound) == sorted(
        (one["kind"], one["metadata"]["name"]) for one in roles(objects)
    )
