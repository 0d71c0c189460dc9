"""Facts from IAM and KMS: roles with their policies, instance profiles, keys."""

import json
from typing import Any
from urllib.parse import unquote

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.doctor.facts import Key, Raw, Role
from dovetail.doctor.sources.eks import associations
from dovetail.doctor.sources.query import AwsFields, AwsQuery, NodeClassQuery
from dovetail.doctor.sources.read_only_client import ReadOnlyAws

SPOT_ROLE = "AWSServiceRoleForEC2Spot"


async def node_roles(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the node role of each node class; None if it does not exist."""
    roles_by_name: dict[str, Role | None] = {}
    roles_by_class: dict[str, Role | None] = {}
    for node_class in query.classes:
        name = await _role_name(account, node_class)
        if not name:
            roles_by_class[node_class.name] = None
            continue
        if name not in roles_by_name:
            roles_by_name[name] = await role(account, name)
        roles_by_class[node_class.name] = roles_by_name[name]
    return {"node_roles": roles_by_class}


async def _role_name(account: ReadOnlyAws, node_class: NodeClassQuery) -> str:
    if node_class.role:
        return node_class.role.rpartition("/")[2]
    if not node_class.instance_profile:
        return ""
    response = await _get_or_none(
        account, "GetInstanceProfile", InstanceProfileName=node_class.instance_profile
    )
    roles = response["InstanceProfile"]["Roles"] if response else []
    return str(roles[0]["RoleName"]) if roles else ""


async def controller_role(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the controller's role, by annotation or Pod Identity association."""
    name = await _controller_role_name(account, query)
    if not name:
        raise AwsError(
            "GetRole",
            "NoSuchEntity",
            f"ServiceAccount {query.namespace}/{query.service_account} has no role: "
            "no annotation eks.amazonaws.com/role-arn and no Pod Identity association",
        )
    controller_role = await role(account, name)
    if controller_role is None:
        raise AwsError("GetRole", "NoSuchEntity", f"there is no role {name}")
    return {"controller_role": controller_role}


async def controller_identity(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read whether the controller's role exists; a role that is not named is not missing."""
    name = await _controller_role_name(account, query)
    if not name or await role(account, name) is not None:
        return {}
    return {"missing_controller_role": name}


async def _controller_role_name(account: ReadOnlyAws, query: AwsQuery) -> str:
    """Return the name of the controller's role, or an empty string."""
    if query.controller_role:
        identity = await account.request("sts", "GetCallerIdentity")
        if query.controller_account not in ("", identity["Account"]):
            raise AwsError(
                "GetRole",
                "AccessDenied",
                f"role {query.controller_role} is in account {query.controller_account}, "
                f"and the credentials are for {identity['Account']}",
            )
        return query.controller_role
    for association in await associations(account, query.cluster):
        if (association.get("namespace"), association.get("serviceAccount")) == (
            query.namespace,
            query.service_account,
        ):
            return str(association["roleArn"]).rpartition("/")[2]
    return ""


async def oidc_providers(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the ARNs of the account's OIDC providers."""
    providers = await account.list_items("iam", "ListOpenIDConnectProviders", "OpenIDConnectProviderList")
    return {"oidc_providers": tuple(str(provider["Arn"]) for provider in providers)}


async def spot_role(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read whether the service-linked role of spot exists."""
    return {"spot_role": await _get_or_none(account, "GetRole", RoleName=SPOT_ROLE) is not None}


async def profiles(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the instance profiles of controllers; IAM returns tags one by one."""
    listed = await account.list_items("iam", "ListInstanceProfiles", "InstanceProfiles")
    path = f"/karpenter/{account.region}/{query.cluster}/"
    created_names = [
        profile
        for profile in listed
        if profile["InstanceProfileName"].startswith(f"{query.cluster}_")
        or profile.get("Path", "").startswith(path)
    ]
    profiles = []
    for profile_name in created_names:
        response = await _get_or_none(
            account, "GetInstanceProfile", InstanceProfileName=profile_name["InstanceProfileName"]
        )
        if response:
            profiles.append(response["InstanceProfile"])
    return {"profiles": tuple(profiles)}


async def role(account: ReadOnlyAws, name: str) -> Role | None:
    """Read a role with its policies; None if it does not exist."""
    response = await _get_or_none(account, "GetRole", RoleName=name)
    if response is None:
        return None
    attached = await account.list_items("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=name)
    documents: dict[str, Raw] = {}
    for attachment in attached:
        if ":iam::aws:" in attachment["PolicyArn"]:
            continue  # Policies of AWS are identified by name.
        policy = await account.request("iam", "GetPolicy", PolicyArn=attachment["PolicyArn"])
        version = await account.request(
            "iam",
            "GetPolicyVersion",
            PolicyArn=attachment["PolicyArn"],
            VersionId=policy["Policy"]["DefaultVersionId"],
        )
        documents[attachment["PolicyName"]] = _document(version["PolicyVersion"]["Document"])
    for inline in await account.list_items("iam", "ListRolePolicies", "PolicyNames", RoleName=name):
        policy = await account.request("iam", "GetRolePolicy", RoleName=name, PolicyName=inline)
        documents[inline] = _document(policy["PolicyDocument"])
    return Role(
        name=name,
        arn=response["Role"]["Arn"],
        attached=tuple(policy["PolicyName"] for policy in attached),
        documents=documents,
        trust=_document(response["Role"].get("AssumeRolePolicyDocument") or {}),
    )


async def encryption(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the KMS keys that encrypt volumes, and the principals allowed to use them."""
    default = await account.request("ec2", "GetEbsEncryptionByDefault")
    encrypts = bool(default.get("EbsEncryptionByDefault"))
    default_key = ""
    if encrypts:
        response = await account.request("ec2", "GetEbsDefaultKmsKeyId")
        default_key = str(response.get("KmsKeyId") or "")
    key_ids = {key for node_class in query.classes for key in node_class.keys} | {default_key}
    keys = {key_id: await _key(account, key_id) for key_id in sorted(key_ids - {""})}
    return {"default_key": default_key, "keys": {name: key for name, key in keys.items() if key is not None}}


async def _key(account: ReadOnlyAws, name: str) -> Key | None:
    """Read a key by id, ARN or alias; None for AWS managed keys, which need no grant."""
    response = (await account.request("kms", "DescribeKey", KeyId=name))["KeyMetadata"]
    if response.get("KeyManager") == "AWS":
        return None
    policy = await account.request("kms", "GetKeyPolicy", KeyId=response["KeyId"], PolicyName="default")
    grants = await account.list_items("kms", "ListGrants", "Grants", KeyId=response["KeyId"])
    return Key(
        policy=_document(policy["Policy"]),
        grantees=tuple(str(grant.get("GranteePrincipal")) for grant in grants),
    )


async def _get_or_none(account: ReadOnlyAws, operation: str, **query: Any) -> Raw | None:
    try:
        return await account.request("iam", operation, **query)
    except AwsError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return None
        raise


def _document(policy: Any) -> Raw:
    document: Raw = json.loads(unquote(policy)) if isinstance(policy, str) else policy
    return document
