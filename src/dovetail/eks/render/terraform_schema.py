"""Conversion of each resource kind to arguments of Terraform's AWS provider.

Every converter takes properties in CloudFormation's shape, with references in the
text, and returns the arguments of one Terraform resource.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Arguments = dict[str, Any]
Properties = Mapping[str, Any]


def snake_keys(value: Any) -> Any:
    """Return a value with keys in snake case, as in Terraform: cidr_block."""
    if isinstance(value, Mapping):
        return {_to_snake_case(key): snake_keys(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [snake_keys(inner) for inner in value]
    return value


def _to_snake_case(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def _with_renames(names: Mapping[str, str]) -> Callable[[Properties], Arguments]:
    """Return a converter that renames some properties; the others get snake case.

    A property with an empty new name is dropped.
    """

    def convert(properties: Properties) -> Arguments:
        return {
            names.get(key, _to_snake_case(key)): snake_keys(value)
            for key, value in properties.items()
            if names.get(key, "-")
        }

    return convert


def _security_group(properties: Properties) -> Arguments:
    arguments: Arguments = {
        "name": properties["GroupName"],
        "description": properties["GroupDescription"],
        "vpc_id": properties["VpcId"],
    }
    # Terraform deletes the default egress rule of AWS unless it is listed.
    arguments["egress"] = [
        {
            "protocol": "-1",
            "from_port": 0,
            "to_port": 0,
            "cidr_blocks": ["0.0.0.0/0"],
            "description": "",
            "ipv6_cidr_blocks": [
                rule["CidrIpv6"] for rule in properties.get("SecurityGroupEgress", ()) if "CidrIpv6" in rule
            ],
            "prefix_list_ids": [],
            "security_groups": [],
            "self": False,
        }
    ]
    return arguments


def _security_group_rule(properties: Properties) -> Arguments:
    arguments: Arguments = {
        "type": "ingress",
        "security_group_id": properties["GroupId"],
        "protocol": properties["IpProtocol"],
        "from_port": properties.get("FromPort", 0),
        "to_port": properties.get("ToPort", 0),
        "description": properties["Description"],
    }
    if "CidrIp" in properties:
        arguments["cidr_blocks"] = [properties["CidrIp"]]
    else:
        arguments["source_security_group_id"] = properties["SourceSecurityGroupId"]
    return arguments


def _launch_template(properties: Properties) -> Arguments:
    data = properties["LaunchTemplateData"]
    groups = data.get("SecurityGroupIds")
    return {
        "name": properties["LaunchTemplateName"],
        **({"vpc_security_group_ids": list(groups)} if groups else {}),
        "metadata_options": snake_keys(data["MetadataOptions"]),
        "block_device_mappings": snake_keys(data["BlockDeviceMappings"]),
        "tag_specifications": [
            {
                "resource_type": specification["ResourceType"],
                "tags": {tag["Key"]: tag["Value"] for tag in specification["Tags"]},
            }
            for specification in data["TagSpecifications"]
        ],
    }


def _policy(properties: Properties) -> Arguments:
    return {
        "name": properties["ManagedPolicyName"],
        "path": properties["Path"],
        "policy": json.dumps(properties["PolicyDocument"]),
    }


def _role(properties: Properties) -> Arguments:
    arguments: Arguments = {
        "name": properties["RoleName"],
        "path": properties["Path"],
        "assume_role_policy": json.dumps(properties["AssumeRolePolicyDocument"]),
    }
    if "PermissionsBoundary" in properties:
        arguments["permissions_boundary"] = properties["PermissionsBoundary"]
    return arguments


def _instance_profile(properties: Properties) -> Arguments:
    return {
        "name": properties["InstanceProfileName"],
        "path": properties["Path"],
        "role": properties["Roles"][0],
    }


def _cluster(properties: Properties) -> Arguments:
    types = properties["Logging"]["ClusterLogging"]["EnabledTypes"]
    return {
        "name": properties["Name"],
        "version": properties["Version"],
        "role_arn": properties["RoleArn"],
        "vpc_config": snake_keys(properties["ResourcesVpcConfig"]),
        "access_config": snake_keys(properties["AccessConfig"]),
        "enabled_cluster_log_types": [log_type["Type"] for log_type in types],
        "bootstrap_self_managed_addons": properties["BootstrapSelfManagedAddons"],
        **_optional_cluster_arguments(properties),
    }


def _optional_cluster_arguments(properties: Properties) -> Arguments:
    arguments: Arguments = {}
    if "UpgradePolicy" in properties:
        arguments["upgrade_policy"] = snake_keys(properties["UpgradePolicy"])
    if "EncryptionConfig" in properties:
        arguments["encryption_config"] = snake_keys(properties["EncryptionConfig"][0])
    if "KubernetesNetworkConfig" in properties:
        arguments["kubernetes_network_config"] = snake_keys(properties["KubernetesNetworkConfig"])
    return arguments


def _node_group(properties: Properties) -> Arguments:
    names = {
        "NodegroupName": "node_group_name",
        "NodeRole": "node_role_arn",
        "Subnets": "subnet_ids",
        "Taints": "taint",
        "Labels": "",
    }
    return {**_with_renames(names)(properties), "labels": dict(properties["Labels"])}


def _addon(properties: Properties) -> Arguments:
    arguments: Arguments = _with_renames({"ResolveConflicts": ""})(properties)
    arguments["resolve_conflicts_on_create"] = properties["ResolveConflicts"]
    arguments["resolve_conflicts_on_update"] = properties["ResolveConflicts"]
    return arguments


def _queue_policy(properties: Properties) -> Arguments:
    return {"queue_url": properties["Queues"][0], "policy": json.dumps(properties["PolicyDocument"])}


def _event_rule(properties: Properties) -> Arguments:
    return {
        "name": properties["Name"],
        "description": properties["Description"],
        "event_pattern": json.dumps(properties["EventPattern"]),
        "state": properties["State"],
    }


_SNAKE_CASE: Final = _with_renames({})
CONVERTERS: Final[Mapping[str, Callable[[Properties], Arguments]]] = {
    "vpc": _SNAKE_CASE,
    "subnet": _SNAKE_CASE,
    "vpc-ipv6-block": _with_renames({"AmazonProvidedIpv6CidrBlock": "assign_generated_ipv6_cidr_block"}),
    "egress-only-gateway": _SNAKE_CASE,
    "internet-gateway": _SNAKE_CASE,
    "internet-gateway-attachment": _SNAKE_CASE,
    "elastic-ip": _SNAKE_CASE,
    "nat-gateway": _SNAKE_CASE,
    "route-table": _SNAKE_CASE,
    "route": _with_renames({"EgressOnlyInternetGatewayId": "egress_only_gateway_id"}),
    "route-table-association": _SNAKE_CASE,
    "vpc-endpoint": _SNAKE_CASE,
    "security-group": _security_group,
    "security-group-rule": _security_group_rule,
    "launch-template": _launch_template,
    "iam-policy": _policy,
    "iam-role": _role,
    "instance-profile": _instance_profile,
    "oidc-provider": _SNAKE_CASE,
    "kms-key": _SNAKE_CASE,
    "kms-alias": _with_renames({"AliasName": "name"}),
    "eks-cluster": _cluster,
    "eks-node-group": _node_group,
    "eks-fargate-profile": _with_renames({"Subnets": "subnet_ids", "Selectors": "selector"}),
    "eks-addon": _addon,
    "eks-access-entry": _with_renames({"AccessPolicies": "", "Username": "user_name"}),
    "pod-identity-association": _SNAKE_CASE,
    "sqs-queue": _with_renames({"QueueName": "name", "MessageRetentionPeriod": "message_retention_seconds"}),
    "sqs-queue-policy": _queue_policy,
    "event-rule": _event_rule,
    "log-group": _with_renames({"LogGroupName": "name"}),
}


def _selection(properties: Properties) -> Arguments:
    filters = [{"name": f"tag:{key}", "values": [value]} for key, value in properties.get("Tags", {}).items()]
    if "Ids" in properties:
        filters.append({"name": "subnet-id", "values": list(properties["Ids"])})
    if "VpcId" in properties:
        filters.append({"name": "vpc-id", "values": [properties["VpcId"]]})
    return {"filter": filters}


DATA_SOURCES: Final[Mapping[str, Callable[[str, Properties], Arguments]]] = {
    "eks-cluster": lambda name, _: {"name": name},
    "iam-role": lambda name, _: {"name": name},
    "subnet-selection": lambda _, properties: _selection(properties),
}
"""Arguments of data sources, for external resources."""
