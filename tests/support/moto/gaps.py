"""EC2's answers where moto leaves something out, or puts something in."""

from typing import Any

from moto.core.responses import ActionResult

from tests.support.moto.fleets import Ec2


class WholeEc2(Ec2):
    """moto's EC2, with rules that keep what they were told."""

    def describe_security_group_rules(self) -> ActionResult:
        answer = super().describe_security_group_rules()
        answer.result["SecurityGroupRules"] = [
            _rule(one) for one in answer.result["SecurityGroupRules"]
        ]
        return answer

    def revoke_security_group_ingress(self) -> ActionResult:
        ids = self._get_param("SecurityGroupRuleIds", [])
        if not ids:
            return super().revoke_security_group_ingress()
        for groups in self.ec2_backend.groups.values():
            for group in groups.values():
                group.ingress_rules = [one for one in group.ingress_rules if one.id not in ids]
        return ActionResult({"Return": True})

    def describe_launch_template_versions(self) -> ActionResult:
        """Leave out the tags of the template itself, which moto puts into its data."""
        answer = super().describe_launch_template_versions()
        for version in answer.result["LaunchTemplateVersions"]:
            data = dict(version["LaunchTemplateData"])
            tags = data.get("TagSpecifications") or []
            kept = [one for one in tags if one["ResourceType"] != "launch-template"]
            version["LaunchTemplateData"] = {**data, "TagSpecifications": kept}
        return answer


def _rule(rule: Any) -> dict[str, Any]:
    source = rule.source_group or {}
    return {
        "SecurityGroupRuleId": rule.id,
        "GroupId": rule.group_id,
        "IsEgress": rule.is_egress,
        "IpProtocol": rule.ip_protocol,
        "FromPort": rule.from_port,
        "ToPort": rule.to_port,
        "CidrIpv4": rule.cidr_ipv4,
        "ReferencedGroupInfo": {"GroupId": source["GroupId"]} if source else None,
        "Description": rule.description or source.get("Description"),
        "Tags": rule.get_tags(),
    }
