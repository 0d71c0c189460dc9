"""Handlers for IAM roles, policies, instance profiles and OIDC providers.

IAM cannot search by tag, and reading the tags of everything in an account takes
minutes. So handlers look only at names that begin with the cluster's name, or
with the prefix of the file: all our names do.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from dovetail.aws.errors import AwsError
from dovetail.eks.aws_client import AwsClient, Raw
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.plan.resolver import predict_attributes
from dovetail.eks.plan.resource import OWNERSHIP_TAG, REGION_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes, AwsHandler, InvalidStepError
from dovetail.eks.resources.property_names import changed_properties, tag_list, tag_map
from dovetail.eks.resources.tags import write_tags

_MAX_POLICY_VERSIONS: Final = 5
_ANOTHER_REGION: Final = "another region"


async def _list_names(aws: AwsClient, method: str, key: str, name_key: str) -> list[str]:
    """Return the names of resources that can be ours."""
    items = await aws.list_all("iam", method, key)
    return [raw[name_key] for raw in items if raw[name_key].startswith(aws.name_prefixes)]


def _filter_relevant(
    results: Iterable[ObservedResource | None], desired: Iterable[DesiredResource], aws: AwsClient
) -> list[ObservedResource]:
    """Return the results that are desired or owned, with the region of their owner.

    Resources without a region tag are of an older version of Dovetail; see
    ``with_names_in_use``.
    """
    names = {resource.name for resource in desired}
    relevant: list[ObservedResource] = []
    for result in results:
        if result is None:
            continue
        tags = dict(result.tags)
        is_of_cluster = tags.get(OWNERSHIP_TAG) == aws.cluster
        if is_of_cluster and not aws.adopts_untagged:
            tags.setdefault(REGION_TAG, _ANOTHER_REGION)
        is_owned = is_of_cluster and tags.get(REGION_TAG, aws.account.region) == aws.account.region
        if result.name in names or is_owned:
            relevant.append(msgspec.structs.replace(result, tags=tags))
    return relevant


async def with_names_in_use(aws: AwsClient, config: ClusterConfig) -> ClusterConfig:
    """Return the file with the IAM prefix that the cluster's resources have.

    Older versions of Dovetail put no region into names and tags in IAM. Such
    resources belong to the cluster in the region that the controller's policies
    name. They keep their names and get the tag.
    """
    prefix = config.iam.prefix or config.name
    policies = await aws.list_all("iam", "list_policies", "Policies", Scope="Local")
    start = f"{prefix}-{config.controller.kind}-"
    arns = [raw["Arn"] for raw in policies if raw["PolicyName"].startswith(start)]
    handler = PolicyHandler(aws)
    results = await aws.gather([handler.observe_policy(arn) for arn in arns])
    aws.adopts_untagged = any(
        policy is not None and _is_of_region(policy, aws.cluster, config.region) for policy in results
    )
    if config.iam.prefix is not None or not aws.adopts_untagged:
        return config
    return config.model_copy(update={"iam": config.iam.model_copy(update={"prefix": prefix})})


def _is_of_region(policy: ObservedResource, cluster: str, region: str) -> bool:
    if policy.tags.get(OWNERSHIP_TAG) != cluster:
        return False
    tagged = policy.tags.get(REGION_TAG)
    return tagged == region or (
        tagged is None and f":{region}:" in json.dumps(policy.properties["PolicyDocument"])
    )


def _decode_document(document: Any) -> Any:
    """Return a policy document as data; boto3 decodes some, and leaves others as text."""
    return json.loads(unquote(document)) if isinstance(document, str) else document


class RoleHandler(AwsHandler):
    """Roles, by name, with their attached managed policies."""

    kind = "iam-role"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        candidates = await _list_names(self._aws, "list_roles", "Roles", "RoleName")
        names = sorted({resource.name for resource in desired} | set(candidates))
        results = await self._aws.gather([self._observe_role(name) for name in names])
        return _filter_relevant(results, desired, self._aws)

    async def create(self, resource: DesiredResource) -> Attributes:
        desired = resource.properties
        optional = {
            name: desired[name]
            for name in ("Path", "Description", "PermissionsBoundary", "MaxSessionDuration")
            if desired.get(name)
        }
        await self._aws.create(
            "iam",
            "create_role",
            RoleName=resource.name,
            AssumeRolePolicyDocument=json.dumps(desired["AssumeRolePolicyDocument"]),
            Tags=tag_list(resource.tags),
            **optional,
        )
        await self._attach(resource.name, desired.get("ManagedPolicyArns", ()))
        response = await self._aws.retry_until_visible(
            lambda: self._aws.call("iam", "get_role", RoleName=resource.name)
        )
        return _role_attributes(response["Role"])

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names, desired = changed_properties(observed, resource), resource.properties
        identity = {"RoleName": resource.name}
        if "Tags" in names:
            await write_tags(self._aws, "iam", "role", identity, observed=observed, resource=resource)
        if "AssumeRolePolicyDocument" in names:
            document = json.dumps(desired["AssumeRolePolicyDocument"])
            await self._aws.call_with_retry(
                "iam", "update_assume_role_policy", **identity, PolicyDocument=document
            )
        if "PermissionsBoundary" in names:
            boundary = desired["PermissionsBoundary"]
            if boundary:
                await self._aws.call(
                    "iam", "put_role_permissions_boundary", **identity, PermissionsBoundary=boundary
                )
            else:
                await self._aws.delete("iam", "delete_role_permissions_boundary", **identity)
        if "ManagedPolicyArns" in names:
            before = set(observed.properties["ManagedPolicyArns"])
            after = list(desired["ManagedPolicyArns"])
            await self._attach(resource.name, [arn for arn in after if arn not in before])
            await self._detach(resource.name, sorted(before.difference(after)))
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        identity = {"RoleName": observed.name}
        attached = await self._aws.call_or_none("iam", "list_attached_role_policies", **identity)
        if attached is None:
            return
        await self._detach(observed.name, [policy["PolicyArn"] for policy in attached["AttachedPolicies"]])
        # Others may have added inline policies and instance profiles; IAM deletes no role
        # that has them.
        inline = await self._aws.list_all("iam", "list_role_policies", "PolicyNames", **identity)
        for name in inline:
            await self._aws.delete("iam", "delete_role_policy", **identity, PolicyName=name)
        profiles = await self._aws.list_all(
            "iam", "list_instance_profiles_for_role", "InstanceProfiles", **identity
        )
        for profile in profiles:
            name = profile["InstanceProfileName"]
            await self._aws.delete(
                "iam", "remove_role_from_instance_profile", **identity, InstanceProfileName=name
            )
        await self._aws.delete("iam", "delete_role", **identity)

    async def _observe_role(self, name: str) -> ObservedResource | None:
        response = await self._aws.call_or_none("iam", "get_role", RoleName=name)
        if response is None:
            return None
        raw = response["Role"]
        attached = await self._aws.list_all(
            "iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name
        )
        boundary = raw.get("PermissionsBoundary") or {}
        return ObservedResource(
            kind=self.kind,
            name=name,
            properties={
                "RoleName": name,
                "Path": raw["Path"],
                "Description": raw.get("Description", ""),
                "AssumeRolePolicyDocument": _decode_document(raw["AssumeRolePolicyDocument"]),
                "ManagedPolicyArns": [policy["PolicyArn"] for policy in attached],
                "PermissionsBoundary": boundary.get("PermissionsBoundaryArn", ""),
            },
            tags=tag_map(raw.get("Tags")),
            attributes=_role_attributes(raw),
        )

    async def _attach(self, role: str, arns: Iterable[str]) -> None:
        for arn in arns:
            await self._aws.call("iam", "attach_role_policy", RoleName=role, PolicyArn=arn)

    async def _detach(self, role: str, arns: Iterable[str]) -> None:
        for arn in arns:
            await self._aws.delete("iam", "detach_role_policy", RoleName=role, PolicyArn=arn)


def _role_attributes(raw: Raw) -> Attributes:
    return {"arn": raw["Arn"], "name": raw["RoleName"]}


class PolicyHandler(AwsHandler):
    """Managed policies, by ARN, with the external roles that they are attached to."""

    kind = "iam-policy"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        items = await self._aws.list_all("iam", "list_policies", "Policies", Scope="Local")
        prefixes = self._aws.name_prefixes
        arns = {raw["Arn"] for raw in items if raw["PolicyName"].startswith(prefixes)}
        arns.update(self._arn(resource) for resource in desired)
        results = await self._aws.gather([self.observe_policy(arn) for arn in sorted(arns)])
        return _filter_relevant(results, desired, self._aws)

    async def create(self, resource: DesiredResource) -> Attributes:
        desired = resource.properties
        optional = {name: desired[name] for name in ("Path", "Description") if desired.get(name)}
        await self._aws.create(
            "iam",
            "create_policy",
            PolicyName=resource.name,
            PolicyDocument=json.dumps(desired["PolicyDocument"]),
            Tags=tag_list(resource.tags),
            **optional,
        )
        arn = self._arn(resource)
        for role in desired.get("Roles", ()):
            await self._aws.call("iam", "attach_role_policy", RoleName=role, PolicyArn=arn)
        return {"arn": arn}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names, arn = changed_properties(observed, resource), observed.attributes["arn"]
        identity = {"PolicyArn": arn}
        if "Tags" in names:
            await write_tags(self._aws, "iam", "policy", identity, observed=observed, resource=resource)
        if "PolicyDocument" in names:
            await self._delete_oldest_versions(arn)
            document = json.dumps(resource.properties["PolicyDocument"])
            await self._aws.call(
                "iam", "create_policy_version", **identity, PolicyDocument=document, SetAsDefault=True
            )
        if "Roles" in names:
            before, after = set(observed.properties["Roles"]), set(resource.properties["Roles"])
            for role in sorted(after - before):
                await self._aws.call("iam", "attach_role_policy", RoleName=role, **identity)
            for role in sorted(before - after):
                await self._aws.delete("iam", "detach_role_policy", RoleName=role, **identity)
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        arn = observed.attributes.get("arn")
        if arn is None:
            return
        identity = {"PolicyArn": arn}
        entities = await self._aws.call_or_none("iam", "list_entities_for_policy", **identity)
        if entities is None:
            return
        for role in entities["PolicyRoles"]:
            await self._aws.delete("iam", "detach_role_policy", RoleName=role["RoleName"], **identity)
        for version in await self._versions(arn):
            if not version["IsDefaultVersion"]:
                await self._delete_version(arn, version)
        await self._aws.delete("iam", "delete_policy", **identity)

    async def observe_policy(self, arn: str) -> ObservedResource | None:
        """Return a policy with its document; None if it does not exist."""
        response = await self._aws.call_or_none("iam", "get_policy", PolicyArn=arn)
        if response is None:
            return None
        raw = response["Policy"]
        version = await self._aws.call(
            "iam", "get_policy_version", PolicyArn=arn, VersionId=raw["DefaultVersionId"]
        )
        entities = await self._aws.call("iam", "list_entities_for_policy", PolicyArn=arn)
        return ObservedResource(
            kind=self.kind,
            name=raw["PolicyName"],
            properties={
                "ManagedPolicyName": raw["PolicyName"],
                "Path": raw["Path"],
                "Description": raw.get("Description", ""),
                "PolicyDocument": _decode_document(version["PolicyVersion"]["Document"]),
                "Roles": [role["RoleName"] for role in entities["PolicyRoles"]],
            },
            tags=tag_map(raw.get("Tags")),
            attributes={"arn": arn},
        )

    def _arn(self, resource: DesiredResource) -> str:
        return str(predict_attributes(resource, self._aws.account)["arn"])

    async def _versions(self, arn: str) -> list[Raw]:
        return await self._aws.list_all("iam", "list_policy_versions", "Versions", PolicyArn=arn)

    async def _delete_oldest_versions(self, arn: str) -> None:
        """Delete as many old versions as it takes to create another one."""
        versions = await self._versions(arn)
        oldest_first = sorted(
            (version for version in versions if not version["IsDefaultVersion"]),
            key=lambda version: version["CreateDate"],
        )
        excess = max(0, len(versions) + 1 - _MAX_POLICY_VERSIONS)
        for version in oldest_first[:excess]:
            await self._delete_version(arn, version)

    async def _delete_version(self, arn: str, version: Raw) -> None:
        version_id = version["VersionId"]
        await self._aws.delete("iam", "delete_policy_version", PolicyArn=arn, VersionId=version_id)


class InstanceProfileHandler(AwsHandler):
    """Instance profiles, by name, with one role each."""

    kind = "instance-profile"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        candidates = await _list_names(
            self._aws, "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"
        )
        names = sorted({resource.name for resource in desired} | set(candidates))
        results = await self._aws.gather([self._observe_profile(name) for name in names])
        return _filter_relevant(results, desired, self._aws)

    async def create(self, resource: DesiredResource) -> Attributes:
        path = resource.properties.get("Path", "/")
        await self._aws.create(
            "iam",
            "create_instance_profile",
            InstanceProfileName=resource.name,
            Path=path,
            Tags=tag_list(resource.tags),
        )
        return await self._set_roles(resource)

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        if "Tags" in changed_properties(observed, resource):
            identity = {"InstanceProfileName": resource.name}
            await write_tags(
                self._aws, "iam", "instance_profile", identity, observed=observed, resource=resource
            )
        return await self._set_roles(resource)

    async def delete(self, observed: ObservedResource) -> None:
        identity = {"InstanceProfileName": observed.name}
        raw = await self._describe(observed.name)
        for role in raw["Roles"] if raw else ():
            await self._aws.delete(
                "iam", "remove_role_from_instance_profile", **identity, RoleName=role["RoleName"]
            )
        await self._aws.delete("iam", "delete_instance_profile", **identity)

    async def _set_roles(self, resource: DesiredResource) -> Attributes:
        identity = {"InstanceProfileName": resource.name}
        response = await self._aws.call("iam", "get_instance_profile", **identity)
        raw = response["InstanceProfile"]
        current = [role["RoleName"] for role in raw["Roles"]]
        desired = list(resource.properties["Roles"])
        # Remove first: a profile has room for one role.
        for role in current:
            if role not in desired:
                await self._aws.delete("iam", "remove_role_from_instance_profile", **identity, RoleName=role)
        for role in desired:
            if role not in current:
                await self._aws.call_with_retry(
                    "iam", "add_role_to_instance_profile", **identity, RoleName=role
                )
        return _profile_to_observed(raw).attributes

    async def _observe_profile(self, name: str) -> ObservedResource | None:
        raw = await self._describe(name)
        return _profile_to_observed(raw) if raw else None

    async def _describe(self, name: str) -> Raw | None:
        response = await self._aws.call_or_none("iam", "get_instance_profile", InstanceProfileName=name)
        return response["InstanceProfile"] if response else None


def _profile_to_observed(raw: Raw) -> ObservedResource:
    name = raw["InstanceProfileName"]
    return ObservedResource(
        kind=InstanceProfileHandler.kind,
        name=name,
        properties={
            "InstanceProfileName": name,
            "Path": raw["Path"],
            "Roles": [role["RoleName"] for role in raw["Roles"]],
        },
        tags=tag_map(raw.get("Tags")),
        attributes={"arn": raw["Arn"], "name": name},
    )


class OidcProviderHandler(AwsHandler):
    """OIDC providers, by URL. IAM determines the certificate thumbprint of EKS itself."""

    kind = "oidc-provider"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        names = {_without_scheme(resource.properties["Url"]): resource.name for resource in desired}
        providers: list[ObservedResource] = []
        for arn in await self._list_arns():
            url = arn.partition("oidc-provider/")[2]
            raw = await self._describe(arn)
            if raw is None:
                continue
            tags = tag_map(raw.get("Tags"))
            is_owned = tags.get(OWNERSHIP_TAG) == cluster and f".{self._aws.account.region}." in url
            name = names.get(url) or (url if is_owned else None)
            if name is not None:
                providers.append(
                    ObservedResource(
                        kind=self.kind,
                        name=name,
                        properties={"Url": f"https://{url}", "ClientIdList": raw.get("ClientIDList", [])},
                        tags=tags,
                        attributes={"arn": arn},
                    )
                )
        return providers

    async def create(self, resource: DesiredResource) -> Attributes:
        url = resource.properties["Url"]
        await self._aws.create(
            "iam",
            "create_open_id_connect_provider",
            Url=url,
            ClientIDList=list(resource.properties["ClientIdList"]),
            Tags=tag_list(resource.tags),
        )
        arns = await self._list_arns()
        return {"arn": next(arn for arn in arns if arn.endswith(f"/{_without_scheme(url)}"))}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names = changed_properties(observed, resource)
        identity = {"OpenIDConnectProviderArn": observed.attributes["arn"]}
        if "Tags" in names:
            await write_tags(
                self._aws, "iam", "open_id_connect_provider", identity, observed=observed, resource=resource
            )
        if "ClientIdList" in names:
            before = set(observed.properties["ClientIdList"])
            for client in set(resource.properties["ClientIdList"]) - before:
                await self._aws.call(
                    "iam", "add_client_id_to_open_id_connect_provider", **identity, ClientID=client
                )
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        await self._aws.delete(
            "iam", "delete_open_id_connect_provider", OpenIDConnectProviderArn=observed.attributes["arn"]
        )

    async def _list_arns(self) -> list[str]:
        response = await self._aws.call("iam", "list_open_id_connect_providers")
        return [provider["Arn"] for provider in response["OpenIDConnectProviderList"]]

    async def _describe(self, arn: str) -> Raw | None:
        return await self._aws.call_or_none(
            "iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn
        )


def _without_scheme(url: str) -> str:
    return url.removeprefix("https://")


class ServiceLinkedRoleHandler(AwsHandler):
    """Service-linked roles: one per account and service, shared by all clusters."""

    kind = "service-linked-role"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        roles = await self._aws.gather(
            [self._aws.call_or_none("iam", "get_role", RoleName=resource.name) for resource in desired]
        )
        return [
            ObservedResource(kind=self.kind, name=resource.name, properties=resource.properties)
            for resource, role in zip(desired, roles, strict=True)
            if role is not None
        ]

    async def create(self, resource: DesiredResource) -> Attributes:
        try:
            await self._aws.call("iam", "create_service_linked_role", **resource.properties)
        except AwsError as error:
            # EC2 or another process created it since it was observed.
            if "has been taken" not in error.message:
                raise
        return {}

    async def delete(self, observed: ObservedResource) -> None:
        raise InvalidStepError(f"{observed.address} belongs to the account")
