"""Nodes of the controller: resources in use by them, drift after an upgrade.

The role of a running node is its access to AWS and, with its access entry, to the
cluster. A file that gives nodes another role makes them drift, and the controller
replaces them. Only then can the old role go. A new Kubernetes version makes them
drift as well.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

import msgspec

from dovetail.aws.claim_tags import CLUSTER_TAG
from dovetail.eks.aws_client import AwsClient, tag_filter
from dovetail.eks.plan.planner import Action, FollowUp, Plan, Step
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.model.labels import NODEPOOL

_STATES: Final = ["pending", "running", "stopping", "stopped"]
_REPLACEMENT_SECONDS: Final = 240
"""Typical duration of a node's replacement: launch, drain, termination."""
_USED_BY_NODES: Final = ("iam-role", "instance-profile", "eks-access-entry", "security-group")


async def keep_used(plan: Plan, aws: AwsClient) -> Plan:
    """Return the plan without deletions of what instances of the cluster use."""
    if not any(step.action is Action.DELETE and step.kind in _USED_BY_NODES for step in plan.steps):
        return plan
    instances = await aws.describe_instances(
        tag_filter(CLUSTER_TAG, aws.cluster), {"Name": "instance-state-name", "Values": _STATES}
    )
    if not instances:
        return plan
    users = _users(instances, await _roles_of_profiles(instances, aws))
    kept = {step.id: count for step in plan.steps if (count := _count_users(step, users))}
    steps = tuple(
        msgspec.structs.replace(
            step, depends_on=tuple(other for other in step.depends_on if other not in kept)
        )
        for step in plan.steps
        if step.id not in kept
    )
    notes = tuple(
        f"{KINDS[step.kind].display_name} {step.name} is kept while {_instances(kept[step.id])} it; "
        "apply again once they are replaced"
        for step in plan.steps
        if step.id in kept
    )
    return msgspec.structs.replace(plan, steps=steps, kept=notes)


def _instances(count: int) -> str:
    return "1 instance uses" if count == 1 else f"{count} instances use"


async def with_drift(plan: Plan, desired: Sequence[DesiredResource], aws: AwsClient) -> Plan:
    """Return the plan with the drift that a new Kubernetes version causes.

    AMI aliases resolve to AMIs of the new version, so the controller replaces the
    nodes of NodePools, as fast as the budgets of each NodePool allow.
    """
    version = _new_version(plan)
    if version is None:
        return plan
    running = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    nodes: Counter[str] = Counter()
    for instance in await aws.describe_instances(tag_filter(CLUSTER_TAG, aws.cluster), running):
        tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
        nodes[tags.get(NODEPOOL, "")] += 1
    manifests = [resource.properties for resource in desired if resource.kind == "kubernetes-object"]
    classes = {_name(manifest): manifest for manifest in manifests if manifest.get("kind") == "EC2NodeClass"}
    follow_ups = [
        FollowUp(
            message=f"pods of namespace {resource.name} on Fargate keep their kubelet until you restart "
            f"them: kubectl rollout restart deployment -n {resource.name}"
        )
        for resource in desired
        if resource.kind == "eks-fargate-profile"
    ]
    follow_ups += [
        _drift(pool, nodes[_name(pool)], version, classes)
        for pool in manifests
        if pool.get("kind") == "NodePool" and nodes[_name(pool)]
    ]
    return msgspec.structs.replace(plan, follow_ups=tuple(follow_ups))


def _new_version(plan: Plan) -> str | None:
    for step in plan.steps:
        if step.kind == "eks-cluster" and step.action is Action.UPDATE:
            return next((str(change.after) for change in step.changes if change.property == "Version"), None)
    return None


def _drift(
    pool: Mapping[str, Any], nodes: int, version: str, classes: Mapping[str, Mapping[str, Any]]
) -> FollowUp:
    name, count = _name(pool), "1 node" if nodes == 1 else f"{nodes} nodes"
    reference = pool["spec"]["template"]["spec"].get("nodeClassRef") or {}
    node_class = classes.get(str(reference.get("name")), {})
    terms = (node_class.get("spec") or {}).get("amiSelectorTerms") or [{"alias": ""}]
    if not any("alias" in term for term in terms):
        return FollowUp(
            message=f"{count} of NodePool {name} keep their AMI: EC2NodeClass {_name(node_class)} selects it "
            f"without an alias; select an AMI of Kubernetes {version}"
        )
    message = f"drift replaces {count} of NodePool {name} by nodes of {version}"
    at_once = min((_nodes_at_once(budget, nodes) for budget in _budgets(pool)), default=nodes)
    if at_once == 0:
        return FollowUp(message=f"{message}, as soon as its disruption budget allows it")
    return FollowUp(message=message, seconds=ceil(nodes / at_once) * _REPLACEMENT_SECONDS)


def _budgets(pool: Mapping[str, Any]) -> list[str]:
    """Return the budgets that apply to drift at any time."""
    budgets = (pool["spec"].get("disruption") or {}).get("budgets") or [{"nodes": "10%"}]
    return [
        str(budget.get("nodes", "10%"))
        for budget in budgets
        if not budget.get("schedule") and "Drifted" in (budget.get("reasons") or ["Drifted"])
    ]


def _nodes_at_once(budget: str, nodes: int) -> int:
    return ceil(nodes * int(budget[:-1]) / 100) if budget.endswith("%") else int(budget)


def _name(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("name", ""))


async def _roles_of_profiles(instances: list[dict[str, Any]], aws: AwsClient) -> dict[str, list[str]]:
    """Return the roles of the instances' profiles, by the profile's name."""
    names = {_profile(instance) for instance in instances} - {""}
    roles: dict[str, list[str]] = {}
    for name in sorted(names):
        response = await aws.call_or_none("iam", "get_instance_profile", InstanceProfileName=name)
        members = (response or {}).get("InstanceProfile", {}).get("Roles", ())
        roles[name] = [role["RoleName"] for role in members]
    return roles


def _profile(instance: Mapping[str, Any]) -> str:
    return str((instance.get("IamInstanceProfile") or {}).get("Arn", "")).rpartition("/")[2]


def _users(instances: list[dict[str, Any]], roles: Mapping[str, list[str]]) -> dict[str, int]:
    """Return the number of instances by what they use: a role, profile or group."""
    users: dict[str, int] = {}
    for instance in instances:
        profile = _profile(instance)
        used = [f"instance-profile/{profile}", *(f"iam-role/{role}" for role in roles.get(profile, ()))]
        used += [f"security-group/{group['GroupId']}" for group in instance.get("SecurityGroups", ())]
        for address in used:
            users[address] = users.get(address, 0) + 1
    return users


def _count_users(step: Step, users: Mapping[str, int]) -> int:
    if step.action is not Action.DELETE or step.observed is None or step.is_replacement:
        return 0
    if step.kind == "eks-access-entry":
        role = str(step.observed.properties.get("PrincipalArn", "")).rpartition("/")[2]
        return users.get(f"iam-role/{role}", 0)
    if step.kind == "security-group":
        return users.get(f"security-group/{step.observed.attributes.get('id')}", 0)
    return users.get(step.address, 0)
