"""IAM in memory: roles, managed policies, instance profiles, OIDC providers.

It refuses what IAM refuses, and reports the deletion of a role that EKS still
uses, which IAM allows.
"""

import json
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tests.support.memory_aws.refusals import DamageError, Raw, refusal, tag_list, tag_map

if TYPE_CHECKING:
    from tests.support.memory_aws.account import MemoryAccount

ACCOUNT: Final = "123456789012"
AWS_POLICIES: Final = (
    "AmazonEKSClusterPolicy",
    "AmazonEKSVPCResourceController",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
    "AmazonEKSFargatePodExecutionRolePolicy",
    "CloudWatchAgentServerPolicy",
    "service-role/AmazonEBSCSIDriverPolicy",
)
_MAX_ATTACHED: Final = 10
_MAX_VERSIONS: Final = 5
_MAX_POLICY: Final = 6144
_MAX_TRUST: Final = 2048


class MemoryIam:
    """Methods have the names and parameters of boto3's client."""

    def __init__(self, account: "MemoryAccount") -> None:
        self._account = account
        self._dates = count(1)
        self.roles: dict[str, Raw] = {}
        self.attached: dict[str, list[str]] = {}
        """Role → ARNs of policies."""
        self.policies: dict[str, Raw] = {}
        """ARN → policy."""
        self.versions: dict[str, dict[str, Raw]] = {}
        """Policy → its versions: document and date."""
        self.profiles: dict[str, Raw] = {}
        """Name → instance profile, with names of roles."""
        self.providers: dict[str, Raw] = {}
        """ARN → OIDC provider."""

    # Roles.

    def create_role(self, *, RoleName: str, AssumeRolePolicyDocument: str, **more: Any) -> Raw:
        if RoleName in self.roles:
            raise refusal("EntityAlreadyExists", f"Role with name {RoleName} already exists.")
        _check_size(AssumeRolePolicyDocument, _MAX_TRUST)
        if "PermissionsBoundary" in more:
            self._check_policy(more["PermissionsBoundary"])
        path = more.get("Path", "/")
        role = {
            "RoleName": RoleName,
            "Path": path,
            "Arn": f"arn:aws:iam::{ACCOUNT}:role{path}{RoleName}",
            "AssumeRolePolicyDocument": json.loads(AssumeRolePolicyDocument),
            "Description": more.get("Description", ""),
            "Tags": more.get("Tags", []),
        }
        if more.get("PermissionsBoundary"):
            role["PermissionsBoundary"] = {"PermissionsBoundaryArn": more["PermissionsBoundary"]}
        self.roles[RoleName] = role
        self.attached[RoleName] = []
        return {"Role": dict(role)}

    def get_role(self, *, RoleName: str) -> Raw:
        return {"Role": dict(self._role(RoleName))}

    def list_roles(self) -> Raw:
        return {"Roles": [dict(role) for role in self.roles.values()]}

    def tag_role(self, *, RoleName: str, Tags: Any) -> Raw:
        return _tag(self._role(RoleName), Tags)

    def untag_role(self, *, RoleName: str, TagKeys: list[str]) -> Raw:
        return _untag(self._role(RoleName), TagKeys)

    def update_assume_role_policy(self, *, RoleName: str, PolicyDocument: str) -> Raw:
        _check_size(PolicyDocument, _MAX_TRUST)
        self._role(RoleName)["AssumeRolePolicyDocument"] = json.loads(PolicyDocument)
        return {}

    def put_role_permissions_boundary(self, *, RoleName: str, PermissionsBoundary: str) -> Raw:
        self._check_policy(PermissionsBoundary)
        self._role(RoleName)["PermissionsBoundary"] = {"PermissionsBoundaryArn": PermissionsBoundary}
        return {}

    def delete_role_permissions_boundary(self, *, RoleName: str) -> Raw:
        self._role(RoleName).pop("PermissionsBoundary", None)
        return {}

    def delete_role(self, *, RoleName: str) -> Raw:
        role = self._role(RoleName)
        profiles = [name for name, profile in self.profiles.items() if RoleName in profile["roles"]]
        if self.attached[RoleName] or profiles:
            message = f"must detach all policies and instance profiles first: {profiles}"
            raise refusal("DeleteConflict", f"Cannot delete entity {RoleName}, {message}")
        users = self._account.eks.users_of_role(role["Arn"])
        if users:
            raise DamageError(f"role {RoleName} was deleted, and is in use by {users}")
        del self.roles[RoleName], self.attached[RoleName]
        return {}

    def _role(self, name: str) -> Raw:
        if name not in self.roles:
            raise refusal("NoSuchEntity", f"The role with name {name} cannot be found.")
        return self.roles[name]

    def list_attached_role_policies(self, *, RoleName: str) -> Raw:
        self._role(RoleName)
        arns = self.attached[RoleName]
        return {
            "AttachedPolicies": [{"PolicyArn": arn, "PolicyName": arn.rpartition("/")[2]} for arn in arns]
        }

    def list_role_policies(self, *, RoleName: str) -> Raw:
        self._role(RoleName)
        return {"PolicyNames": []}

    def list_instance_profiles_for_role(self, *, RoleName: str) -> Raw:
        self._role(RoleName)
        profiles = [name for name, profile in self.profiles.items() if RoleName in profile["roles"]]
        return {"InstanceProfiles": [self._profile(name) for name in profiles]}

    def attach_role_policy(self, *, RoleName: str, PolicyArn: str) -> Raw:
        self._role(RoleName)
        self._check_policy(PolicyArn)
        arns = self.attached[RoleName]
        if PolicyArn not in arns:
            if len(arns) >= _MAX_ATTACHED:
                message = f"Cannot exceed quota for PoliciesPerRole: {_MAX_ATTACHED}"
                raise refusal("LimitExceeded", message)
            self.attached[RoleName] = [*arns, PolicyArn]
        return {}

    def detach_role_policy(self, *, RoleName: str, PolicyArn: str) -> Raw:
        self._role(RoleName)
        if PolicyArn not in self.attached[RoleName]:
            raise refusal("NoSuchEntity", f"Policy {PolicyArn} was not found.")
        self.attached[RoleName] = [arn for arn in self.attached[RoleName] if arn != PolicyArn]
        return {}

    def create_service_linked_role(self, *, AWSServiceName: str, **_: Any) -> Raw:
        assert AWSServiceName == "spot.amazonaws.com", AWSServiceName
        name = "AWSServiceRoleForEC2Spot"
        if name in self.roles:
            raise refusal("InvalidInput", f"Service role name {name} has been taken in this account")
        trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": AWSServiceName}}]}
        return self.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=json.dumps(trust),
            Path=f"/aws-service-role/{AWSServiceName}/",
        )

    # Policies.

    def _check_policy(self, arn: str) -> None:
        name = arn.partition("policy/")[2]
        if arn not in self.policies and not (":iam::aws:" in arn and name in AWS_POLICIES):
            raise refusal("NoSuchEntity", f"Policy {arn} does not exist or is not attachable.")

    def create_policy(self, *, PolicyName: str, PolicyDocument: str, **more: Any) -> Raw:
        path = more.get("Path", "/")
        arn = f"arn:aws:iam::{ACCOUNT}:policy{path}{PolicyName}"
        if any(policy["PolicyName"] == PolicyName for policy in self.policies.values()):
            raise refusal("EntityAlreadyExists", f"A policy called {PolicyName} already exists.")
        _check_size(PolicyDocument, _MAX_POLICY)
        self.policies[arn] = {
            "PolicyName": PolicyName,
            "Path": path,
            "Arn": arn,
            "DefaultVersionId": "v1",
            "Description": more.get("Description", ""),
            "Tags": more.get("Tags", []),
        }
        self.versions[arn] = {"v1": {"Document": json.loads(PolicyDocument), "CreateDate": next(self._dates)}}
        return {"Policy": dict(self.policies[arn])}

    def list_policies(self, *, Scope: str) -> Raw:
        assert Scope == "Local", Scope
        return {"Policies": [dict(policy) for policy in self.policies.values()]}

    def get_policy(self, *, PolicyArn: str) -> Raw:
        return {"Policy": dict(self._policy(PolicyArn))}

    def _policy(self, arn: str) -> Raw:
        if arn not in self.policies:
            raise refusal("NoSuchEntity", f"Policy {arn} was not found.")
        return self.policies[arn]

    def get_policy_version(self, *, PolicyArn: str, VersionId: str) -> Raw:
        self._policy(PolicyArn)
        return {"PolicyVersion": dict(self.versions[PolicyArn][VersionId])}

    def list_policy_versions(self, *, PolicyArn: str) -> Raw:
        default = self._policy(PolicyArn)["DefaultVersionId"]
        return {
            "Versions": [
                {"VersionId": key, "IsDefaultVersion": key == default, "CreateDate": version["CreateDate"]}
                for key, version in self.versions[PolicyArn].items()
            ]
        }

    def create_policy_version(self, *, PolicyArn: str, PolicyDocument: str, SetAsDefault: bool) -> Raw:
        policy, versions = self._policy(PolicyArn), self.versions[PolicyArn]
        if len(versions) >= _MAX_VERSIONS:
            raise refusal("LimitExceeded", f"A managed policy can have up to {_MAX_VERSIONS} versions.")
        _check_size(PolicyDocument, _MAX_POLICY)
        date = next(self._dates)
        name = f"v{date + 1}"
        versions[name] = {"Document": json.loads(PolicyDocument), "CreateDate": date}
        if SetAsDefault:
            policy["DefaultVersionId"] = name
        return {"PolicyVersion": {"VersionId": name}}

    def delete_policy_version(self, *, PolicyArn: str, VersionId: str) -> Raw:
        if self._policy(PolicyArn)["DefaultVersionId"] == VersionId:
            raise refusal("DeleteConflict", "Cannot delete the default version of a policy.")
        del self.versions[PolicyArn][VersionId]
        return {}

    def list_entities_for_policy(self, *, PolicyArn: str) -> Raw:
        self._policy(PolicyArn)
        roles = [{"RoleName": name} for name, arns in self.attached.items() if PolicyArn in arns]
        return {"PolicyRoles": roles, "PolicyUsers": [], "PolicyGroups": []}

    def tag_policy(self, *, PolicyArn: str, Tags: Any) -> Raw:
        return _tag(self._policy(PolicyArn), Tags)

    def untag_policy(self, *, PolicyArn: str, TagKeys: list[str]) -> Raw:
        return _untag(self._policy(PolicyArn), TagKeys)

    def delete_policy(self, *, PolicyArn: str) -> Raw:
        self._policy(PolicyArn)
        bounded = [
            role["RoleName"]
            for role in self.roles.values()
            if role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn") == PolicyArn
        ]
        attached = self.list_entities_for_policy(PolicyArn=PolicyArn)["PolicyRoles"]
        if attached or bounded or len(self.versions[PolicyArn]) > 1:
            raise refusal("DeleteConflict", f"Cannot delete a policy attached to entities: {attached}")
        del self.policies[PolicyArn], self.versions[PolicyArn]
        return {}

    # Instance profiles.

    def create_instance_profile(self, *, InstanceProfileName: str, Path: str = "/", Tags: Any = ()) -> Raw:
        name = InstanceProfileName
        if name in self.profiles:
            raise refusal("EntityAlreadyExists", f"Instance Profile {name} already exists.")
        self.profiles[name] = {
            "InstanceProfileName": name,
            "Path": Path,
            "Arn": f"arn:aws:iam::{ACCOUNT}:instance-profile{Path}{name}",
            "Tags": list(Tags),
            "roles": [],
        }
        return {"InstanceProfile": self._profile(name)}

    def _profile(self, name: str) -> Raw:
        if name not in self.profiles:
            raise refusal("NoSuchEntity", f"Instance Profile {name} cannot be found.")
        profile = self.profiles[name]
        return {**profile, "Roles": [dict(self.roles[role]) for role in profile["roles"]]}

    def get_instance_profile(self, *, InstanceProfileName: str) -> Raw:
        return {"InstanceProfile": self._profile(InstanceProfileName)}

    def list_instance_profiles(self, *, PathPrefix: str = "/") -> Raw:
        names = [name for name, profile in self.profiles.items() if profile["Path"].startswith(PathPrefix)]
        return {"InstanceProfiles": [self._profile(name) for name in names]}

    def add_role_to_instance_profile(self, *, InstanceProfileName: str, RoleName: str) -> Raw:
        self._role(RoleName)
        self._profile(InstanceProfileName)
        profile = self.profiles[InstanceProfileName]
        if profile["roles"]:
            raise refusal("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
        profile["roles"] = [RoleName]
        return {}

    def remove_role_from_instance_profile(self, *, InstanceProfileName: str, RoleName: str) -> Raw:
        self._profile(InstanceProfileName)
        profile = self.profiles[InstanceProfileName]
        if RoleName not in profile["roles"]:
            raise refusal("NoSuchEntity", f"Role {RoleName} is not in the profile.")
        profile["roles"] = []
        return {}

    def tag_instance_profile(self, *, InstanceProfileName: str, Tags: Any) -> Raw:
        self._profile(InstanceProfileName)
        return _tag(self.profiles[InstanceProfileName], Tags)

    def untag_instance_profile(self, *, InstanceProfileName: str, TagKeys: list[str]) -> Raw:
        self._profile(InstanceProfileName)
        return _untag(self.profiles[InstanceProfileName], TagKeys)

    def delete_instance_profile(self, *, InstanceProfileName: str) -> Raw:
        if self._profile(InstanceProfileName)["Roles"]:
            raise refusal("DeleteConflict", "Cannot delete entity, must remove roles first.")
        del self.profiles[InstanceProfileName]
        return {}

    # OIDC providers.

    def create_open_id_connect_provider(self, *, Url: str, ClientIDList: list[str], Tags: Any = ()) -> Raw:
        arn = f"arn:aws:iam::{ACCOUNT}:oidc-provider/{Url.removeprefix('https://')}"
        if arn in self.providers:
            raise refusal("EntityAlreadyExists", f"Provider with url {Url} already exists.")
        self.providers[arn] = {"Url": Url, "ClientIDList": list(ClientIDList), "Tags": list(Tags)}
        return {"OpenIDConnectProviderArn": arn}

    def list_open_id_connect_providers(self) -> Raw:
        return {"OpenIDConnectProviderList": [{"Arn": arn} for arn in self.providers]}

    def _provider(self, arn: str) -> Raw:
        if arn not in self.providers:
            raise refusal("NoSuchEntity", f"OpenIDConnect Provider not found for arn {arn}")
        return self.providers[arn]

    def get_open_id_connect_provider(self, *, OpenIDConnectProviderArn: str) -> Raw:
        return dict(self._provider(OpenIDConnectProviderArn))

    def tag_open_id_connect_provider(self, *, OpenIDConnectProviderArn: str, Tags: Any) -> Raw:
        return _tag(self._provider(OpenIDConnectProviderArn), Tags)

    def untag_open_id_connect_provider(self, *, OpenIDConnectProviderArn: str, TagKeys: list[str]) -> Raw:
        return _untag(self._provider(OpenIDConnectProviderArn), TagKeys)

    def add_client_id_to_open_id_connect_provider(
        self, *, OpenIDConnectProviderArn: str, ClientID: str
    ) -> Raw:
        provider = self._provider(OpenIDConnectProviderArn)
        provider["ClientIDList"] = [*provider["ClientIDList"], ClientID]
        return {}

    def delete_open_id_connect_provider(self, *, OpenIDConnectProviderArn: str) -> Raw:
        self.providers.pop(OpenIDConnectProviderArn, None)
        return {}


def _tag(resource: Raw, tags: Any) -> Raw:
    resource["Tags"] = tag_list({**tag_map(resource["Tags"]), **tag_map(tags)})
    return {}


def _untag(resource: Raw, keys: list[str]) -> Raw:
    resource["Tags"] = [tag for tag in resource["Tags"] if tag["Key"] not in keys]
    return {}


def _check_size(document: str, limit: int) -> None:
    size = len("".join(document.split()))
    if size > limit:
        raise refusal("LimitExceeded", f"Cannot exceed quota: {size} of {limit} characters")
