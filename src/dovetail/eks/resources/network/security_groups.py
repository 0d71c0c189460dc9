"""Security groups and the rules for what comes in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import NAME_TAG, OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.network.ec2_base import Making, Tagged
from dovetail.eks.resources.property_names import differing, tag_list, tag_map

_ALL: Final = "-1"


class SecurityGroups(Tagged):
    """Security groups with what they let out."""

    kind = "security-group"
    lists = ("describe_security_groups", "SecurityGroups")
    id_key = "GroupId"
    calls_itself = "security-group"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {
            "GroupName": raw["GroupName"],
            "GroupDescription": raw["Description"],
            "VpcId": raw["VpcId"],
            "SecurityGroupEgress": _flat(raw.get("IpPermissionsEgress", ())),
        }

    def name_of(self, raw: Raw) -> str:
        return str(raw["GroupName"])

    @property
    def id_filter(self) -> str:
        return "group-id"

    def place(self, resource: Resource) -> Sequence[Raw]:
        vpc = str(resource.properties["VpcId"])
        if not vpc.startswith("vpc-"):
            return ()  # In a VPC that is not there yet there is no group either.
        names = {"Name": "group-name", "Values": [resource.name]}
        return (names, {"Name": "vpc-id", "Values": [vpc]})

    def making(self, resource: Resource) -> Making:
        wanted = resource.properties
        # A new group lets everything out, which is what we want of ours.
        asked = {
            "GroupName": wanted["GroupName"],
            "Description": wanted["GroupDescription"],
            "VpcId": wanted["VpcId"],
        }
        return Making("create_security_group", "", asked)

    async def amend(
        self, existing: Existing, resource: Resource, names: frozenset[str]
    ) -> Attributes:
        before = existing.properties["SecurityGroupEgress"]
        after = resource.properties["SecurityGroupEgress"]
        group = self.id_of(existing)
        for method, rules in (
            ("authorize_security_group_egress", [one for one in after if one not in before]),
            ("revoke_security_group_egress", [one for one in before if one not in after]),
        ):
            if rules:
                permissions = [_permission(one) for one in rules]
                await self._reach.make("ec2", method, GroupId=group, IpPermissions=permissions)
        return {}

    async def unmake(self, id_: str) -> None:
        await self._reach.remove("ec2", "delete_security_group", GroupId=id_)


class SecurityGroupRules:
    """What may come in, a rule each; ours are tagged, so that those of others stay."""

    kind = "security-group-rule"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        groups = sorted({one.properties["GroupId"] for one in wanted})
        # Nothing is in a group that is not there yet.
        known = [one for one in groups if one.startswith("sg-")]
        asked = [{"Name": f"tag:{OWNER_TAG}", "Values": [cluster]}]
        found = {one["SecurityGroupRuleId"]: one for one in await self._rules(asked)}
        if known:
            within = await self._rules([{"Name": "group-id", "Values": known}])
            found.update((one["SecurityGroupRuleId"], one) for one in within)
        return self._named([one for one in found.values() if not one["IsEgress"]], wanted)

    async def create(self, resource: Resource) -> Attributes:
        tags = {OWNER_TAG: self._reach.cluster, NAME_TAG: resource.name}
        await self._reach.make(
            "ec2",
            "authorize_security_group_ingress",
            GroupId=resource.properties["GroupId"],
            IpPermissions=[_permission(resource.properties)],
            TagSpecifications=[{"ResourceType": "security-group-rule", "Tags": tag_list(tags)}],
        )
        return {}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        if differing(existing, resource):
            await self._reach.ask(
                "ec2",
                "update_security_group_rule_descriptions_ingress",
                GroupId=resource.properties["GroupId"],
                IpPermissions=[_permission(resource.properties)],
            )
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        await self._reach.remove(
            "ec2",
            "revoke_security_group_ingress",
            GroupId=existing.properties["GroupId"],
            SecurityGroupRuleIds=[existing.attributes["rule"]],
        )

    async def _rules(self, filters: list[Raw]) -> list[Raw]:
        return await self._reach.ask_all(
            "ec2", "describe_security_group_rules", "SecurityGroupRules", Filters=filters
        )

    def _named(self, rules: list[Raw], wanted: Sequence[Resource]) -> Iterable[Existing]:
        names = {_identity(one.properties): one.name for one in wanted}
        for raw in rules:
            seen = _rule(raw)
            tags = tag_map(raw.get("Tags"))
            # By what it says, or by the name that it was made for; else it is not ours.
            name = names.get(_identity(seen)) or tags.get(NAME_TAG)
            if name is not None:
                yield Existing(
                    kind=self.kind,
                    name=name,
                    properties=seen,
                    attributes={"rule": raw["SecurityGroupRuleId"]},
                )


def _rule(raw: Raw) -> dict[str, Any]:
    seen: dict[str, Any] = {
        "GroupId": raw["GroupId"],
        "IpProtocol": raw["IpProtocol"],
        "Description": raw.get("Description", ""),
    }
    if raw["IpProtocol"] != _ALL:
        seen |= {"FromPort": raw["FromPort"], "ToPort": raw["ToPort"]}
    if raw.get("CidrIpv4"):
        seen["CidrIp"] = raw["CidrIpv4"]
    group = (raw.get("ReferencedGroupInfo") or {}).get("GroupId")
    if group:
        seen["SourceSecurityGroupId"] = group
    return seen


def _identity(rule: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("GroupId", "IpProtocol", "FromPort", "ToPort", "CidrIp", "SourceSecurityGroupId")
    return tuple(rule.get(name) for name in names)


def _permission(rule: Mapping[str, Any]) -> Raw:
    permission: Raw = {
        name: rule[name] for name in ("IpProtocol", "FromPort", "ToPort") if name in rule
    }
    told = {"Description": rule["Description"]} if rule.get("Description") else {}
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"], **told}]
    else:
        source = rule["SourceSecurityGroupId"]
        permission["UserIdGroupPairs"] = [{"GroupId": source, **told}]
    return permission


def _flat(permissions: Iterable[Raw]) -> list[dict[str, Any]]:
    """Return EC2's permissions, which may name many ranges, as one rule a range."""
    found: list[dict[str, Any]] = []
    for one in permissions:
        ports: Raw = {name: one[name] for name in ("FromPort", "ToPort") if name in one}
        for place in one.get("IpRanges", ()):
            found.append({"IpProtocol": one["IpProtocol"], **ports, "CidrIp": place["CidrIp"]})
    return found
