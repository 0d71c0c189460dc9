"""Validation of IAM names, roles and cluster access."""

import re
from collections.abc import Iterator
from typing import Final

from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.suggestions import suggest
from dovetail.eks.config.access import PrincipalEntry
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.error_messages import FieldError
from dovetail.eks.config.node_groups import ControllerFargate, ControllerNodeGroup, ExistingCluster, NodeGroup
from dovetail.eks.desired.control_plane import ADMIN_GROUP, ADMIN_POLICY
from dovetail.eks.desired.iam_roles import has_windows_node_groups
from dovetail.eks.desired.names import MAX_ROLE_NAME, Names, service_account_name
from dovetail.model.cloud.ec2_catalog import Catalog

# Maximum lengths, in characters.
MAX_RULE_NAME: Final = 64
MAX_LABEL_VALUE: Final = 63
MAX_LAUNCH_TEMPLATE_NAME: Final = 128
ACCESS_POLICIES: Final = (
    ADMIN_POLICY,
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
    "AmazonEKSSecretReaderPolicy",
)
"""Access policies of EKS for people; the others are for EKS Auto Mode and other services."""
_IAM_NAME: Final = re.compile(r"[\w+=,.@-]+", re.ASCII)


def validate_names(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Check that AWS and Kubernetes accept every name derived from the cluster's."""
    names = Names.from_config(config)
    yield from _validate_cluster_name(config)
    roles = [names.node_role, names.controller_role]
    if not isinstance(config.home, ExistingCluster):
        roles.append(names.cluster_role)
    if isinstance(config.home, ControllerNodeGroup) or config.node_groups:
        roles.append(names.node_group_role)
    if has_windows_node_groups(config):
        roles.append(names.windows_node_group_role)
    if isinstance(config.home, ControllerFargate):
        roles.append(names.fargate_role)
    path: FieldPath = ("iam", "prefix") if config.iam.prefix else ("name",)
    longest = max(roles, key=len)
    if len(longest) > MAX_ROLE_NAME:
        allowed = MAX_ROLE_NAME - (len(longest) - len(config.iam.prefix or config.name))
        hint = "" if config.iam.prefix else ", or set iam.prefix"
        yield (
            path,
            f"results in the role name {longest!r} of {len(longest)} characters; IAM allows "
            f"{MAX_ROLE_NAME}: use at most {allowed}{hint}",
        )
    if config.controller.interruption_queue:
        rule = f"{names.cluster}-reservation"
        if len(rule) > MAX_RULE_NAME:
            allowed = MAX_RULE_NAME - (len(rule) - len(names.cluster))
            yield (
                ("name",),
                f"results in the rule name {rule!r} of {len(rule)} characters; EventBridge allows "
                f"{MAX_RULE_NAME}: use at most {allowed}",
            )
    for number, account in enumerate(config.service_accounts):
        role = names.service_account_role(account.namespace, account.name)
        if len(role) > MAX_ROLE_NAME:
            message = (
                f"results in the role name {role!r} of {len(role)} characters; IAM allows {MAX_ROLE_NAME}"
            )
            yield ("serviceAccounts", number, "name"), message


def _validate_cluster_name(config: ClusterConfig) -> Iterator[FieldError]:
    if len(config.name) > MAX_LABEL_VALUE:
        yield (
            ("name",),
            f"has {len(config.name)} characters; Kubernetes objects carry it as a label, which "
            f"allows {MAX_LABEL_VALUE}",
        )
    if not config.name[-1].isalnum():
        yield ("name",), f"{config.name!r} must end with a letter or digit to be a label value"
    if config.name.lower().startswith("sg-"):
        yield ("name",), "begins with 'sg-', which EC2 does not allow for security group names"
    prefix = config.iam.prefix
    if prefix is not None and _IAM_NAME.fullmatch(prefix) is None:
        yield (("iam", "prefix"), f"{prefix!r} is not valid in IAM names: letters, digits and _+=,.@-")
    groups: list[tuple[str, NodeGroup]] = []
    if isinstance(config.home, ControllerNodeGroup):
        groups.append(("home", config.home))
    groups += [(f"nodeGroups[{number}]", group) for number, group in enumerate(config.node_groups)]
    for field, group in groups:
        template = f"{config.name}-{group.name}"
        if len(template) > MAX_LAUNCH_TEMPLATE_NAME:
            yield (
                ("name",),
                f"results in the launch template name {template!r} for {field} of "
                f"{len(template)} characters; EC2 allows {MAX_LAUNCH_TEMPLATE_NAME}",
            )


def validate_encryption_key(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate the key that encrypts Secrets."""
    encryption = config.secrets_encryption
    if encryption is None:
        return
    if isinstance(config.home, ExistingCluster):
        message = "is not possible for an existing cluster, which is never changed"
        yield ("secretsEncryption",), message
    if encryption.key_arn is None:
        return
    path: FieldPath = ("secretsEncryption", "keyArn")
    parts = encryption.key_arn.split(":", 5)
    if parts[2] != "kms" or not parts[5].startswith("key/"):
        message = "is not the ARN of a KMS key (arn:aws:kms:REGION:ACCOUNT:key/ID); EKS takes no alias"
        yield path, message
    elif parts[3] != config.region:
        yield path, f"is in {parts[3]}; EKS requires a key in the cluster's region, {config.region}"


def validate_roles(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate roles, the permissions boundary and service accounts."""
    node_role = config.iam.node_role
    path: FieldPath = ("iam", "nodeRole")
    if node_role.arn is not None and node_role.use is not None:
        yield path, "must have either use or arn"
    if node_role.arn is not None and ":role/" not in node_role.arn:
        yield (*path, "arn"), f"{node_role.arn!r} is not a role"
    if node_role.use == "home" and not isinstance(config.home, ControllerNodeGroup):
        yield (*path, "use"), "requires a home of kind managed-node-group, whose role is shared"
    yield from _validate_boundary(config)
    if isinstance(config.home, ControllerFargate) and config.identity == "pod-identity":
        message = "Pod Identity does not work on Fargate, because its agent runs on nodes; use irsa"
        yield ("identity",), message
    yield from _validate_service_accounts(config)


def _validate_boundary(config: ClusterConfig) -> Iterator[FieldError]:
    boundary = config.iam.permissions_boundary
    if boundary is None:
        return
    owner = boundary.split(":")[4]
    if ":policy/" not in boundary:
        yield ("iam", "permissionsBoundary"), f"{boundary!r} is not a policy"
    elif config.account is not None and owner not in (config.account, "aws"):
        message = f"is a policy of account {owner}, but the cluster is in {config.account}"
        yield ("iam", "permissionsBoundary"), message


def _validate_service_accounts(config: ClusterConfig) -> Iterator[FieldError]:
    account_keys: set[tuple[str, str]] = set()
    for number, account in enumerate(config.service_accounts):
        account_path: FieldPath = ("serviceAccounts", number)
        if (account.namespace, account.name) in account_keys:
            yield account_path, f"{account.namespace}/{account.name} is defined twice"
        account_keys.add((account.namespace, account.name))
        if (account.namespace, account.name) == (config.controller.namespace, service_account_name(config)):
            message = (
                f"{account.namespace}/{account.name} is the service account of the controller; use another "
                "name, or set controller.serviceAccount"
            )
            yield account_path, message
        for index, statement in enumerate(account.statements):
            if not {"Effect", "Action", "Resource"} <= set(statement):
                yield ((*account_path, "statements", index), "must have Effect, Action and Resource")
            elif statement["Effect"] not in ("Allow", "Deny"):
                message = f"{statement['Effect']!r} is not an effect: Allow or Deny"
                yield (*account_path, "statements", index, "Effect"), message


def validate_access(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate cluster access by the rules of its mode."""
    access = config.access
    if access.accounts and access.mode == "entries":
        yield ("access", "accounts"), "requires mode: aws-auth"
    shares_role = isinstance(config.home, ExistingCluster) and bool(config.home.node_role)
    if access.mode == "aws-auth" and isinstance(config.home, ExistingCluster) and not shares_role:
        yield (
            ("access", "mode"),
            "aws-auth of an existing cluster is not rewritten; use entries, or let nodes share a "
            "role that it contains (home.nodeRole)",
        )
    if not (access.creator_is_admin or access.admins or isinstance(config.home, ExistingCluster)):
        message = "must be true if admins is empty: the cluster would have no administrator"
        yield ("access", "creatorIsAdmin"), message
    for name, arns, part in (
        ("roles", [role.role_arn for role in access.roles], ":role/"),
        ("users", [user.user_arn for user in access.users], ":user/"),
    ):
        for number, arn in enumerate(arns):
            if part not in arn:
                field = "roleArn" if name == "roles" else "userArn"
                yield ("access", name, number, field), f"{arn!r} is not a {name[:-1]}"
    yield from _validate_principals(config)
    yield from _validate_policies(config)
    if access.mode == "entries":
        yield from _validate_groups(config)


def _validate_principals(config: ClusterConfig) -> Iterator[FieldError]:
    """Yield an error for every principal that is listed twice."""
    access = config.access
    principals_by_field = (
        ("admins", list(access.admins)),
        ("roles", [role.role_arn for role in access.roles]),
        ("users", [user.user_arn for user in access.users]),
    )
    listed: set[str] = set()
    node_role = config.iam.node_role.arn
    for field, principals in principals_by_field:
        for number, principal in enumerate(principals):
            if principal == node_role:
                message = f"{principal} is the role of nodes (iam.nodeRole.arn), which has its own entry"
                yield ("access", field, number), message
            if ":assumed-role/" in principal:
                role = principal.partition(":assumed-role/")[2].partition("/")[0]
                message = f"{principal} is a session; use the ARN of its role: arn:aws:iam::…:role/{role}"
                yield ("access", field, number), message
            if principal in listed:
                yield ("access", field, number), f"{principal} is listed twice"
            listed.add(principal)


def _validate_policies(config: ClusterConfig) -> Iterator[FieldError]:
    entries: list[tuple[FieldPath, PrincipalEntry]] = [
        *((("access", "roles", number), role) for number, role in enumerate(config.access.roles)),
        *((("access", "users", number), user) for number, user in enumerate(config.access.users)),
    ]
    for path, entry in entries:
        if entry.policies and config.access.mode == "aws-auth":
            yield (*path, "policies"), "requires mode: entries; in aws-auth, groups give permissions"
        if entry.namespaces and not entry.policies:
            yield (*path, "namespaces"), "is the scope of policies, and there are none"
        for number, name in enumerate(entry.policies):
            if name not in ACCESS_POLICIES:
                message = f"{name!r} is not an access policy of EKS{suggest(name, ACCESS_POLICIES)}"
                yield (*path, "policies", number), message
            elif name in entry.policies[:number]:
                yield (*path, "policies", number), f"{name} is listed twice"
            elif name == ADMIN_POLICY and ADMIN_GROUP in entry.groups:
                yield (*path, "policies", number), f"follows from the group {ADMIN_GROUP}; remove one of them"


def _validate_groups(config: ClusterConfig) -> Iterator[FieldError]:
    groups_by_field = (
        ("roles", [role.groups for role in config.access.roles]),
        ("users", [user.groups for user in config.access.users]),
    )
    for field, group_lists in groups_by_field:
        for number, groups in enumerate(group_lists):
            for index, group in enumerate(groups):
                if group.startswith("system:") and group != "system:masters":
                    message = f"access entries do not allow groups that begin with 'system:' ({group})"
                    yield ("access", field, number, "groups", index), message
