"""Who gets into a cluster: access entries, and Pod Identity associations."""

from collections.abc import Mapping
from typing import Any

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.eks.base import Calls, InCluster
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.property_names import lower, upper


class AccessEntries(InCluster):
    """Entries by principal, with the access policies of each."""

    kind = "eks-access-entry"
    calls = Calls(
        listing=("list_access_entries", "accessEntries"),
        describing=("describe_access_entry", "accessEntry"),
        name="principalArn",
        creating="create_access_entry",
        removing="delete_access_entry",
        arn="accessEntryArn",
    )

    def asked(self, resource: Resource) -> Raw:
        given = {
            name: value for name, value in resource.properties.items() if name != "AccessPolicies"
        }
        return {**lower(given), "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {
            "ClusterName": raw["clusterName"],
            "PrincipalArn": raw["principalArn"],
            "Type": raw.get("type", ""),
            "Username": raw.get("username", ""),
            "KubernetesGroups": raw.get("kubernetesGroups") or [],
        }

    def is_it(self, raw: Raw, resource: Resource) -> bool:
        return bool(raw["principalArn"] == resource.properties["PrincipalArn"])

    def key_seen(self, existing: Existing) -> str:
        return str(existing.properties["PrincipalArn"])

    async def key_of(self, resource: Resource) -> str:
        return str(resource.properties["PrincipalArn"])

    async def more(self, raw: Raw) -> Mapping[str, Any]:
        told = await self._reach.ask_all(
            "eks",
            "list_associated_access_policies",
            "associatedAccessPolicies",
            clusterName=raw["clusterName"],
            principalArn=raw["principalArn"],
        )
        return {"AccessPolicies": [_policy(one) for one in told]}

    async def create(self, resource: Resource) -> Attributes:
        attributes = await super().create(resource)
        for one in resource.properties.get("AccessPolicies", ()):
            await self._associate(resource, one)
        return attributes

    async def amend(self, existing: Existing, resource: Resource, names: frozenset[str]) -> None:
        which = {name: resource.properties[name] for name in ("ClusterName", "PrincipalArn")}
        mine = {
            name: resource.properties[name]
            for name in ("KubernetesGroups", "Username")
            if name in names
        }
        if mine:
            await self._reach.ask("eks", "update_access_entry", **lower({**which, **mine}))
        if "AccessPolicies" in names:
            before = existing.properties["AccessPolicies"]
            after = resource.properties["AccessPolicies"]
            for one in after:
                if one not in before:
                    await self._associate(resource, one)
            kept = {one["PolicyArn"] for one in after}
            for one in before:
                if one["PolicyArn"] not in kept:
                    await self._reach.remove(
                        "eks",
                        "disassociate_access_policy",
                        **lower(which),
                        policyArn=one["PolicyArn"],
                    )

    async def _associate(self, resource: Resource, policy: Mapping[str, Any]) -> None:
        which = {name: resource.properties[name] for name in ("ClusterName", "PrincipalArn")}
        await self._reach.patiently("eks", "associate_access_policy", **lower({**which, **policy}))


class PodIdentities(InCluster):
    """Associations of a service account with a role."""

    kind = "pod-identity-association"
    calls = Calls(
        listing=("list_pod_identity_associations", "associations"),
        describing=("describe_pod_identity_association", "association"),
        name="associationId",
        creating="create_pod_identity_association",
        removing="delete_pod_identity_association",
        arn="associationArn",
    )

    def asked(self, resource: Resource) -> Raw:
        return {**lower(resource.properties), "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        names = ("clusterName", "namespace", "serviceAccount", "roleArn")
        seen: dict[str, Any] = upper({name: raw.get(name, "") for name in names})
        return seen

    def is_it(self, raw: Raw, resource: Resource) -> bool:
        wanted = resource.properties
        pair = (raw["namespace"], raw["serviceAccount"])
        return pair == (wanted["Namespace"], wanted["ServiceAccount"])

    def attributes(self, raw: Raw) -> Attributes:
        return {"arn": raw["associationArn"], "id": raw["associationId"]}

    def listed_key(self, listed: Any) -> str:
        return str(listed["associationId"])

    def key_seen(self, existing: Existing) -> str:
        return str(existing.attributes["id"])

    async def key_of(self, resource: Resource) -> str:
        wanted = resource.properties
        found = await self._reach.ask_all(
            "eks",
            "list_pod_identity_associations",
            "associations",
            clusterName=wanted["ClusterName"],
            namespace=wanted["Namespace"],
            serviceAccount=wanted["ServiceAccount"],
        )
        return str(found[0]["associationId"])

    async def amend(self, existing: Existing, resource: Resource, names: frozenset[str]) -> None:
        await self._reach.ask(
            "eks",
            "update_pod_identity_association",
            clusterName=resource.properties["ClusterName"],
            associationId=self.key_seen(existing),
            roleArn=resource.properties["RoleArn"],
        )


def _policy(raw: Raw) -> Raw:
    scope = raw.get("accessScope") or {}
    seen: Raw = {"Type": scope.get("type", "cluster")}
    if scope.get("namespaces"):
        seen["Namespaces"] = scope["namespaces"]
    return {"PolicyArn": raw["policyArn"], "AccessScope": seen}
