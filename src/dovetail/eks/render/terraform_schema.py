"""Each kind as Terraform's AWS provider writes it: one small function a kind.

All take properties in CloudFormation's shape, references still in the text,
and return arguments of one Terraform resource.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Arguments = dict[str, Any]
Properties = Mapping[str, Any]


def snake_keys(value: Any) -> Any:
    """Return a value with keys as Terraform writes them: CidrBlock → cidr_block."""
    if isinstance(value, Mapping):
        return {_snake(key): snake_keys(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [snake_keys(inner) for inner in value]
    return value


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def _renamed(names: Mapping[str, str]) -> Callable[[Properties], Arguments]:
    """Return a function that renames some properties and writes the others in snake case."""

    def shape(properties: Properties) -> Arguments:
        return {
            names.get(key, _snake(key)): snake_keys(value)
            for key, value in properties.items()
            if names.get(key, "-")
        }

    return shape


def _security_group(one: Properties) -> Arguments:
    found: Arguments = {
        "name": one["GroupName"],
        "description": one["GroupDescription"],
        "vpc_id": one["VpcId"],
    }
    # Terraform takes away the rule that AWS makes by itself, unless it is written down.
    found["egress"] = [
        {
            "protocol": "-1",
            "from_port": 0,
            "to_port": 0,
            "cidr_blocks": ["0.0.0.0/0"],
            "description": "",
            "ipv6_cidr_blocks": [],
            "prefix_list_ids": [],
            "security_groups": [],
            "self": False,
        }
    ]
    return found


def _rule(one: Properties) -> Arguments:
    found: Arguments = {
        "type": "ingress",
        "security_group_id": one["GroupId"],
        "protocol": one["IpProtocol"],
        "from_port": one.get("FromPort", 0),
        "to_port": one.get("ToPort", 0),
        "description": one["Description"],
    }
    if "CidrIp" in one:
        found["cidr_blocks"] = [one["CidrIp"]]
    else:
        found["source_security_group_id"] = one["SourceSecurityGroupId"]
    return found


def _launch_template(one: Properties) -> Arguments:
    data = one["LaunchTemplateData"]
    return {
        "name": one["LaunchTemplateName"],
        "metadata_options": snake_keys(data["MetadataOptions"]),
        "block_device_mappings": snake_keys(data["BlockDeviceMappings"]),
        "tag_specifications": [
            {
                "resource_type": each["ResourceType"],
                "tags": {tag["Key"]: tag["Value"] for tag in each["Tags"]},
            }
            for each in data["TagSpecifications"]
        ],
    }


def _policy(one: Properties) -> Arguments:
    return {
        "name": one["ManagedPolicyName"],
        "path": one["Path"],
        "policy": json.dumps(one["PolicyDocument"]),
    }


def _role(one: Properties) -> Arguments:
    found: Arguments = {
        "name": one["RoleName"],
        "path": one["Path"],
        "assume_role_policy": json.dumps(one["AssumeRolePolicyDocument"]),
    }
    if "PermissionsBoundary" in one:
        found["permissions_boundary"] = one["PermissionsBoundary"]
    return found


def _instance_profile(one: Properties) -> Arguments:
    return {"name": one["InstanceProfileName"], "path": one["Path"], "role": one["Roles"][0]}


def _cluster(one: Properties) -> Arguments:
    types = one["Logging"]["ClusterLogging"]["EnabledTypes"]
    return {
        "name": one["Name"],
        "version": one["Version"],
        "role_arn": one["RoleArn"],
        "vpc_config": snake_keys(one["ResourcesVpcConfig"]),
        "access_config": snake_keys(one["AccessConfig"]),
        "enabled_cluster_log_types": [each["Type"] for each in types],
        "bootstrap_self_managed_addons": one["BootstrapSelfManagedAddons"],
    }


def _node_group(one: Properties) -> Arguments:
    names = {
        "NodegroupName": "node_group_name",
        "NodeRole": "node_role_arn",
        "Subnets": "subnet_ids",
        "Taints": "taint",
        "Labels": "",
    }
    return {**_renamed(names)(one), "labels": dict(one["Labels"])}


def _addon(one: Properties) -> Arguments:
    found: Arguments = _renamed({"ResolveConflicts": ""})(one)
    found["resolve_conflicts_on_create"] = one["ResolveConflicts"]
    found["resolve_conflicts_on_update"] = one["ResolveConflicts"]
    return found


def _queue_policy(one: Properties) -> Arguments:
    return {"queue_url": one["Queues"][0], "policy": json.dumps(one["PolicyDocument"])}


def _event_rule(one: Properties) -> Arguments:
    return {
        "name": one["Name"],
        "description": one["Description"],
        "event_pattern": json.dumps(one["EventPattern"]),
        "state": one["State"],
    }


_PLAIN: Final = _renamed({})
SHAPES: Final[Mapping[str, Callable[[Properties], Arguments]]] = {
    "vpc": _PLAIN,
    "subnet": _PLAIN,
    "internet-gateway": _PLAIN,
    "internet-gateway-attachment": _PLAIN,
    "elastic-ip": _PLAIN,
    "nat-gateway": _PLAIN,
    "route-table": _PLAIN,
    "route": _PLAIN,
    "route-table-association": _PLAIN,
    "vpc-endpoint": _PLAIN,
    "security-group": _security_group,
    "security-group-rule": _rule,
    "launch-template": _launch_template,
    "iam-policy": _policy,
    "iam-role": _role,
    "instance-profile": _instance_profile,
    "oidc-provider": _PLAIN,
    "eks-cluster": _cluster,
    "eks-node-group": _node_group,
    "eks-fargate-profile": _renamed({"Subnets": "subnet_ids", "Selectors": "selector"}),
    "eks-addon": _addon,
    "eks-access-entry": _renamed({"AccessPolicies": "", "Username": "user_name"}),
    "pod-identity-association": _PLAIN,
    "sqs-queue": _renamed(
        {"QueueName": "name", "MessageRetentionPeriod": "message_retention_seconds"}
    ),
    "sqs-queue-policy": _queue_policy,
    "event-rule": _event_rule,
    "log-group": _renamed({"LogGroupName": "name"}),
}


def _selection(one: Properties) -> Arguments:
    filters = [
        {"name": f"tag:{key}", "values": [value]} for key, value in one.get("Tags", {}).items()
    ]
    if "Ids" in one:
        filters.append({"name": "subnet-id", "values": list(one["Ids"])})
    if "VpcId" in one:
        filters.append({"name": "vpc-id", "values": [one["VpcId"]]})
    return {"filter": filters}


LOOKUPS: Final[Mapping[str, Callable[[str, Properties], Arguments]]] = {
    "eks-cluster": lambda name, _: {"name": name},
    "iam-role": lambda name, _: {"name": name},
    "subnet-selection": lambda _, one: _selection(one),
}
"""Data sources for what was there before."""
