"""IAM: node roles, the controller's role, policies and keys."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import yaml

from dovetail.doctor.check import check, controller_check
from dovetail.doctor.controller_deployment import ROLE_ARN, Controller
from dovetail.doctor.facts import Facts, Part, Raw, Role
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.iam_policies import ACTIONS_SINCE, allowing, may, principals
from dovetail.doctor.object_fields import (
    age,
    condition,
    find_nodeclass,
    get_field,
    join_names,
    name_of,
    spot_nodepools,
)
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.desired.names import MAX_ROLE_NAME
from dovetail.model.cloud.partitions import dns_suffix
from dovetail.model.karpenter.condition_types import VALIDATION_SUCCEEDED
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS, SERVICE_ACCOUNTS

_NO_ACCESS = {
    "API": "no access entry",
    "CONFIG_MAP": "no mapping in aws-auth",
    "API_AND_CONFIG_MAP": "no access entry and no mapping in aws-auth",
}


@check(
    code="I1",
    title="node role unknown to the cluster",
    severity=Severity.BROKEN,
    detection="the role of each EC2NodeClass in access entries and aws-auth",
    remedy="create an access entry of type EC2_LINUX for the role",
    needs=(EC2_NODE_CLASSES, Part.CLUSTER, Part.ACCESS, Part.NODE_ROLES, Part.AWS_AUTH),
)
def node_role_unknown(facts: Facts) -> Iterator[Symptom]:
    """Yield node roles without an access entry or an aws-auth mapping."""
    mode = str(get_field(facts.aws.cluster, "accessConfig", "authenticationMode") or "CONFIG_MAP")
    mode = mode if mode in _NO_ACCESS else "API_AND_CONFIG_MAP"
    mapped = _mapped_roles(facts) if "CONFIG_MAP" in mode else set()
    for arn, name in _node_roles(facts):
        # aws-auth ignores role paths.
        arn_without_path = f"{arn.partition('/')[0]}/{arn.rpartition('/')[2]}"
        if arn in facts.aws.access_entries or arn_without_path in mapped or arn in mapped:
            continue
        yield Symptom(
            about=f"role/{name}",
            seen=f"authentication mode {mode}: {_NO_ACCESS[mode]} for {arn}",
            wrong="kubelets of this role are Unauthorized; nodes never register",
            fix=f"aws eks create-access-entry --cluster-name {facts.cluster} "
            f"--principal-arn {arn} --type EC2_LINUX"
            if "API" in mode
            else f"eksctl create iamidentitymapping --cluster {facts.cluster} --arn {arn_without_path} "
            "--username 'system:node:{{EC2PrivateDNSName}}' "
            "--group system:bootstrappers --group system:nodes",
        )


def _node_roles(facts: Facts) -> list[tuple[str, str]]:
    """Return ARN and name of each existing node role."""
    return sorted({(role.arn, role.name) for role in facts.aws.node_roles.values() if role is not None})


def _mapped_roles(facts: Facts) -> set[str]:
    try:
        role_mappings = yaml.safe_load(str(get_field(facts.aws_auth, "data", "mapRoles") or ""))
    except yaml.YAMLError:
        return set()
    entries = role_mappings if isinstance(role_mappings, list) else []
    return {str(entry.get("rolearn")) for entry in entries if isinstance(entry, dict)}


_NODE_TYPES = ("EC2_LINUX", "EC2_WINDOWS", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")


@check(
    code="I2",
    title="access entry of the wrong type",
    severity=Severity.BROKEN,
    detection="the type of the access entry of each EC2NodeClass's role",
    remedy="delete the entry and create it as EC2_LINUX (EC2_WINDOWS for Windows)",
    needs=(EC2_NODE_CLASSES, Part.ACCESS, Part.NODE_ROLES),
)
def access_entry_type(facts: Facts) -> Iterator[Symptom]:
    """Yield access entries of node roles that do not allow nodes to register."""
    for arn, name in _node_roles(facts):
        entry = facts.aws.access_entries.get(arn)
        if entry is None or entry.get("type") in _NODE_TYPES:
            continue
        of_cluster = f"--cluster-name {facts.cluster} --principal-arn {arn}"
        yield Symptom(
            about=f"role/{name}",
            seen=f"the access entry is of type {entry.get('type')}",
            wrong="kubelets authenticate, but may not register nodes",
            fix=f"aws eks delete-access-entry {of_cluster} && "
            f"aws eks create-access-entry {of_cluster} --type EC2_LINUX",
        )


_CNI: Final = "AmazonEKS_CNI_Policy"
_NODE_POLICIES: Final = {
    "AmazonEKSWorkerNodePolicy": (("AmazonEKSWorkerNodeMinimalPolicy",), "ec2:DescribeInstances"),
    _CNI: (("AmazonEKS_CNI_IPv6_Policy",), "ec2:AssignPrivateIpAddresses"),
    "AmazonEC2ContainerRegistryPullOnly": (
        (
            "AmazonEC2ContainerRegistryReadOnly",
            "AmazonEC2ContainerRegistryPowerUser",
            "AmazonEC2ContainerRegistryFullAccess",
        ),
        "ecr:BatchGetImage",
    ),
}
"""Policy → equivalent policies, and an action that identifies a custom one."""


@check(
    code="I3",
    title="node role lacks worker, CNI or ECR policies",
    severity=Severity.BROKEN,
    detection="managed and custom policies of the role of each EC2NodeClass",
    remedy="attach AmazonEKSWorkerNodePolicy, AmazonEKS_CNI_Policy and AmazonEC2ContainerRegistryPullOnly",
    needs=(EC2_NODE_CLASSES, SERVICE_ACCOUNTS, Part.NODE_ROLES, Part.POD_IDENTITIES),
)
def node_policies(facts: Facts) -> Iterator[Symptom]:
    """Yield missing roles and policies; the CNI may have its own role."""
    for name, role in sorted(facts.aws.node_roles.items()):
        if role is None:
            spec = get_field(find_nodeclass(facts, name), "spec") or {}
            role_name = spec.get("role") or spec.get("instanceProfile") or "nothing"
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"it refers to {role_name}, and IAM has no such role",
                wrong="no instance can be launched with this node class",
                fix=f"aws iam create-role --role-name {role_name} --assume-role-policy-document "
                '\'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":'
                f'{{"Service":"ec2.{dns_suffix(facts.aws.partition)}"}},"Action":"sts:AssumeRole"}}]}}\'',
            )
    for role in {role.name: role for role in facts.aws.node_roles.values() if role}.values():
        for policy, (alternatives, action) in _NODE_POLICIES.items():
            if policy == _CNI and _has_cni_role(facts):
                continue
            if _has(role, (policy, *alternatives), action):
                continue
            arn = f"arn:{facts.aws.partition}:iam::aws:policy/{policy}"
            yield Symptom(
                about=f"role/{role.name}",
                seen=f"attached: {', '.join(role.attached) or 'nothing'}",
                wrong=f"without {policy} nodes do not register, get no addresses or pull no images",
                fix=f"aws iam attach-role-policy --role-name {role.name} --policy-arn {arn}",
            )


def _has(role: Role, names: tuple[str, ...], action: str) -> bool:
    return any(name in role.attached for name in names) or may(role, action)


def _has_cni_role(facts: Facts) -> bool:
    accounts = [account for account in facts.of(SERVICE_ACCOUNTS) if name_of(account) == "aws-node"]
    return any(get_field(account, "metadata", "annotations", ROLE_ARN) for account in accounts) or any(
        pod_identity.get("serviceAccount") == "aws-node" for pod_identity in facts.aws.pod_identities
    )


_ACTIONS: Final = (
    "ec2:CreateFleet",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateTags",
    "ec2:DeleteLaunchTemplate",
    "ec2:DescribeImages",
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
    "ec2:RunInstances",
    "ec2:TerminateInstances",
    "iam:PassRole",
    "ssm:GetParameter",
)
_PLACEMENT: Final = (1, 11)
"""From this version on launches may use placement groups."""


@controller_check(
    code="I4",
    title="controller policy behind the version",
    severity=Severity.BROKEN,
    detection="policies of the controller's role against the actions that each version needs",
    remedy="add the missing actions",
    needs=(Part.VERSION, Part.CONTROLLER_ROLE),
)
def controller_policy(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield the missing actions as one symptom."""
    role = facts.aws.controller_role
    if role is None:
        return
    actions = [*_ACTIONS, *(action for since, action in ACTIONS_SINCE if controller.version >= since)]
    if controller.setting("INTERRUPTION_QUEUE"):
        actions += ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    if controller.setting("ENABLE_ZONAL_SHIFT").lower() == "true":
        actions.append("arc-zonal-shift:GetManagedResource")
    missing = [action for action in actions if not may(role, action)]
    group = f"arn:{facts.aws.partition}:ec2:{facts.region}:{facts.aws.account}:placement-group/a"
    if controller.version >= _PLACEMENT and not may(role, "ec2:RunInstances", group):
        missing.append("ec2:RunInstances on placement-group/*")
    if not missing:
        return
    version = ".".join(map(str, controller.version)) if controller.kind == "karpenter" else "dovetail"
    yield Symptom(
        about=f"role/{role.name}",
        seen=f"its policies do not allow {', '.join(missing)}; controller: {version}",
        wrong="requests of the controller are denied",
        fix=f"dovetail cluster render -f cluster.yaml  # then attach its policies to {role.name}",
    )


MAX_MANAGED_SIZE: Final = 6144
"""Maximum characters of a managed policy, without white space."""
MAX_INLINE_SIZE: Final = 10240
"""Maximum characters of all inline policies of a role together."""


@check(
    code="I5",
    title="policy over 6,144 characters",
    severity=Severity.BROKEN,
    detection="policies of a Terraform plan, of cluster.yaml, and inline policies of the role",
    remedy="split it, or shorten the names in it",
    any_of=(Part.PLAN, Part.SPEC, Part.CONTROLLER_ROLE),
)
def policy_size(facts: Facts) -> Iterator[Symptom]:
    """Yield oversized policies of a plan, a cluster.yaml, and the controller's role."""
    for name, size, limit in _sizes(facts):
        if size > limit:
            yield Symptom(
                about=f"policy/{name}",
                seen=f"{size:,} characters without white space; the limit is {limit:,}",
                wrong="IAM rejects it with LimitExceeded",
                fix="dovetail cluster render -f cluster.yaml  # six smaller policies",
            )


def _sizes(facts: Facts) -> Iterator[tuple[str, int, int]]:
    for change in facts.files.plan:
        if change.get("type") == "aws_iam_policy":
            text = get_field(change, "change", "after", "policy")
            if isinstance(text, str):
                yield str(change.get("address")), _size(text), MAX_MANAGED_SIZE
    if facts.files.spec is not None:
        for resource in desired_state(facts.files.spec):
            if resource.kind == "iam-policy":
                yield resource.name, _size(resource.properties.get("PolicyDocument")), MAX_MANAGED_SIZE
    role = facts.aws.controller_role
    if role is not None:
        inline = [document for name, document in role.documents.items() if name not in role.attached]
        yield f"inline of {role.name}", sum(map(_size, inline)), MAX_INLINE_SIZE


def _size(document: Any) -> int:
    if isinstance(document, Mapping):
        document = json.dumps(document, separators=(",", ":"))
    return len("".join(str(document).split()))


@check(
    code="I6",
    title="iam:PassRole misses the node role",
    severity=Severity.BROKEN,
    detection="iam:PassRole on each node role, by the controller's policies",
    remedy="add the role to the statement's resources",
    needs=(EC2_NODE_CLASSES, Part.CONTROLLER_ROLE, Part.NODE_ROLES),
)
def pass_role(facts: Facts) -> Iterator[Symptom]:
    """Yield node roles that the controller may not pass."""
    controller_role = facts.aws.controller_role
    if controller_role is None:
        return
    for arn, name in _node_roles(facts):
        if may(controller_role, "iam:PassRole", arn):
            continue
        yield Symptom(
            about=f"role/{name}",
            seen=f"no policy of {controller_role.name} allows iam:PassRole on {arn}",
            wrong="EC2 rejects launches with this role: UnauthorizedOperation",
            fix=f"aws iam put-role-policy --role-name {controller_role.name} --policy-name pass-node-role "
            '--policy-document \'{"Version":"2012-10-17","Statement":[{"Effect":"Allow",'
            f'"Action":"iam:PassRole","Resource":"{arn}"}}]}}\'',
        )


@check(
    code="I7",
    title="policy denies the dry run",
    severity=Severity.BROKEN,
    detection="condition ValidationSucceeded of each EC2NodeClass, reason …AuthCheckFailed",
    remedy="allow it in the service control or tag policy, or set DISABLE_DRY_RUN",
    needs=(EC2_NODE_CLASSES,),
)
def dry_run_denied(facts: Facts) -> Iterator[Symptom]:
    """Yield node classes whose dry run was denied."""
    for node_class in facts.of(EC2_NODE_CLASSES):
        status_condition = condition(node_class, VALIDATION_SUCCEEDED)
        reason = str(status_condition.get("reason") or "")
        if status_condition.get("status") == "False" and reason.endswith("AuthCheckFailed"):
            yield Symptom(
                about=f"EC2NodeClass/{name_of(node_class)}",
                seen=f"ValidationSucceeded is False, {reason}: {status_condition.get('message') or ''}".strip(
                    ": "
                ),
                wrong="the node class is not ready, so nothing is launched with it",
                fix="allow ec2:RunInstances, ec2:CreateFleet and ec2:CreateLaunchTemplate with "
                "the node class's tags in the service control policy; or set DISABLE_DRY_RUN=true",
            )


@check(
    code="I8",
    title="spot service-linked role missing",
    severity=Severity.BROKEN,
    detection="AWSServiceRoleForEC2Spot in IAM, if a NodePool allows spot",
    remedy="create it once in the account",
    needs=(NODE_POOLS, Part.SPOT_ROLE),
)
def spot_role(facts: Facts) -> Iterator[Symptom]:
    """Yield the missing role if a NodePool allows spot."""
    pool_names = spot_nodepools(facts)
    if pool_names and not facts.aws.spot_role:
        yield Symptom(
            about="role/AWSServiceRoleForEC2Spot",
            seen=f"IAM has no such role; NodePools that allow spot: {join_names(pool_names)}",
            wrong="launches fail with ServiceLinkedRoleCreationNotPermitted",
            fix="aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        )


_DEFAULT_PREFIX: Final = "KarpenterNodeRole-"


@check(
    code="I9",
    title="role name over 64 characters",
    severity=Severity.BROKEN,
    detection="spec.role of each EC2NodeClass, roles of a Terraform plan, else KarpenterNodeRole-CLUSTER",
    remedy="shorten it",
    any_of=(EC2_NODE_CLASSES, Part.PLAN),
)
def role_name_length(facts: Facts) -> Iterator[Symptom]:
    """Yield role names that are too long: of node classes, a plan, and the default."""
    names: dict[str, str] = {}
    for node_class in facts.of(EC2_NODE_CLASSES):
        role = str(get_field(node_class, "spec", "role") or "").rpartition("/")[2]
        names[role] = f"EC2NodeClass/{name_of(node_class)}"
    for change in facts.files.plan:
        if change.get("type") == "aws_iam_role":
            names[str(get_field(change, "change", "after", "name") or "")] = str(change.get("address"))
    if facts.cluster and not any(names):
        names[f"{_DEFAULT_PREFIX}{facts.cluster}"] = f"cluster/{facts.cluster}"
    for name, about in sorted(names.items()):
        if len(name) > MAX_ROLE_NAME:
            yield Symptom(
                about=about,
                seen=f"role {name} has {len(name)} characters; IAM takes {MAX_ROLE_NAME}",
                wrong="the role cannot be created, or its name is truncated",
                fix="set a short iam.prefix in cluster.yaml, or name the role explicitly",
            )


_ACTION = "kms:CreateGrant"


@check(
    code="I10",
    title="KMS key policy blocks encrypted volumes",
    severity=Severity.BROKEN,
    detection="policies of the node classes' keys and of the EBS default key, for the controller's role",
    remedy="grant the controller's role the use of the key through EBS",
    needs=(EC2_NODE_CLASSES, Part.ENCRYPTION, Part.CONTROLLER_ROLE),
)
def kms_key(facts: Facts) -> Iterator[Symptom]:
    """Yield KMS keys that the controller may not use for EBS volumes."""
    role = facts.aws.controller_role
    if role is None:
        return
    for key, kms_key in sorted(facts.aws.keys.items()):
        if role.arn in kms_key.grantees or _is_open(kms_key.policy, role):
            continue
        usage = "EBS default key" if key == facts.aws.default_key else "key of a node class"
        yield Symptom(
            about=f"key/{key.rpartition('/')[2]}",
            seen=f"{usage}; neither its policy nor that of {role.name} allows {_ACTION}",
            wrong="instances terminate right after launch: Client.InternalError",
            fix=f"aws kms create-grant --key-id {key} --grantee-principal {role.arn} "
            "--operations CreateGrant Decrypt DescribeKey GenerateDataKeyWithoutPlaintext "
            "ReEncryptFrom ReEncryptTo",
        )


def _is_open(policy: Raw, role: Role) -> bool:
    for statement in allowing([policy], _ACTION):
        for principal in principals(statement):
            if principal in ("*", role.arn):
                return True
            # The account principal delegates to IAM policies.
            if principal.endswith(":root") and may(role, _ACTION):
                return True
    return False


_VALIDATION_TTL: Final = timedelta(minutes=10)


@check(
    code="I11",
    title="validation stale after a fix",
    severity=Severity.RISK,
    detection="ValidationSucceeded of an EC2NodeClass is False for more than 10 minutes",
    remedy="change an annotation of the node class to trigger validation",
    needs=(EC2_NODE_CLASSES,),
)
def stale_validation(facts: Facts) -> Iterator[Symptom]:
    """Yield node classes whose failed validation is older than its cache."""
    for node_class in facts.of(EC2_NODE_CLASSES):
        status_condition = condition(node_class, VALIDATION_SUCCEEDED)
        since = age(facts, status_condition.get("lastTransitionTime"))
        if status_condition.get("status") == "False" and since > _VALIDATION_TTL:
            minutes = int(since.total_seconds() // 60)
            name = name_of(node_class)
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"ValidationSucceeded is False for {minutes} minutes: {status_condition.get('reason')}",
                wrong="if IAM was fixed since, the controller has not validated again",
                fix=f"kubectl annotate ec2nodeclass {name} --overwrite "
                f"dovetail.sh/revalidated-at={facts.now:%Y%m%dT%H%M%S}",
            )
