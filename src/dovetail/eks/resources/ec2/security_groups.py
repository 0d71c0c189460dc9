"""Handlers for security groups and their ingress rules."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Raw, tag_filter
from dovetail.eks.plan.resource import NAME_TAG, OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.ec2.base import CreateCall, TaggedEc2Handler
from dovetail.eks.resources.handler import Attributes, AwsHandler
from dovetail.eks.resources.property_names import changed_properties, tag_list, tag_map

_ALL_PROTOCOLS: Final = "-1"
_RULE_KEY: Final = ("GroupId", "IpProtocol", "FromPort", "ToPort", "CidrIp", "SourceSecurityGroupId")
"""Properties that identify a rule."""


class SecurityGroupHandler(TaggedEc2Handler):
    """Security groups with their egress rules."""

    kind = "security-group"
    plural = "SecurityGroups"
    id_key = "GroupId"
    resource_type = "security-group"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {
            "GroupName": raw["GroupName"],
            "GroupDescription": raw["Description"],
            "VpcId": raw["VpcId"],
            "SecurityGroupEgress": _split_ranges(raw.get("IpPermissionsEgress", ())),
        }

    def name_of(self, raw: Raw) -> str:
        return str(raw["GroupName"])

    @property
    def id_filter(self) -> str:
        return "group-id"

    def conflict_filters(self, resource: DesiredResource) -> Sequence[Raw]:
        vpc_id = str(resource.properties["VpcId"])
        if not vpc_id.startswith("vpc-"):
            return ()  # An unresolved reference: neither VPC nor group exists.
        name_filter = {"Name": "group-name", "Values": [resource.name]}
        return (name_filter, {"Name": "vpc-id", "Values": [vpc_id]})

    def create_call(self, resource: DesiredResource) -> CreateCall:
        desired = resource.properties
        # A new group allows all egress, as the desired one does.
        parameters = {
            "GroupName": desired["GroupName"],
            "Description": desired["GroupDescription"],
            "VpcId": desired["VpcId"],
        }
        return CreateCall("create_security_group", "", parameters)

    async def create(self, resource: DesiredResource) -> Attributes:
        attributes = await super().create(resource)
        # EC2 adds the rule for IPv6 only if the VPC had its block already.
        for rule in resource.properties.get("SecurityGroupEgress", ()):
            if "CidrIpv6" in rule:
                permissions = [_encode_permission(rule)]
                await self._aws.create(
                    "ec2",
                    "authorize_security_group_egress",
                    GroupId=attributes["id"],
                    IpPermissions=permissions,
                )
        return attributes

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> Attributes:
        before = observed.properties["SecurityGroupEgress"]
        after = resource.properties["SecurityGroupEgress"]
        group_id = self.id_of(observed)
        for method, rules in (
            ("authorize_security_group_egress", [rule for rule in after if rule not in before]),
            ("revoke_security_group_egress", [rule for rule in before if rule not in after]),
        ):
            if rules:
                permissions = [_encode_permission(rule) for rule in rules]
                await self._aws.create("ec2", method, GroupId=group_id, IpPermissions=permissions)
        return {}


class SecurityGroupRuleHandler(AwsHandler):
    """Ingress rules; ours are tagged, so that those of others are kept."""

    kind = "security-group-rule"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        group_ids = sorted({resource.properties["GroupId"] for resource in desired})
        # Other values are unresolved references to groups that do not exist.
        existing_ids = [group_id for group_id in group_ids if group_id.startswith("sg-")]
        owned = await self._aws.describe_ec2("SecurityGroupRules", tag_filter(OWNERSHIP_TAG, cluster))
        rules = {rule["SecurityGroupRuleId"]: rule for rule in owned}
        if existing_ids:
            in_groups = await self._aws.describe_ec2(
                "SecurityGroupRules", {"Name": "group-id", "Values": existing_ids}
            )
            rules.update((rule["SecurityGroupRuleId"], rule) for rule in in_groups)
        ingress = [rule for rule in rules.values() if not rule["IsEgress"]]
        return self._to_observed(ingress, desired)

    async def create(self, resource: DesiredResource) -> Attributes:
        tags = {OWNERSHIP_TAG: self._aws.cluster, NAME_TAG: resource.name}
        await self._aws.create(
            "ec2",
            "authorize_security_group_ingress",
            GroupId=resource.properties["GroupId"],
            IpPermissions=[_encode_permission(resource.properties)],
            TagSpecifications=[{"ResourceType": "security-group-rule", "Tags": tag_list(tags)}],
        )
        return {}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        if changed_properties(observed, resource):
            await self._aws.call(
                "ec2",
                "update_security_group_rule_descriptions_ingress",
                GroupId=resource.properties["GroupId"],
                IpPermissions=[_encode_permission(resource.properties)],
            )
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        await self._aws.delete(
            "ec2",
            "revoke_security_group_ingress",
            GroupId=observed.properties["GroupId"],
            SecurityGroupRuleIds=[observed.attributes["rule"]],
        )

    def _to_observed(
        self, rules: list[Raw], desired: Sequence[DesiredResource]
    ) -> Iterable[ObservedResource]:
        names = {_rule_key(resource.properties): resource.name for resource in desired}
        for raw in rules:
            properties = _rule_properties(raw)
            tags = tag_map(raw.get("Tags"))
            # Ours by its content, or by its name tag; other rules are left out.
            name = names.get(_rule_key(properties)) or tags.get(NAME_TAG)
            if name is not None:
                yield ObservedResource(
                    kind=self.kind,
                    name=name,
                    properties=properties,
                    attributes={"rule": raw["SecurityGroupRuleId"]},
                )


def _rule_properties(raw: Raw) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "GroupId": raw["GroupId"],
        "IpProtocol": raw["IpProtocol"],
        "Description": raw.get("Description", ""),
    }
    if raw["IpProtocol"] != _ALL_PROTOCOLS:
        properties |= {"FromPort": raw["FromPort"], "ToPort": raw["ToPort"]}
    if raw.get("CidrIpv4"):
        properties["CidrIp"] = raw["CidrIpv4"]
    source_group = (raw.get("ReferencedGroupInfo") or {}).get("GroupId")
    if source_group:
        properties["SourceSecurityGroupId"] = source_group
    return properties


def _rule_key(rule: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(rule.get(name) for name in _RULE_KEY)


def _encode_permission(rule: Mapping[str, Any]) -> Raw:
    permission: Raw = {name: rule[name] for name in ("IpProtocol", "FromPort", "ToPort") if name in rule}
    description = {"Description": rule["Description"]} if rule.get("Description") else {}
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"], **description}]
    elif "CidrIpv6" in rule:
        permission["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **description}]
    else:
        source_group = rule["SourceSecurityGroupId"]
        permission["UserIdGroupPairs"] = [{"GroupId": source_group, **description}]
    return permission


def _split_ranges(permissions: Iterable[Raw]) -> list[dict[str, Any]]:
    """Return one rule per CIDR block; a permission of EC2 can have many."""
    rules: list[dict[str, Any]] = []
    for permission in permissions:
        ports: Raw = {name: permission[name] for name in ("FromPort", "ToPort") if name in permission}
        for ranges, key in (("IpRanges", "CidrIp"), ("Ipv6Ranges", "CidrIpv6")):
            rules.extend(
                {"IpProtocol": permission["IpProtocol"], **ports, key: ip_range[key]}
                for ip_range in permission.get(ranges, ())
            )
    return rules
