"""Unusual installations: correct ones, and errors in an unusual form."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from dovetail.doctor.facts import Facts, Role
from dovetail.doctor.run import run_checks
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_POOLS, POD_DISRUPTION_BUDGETS, PODS, Resource

SPOT = "EC2 Spot Instance Interruption Warning"
Edit = Callable[[dict[str, Any]], None]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _with(facts: Facts, kind: Resource, edit: Edit, name: str = "") -> Facts:
    """Return facts with edited objects of a kind: all, or the one with a name."""
    objects = [_plain(obj) for obj in facts.of(kind)]
    for obj in objects:
        if name in ("", obj["metadata"]["name"]):
            edit(obj)
    return msgspec.structs.replace(facts, objects={**facts.objects, kind: tuple(objects)})


def _codes(facts: Facts) -> set[str]:
    return {finding.code for finding in run_checks(facts).findings}


def _pod_spec(**fields: Any) -> Edit:
    return lambda obj: obj["spec"]["template"]["spec"].update(fields)


def _without_dns_pods(facts: Facts) -> Facts:
    pods = [pod for pod in facts.of(PODS) if not pod["metadata"]["name"].startswith("coredns")]
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
    return msgspec.structs.replace(facts, aws=msgspec.structs.replace(facts.aws, controller_role=role))


@pytest.mark.parametrize(
    "pattern",
    [
        {"source": ["aws.ec2"]},
        {"source": ["aws.ec2"], "detail-type": [{"prefix": "EC2 Spot"}]},
        {"detail-type": [SPOT]},
        {"source": ["aws.health", "aws.ec2"], "detail-type": ["AWS Health Event", SPOT]},
    ],
)
def test_rule_that_matches_spot_interruptions_among_others_has_no_findings(
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
def test_rule_that_is_disabled_or_matches_no_spot_interruptions_is_reported(
    healthy: Facts, pattern: dict[str, Any], state: str
) -> None:
    assert _codes(_rule(healthy, pattern, **({"State": state} if state else {}))) == {"K8"}


@pytest.mark.parametrize("fields", [{"hostNetwork": True}, {"dnsPolicy": "None"}, {"dnsPolicy": "Default"}])
def test_controller_without_cluster_dns_has_no_dns_deadlock(healthy: Facts, fields: dict[str, Any]) -> None:
    pending_dns = _dns_without_nodes(healthy)

    assert "K1" in _codes(pending_dns)
    assert "K1" not in _codes(_with(pending_dns, DEPLOYMENTS, _pod_spec(**fields), "karpenter"))


def test_cluster_without_coredns_pods_has_no_dns_deadlock(healthy: Facts) -> None:
    assert "K1" not in _codes(_without_dns_pods(healthy))


def test_administrator_lacks_no_permission(healthy: Facts) -> None:
    old = healthy.aws.controller_role
    assert old is not None
    bare = Role(name=old.name, arn=old.arn, trust=old.trust)
    admin = Role(name=old.name, arn=old.arn, attached=("AdministratorAccess",), trust=old.trust)

    assert {"I4", "I6"} <= _codes(_controller_role(healthy, bare))
    assert _codes(_controller_role(healthy, admin)) == set()


def test_minimal_worker_node_policy_is_enough(healthy: Facts) -> None:
    roles = {
        name: Role(
            name=role.name,
            arn=role.arn,
            attached=(
                "AmazonEKSWorkerNodeMinimalPolicy",
                "AmazonEKS_CNI_Policy",
                "AmazonEC2ContainerRegistryFullAccess",
            ),
            trust=role.trust,
        )
        for name, role in healthy.aws.node_roles.items()
        if role is not None
    }
    facts = msgspec.structs.replace(healthy, aws=msgspec.structs.replace(healthy.aws, node_roles=roles))

    assert roles
    assert _codes(facts) == set()


def _zones(*names: str) -> Edit:
    requirement = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": list(names)}
    return lambda pool: pool["spec"]["template"]["spec"]["requirements"].append(requirement)


def test_zone_without_a_subnet_is_reported_only_if_no_zone_has_one(healthy: Facts) -> None:
    reached = {subnet["AvailabilityZone"] for subnets in healthy.aws.subnets.values() for subnet in subnets}
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
        {"uid": "1", "annotations": {LAST_APPLIED: json.dumps({"spec": {"disruption": DEFAULTS}})}},
    ],
    ids=["in a file", "server-side apply", "kubectl apply"],
)
def test_stated_defaults_are_not_reported(healthy: Facts, meta: dict[str, Any]) -> None:
    assert "P2" not in _codes(_with(healthy, NODE_POOLS, _disruption(meta=meta)))


@pytest.mark.parametrize(
    "meta",
    [
        {"uid": "1"},
        {"uid": "1", "managedFields": [{"operation": "Update", "fieldsV1": APPLIED}]},
        {"uid": "1", "annotations": {LAST_APPLIED: "no json"}},
    ],
)
def test_defaults_of_the_api_server_are_reported(healthy: Facts, meta: dict[str, Any]) -> None:
    assert "P2" in _codes(_with(healthy, NODE_POOLS, _disruption(meta=meta)))


def _strict(selector: dict[str, Any] | None) -> Edit:
    def edit(budget: dict[str, Any]) -> None:
        budget["spec"]["selector"] = selector
        budget["status"].update(disruptionsAllowed=0, currentHealthy=2, expectedPods=2)

    return edit


EXPRESSION = {"key": "app", "operator": "In", "values": ["web"]}


@pytest.mark.parametrize(
    ("selector", "blocks"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchExpressions": [EXPRESSION]}, True),
        ({}, True),
        (None, False),
        ({"matchExpressions": [{**EXPRESSION, "operator": "NotIn"}]}, False),
    ],
)
def test_pdb_blocks_the_pods_that_its_selector_matches(
    healthy: Facts, selector: dict[str, Any] | None, blocks: bool
) -> None:
    facts = _with(healthy, POD_DISRUPTION_BUDGETS, _strict(selector))

    assert ("P4" in _codes(facts)) is blocks
