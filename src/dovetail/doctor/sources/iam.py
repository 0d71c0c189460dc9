"""Facts from IAM and KMS: roles with their policies, instance profiles, keys."""

import json
from typing import Any
from urllib.parse import unquote

from dovetail.aws.errors import AwsError, Kind
from dovetail.doctor.facts import Key, Raw, Role
from dovetail.doctor.sources.eks import associations
from dovetail.doctor.sources.query import Asked, NodeClassAsked
from dovetail.doctor.sources.read_only_client import Account

Found = dict[str, Any]
SPOT_ROLE = "AWSServiceRoleForEC2Spot"


async def node_roles(account: Account, asked: Asked) -> Found:
    """Read the role of each class's nodes; a role that is not there is None."""
    known: dict[str, Role | None] = {}
    found: dict[str, Role | None] = {}
    for one in asked.classes:
        name = await _role_name(account, one)
        if not name:
            found[one.name] = None
            continue
        if name not in known:
            known[name] = await role(account, name)
        found[one.name] = known[name]
    return {"node_roles": found}


async def _role_name(account: Account, one: NodeClassAsked) -> str:
    if one.role:
        return one.role.rpartition("/")[2]
    if not one.instance_profile:
        return ""
    told = await _if_there(account, "GetInstanceProfile", InstanceProfileName=one.instance_profile)
    roles = told["InstanceProfile"]["Roles"] if told else []
    return str(roles[0]["RoleName"]) if roles else ""


async def controller_role(account: Account, asked: Asked) -> Found:
    """Read the controller's role: the one that is named, or Pod Identity's."""
    name = asked.controller_role
    if not name:
        for one in await associations(account, asked.cluster):
            if (one.get("namespace"), one.get("serviceAccount")) == (
                asked.namespace,
                asked.service_account,
            ):
                name = str(one["roleArn"]).rpartition("/")[2]
    if not name:
        raise AwsError(
            "GetRole",
            "NoSuchEntity",
            f"nothing gives ServiceAccount {asked.namespace}/{asked.service_account} a role: it "
            "has no annotation eks.amazonaws.com/role-arn and no Pod Identity association",
        )
    found = await role(account, name)
    if found is None:
        raise AwsError("GetRole", "NoSuchEntity", f"there is no role {name}")
    return {"controller_role": found}


async def spot_role(account: Account, asked: Asked) -> Found:
    """Read whether the account has used spot before."""
    return {"spot_role": await _if_there(account, "GetRole", RoleName=SPOT_ROLE) is not None}


async def profiles(account: Account, asked: Asked) -> Found:
    """Read the instance profiles that controllers have made; their tags come one by one."""
    listed = await account.listed("iam", "ListInstanceProfiles", "InstanceProfiles")
    path = f"/karpenter/{account.region}/{asked.cluster}/"
    made = [
        one
        for one in listed
        if one["InstanceProfileName"].startswith(f"{asked.cluster}_")
        or one.get("Path", "").startswith(path)
    ]
    found = []
    for one in made:
        told = await _if_there(
            account, "GetInstanceProfile", InstanceProfileName=one["InstanceProfileName"]
        )
        if told:
            found.append(told["InstanceProfile"])
    return {"profiles": tuple(found)}


async def role(account: Account, name: str) -> Role | None:
    """Read a role and every policy that is written for it; None when there is no such role."""
    told = await _if_there(account, "GetRole", RoleName=name)
    if told is None:
        return None
    attached = await account.listed(
        "iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=name
    )
    documents: dict[str, Raw] = {}
    for one in attached:
        if ":iam::aws:" in one["PolicyArn"]:
            continue  # AWS's own are known by their names.
        policy = await account.ask("iam", "GetPolicy", PolicyArn=one["PolicyArn"])
        version = await account.ask(
            "iam",
            "GetPolicyVersion",
            PolicyArn=one["PolicyArn"],
            VersionId=policy["Policy"]["DefaultVersionId"],
        )
        documents[one["PolicyName"]] = _document(version["PolicyVersion"]["Document"])
    for inline in await account.listed("iam", "ListRolePolicies", "PolicyNames", RoleName=name):
        answer = await account.ask("iam", "GetRolePolicy", RoleName=name, PolicyName=inline)
        documents[inline] = _document(answer["PolicyDocument"])
    return Role(
        name=name,
        arn=told["Role"]["Arn"],
        attached=tuple(one["PolicyName"] for one in attached),
        documents=documents,
    )


async def encryption(account: Account, asked: Asked) -> Found:
    """Read whether and with which key volumes are encrypted, and who may use the keys."""
    default = await account.ask("ec2", "GetEbsEncryptionByDefault")
    encrypts = bool(default.get("EbsEncryptionByDefault"))
    default_key = ""
    if encrypts:
        told = await account.ask("ec2", "GetEbsDefaultKmsKeyId")
        default_key = str(told.get("KmsKeyId") or "")
    wanted = {key for one in asked.classes for key in one.keys} | {default_key}
    keys = {one: await _key(account, one) for one in sorted(wanted - {""})}
    return {
        "default_key": default_key,
        "keys": {name: key for name, key in keys.items() if key is not None},
    }


async def _key(account: Account, name: str) -> Key | None:
    """Read a key by id, ARN or alias; None when it is AWS's own, which everybody may use."""
    told = (await account.ask("kms", "DescribeKey", KeyId=name))["KeyMetadata"]
    if told.get("KeyManager") == "AWS":
        return None
    policy = await account.ask("kms", "GetKeyPolicy", KeyId=told["KeyId"], PolicyName="default")
    grants = await account.listed("kms", "ListGrants", "Grants", KeyId=told["KeyId"])
    return Key(
        policy=_document(policy["Policy"]),
        grantees=tuple(str(one.get("GranteePrincipal")) for one in grants),
    )


async def _if_there(account: Account, operation: str, **asked: Any) -> Raw | None:
    try:
        return await account.ask("iam", operation, **asked)
    except AwsError as error:
        if error.kind is Kind.GONE:
            return None
        raise


def _document(told: Any) -> Raw:
    found: Raw = json.loads(unquote(told)) if isinstance(told, str) else told
    return found
