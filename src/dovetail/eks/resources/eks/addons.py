"""EKS add-ons: software that EKS installs and keeps."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.eks.base import Calls, InCluster
from dovetail.eks.resources.property_names import lower

_WRITTEN: Final = ("AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn")


class Addons(InCluster):
    """Add-ons; one that waits for nodes to run on is there, if degraded."""

    kind = "eks-addon"
    calls = Calls(
        listing=("list_addons", "addons"),
        describing=("describe_addon", "addon"),
        name="addonName",
        creating="create_addon",
        removing="delete_addon",
        arn="addonArn",
    )

    def asked(self, resource: Resource) -> Raw:
        return {**lower(resource.properties), "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {
            "ClusterName": raw["clusterName"],
            "AddonName": raw["addonName"],
            "AddonVersion": raw.get("addonVersion", ""),
            "ConfigurationValues": raw.get("configurationValues", ""),
            "ServiceAccountRoleArn": raw.get("serviceAccountRoleArn", ""),
        }

    async def amend(self, existing: Existing, resource: Resource, names: frozenset[str]) -> None:
        wanted = resource.properties
        cluster = wanted["ClusterName"]
        # What is left out of an update goes back to what EKS would choose.
        given = {name: wanted[name] for name in _WRITTEN if name in wanted}
        await self._reach.patiently(
            "eks",
            "update_addon",
            clusterName=cluster,
            addonName=resource.name,
            resolveConflicts=wanted.get("ResolveConflicts", "OVERWRITE"),
            **lower(given),
        )
        await self.active(cluster, resource.name)
