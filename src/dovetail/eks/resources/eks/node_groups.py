"""Managed node groups and Fargate profiles."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.eks.base import Calls, InCluster
from dovetail.eks.resources.handler import WrongStep
from dovetail.eks.resources.property_names import lower, upper

_LABELS: Final = frozenset({"labels", "Labels"})
_SEEN: Final = (
    "ClusterName",
    "NodegroupName",
    "NodeRole",
    "Subnets",
    "InstanceTypes",
    "AmiType",
    "CapacityType",
    "UpdateConfig",
    "LaunchTemplate",
)


class NodeGroups(InCluster):
    """Node groups; their labels, taints, size and template can change."""

    kind = "eks-node-group"
    calls = Calls(
        listing=("list_nodegroups", "nodegroups"),
        describing=("describe_nodegroup", "nodegroup"),
        name="nodegroupName",
        creating="create_nodegroup",
        removing="delete_nodegroup",
        arn="nodegroupArn",
    )

    def asked(self, resource: Resource) -> Raw:
        whole: Raw = lower(resource.properties, keep=_LABELS)
        given = {name: value for name, value in whole.items() if value != []}
        return {**given, "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        whole = upper(raw, keep=_LABELS)
        seen: dict[str, Any] = {name: whole[name] for name in _SEEN if name in whole}
        sizes = ("MinSize", "DesiredSize", "MaxSize")
        return {
            **seen,
            "ScalingConfig": {name: whole["ScalingConfig"].get(name) for name in sizes},
            "Labels": whole.get("Labels") or {},
            "Taints": whole.get("Taints") or [],
        }

    async def amend(self, existing: Existing, resource: Resource, names: frozenset[str]) -> None:
        which = {
            "clusterName": resource.properties["ClusterName"],
            "nodegroupName": resource.name,
        }
        config = self._config(existing, resource, names)
        if config:
            await self._reach.patiently("eks", "update_nodegroup_config", **which, **config)
            await self.active(which["clusterName"], resource.name)
        if "LaunchTemplate" in names:
            template = lower(resource.properties["LaunchTemplate"])
            await self._reach.patiently(
                "eks", "update_nodegroup_version", **which, launchTemplate=template
            )
            await self.active(which["clusterName"], resource.name)

    def _config(self, existing: Existing, resource: Resource, names: frozenset[str]) -> Raw:
        before, after = existing.properties, resource.properties
        config: Raw = {}
        for name in ("ScalingConfig", "UpdateConfig"):
            if name in names:
                config |= lower({name: after[name]})
        if "Labels" in names:
            gone = sorted(set(before["Labels"]) - set(after["Labels"]))
            config["labels"] = {"addOrUpdateLabels": dict(after["Labels"]), "removeLabels": gone}
        if "Taints" in names:
            old = [one for one in before["Taints"] if one not in after["Taints"]]
            config["taints"] = {
                "addOrUpdateTaints": lower(list(after["Taints"])),
                "removeTaints": lower(old),
            }
        return config


class FargateProfiles(InCluster):
    """Fargate profiles; nothing about them can change but tags."""

    kind = "eks-fargate-profile"
    calls = Calls(
        listing=("list_fargate_profiles", "fargateProfileNames"),
        describing=("describe_fargate_profile", "fargateProfile"),
        name="fargateProfileName",
        creating="create_fargate_profile",
        removing="delete_fargate_profile",
        arn="fargateProfileArn",
    )

    def asked(self, resource: Resource) -> Raw:
        selectors = [_selector(one) for one in resource.properties["Selectors"]]
        return {
            **lower(resource.properties),
            "selectors": selectors,
            "tags": dict(resource.tags),
        }

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        names = ("clusterName", "fargateProfileName", "podExecutionRoleArn", "subnets")
        seen: dict[str, Any] = upper({name: raw.get(name) for name in names})
        return {**seen, "Selectors": [_seen_selector(one) for one in raw.get("selectors", ())]}

    async def amend(self, existing: Existing, resource: Resource, names: frozenset[str]) -> None:
        raise WrongStep(f"{resource.address}: a profile cannot be changed")


def _selector(wanted: Mapping[str, Any]) -> Raw:
    """Return a selector with its labels as a map; CloudFormation has a list of pairs."""
    labels = {one["Key"]: one["Value"] for one in wanted.get("Labels", ())}
    return {"namespace": wanted["Namespace"], **({"labels": labels} if labels else {})}


def _seen_selector(raw: Mapping[str, Any]) -> Raw:
    labels = [{"Key": key, "Value": value} for key, value in (raw.get("labels") or {}).items()]
    return {"Namespace": raw["namespace"], **({"Labels": labels} if labels else {})}
