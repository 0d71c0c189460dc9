"""Set-ups that are unusual and fine, and faults in other clothes than usual."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from dovetail.doctor.check import examined
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts, Role
from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    NODE_POOLS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Resource,
)

SPOT = "EC2 Spot Instance Interruption Warning"
Edit = Callable[[dict[str, Any]], None]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _with(facts: Facts, kind: Resource, edit: Edit, name: str = "") -> Facts:
    """Return facts in which the objects of a kind, or one of them, are edited."""
    objects = [_plain(one) for one in facts.of(kind)]
    for one in objects:
        if name in ("", one["metadata"]["name"]):
            edit(one)
    return msgspec.structs.replace(facts, objects={**facts.objects, kind: tuple(objects)})


def _codes(facts: Facts) -> set[str]:
    return {one.code for one in examined(facts, CHECKS).findings}


def _of_pods(**fields: Any) -> Edit:
    return lambda one: one["spec"]["template"]["spec"].update(fields)


def _without_dns_pods(facts: Facts) -> Facts:
    pods = [one for one in facts.of(PODS) if not one["metadata"]["name"].startswith("coredns")]
    return msgspec.structs.replace(facts, objects={**facts.objects, PODS: tuple(pods)})


def _dns_without_nodes(facts: Facts) -> Facts:
    def move(pod: dict[str, Any]) -> None:
        if pod["metadata"]["name"].startswith("coredns"):
            pod["spec"].pop("nodeName", None)

    return _with(facts, PODS, move)


def _rule(facts: Facts, pattern: dict[str, Any], **more: str) -> Facts:
    rules = ({"EventPattern": json.dumps(pattern), **more},)
    return msgspec.structs.replace(facts, aws=msgspec.structs.replace(facts.aws, rules=rules))


def _controller_role(facts: Facts, role: Role) -> Facts:
    return msgspec.structs.replace(
        facts, aws=msgspec.structs.replace(facts.aws, controller_role=role)
    )


@pytest.mark.parametrize(
    "pattern",
    [
        {"source": ["aws.ec2"]},
        {"source": ["aws.ec2"], "detail-type": [{"prefix": "EC2 Spot"}]},
        {"detail-type": [SPOT]},
        {"source": ["aws.health", "aws.ec2"], "detail-type": ["AWS Health Event", SPOT]},
    ],
)
def test_a_rule_that_matches_more_than_spot_warnings_will_do(
    healthy: Facts, pattern: dict[str, Any]
) -> None:
    assert _codes(_rule(healthy, pattern)) == set()


@pytest.mark.parametrize(
    ("pattern", "state"),
    [
        ({"source": ["aws.ec2"], "detail-type": [SPOT]}, "DISABLED"),
        ({"source": ["aws.ec2"], "detail-type": ["EC2 Instance Rebalance Recommendation"]}, ""),
        ({"source": ["aws.health"]}, ""),
    ],
)
def test_a_rule_that_is_off_or_about_something_else_will_not(
    healthy: Facts, pattern: dict[str, Any], state: str
) -> None:
    assert _codes(_rule(healthy, pattern, **({"State": state} if state else {}))) == {"K8"}


@pytest.mark.parametrize(
    "fields", [{"hostNetwork": True}, {"dnsPolicy": "None"}, {"dnsPolicy": "Default"}]
)
def test_a_controller_that_does_not_ask_coredns_cannot_wait_for_it(
    healthy: Facts, fields: dict[str, Any]
) -> None:
    waiting = _dns_without_nodes(healthy)

    assert "K1" in _codes(waiting)
    assert "K1" not in _codes(_with(waiting, DEPLOYMENTS, _of_pods(**fields), "karpenter"))


def test_a_cluster_whose_dns_is_not_a_deployment_is_not_called_deadlocked(healthy: Facts) -> None:
    assert "K1" not in _codes(_without_dns_pods(healthy))


def test_an_administrator_lacks_no_permission(healthy: Facts) -> None:
    old = healthy.aws.controller_role
    assert old is not None
    bare = Role(name=old.name, arn=old.arn)
    admin = Role(name=old.name, arn=old.arn, attached=("AdministratorAccess",))

    assert {"I4", "I6"} <= _codes(_controller_role(healthy, bare))
    assert _codes(_controller_role(healthy, admin)) == set()


def test_the_smaller_policy_for_nodes_is_enough(healthy: Facts) -> None:
    roles = {
        name: Role(
            name=role.name,
            arn=role.arn,
            attached=(
                "AmazonEKSWorkerNodeMinimalPolicy",
                "AmazonEKS_CNI_Policy",
                "AmazonEC2ContainerRegistryFullAccess",
            ),
        )
        for name, role in healthy.aws.node_roles.items()
        if role is not None
    }
    facts = msgspec.structs.replace(
        healthy, aws=msgspec.structs.replace(healthy.aws, node_roles=roles)
    )

    assert roles
    assert _codes(facts) == set()


def _zones(*names: str) -> Edit:
    asked = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": list(names)}
    return lambda pool: pool["spec"]["template"]["spec"]["requirements"].append(asked)


def test_a_zone_without_a_subnet_may_stand_beside_one_that_has_some(healthy: Facts) -> None:
    reached = {one["AvailabilityZone"] for every in healthy.aws.subnets.values() for one in every}
    region = healthy.catalog.regions[healthy.region]
    other = next(zone for zone in sorted(region.zones) if zone not in reached)

    assert _codes(_with(healthy, NODE_POOLS, _zones(other, *sorted(reached)))) == set()
    assert _codes(_with(healthy, NODE_POOLS, _zones(other))) == {"K11"}
    assert _codes(_with(healthy, NODE_POOLS, _zones("us-east-1z", *sorted(reached)))) == {"K11"}


DEFAULTS = {"consolidateAfter": "0s", "budgets": [{"nodes": "10%"}]}


def _disruption(*, meta: dict[str, Any]) -> Edit:
    def edit(pool: dict[str, Any]) -> None:
        pool["spec"]["disruption"] = dict(DEFAULTS)
        pool["metadata"] = {"name": pool["metadata"]["name"], **meta}

    return edit


APPLIED = {"f:spec": {"f:disruption": {"f:consolidateAfter": {}, "f:budgets": {}}}}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"uid": "1", "managedFields": [{"operation": "Apply", "fieldsV1": APPLIED}]},
        {
            "uid": "1",
            "annotations": {LAST_APPLIED: json.dumps({"spec": {"disruption": DEFAULTS}})},
        },
    ],
    ids=["in a file", "server-side apply", "kubectl apply"],
)
def test_defaults_that_somebody_wrote_down_are_no_defaults(
    healthy: Facts, meta: dict[str, Any]
) -> None:
    assert "P2" not in _codes(_with(healthy, NODE_POOLS, _disruption(meta=meta)))


@pytest.mark.parametrize(
    "meta",
    [
        {"uid": "1"},
        {"uid": "1", "managedFields": [{"operation": "Update", "fieldsV1": APPLIED}]},
        {"uid": "1", "annotations": {LAST_APPLIED: "no json"}},
    ],
)
def test_defaults_that_the_server_may_have_written_are_named(
    healthy: Facts, meta: dict[str, Any]
) -> None:
    assert "P2" in _codes(_with(healthy, NODE_POOLS, _disruption(meta=meta)))


def _strict(chosen: dict[str, Any] | None) -> Edit:
    def edit(budget: dict[str, Any]) -> None:
        budget["spec"]["selector"] = chosen
        budget["status"].update(disruptionsAllowed=0, currentHealthy=2, expectedPods=2)

    return edit


EXPRESSION = {"key": "app", "operator": "In", "values": ["web"]}


@pytest.mark.parametrize(
    ("chosen", "blocks"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchExpressions": [EXPRESSION]}, True),
        ({}, True),
        (None, False),
        ({"matchExpressions": [{**EXPRESSION, "operator": "NotIn"}]}, False),
    ],
)
def test_a_budget_holds_the_pods_that_it_selects_in_whatever_words(
    healthy: Facts, chosen: dict[str, Any] | None, blocks: bool
) -> None:
    facts = _with(healthy, POD_DISRUPTION_BUDGETS, _strict(chosen))

    assert ("P4" in _codes(facts)) is blocks
