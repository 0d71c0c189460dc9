"""EC2 in memory: VPC endpoints, security groups and launch templates."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tests.support.memory_aws.network import MemoryNetwork, matches
from tests.support.memory_aws.refusals import DamageError, Raw, refusal, tag_list, tag_map

if TYPE_CHECKING:
    from tests.support.memory_aws.account import MemoryAccount


class MemoryEc2(MemoryNetwork):
    """All of EC2 that ``dovetail cluster`` calls."""

    def __init__(self, account: "MemoryAccount") -> None:
        super().__init__(account)
        self.rules: dict[str, Raw] = {}
        """Security group rules, by id."""
        self.templates: dict[str, list[Raw]] = {}
        """Launch template → data of its versions."""

    # VPC endpoints.

    def create_vpc_endpoint(
        self,
        *,
        VpcId: str,
        ServiceName: str,
        VpcEndpointType: str,
        TagSpecifications: Any = (),
        SubnetIds: Any = (),
        SecurityGroupIds: Any = (),
        RouteTableIds: Any = (),
        PrivateDnsEnabled: bool = False,
        **more: Any,
    ) -> Raw:
        self.find(VpcId)
        others = [
            endpoint
            for endpoint in self.of_type("vpce")
            if (endpoint["VpcId"], endpoint["ServiceName"]) == (VpcId, ServiceName)
            and endpoint["State"] not in ("deleting", "deleted")
        ]
        if PrivateDnsEnabled:
            assert all(self.dns[VpcId].values()), "private DNS needs both DNS attributes of the VPC"
            if any(endpoint["PrivateDnsEnabled"] for endpoint in others):
                raise refusal("InvalidParameter", f"there is a conflicting DNS domain for {ServiceName}")
        self._check_endpoint(VpcEndpointType, SubnetIds, SecurityGroupIds, RouteTableIds, others)
        raw = self.add(
            "vpce",
            "VpcEndpointId",
            TagSpecifications,
            VpcId=VpcId,
            ServiceName=ServiceName,
            VpcEndpointType=VpcEndpointType,
            PrivateDnsEnabled=PrivateDnsEnabled,
            SubnetIds=list(SubnetIds),
            RouteTableIds=list(RouteTableIds),
            Groups=[{"GroupId": group} for group in SecurityGroupIds],
            State="pending",
            **more,
        )
        return {"VpcEndpoint": dict(raw)}

    def _check_endpoint(self, kind: str, subnets: Any, groups: Any, tables: Any, others: list[Raw]) -> None:
        zones = [self.find(subnet)["AvailabilityZone"] for subnet in subnets]
        if len(set(zones)) < len(zones):
            raise refusal("DuplicateSubnetsInSameZone", f"two subnets in one zone: {zones}")
        for resource_id in (*groups, *tables):
            self.find(resource_id)
        if kind == "Gateway":
            assert not [*subnets, *groups], "a gateway endpoint has route tables only"
            taken = {table for endpoint in others for table in endpoint["RouteTableIds"]}
            if taken.intersection(tables):
                raise refusal("RouteAlreadyExists", f"{taken.intersection(tables)} have such an endpoint")
        else:
            assert not tables, "an interface endpoint has no route tables"

    def describe_vpc_endpoints(self, *, Filters: Any = (), VpcEndpointIds: Any = None) -> Raw:
        endpoints = self.select("vpce", Filters, VpcEndpointIds)
        for endpoint in endpoints:
            self.settle(endpoint["VpcEndpointId"])
            if endpoint["State"] == "deleting":
                del self.resources[endpoint["VpcEndpointId"]]
        return {"VpcEndpoints": endpoints}

    def modify_vpc_endpoint(self, *, VpcEndpointId: str, **changes: Any) -> Raw:
        raw = self.find(VpcEndpointId)
        assert changes, "nothing to modify"
        for name, key in (("SubnetIds", None), ("RouteTableIds", None), ("SecurityGroupIds", "GroupId")):
            added, removed = changes.pop(f"Add{name}", []), changes.pop(f"Remove{name}", [])
            field = "Groups" if key else name
            members = [entry["GroupId"] if key else entry for entry in raw[field]]
            members = [entry for entry in members if entry not in removed]
            members += [entry for entry in added if entry not in members]
            raw[field] = [{"GroupId": member} for member in members] if key else members
        raw.update(changes)
        others = [entry for entry in self.of_type("vpce") if entry is not raw]
        same = [entry for entry in others if entry["ServiceName"] == raw["ServiceName"]]
        groups = [entry["GroupId"] for entry in raw["Groups"]]
        self._check_endpoint(raw["VpcEndpointType"], raw["SubnetIds"], groups, raw["RouteTableIds"], same)
        return {"Return": True}

    def delete_vpc_endpoints(self, *, VpcEndpointIds: list[str]) -> Raw:
        for endpoint in VpcEndpointIds:
            self.find(endpoint)["State"] = "deleting"
        return {"Unsuccessful": []}

    # Security groups.

    def create_security_group(
        self, *, GroupName: str, Description: str, VpcId: str, TagSpecifications: Any = ()
    ) -> Raw:
        self.find(VpcId)
        if any((raw["GroupName"], raw["VpcId"]) == (GroupName, VpcId) for raw in self.of_type("sg")):
            raise refusal("InvalidGroup.Duplicate", f"The security group '{GroupName}' already exists")
        raw = self.add(
            "sg",
            "GroupId",
            TagSpecifications,
            GroupName=GroupName,
            Description=Description,
            VpcId=VpcId,
            IpPermissionsEgress=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
        )
        return dict(raw)

    def describe_security_groups(self, *, Filters: Any = ()) -> Raw:
        return {"SecurityGroups": self.select("sg", Filters)}

    def delete_security_group(self, *, GroupId: str) -> Raw:
        self.find(GroupId)
        users = [
            rule["GroupId"]
            for rule in self.rules.values()
            if rule.get("ReferencedGroupInfo", {}).get("GroupId") == GroupId and rule["GroupId"] != GroupId
        ]
        users += [
            endpoint["VpcEndpointId"]
            for endpoint in self.of_type("vpce")
            if {"GroupId": GroupId} in endpoint["Groups"]
        ]
        self.refuse_if_used(GroupId, [*users, *self.account.eks.users_of_group(GroupId)])
        self.rules = {key: rule for key, rule in self.rules.items() if rule["GroupId"] != GroupId}
        del self.resources[GroupId]
        return {}

    def authorize_security_group_ingress(
        self, *, GroupId: str, IpPermissions: list[Raw], TagSpecifications: Any = ()
    ) -> Raw:
        self.find(GroupId)
        tags = {key: value for spec in TagSpecifications for key, value in tag_map(spec["Tags"]).items()}
        for permission in IpPermissions:
            for rule in _split_permission(GroupId, permission):
                source = rule.get("ReferencedGroupInfo", {}).get("GroupId")
                if source is not None:
                    self.find(source)
                if any(_rule_key(other) == _rule_key(rule) for other in self.rules.values()):
                    raise refusal("InvalidPermission.Duplicate", f"{_rule_key(rule)} already exists")
                rule_id = f"sgr-{next(self.numbers):017x}"
                self.rules[rule_id] = {**rule, "SecurityGroupRuleId": rule_id, "Tags": tag_list(tags)}
        return {"Return": True}

    def describe_security_group_rules(self, *, Filters: Any = ()) -> Raw:
        return {"SecurityGroupRules": [dict(rule) for rule in self.rules.values() if matches(rule, Filters)]}

    def update_security_group_rule_descriptions_ingress(
        self, *, GroupId: str, IpPermissions: list[Raw]
    ) -> Raw:
        for permission in IpPermissions:
            for rule in _split_permission(GroupId, permission):
                existing = [entry for entry in self.rules.values() if _rule_key(entry) == _rule_key(rule)]
                if not existing:
                    raise refusal("InvalidPermission.NotFound", f"{_rule_key(rule)} does not exist")
                existing[0]["Description"] = rule["Description"]
        return {"Return": True}

    def revoke_security_group_ingress(self, *, GroupId: str, SecurityGroupRuleIds: list[str]) -> Raw:
        self.find(GroupId)
        for rule_id in SecurityGroupRuleIds:
            if self.rules.get(rule_id, {}).get("GroupId") != GroupId:
                message = f"The security group rule ID '{rule_id}' does not exist"
                raise refusal("InvalidSecurityGroupRuleId.NotFound", message)
            del self.rules[rule_id]
        return {"Return": True}

    # Launch templates.

    def create_launch_template(
        self, *, LaunchTemplateName: str, LaunchTemplateData: Raw, TagSpecifications: Any = ()
    ) -> Raw:
        if any(raw["LaunchTemplateName"] == LaunchTemplateName for raw in self.of_type("lt")):
            raise refusal(
                "InvalidLaunchTemplateName.AlreadyExistsException", f"{LaunchTemplateName} already in use"
            )
        raw = self.add(
            "lt",
            "LaunchTemplateId",
            TagSpecifications,
            LaunchTemplateName=LaunchTemplateName,
            LatestVersionNumber=1,
            DefaultVersionNumber=1,
        )
        self.templates[raw["LaunchTemplateId"]] = [LaunchTemplateData]
        return {"LaunchTemplate": dict(raw)}

    def describe_launch_templates(self, *, Filters: Any = ()) -> Raw:
        return {"LaunchTemplates": self.select("lt", Filters)}

    def describe_launch_template_versions(self, *, LaunchTemplateId: str, Versions: list[str]) -> Raw:
        self.find(LaunchTemplateId)
        assert Versions == ["$Latest"], Versions
        versions = self.templates[LaunchTemplateId]
        latest = {"VersionNumber": len(versions), "LaunchTemplateData": versions[-1]}
        return {"LaunchTemplateVersions": [latest]}

    def create_launch_template_version(self, *, LaunchTemplateId: str, LaunchTemplateData: Raw) -> Raw:
        raw = self.find(LaunchTemplateId)
        self.templates[LaunchTemplateId] = [*self.templates[LaunchTemplateId], LaunchTemplateData]
        raw["LatestVersionNumber"] = len(self.templates[LaunchTemplateId])
        return {"LaunchTemplateVersion": {"VersionNumber": raw["LatestVersionNumber"]}}

    def modify_launch_template(self, *, LaunchTemplateId: str, DefaultVersion: str) -> Raw:
        raw = self.find(LaunchTemplateId)
        assert 1 <= int(DefaultVersion) <= raw["LatestVersionNumber"], DefaultVersion
        raw["DefaultVersionNumber"] = int(DefaultVersion)
        return {"LaunchTemplate": dict(raw)}

    def delete_launch_template(self, *, LaunchTemplateId: str) -> Raw:
        self.find(LaunchTemplateId)
        users = self.account.eks.users_of_template(LaunchTemplateId)
        if users:
            raise DamageError(f"{LaunchTemplateId} was deleted, and is in use by {users}")
        del self.resources[LaunchTemplateId], self.templates[LaunchTemplateId]
        return {}


def _split_permission(group: str, permission: Raw) -> Iterable[Raw]:
    """Yield a rule for every source of a permission."""
    ports = {"FromPort": permission.get("FromPort", -1), "ToPort": permission.get("ToPort", -1)}
    rule = {"GroupId": group, "IsEgress": False, "IpProtocol": permission["IpProtocol"], **ports}
    for source in permission.get("IpRanges", ()):
        yield {**rule, "CidrIpv4": source["CidrIp"], "Description": source.get("Description", "")}
    for source in permission.get("Ipv6Ranges", ()):
        yield {**rule, "CidrIpv6": source["CidrIpv6"], "Description": source.get("Description", "")}
    for source in permission.get("UserIdGroupPairs", ()):
        referenced = {"GroupId": source["GroupId"]}
        yield {**rule, "ReferencedGroupInfo": referenced, "Description": source.get("Description", "")}


def _rule_key(rule: Raw) -> tuple[Any, ...]:
    source = rule.get("ReferencedGroupInfo", {}).get("GroupId")
    ports = (rule["IpProtocol"], rule["FromPort"], rule["ToPort"])
    return (rule["GroupId"], *ports, rule.get("CidrIpv4"), rule.get("CidrIpv6"), source)
