"""Handlers for access entries and Pod Identity associations."""

from collections.abc import Container, Mapping
from typing import Any

from dovetail.eks.aws_client import AwsClient, Raw
from dovetail.eks.desired.control_plane import ADMIN_POLICY
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.resources.eks.base import ApiMethods, ClusterMemberHandler
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.property_names import lower_keys, upper_keys


class AccessEntryHandler(ClusterMemberHandler):
    """Access entries, by principal, with their access policies."""

    kind = "eks-access-entry"
    methods = ApiMethods(
        noun="access_entry",
        key="accessEntry",
        list_method=("list_access_entries", "accessEntries"),
        name="principalArn",
        arn="accessEntryArn",
    )

    def create_parameters(self, resource: DesiredResource) -> Raw:
        properties = {
            name: value
            for name, value in resource.properties.items()
            if name != "AccessPolicies" and not (name == "Username" and value == "")
        }
        return {**lower_keys(properties), "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        # EKS sets user name and groups of nodes, and does not let them change.
        is_standard = raw.get("type") == "STANDARD"
        return {
            "ClusterName": raw["clusterName"],
            "PrincipalArn": raw["principalArn"],
            "Type": raw.get("type", ""),
            "Username": _custom_username(raw) if is_standard else "",
            "KubernetesGroups": (raw.get("kubernetesGroups") or []) if is_standard else [],
        }

    def matches(self, raw: Raw, resource: DesiredResource) -> bool:
        return bool(raw["principalArn"] == resource.properties["PrincipalArn"])

    def observed_key(self, observed: ObservedResource) -> str:
        return str(observed.properties["PrincipalArn"])

    async def find_key(self, resource: DesiredResource) -> str:
        return str(resource.properties["PrincipalArn"])

    async def extra_properties(self, raw: Raw) -> Mapping[str, Any]:
        policies = await self._aws.list_all(
            "eks",
            "list_associated_access_policies",
            "associatedAccessPolicies",
            clusterName=raw["clusterName"],
            principalArn=raw["principalArn"],
        )
        return {"AccessPolicies": [_decode_policy(policy) for policy in policies]}

    async def create(self, resource: DesiredResource) -> Attributes:
        attributes = await super().create(resource)
        for policy in resource.properties.get("AccessPolicies", ()):
            await self._associate_policy(resource, policy)
        return attributes

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> None:
        identity = _identity(resource)
        properties = {
            name: resource.properties[name] for name in ("KubernetesGroups", "Username") if name in names
        }
        if properties.get("Username") == "":
            properties["Username"] = default_username(resource.properties["PrincipalArn"])
        if properties:
            await self._aws.call("eks", "update_access_entry", **lower_keys({**identity, **properties}))
        if "AccessPolicies" in names:
            before = observed.properties["AccessPolicies"]
            after = resource.properties["AccessPolicies"]
            for policy in after:
                if policy not in before:
                    await self._associate_policy(resource, policy)
            desired_arns = {policy["PolicyArn"] for policy in after}
            for policy in before:
                if policy["PolicyArn"] not in desired_arns:
                    await self._aws.delete(
                        "eks",
                        "disassociate_access_policy",
                        **lower_keys(identity),
                        policyArn=policy["PolicyArn"],
                    )

    async def _associate_policy(self, resource: DesiredResource, policy: Mapping[str, Any]) -> None:
        await self._aws.call_with_retry(
            "eks", "associate_access_policy", **lower_keys({**_identity(resource), **policy})
        )


class PodIdentityAssociationHandler(ClusterMemberHandler):
    """Pod Identity associations of a service account with a role."""

    kind = "pod-identity-association"
    methods = ApiMethods(
        noun="pod_identity_association",
        key="association",
        list_method=("list_pod_identity_associations", "associations"),
        name="associationId",
        arn="associationArn",
    )

    def create_parameters(self, resource: DesiredResource) -> Raw:
        return {**lower_keys(resource.properties), "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        names = ("clusterName", "namespace", "serviceAccount", "roleArn")
        properties: dict[str, Any] = upper_keys({name: raw.get(name, "") for name in names})
        return properties

    def matches(self, raw: Raw, resource: DesiredResource) -> bool:
        desired = resource.properties
        account = (raw["namespace"], raw["serviceAccount"])
        return account == (desired["Namespace"], desired["ServiceAccount"])

    def attributes(self, raw: Raw) -> Attributes:
        return {"arn": raw["associationArn"], "id": raw["associationId"]}

    def listed_key(self, item: Any) -> str:
        return str(item["associationId"])

    def observed_key(self, observed: ObservedResource) -> str:
        return str(observed.attributes["id"])

    async def find_key(self, resource: DesiredResource) -> str:
        desired = resource.properties
        associations = await self._aws.list_all(
            "eks",
            "list_pod_identity_associations",
            "associations",
            clusterName=desired["ClusterName"],
            namespace=desired["Namespace"],
            serviceAccount=desired["ServiceAccount"],
        )
        return str(associations[0]["associationId"])

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> None:
        await self._aws.call(
            "eks",
            "update_pod_identity_association",
            clusterName=resource.properties["ClusterName"],
            associationId=self.observed_key(observed),
            roleArn=resource.properties["RoleArn"],
        )


def _identity(entry: DesiredResource) -> dict[str, Any]:
    """Return the properties that identify an access entry."""
    return {name: entry.properties[name] for name in ("ClusterName", "PrincipalArn")}


def default_username(principal: str) -> str:
    """Return the user name that EKS gives to a principal."""
    prefix, _, path = principal.rpartition(":")
    if not path.startswith("role/"):
        return principal
    sts = prefix.replace(":iam:", ":sts:")
    return f"{sts}:assumed-role/{path.rpartition('/')[2]}/{{{{SessionName}}}}"


def _custom_username(raw: Raw) -> str:
    """Return the user name of an entry; empty if it is the one that EKS gives."""
    username = str(raw.get("username") or "")
    return "" if username == default_username(raw["principalArn"]) else username


async def find_foreign_admins(aws: AwsClient, known: Container[str]) -> list[str]:
    """Return principals with an access entry of an administrator that are not known."""
    principals = await aws.list_all("eks", "list_access_entries", "accessEntries", clusterName=aws.cluster)
    admins: list[str] = []
    for principal in principals:
        if principal not in known:
            policies = await aws.list_all(
                "eks",
                "list_associated_access_policies",
                "associatedAccessPolicies",
                clusterName=aws.cluster,
                principalArn=principal,
            )
            if any(policy["policyArn"].endswith(f"/{ADMIN_POLICY}") for policy in policies):
                admins.append(principal)
    return admins


def _decode_policy(raw: Raw) -> Raw:
    raw_scope = raw.get("accessScope") or {}
    scope: Raw = {"Type": raw_scope.get("type", "cluster")}
    if raw_scope.get("namespaces"):
        scope["Namespaces"] = raw_scope["namespaces"]
    return {"PolicyArn": raw["policyArn"], "AccessScope": scope}
