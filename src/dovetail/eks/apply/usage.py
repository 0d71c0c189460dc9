"""Resources in use by nodes: kept until the controller has replaced the nodes.

The role of a running node is its access to AWS and, with its access entry, to the
cluster. A file that gives nodes another role makes them drift, and the controller
replaces them. Only then can the old role go.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.aws.claim_tags import CLUSTER_TAG
from dovetail.eks.aws_client import AwsClient, tag_filter
from dovetail.eks.plan.planner import Action, Plan, Step
from dovetail.eks.plan.resource_kinds import KINDS

_STATES: Final = ["pending", "running", "stopping", "stopped"]
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
