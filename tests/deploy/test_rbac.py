"""The chart's roles grant exactly the permissions that the controllers use."""

import re
from pathlib import Path
from typing import Any

import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.savings import LEDGER_CONFIG_MAP
from dovetail.ports.api_resources import EVENTS
from dovetail.ports.kube_client import KubeClient
from dovetail.record.fields import RECORDED
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.checks.invariants import CheckedKubeClient, Invariants
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario_runner import ScenarioRunner
from tests.cli.demos import bundled
from tests.support.helm.charts import only, rendered
from tests.support.kube.permission_recorder import PermissionRecorder
from tests.support.kube.permissions import (
    ALL_FEATURE_GATES,
    Permission,
    granted,
    permission,
    requested,
    watched,
)

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
READ = ("get", "list", "watch")
ALL_GATES = {
    "featureGates": {
        name[0].lower() + name[1:]: True
        for name in ALL_FEATURE_GATES.__struct_fields__
        if name != "NodeClassCEL"  # One of awsFeatureGates, as in Karpenter's chart.
    }
}


def roles(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the controller's roles, without those for users."""
    return [
        obj
        for obj in objects
        if obj["kind"] in ("ClusterRole", "Role")
        and not obj["metadata"]["name"].endswith(("-admin", "-view"))
    ]


def rules(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rule for role in roles(objects) for rule in role["rules"]]


def test_granted_permissions_equal_the_requests_of_the_controllers() -> None:
    objects = rendered(settings=ALL_GATES)

    assert granted(rules(objects)) == requested() | watched()


def test_a_feature_gate_adds_only_the_permissions_it_needs() -> None:
    default, all_features = (granted(rules(rendered(settings=settings))) for settings in ({}, ALL_GATES))

    assert {permission.resource.partition("/")[0] for permission in all_features - default} == {
        *("nodeoverlays", "capacitybuffers", "podtemplates"),
        *("deployments", "replicasets", "statefulsets"),
    }


@pytest.mark.parametrize("name", ["inflate", "delete-node", "spot-storm"])
def test_every_request_of_a_simulated_cluster_is_allowed(name: str) -> None:
    done: set[Permission] = set()

    def recorded(api: ApiServer, invariants: Invariants) -> KubeClient:
        return PermissionRecorder(CheckedKubeClient(api, invariants), done)

    scenario = bundled(name)
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices(), kube=recorded)
    ScenarioRunner(cluster, scenario).run()

    assert done - granted(rules(rendered())) == set()
    assert Permission("karpenter.sh", "nodeclaims", "create") in done


def test_the_recorder_may_list_and_watch_what_it_records_and_nothing_else() -> None:
    role = only(rendered(recorder={"enabled": True}), "ClusterRole", "dovetail-recorder")

    recorded = {permission(resource, verb) for resource in RECORDED for verb in ("list", "watch")}
    assert granted(role["rules"]) == recorded | {permission(EVENTS, "list")}


def test_the_recorder_is_off_by_default_and_selected_by_nothing_of_the_controller() -> None:
    objects = rendered(recorder={"enabled": True})

    assert not [obj for obj in rendered() if obj["metadata"]["name"].endswith("-recorder")]
    labels = only(objects, "Deployment", "dovetail-recorder")["spec"]["template"]["metadata"]["labels"]
    selector = only(objects, "Deployment", "dovetail")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= labels.items()


def test_users_with_view_or_edit_may_read_and_only_admins_may_write() -> None:
    objects = rendered()
    admin, view = (only(objects, "ClusterRole", f"dovetail-{name}") for name in ("admin", "view"))

    def aggregated(role: dict[str, Any]) -> set[str]:
        prefix = "rbac.authorization.k8s.io/aggregate-to-"
        return {key.removeprefix(prefix) for key in role["metadata"]["labels"] if key.startswith(prefix)}

    assert (aggregated(admin), aggregated(view)) == ({"admin"}, {"view", "edit"})
    readable = {permission for permission in granted(admin["rules"]) if permission.verb in READ}
    assert granted(view["rules"]) == readable


def documented() -> set[tuple[str, str, str]]:
    """Return resource, name and verb of each line in the guide's table of permissions."""
    guide = (ROOT / "docs" / "guides" / "install.md").read_text()
    table = guide.partition("\n## Permissions\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {
        (resource, name, verb)
        for first, verbs, *_ in lines
        for resource, name in re.findall(r"`([a-z0-9/]+)`(?: `([a-z-]+)`)?", first)
        for verb in verbs.split(", ")
    }


def test_the_guide_lists_exactly_the_permissions_of_the_default_values() -> None:
    in_the_chart = {
        (resource, name, verb)
        for rule in rules(rendered())
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }

    assert documented() == in_the_chart


def test_secrets_cannot_be_read_and_workloads_cannot_be_written() -> None:
    allowed = granted(rules(rendered(settings=ALL_GATES)))

    assert not [permission for permission in allowed if permission.resource.startswith("secrets")]
    written = {permission for permission in allowed if permission.verb not in ("get", "list", "watch")}
    assert {permission.resource for permission in written} == {
        *("nodeclaims", "nodeclaims/status", "nodepools", "nodepools/status"),
        *("ec2nodeclasses", "ec2nodeclasses/status", "nodeoverlays/status"),
        *("capacitybuffers/status", "nodes", "pods", "pods/eviction", "pods/status"),
        *("events", "leases", "configmaps"),
    }
    assert Permission("", "pods", "create") not in allowed
    assert "*" not in {part for permission in allowed for part in permission}


def test_only_the_named_lease_in_the_release_namespace_can_be_written() -> None:
    objects = rendered(settings={"leaderElectionName": "my-lease"})

    cluster_wide = granted(only(objects, "ClusterRole")["rules"])
    assert {permission.verb for permission in cluster_wide if permission.resource == "leases"} == {"list"}
    role = only(objects, "Role")
    assert role["metadata"]["namespace"] == "kube-system"
    named = [rule for rule in role["rules"] if rule.get("resourceNames") == ["my-lease"]]
    assert {permission.verb for permission in granted(named)} == {"get", "patch"}


def test_only_the_savings_ledger_among_config_maps_can_be_read_or_written() -> None:
    objects = rendered()

    of_config_maps = [rule for rule in rules(objects) if "configmaps" in rule["resources"]]
    assert [rule["resourceNames"] for rule in of_config_maps] == [[LEDGER_CONFIG_MAP]]
    assert {permission.verb for permission in granted(of_config_maps)} == {"get", "patch"}
    assert only(objects, "ConfigMap", LEDGER_CONFIG_MAP)["metadata"] | {"labels": {}} == {
        "name": LEDGER_CONFIG_MAP,
        "namespace": "kube-system",
        "labels": {},
    }


def test_without_leader_election_no_lease_can_be_written() -> None:
    objects = rendered(settings={"disableLeaderElection": True}, replicas=1)

    assert {permission.verb for permission in granted(rules(objects)) if permission.resource == "leases"} == {
        "list"
    }


def test_every_role_is_bound_to_the_service_account_only() -> None:
    objects = rendered()

    bindings = [obj for obj in objects if obj["kind"].endswith("RoleBinding")]
    account = {"kind": "ServiceAccount", "name": "dovetail", "namespace": "kube-system"}
    assert all(binding["subjects"] == [account] for binding in bindings)
    assert sorted((binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings) == sorted(
        (role["kind"], role["metadata"]["name"]) for role in roles(objects)
    )
