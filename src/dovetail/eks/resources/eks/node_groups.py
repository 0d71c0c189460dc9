"""Handlers for managed node groups and Fargate profiles."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.resources.eks.base import ApiMethods, ClusterMemberHandler
from dovetail.eks.resources.handler import InvalidStepError
from dovetail.eks.resources.property_names import lower_keys, tag_list, tag_map, upper_keys

_LABELS: Final = frozenset({"labels", "Labels"})
_OBSERVED_PROPERTIES: Final = (
    "ClusterName",
    "NodegroupName",
    "Version",
    "NodeRole",
    "Subnets",
    "InstanceTypes",
    "AmiType",
    "CapacityType",
    "DiskSize",
    "UpdateConfig",
)


class NodeGroupHandler(ClusterMemberHandler):
    """Managed node groups; version, labels, taints, size and launch template are mutable."""

    kind = "eks-node-group"
    methods = ApiMethods(
        noun="nodegroup",
        key="nodegroup",
        list_method=("list_nodegroups", "nodegroups"),
        name="nodegroupName",
        arn="nodegroupArn",
    )

    def create_parameters(self, resource: DesiredResource) -> Raw:
        properties: Raw = lower_keys(resource.properties, keep=_LABELS)
        non_empty = {name: value for name, value in properties.items() if value != []}
        return {**non_empty, "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        converted = upper_keys(raw, keep=_LABELS)
        plain = {name: converted[name] for name in _OBSERVED_PROPERTIES if name in converted}
        sizes = ("MinSize", "DesiredSize", "MaxSize")
        return {
            **plain,
            "ScalingConfig": {name: converted["ScalingConfig"].get(name) for name in sizes},
            "Labels": converted.get("Labels") or {},
            "Taints": converted.get("Taints") or [],
            "LaunchTemplate": converted.get("LaunchTemplate") or {},
        }

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> None:
        identity = {"clusterName": resource.properties["ClusterName"], "nodegroupName": resource.name}
        # EKS runs one update of a node group at a time.
        config = self._config_changes(observed, resource, names)
        if config:
            await self._update(resource, "update_nodegroup_config", **identity, **config)
        # Both replace the nodes: in one update, so that they are replaced once.
        rolling = {name: resource.properties[name] for name in ("Version", "LaunchTemplate") if name in names}
        if "Version" in rolling and "LaunchTemplate" in resource.properties:
            # A group with a launch template is updated with its template.
            rolling["LaunchTemplate"] = resource.properties["LaunchTemplate"]
        if rolling:
            await self._update(resource, "update_nodegroup_version", **identity, **lower_keys(rolling))

    async def _update(self, resource: DesiredResource, method: str, **params: Any) -> None:
        response = await self._aws.call_with_retry("eks", method, **params)
        await self.finish_update(resource, response)

    def _config_changes(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> Raw:
        """Return the parameters of UpdateNodegroupConfig."""
        before, after = observed.properties, resource.properties
        config: Raw = {}
        for name in ("ScalingConfig", "UpdateConfig"):
            if name in names:
                config |= lower_keys({name: after[name]})
        if "Labels" in names:
            removed = sorted(set(before["Labels"]) - set(after["Labels"]))
            config["labels"] = {"addOrUpdateLabels": dict(after["Labels"]), "removeLabels": removed}
        if "Taints" in names:
            # EKS identifies a taint by key and effect: one with a new value is not removed.
            kept = {(taint["Key"], taint["Effect"]) for taint in after["Taints"]}
            removed_taints = [
                taint for taint in before["Taints"] if (taint["Key"], taint["Effect"]) not in kept
            ]
            config["taints"] = {
                "addOrUpdateTaints": lower_keys(list(after["Taints"])),
                "removeTaints": lower_keys(removed_taints),
            }
        return config


class FargateProfileHandler(ClusterMemberHandler):
    """Fargate profiles; only tags are mutable."""

    kind = "eks-fargate-profile"
    methods = ApiMethods(
        noun="fargate_profile",
        key="fargateProfile",
        list_method=("list_fargate_profiles", "fargateProfileNames"),
        name="fargateProfileName",
        arn="fargateProfileArn",
    )

    def create_parameters(self, resource: DesiredResource) -> Raw:
        selectors = [_encode_selector(selector) for selector in resource.properties["Selectors"]]
        return {**lower_keys(resource.properties), "selectors": selectors, "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        names = ("clusterName", "fargateProfileName", "podExecutionRoleArn", "subnets")
        plain: dict[str, Any] = upper_keys({name: raw.get(name) for name in names})
        selectors = [_decode_selector(selector) for selector in raw.get("selectors", ())]
        return {**plain, "Selectors": selectors}

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> None:
        raise InvalidStepError(f"{resource.address}: a Fargate profile is immutable")


def _encode_selector(selector: Mapping[str, Any]) -> Raw:
    """Return a selector with its labels as a map; CloudFormation has a list."""
    labels = tag_map(selector.get("Labels"))
    return {"namespace": selector["Namespace"], **({"labels": labels} if labels else {})}


def _decode_selector(raw: Mapping[str, Any]) -> Raw:
    labels = tag_list(raw.get("labels") or {})
    return {"Namespace": raw["namespace"], **({"Labels": labels} if labels else {})}
