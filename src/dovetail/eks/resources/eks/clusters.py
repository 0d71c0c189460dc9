"""EKS clusters: the control plane."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.eks.base import BROKEN
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.property_names import differing, lower, upper
from dovetail.errors import DovetailError

_MOVING: Final = frozenset({"CREATING", "UPDATING", "DELETING", "PENDING"})
_KINDS_OF_LOGS: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")


class Clusters:
    """Clusters by name; every change is an update that must end before the next begins."""

    kind = "eks-cluster"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        by_name = {one.name: one.properties for one in wanted}
        found = [await self.one(name) for name in {cluster, *by_name}]
        return [_existing(raw, by_name.get(raw["name"], {})) for raw in found if raw is not None]

    async def create(self, resource: Resource) -> Attributes:
        given = {
            name: value
            for name, value in resource.properties.items()
            if name not in ("Logging", "ResourcesVpcConfig")
        }
        await self._reach.make(
            "eks",
            "create_cluster",
            **lower(given),
            resourcesVpcConfig=lower(resource.properties["ResourcesVpcConfig"]),
            logging=_logging(resource.properties.get("Logging")),
            tags=dict(resource.tags),
        )
        return _attributes(await self._active(resource.name))

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names, wanted = differing(existing, resource), resource.properties
        if "Tags" in names:
            arn = existing.attributes["arn"]
            await self._reach.ask("eks", "tag_resource", resourceArn=arn, tags=dict(resource.tags))
        if "Version" in names:
            await self._update(resource.name, "update_cluster_version", version=wanted["Version"])
        if "AccessConfig" in names:
            mode = wanted["AccessConfig"]["AuthenticationMode"]
            await self._config(resource.name, accessConfig={"authenticationMode": mode})
        if "Logging" in names:
            await self._config(resource.name, logging=_logging(wanted["Logging"]))
        if "ResourcesVpcConfig" in names:
            await self._networks(existing, resource)
        return _attributes(await self._active(resource.name))

    async def remove(self, existing: Existing) -> None:
        await self._reach.remove("eks", "delete_cluster", name=existing.name)

        async def look() -> bool | None:
            return True if await self.one(existing.name) is None else None

        await self._reach.until(f"EKS cluster {existing.name} is being removed", look)

    async def one(self, name: str) -> Raw | None:
        """Return a cluster as EKS describes it; None if there is none."""
        told = await self._reach.ask_if_there("eks", "describe_cluster", name=name)
        return told["cluster"] if told else None

    async def _networks(self, existing: Existing, resource: Resource) -> None:
        """Change subnets, and who can reach the endpoint: two updates for EKS."""
        before = existing.properties["ResourcesVpcConfig"]
        after = resource.properties["ResourcesVpcConfig"]
        within = {name: after[name] for name in ("SubnetIds", "SecurityGroupIds") if name in after}
        if any(sorted(value) != sorted(before.get(name, ())) for name, value in within.items()):
            await self._config(resource.name, resourcesVpcConfig=lower(within))
        reach = {name: value for name, value in after.items() if name not in within}
        if any(before.get(name) != value for name, value in reach.items()):
            await self._config(resource.name, resourcesVpcConfig=lower(reach))

    async def _config(self, name: str, **given: Any) -> None:
        await self._update(name, "update_cluster_config", **given)

    async def _update(self, name: str, method: str, **given: Any) -> None:
        await self._reach.patiently("eks", method, name=name, **given)
        await self._active(name)

    async def _active(self, name: str) -> Raw:
        async def look() -> Raw | None:
            raw = await self.one(name)
            if raw is None or raw["status"] == "FAILED":
                raise DovetailError(f"EKS cluster {name} did not come up: {_troubles(raw)}")
            return raw if raw["status"] == "ACTIVE" else None

        return await self._reach.until(f"EKS cluster {name}", look)


def _existing(raw: Raw, wanted: Mapping[str, Any]) -> Existing:
    network = raw.get("resourcesVpcConfig") or {}
    access = {**(wanted.get("AccessConfig") or {}), **_mode(raw)}
    seen = upper(
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
            # Who made the cluster was let in then, or not: nothing that could be changed now.
            "accessConfig": access,
        }
    )
    if raw["status"] == "FAILED":
        # Of no use to anybody: a difference that cannot be changed has it made anew.
        seen["RoleArn"] = BROKEN
    return Existing(
        kind=Clusters.kind,
        name=raw["name"],
        properties={**seen, "Logging": _enabled_logs(raw.get("logging") or {})},
        tags=raw.get("tags") or {},
        attributes=_attributes(raw),
        settled=raw["status"] not in _MOVING,
    )


def _mode(raw: Raw) -> Raw:
    told = raw.get("accessConfig") or {}
    return {"AuthenticationMode": told.get("authenticationMode", "CONFIG_MAP")}


def _attributes(raw: Raw) -> Attributes:
    issuer = ((raw.get("identity") or {}).get("oidc") or {}).get("issuer", "")
    known = {
        "name": raw["name"],
        "arn": raw["arn"],
        "endpoint": raw.get("endpoint", ""),
        "certificate-authority": (raw.get("certificateAuthority") or {}).get("data", ""),
        "issuer-url": issuer,
        "issuer": issuer.removeprefix("https://"),
        "security-group": (raw.get("resourcesVpcConfig") or {}).get("clusterSecurityGroupId", ""),
    }
    # What a cluster does not have while it is being made is not known, rather than empty.
    return {name: value for name, value in known.items() if value}


def _logging(wanted: Mapping[str, Any] | None) -> Raw:
    chosen = [
        one["Type"] for one in ((wanted or {}).get("ClusterLogging") or {}).get("EnabledTypes", ())
    ]
    off = [one for one in _KINDS_OF_LOGS if one not in chosen]
    switches = [{"types": types, "enabled": on} for types, on in ((chosen, True), (off, False))]
    return {"clusterLogging": [one for one in switches if one["types"]]}


def _enabled_logs(told: Mapping[str, Any]) -> Raw:
    types = [
        {"Type": one}
        for switch in told.get("clusterLogging", ())
        if switch.get("enabled")
        for one in switch.get("types", ())
    ]
    return {"ClusterLogging": {"EnabledTypes": types}}


def _troubles(raw: Raw | None) -> str:
    issues = ((raw or {}).get("health") or {}).get("issues") or ()
    return "; ".join(f"{one['code']}: {one['message']}" for one in issues) or "EKS does not say why"
