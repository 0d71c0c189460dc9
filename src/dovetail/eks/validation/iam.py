"""Checks: names that IAM must take, roles, and who gets in."""

import re
from collections.abc import Iterator
from typing import Final

from dovetail.codec.text.field_path import Path
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeExisting, HomeFargate, HomeGroup
from dovetail.eks.desired.names import ROLE_LIMIT, Names
from dovetail.eks.validation.finding import Finding
from dovetail.model.cloud.ec2_catalog import Catalog

RULE_LIMIT: Final = 64
LABEL_LIMIT: Final = 63
TEMPLATE_LIMIT: Final = 128
_IAM_NAME: Final = re.compile(r"[\w+=,.@-]+", re.ASCII)


def name_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check that AWS and Kubernetes take every name which we make of the cluster's."""
    names = Names.of(spec)
    yield from _cluster_name(spec)
    made = [names.node_role, names.controller_role]
    if not isinstance(spec.home, HomeExisting):
        made.append(names.cluster_role)
    if isinstance(spec.home, HomeGroup) or spec.node_groups:
        made.append(names.group_role)
    if isinstance(spec.home, HomeFargate):
        made.append(names.fargate_role)
    where: Path = ("iam", "prefix") if spec.iam.prefix else ("name",)
    longest = max(made, key=len)
    if len(longest) > ROLE_LIMIT:
        most = ROLE_LIMIT - (len(longest) - len(names.prefix))
        hint = "" if spec.iam.prefix else ", or set iam.prefix"
        yield (
            where,
            f"makes the role name {longest!r} of {len(longest)} characters; IAM takes "
            f"{ROLE_LIMIT}: use {most} at most{hint}",
        )
    if spec.controller.interruption_queue:
        rule = f"{names.cluster}-reservation"
        if len(rule) > RULE_LIMIT:
            most = RULE_LIMIT - (len(rule) - len(names.cluster))
            yield (
                ("name",),
                f"makes the rule name {rule!r} of {len(rule)} characters; EventBridge takes "
                f"{RULE_LIMIT}: use {most} at most",
            )
    for number, one in enumerate(spec.service_accounts):
        role = names.account_role(one.namespace, one.name)
        if len(role) > ROLE_LIMIT:
            yield (
                ("serviceAccounts", number, "name"),
                f"makes the role name {role!r} of {len(role)} characters; IAM takes {ROLE_LIMIT}",
            )


def _cluster_name(spec: ClusterSpec) -> Iterator[Finding]:
    if len(spec.name) > LABEL_LIMIT:
        yield (
            ("name",),
            f"has {len(spec.name)} characters; our objects in the cluster carry it as a label, "
            f"which takes {LABEL_LIMIT}",
        )
    if not spec.name[-1].isalnum():
        yield ("name",), f"{spec.name!r} must end with a letter or digit, to be a label"
    if spec.name.lower().startswith("sg-"):
        yield ("name",), "begins with 'sg-', and no security group may be called so"
    prefix = spec.iam.prefix
    if prefix is not None and _IAM_NAME.fullmatch(prefix) is None:
        yield ("iam", "prefix"), f"{prefix!r} is no part of a name for IAM: letters, digits, +=,.@-"
    groups = [("home", spec.home)] if isinstance(spec.home, HomeGroup) else []
    every = [*groups, *((f"nodeGroups[{n}]", one) for n, one in enumerate(spec.node_groups))]
    for where, group in every:
        template = f"{spec.name}-{group.name}"
        if len(template) > TEMPLATE_LIMIT:
            yield (
                ("name",),
                f"makes the launch template {template!r} for {where} of {len(template)} "
                f"characters; EC2 takes {TEMPLATE_LIMIT}",
            )


def role_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check that roles can be what they are said to be."""
    chosen = spec.iam.node_role
    path: Path = ("iam", "nodeRole")
    if chosen.arn is not None and chosen.use is not None:
        yield path, "must have either use or arn"
    if chosen.arn is not None and ":role/" not in chosen.arn:
        yield (*path, "arn"), f"{chosen.arn!r} is no role"
    if chosen.use == "home" and not isinstance(spec.home, HomeGroup):
        yield (*path, "use"), "needs a home of kind managed-node-group, whose role to share"
    boundary = spec.iam.permissions_boundary
    if boundary is not None and ":policy/" not in boundary:
        yield ("iam", "permissionsBoundary"), f"{boundary!r} is no policy"
    if isinstance(spec.home, HomeFargate) and spec.identity == "pod-identity":
        yield (
            ("identity",),
            "Pod Identity does not work on Fargate: its agent runs on nodes; use irsa",
        )
    seen: set[tuple[str, str]] = set()
    for number, one in enumerate(spec.service_accounts):
        where: Path = ("serviceAccounts", number)
        if (one.namespace, one.name) in seen:
            yield where, f"{one.namespace}/{one.name} is there twice"
        seen.add((one.namespace, one.name))
        for place, statement in enumerate(one.statements):
            if not {"Effect", "Action", "Resource"} <= set(statement):
                yield (*where, "statements", place), "must have Effect, Action and Resource"


def access_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check who gets in, by the rules of the way that was chosen."""
    chosen = spec.access
    if chosen.accounts and chosen.mode == "entries":
        yield ("access", "accounts"), "whole accounts need mode: aws-auth"
    shares = isinstance(spec.home, HomeExisting) and bool(spec.home.node_role)
    if chosen.mode == "aws-auth" and isinstance(spec.home, HomeExisting) and not shares:
        yield (
            ("access", "mode"),
            "aws-auth of an existing cluster is not ours to rewrite; use entries, or have nodes "
            "share a role that it knows (home.nodeRole)",
        )
    if not (chosen.creator_is_admin or chosen.admins or isinstance(spec.home, HomeExisting)):
        yield (
            ("access", "creatorIsAdmin"),
            "with nobody in admins, nobody could put anything into the cluster",
        )
    for name, given, part in (
        ("roles", [one.role_arn for one in chosen.roles], ":role/"),
        ("users", [one.user_arn for one in chosen.users], ":user/"),
    ):
        for number, arn in enumerate(given):
            if part not in arn:
                field = "roleArn" if name == "roles" else "userArn"
                yield ("access", name, number, field), f"{arn!r} is no {name[:-1]}"
    yield from _twice(spec)
    if chosen.mode == "entries":
        yield from _system_groups(spec)


def _twice(spec: ClusterSpec) -> Iterator[Finding]:
    chosen = spec.access
    everybody = (
        ("admins", list(chosen.admins)),
        ("roles", [one.role_arn for one in chosen.roles]),
        ("users", [one.user_arn for one in chosen.users]),
    )
    seen: set[str] = set()
    for name, ones in everybody:
        for number, who in enumerate(ones):
            if who in seen:
                yield ("access", name, number), f"{who} is there twice"
            seen.add(who)


def _system_groups(spec: ClusterSpec) -> Iterator[Finding]:
    people = (
        ("roles", [one.groups for one in spec.access.roles]),
        ("users", [one.groups for one in spec.access.users]),
    )
    for name, all_groups in people:
        for number, groups in enumerate(all_groups):
            for place, group in enumerate(groups):
                if group.startswith("system:") and group != "system:masters":
                    yield (
                        ("access", name, number, "groups", place),
                        f"an access entry takes no group that begins with 'system:' ({group})",
                    )
