"""Handlers for EKS clusters and EKS add-ons."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import AwsClient, Raw
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.plan.resource_kinds import FAILED_VALUE
from dovetail.eks.resources.eks.base import ApiMethods, ClusterMemberHandler, health_issues, wait_for_update
from dovetail.eks.resources.handler import Attributes, AwsHandler
from dovetail.eks.resources.property_names import changed_properties, lower_keys, upper_keys
from dovetail.eks.resources.tags import write_tags
from dovetail.errors import DovetailError

_TRANSITIONAL: Final = frozenset({"CREATING", "UPDATING", "DELETING", "PENDING"})
_LOG_TYPES: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_MUTABLE_ADDON_PROPERTIES: Final = ("AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn")


class ClusterHandler(AwsHandler):
    """EKS clusters; EKS runs one update of a cluster at a time."""

    kind = "eks-cluster"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        by_name = {resource.name: resource.properties for resource in desired}
        clusters = [await self.describe(name) for name in {cluster, *by_name}]
        return [_to_observed(raw, by_name.get(raw["name"], {})) for raw in clusters if raw is not None]

    async def create(self, resource: DesiredResource) -> Attributes:
        plain = {
            name: value
            for name, value in resource.properties.items()
            if name not in ("Logging", "ResourcesVpcConfig")
        }
        await self._aws.create(
            "eks",
            "create_cluster",
            **lower_keys(plain),
            resourcesVpcConfig=lower_keys(resource.properties["ResourcesVpcConfig"]),
            logging=_encode_logging(resource.properties.get("Logging")),
            tags=dict(resource.tags),
        )
        return _attributes(await self._wait_until_active(resource.name))

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names, desired = changed_properties(observed, resource), resource.properties
        if "Tags" in names:
            identity = {"resourceArn": observed.attributes["arn"]}
            await write_tags(self._aws, "eks", "resource", identity, observed=observed, resource=resource)
        if "Version" in names:
            await self._update(resource.name, "update_cluster_version", version=desired["Version"])
        if "AccessConfig" in names:
            mode = desired["AccessConfig"]["AuthenticationMode"]
            await self._update_config(resource.name, accessConfig={"authenticationMode": mode})
        if "UpgradePolicy" in names:
            await self._update_config(resource.name, upgradePolicy=lower_keys(desired["UpgradePolicy"]))
        if "EncryptionConfig" in names:
            await self._encrypt_secrets(resource)
        if "Logging" in names:
            await self._update_config(resource.name, logging=_encode_logging(desired["Logging"]))
        if "ResourcesVpcConfig" in names:
            await self._update_vpc_config(observed, resource)
        return _attributes(await self._wait_until_active(resource.name))

    async def delete(self, observed: ObservedResource) -> None:
        await self._aws.delete("eks", "delete_cluster", name=observed.name)

        async def poll() -> bool | None:
            return True if await self.describe(observed.name) is None else None

        await self._aws.wait_for(f"EKS cluster {observed.name} is being deleted", poll)

    async def describe(self, name: str) -> Raw | None:
        """Return a cluster as EKS describes it; None if it does not exist."""
        response = await self._aws.call_or_none("eks", "describe_cluster", name=name)
        return response["cluster"] if response else None

    async def _update_vpc_config(self, observed: ObservedResource, resource: DesiredResource) -> None:
        """Update subnets, then endpoint access: EKS requires separate updates."""
        before = observed.properties["ResourcesVpcConfig"]
        after = resource.properties["ResourcesVpcConfig"]
        network = {name: after[name] for name in ("SubnetIds", "SecurityGroupIds") if name in after}
        if any(sorted(value) != sorted(before.get(name, ())) for name, value in network.items()):
            await self._update_config(resource.name, resourcesVpcConfig=lower_keys(network))
        endpoint_access = {name: value for name, value in after.items() if name not in network}
        if any(before.get(name) != value for name, value in endpoint_access.items()):
            await self._update_config(resource.name, resourcesVpcConfig=lower_keys(endpoint_access))

    async def _encrypt_secrets(self, resource: DesiredResource) -> None:
        """Turn encryption on, and wait: EKS encrypts all existing Secrets."""
        config = lower_keys(resource.properties["EncryptionConfig"])
        response = await self._aws.call_with_retry(
            "eks", "associate_encryption_config", clusterName=resource.name, encryptionConfig=config
        )
        update_id = response["update"]["id"]

        async def poll() -> bool | None:
            answer = await self._aws.call("eks", "describe_update", name=resource.name, updateId=update_id)
            update = answer["update"]
            if update["status"] in ("Failed", "Cancelled"):
                errors = "; ".join(error.get("errorMessage", "") for error in update.get("errors", ()))
                raise DovetailError(f"EKS cluster {resource.name}: Secrets are not encrypted: {errors}")
            return True if update["status"] == "Successful" else None

        await self._aws.wait_for(f"encryption of Secrets in {resource.name}", poll)

    async def _update_config(self, name: str, **params: Any) -> None:
        await self._update(name, "update_cluster_config", **params)

    async def _update(self, name: str, method: str, **params: Any) -> None:
        response = await self._aws.call_with_retry("eks", method, name=name, **params)
        await wait_for_update(self._aws, f"{self.kind}/{name}", response, name=name)
        await self._wait_until_active(name)

    async def _wait_until_active(self, name: str) -> Raw:
        async def poll() -> Raw | None:
            raw = await self.describe(name)
            if raw is None or raw["status"] == "FAILED":
                raise DovetailError(f"EKS cluster {name} did not become active: {health_issues(raw)}")
            return raw if raw["status"] == "ACTIVE" else None

        return await self._aws.wait_for(f"EKS cluster {name}", poll)


def _to_observed(raw: Raw, desired: Mapping[str, Any]) -> ObservedResource:
    network = raw.get("resourcesVpcConfig") or {}
    properties = upper_keys(
        {
            "name": raw["name"],
            "version": raw.get("version", ""),
            "roleArn": raw.get("roleArn", ""),
            "resourcesVpcConfig": {
                name: network.get(name, [] if name.endswith("s") else False)
                for name in (
                    "subnetIds",
                    "securityGroupIds",
                    "endpointPublicAccess",
                    "endpointPrivateAccess",
                    "publicAccessCidrs",
                )
            },
            "kubernetesNetworkConfig": {"ipFamily": "ipv4", **(raw.get("kubernetesNetworkConfig") or {})},
            "encryptionConfig": raw.get("encryptionConfig") or [],
            "upgradePolicy": raw.get("upgradePolicy") or {"supportType": "EXTENDED"},
            # Only the mode is compared. Whether the creator is an administrator is decided at
            # creation, so the desired value stands for the observed one.
            "accessConfig": {**(desired.get("AccessConfig") or {}), **_access_mode(raw)},
        }
    )
    if raw["status"] == "FAILED":
        properties["RoleArn"] = FAILED_VALUE
    return ObservedResource(
        kind=ClusterHandler.kind,
        name=raw["name"],
        properties={**properties, "Logging": _decode_logging(raw.get("logging") or {})},
        tags=raw.get("tags") or {},
        attributes=_attributes(raw),
        settled=raw["status"] not in _TRANSITIONAL,
    )


def _access_mode(raw: Raw) -> Raw:
    access = raw.get("accessConfig") or {}
    return {"AuthenticationMode": access.get("authenticationMode", "CONFIG_MAP")}


def _attributes(raw: Raw) -> Attributes:
    issuer = ((raw.get("identity") or {}).get("oidc") or {}).get("issuer", "")
    attributes = {
        "name": raw["name"],
        "arn": raw["arn"],
        "endpoint": raw.get("endpoint", ""),
        "certificate-authority": (raw.get("certificateAuthority") or {}).get("data", ""),
        "issuer-url": issuer,
        "issuer": issuer.removeprefix("https://"),
        "security-group": (raw.get("resourcesVpcConfig") or {}).get("clusterSecurityGroupId", ""),
    }
    # Values that EKS has not assigned during creation are unknown, not empty.
    return {name: value for name, value in attributes.items() if value}


def _encode_logging(logging: Mapping[str, Any] | None) -> Raw:
    types = ((logging or {}).get("ClusterLogging") or {}).get("EnabledTypes", ())
    enabled = [log_type["Type"] for log_type in types]
    disabled = [log_type for log_type in _LOG_TYPES if log_type not in enabled]
    setups = [
        {"types": types, "enabled": is_enabled}
        for types, is_enabled in ((enabled, True), (disabled, False))
        if types
    ]
    return {"clusterLogging": setups}


def _decode_logging(logging: Mapping[str, Any]) -> Raw:
    types = [
        {"Type": log_type}
        for setup in logging.get("clusterLogging", ())
        if setup.get("enabled")
        for log_type in setup.get("types", ())
    ]
    return {"ClusterLogging": {"EnabledTypes": types}}


class AddonHandler(ClusterMemberHandler):
    """EKS add-ons; one that is degraded for lack of nodes counts as active."""

    kind = "eks-addon"
    methods = ApiMethods(
        noun="addon", key="addon", list_method=("list_addons", "addons"), name="addonName", arn="addonArn"
    )

    def create_parameters(self, resource: DesiredResource) -> Raw:
        return {**lower_keys(resource.properties), "tags": dict(resource.tags)}

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        properties = {
            "ClusterName": raw["clusterName"],
            "AddonName": raw["addonName"],
            "AddonVersion": raw.get("addonVersion", ""),
            "ConfigurationValues": raw.get("configurationValues") or "{}",
        }
        role = raw.get("serviceAccountRoleArn") or ""
        # A role of others, which was set by hand, is not compared and so is kept.
        if not role or role.rpartition("/")[2].startswith(self._aws.name_prefixes):
            properties["ServiceAccountRoleArn"] = role
        return properties

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> None:
        desired = resource.properties
        cluster = desired["ClusterName"]
        # EKS resets properties that an update omits to its defaults.
        properties = {name: desired[name] for name in _MUTABLE_ADDON_PROPERTIES if desired.get(name)}
        response = await self._aws.call_with_retry(
            "eks",
            "update_addon",
            clusterName=cluster,
            addonName=resource.name,
            resolveConflicts=desired.get("ResolveConflicts", "OVERWRITE"),
            **lower_keys(properties),
        )
        await self.finish_update(resource, response)


async def cluster_version(aws: AwsClient) -> str | None:
    """Return the Kubernetes version of the cluster; None if it does not exist."""
    response = await aws.call_or_none("eks", "describe_cluster", name=aws.cluster)
    return response["cluster"].get("version") if response else None


async def newest_addon_versions(aws: AwsClient, names: Sequence[str], version: str) -> dict[str, str]:
    """Return the newest version of each add-on that fits a Kubernetes version.

    An add-on without such a version is left out: EKS then gives its reason.
    """

    async def newest(name: str) -> str | None:
        addons = await aws.list_all(
            "eks", "describe_addon_versions", "addons", addonName=name, kubernetesVersion=version
        )
        versions = [item["addonVersion"] for addon in addons for item in addon.get("addonVersions", ())]
        return max(versions, key=_version_numbers, default=None)

    versions = await aws.gather([newest(name) for name in names])
    return {name: addon_version for name, addon_version in zip(names, versions, strict=True) if addon_version}


def _version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: v1.20.4-eksbuild.2 comes after v1.20.4-eksbuild.1."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))
