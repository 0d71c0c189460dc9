"""Kubernetes objects: aws-auth, namespaces, service accounts, and what a user adds."""

from collections.abc import Iterator
from typing import Any

import yaml

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeFargate
from dovetail.eks.desired.addons import system_addresses
from dovetail.eks.desired.control_plane import ADMIN_GROUP, lets_nodes_in, principal
from dovetail.eks.desired.controller import REGIONAL_STS, ROLE_ARN, association
from dovetail.eks.desired.iam_roles import has_groups, node_role_arn
from dovetail.eks.desired.names import (
    Names,
    is_existing,
    pool_addresses,
    release_of,
    service_account_of,
)
from dovetail.eks.desired.nodepools import kube_object
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import Resource

_NODE_GROUPS = ["system:bootstrappers", "system:nodes"]
_PRIORITIES = {
    "leader-election": ("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
    "workload-high": ("*", ["*"], ["*"]),
}
"""Levels of the API server's fairness that pods of kube-system have by themselves."""
_THERE = ("default", "kube-system", "kube-public", "kube-node-lease")


def objects(spec: ClusterSpec, names: Names) -> Iterator[Resource]:
    """Hand out the objects that are neither charts nor NodePools."""
    cluster = (names.cluster_address,)
    if spec.access.mode == "aws-auth" and not is_existing(spec):
        yield kube_object(_aws_auth(spec, names), cluster, "who may use the cluster")
    if spec.controller.namespace != "kube-system":
        for level, account_rules in _PRIORITIES.items():
            yield kube_object(_flow_schema(spec, level, account_rules), cluster)
    given = {_name(one) for one in spec.objects if one.get("kind") == "Namespace"}
    homes = dict.fromkeys(one.namespace for one in spec.service_accounts)
    for namespace in homes:
        if namespace not in _THERE and namespace not in given:
            manifest = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": namespace},
            }
            yield kube_object(manifest, cluster)
    yield from _service_accounts(spec, names)
    for one in spec.objects:
        # Pods among them need nodes, and a namespace of theirs must be there first.
        space = one.get("metadata", {}).get("namespace")
        home = (f"kubernetes-object/Namespace/{space}",) if space in given else ()
        yield kube_object(one, (*system_addresses(spec), *pool_addresses(spec), *home))


def _flow_schema(
    spec: ClusterSpec, level: str, rule: tuple[str, list[str], list[str]]
) -> dict[str, Any]:
    """Return what keeps the controller from waiting behind everybody else's requests."""
    group, resources, verbs = rule
    namespace = spec.controller.namespace
    rules: dict[str, Any] = {
        "apiGroups": [group],
        "resources": resources,
        "verbs": verbs,
        "namespaces": [namespace] if level == "leader-election" else ["*"],
    }
    if level != "leader-election":
        rules["clusterScope"] = True
    account = {"name": service_account_of(spec), "namespace": namespace}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": f"{release_of(spec)}-{level}"},
        "spec": {
            "distinguisherMethod": {"type": "ByUser"},
            "matchingPrecedence": 200 if level == "leader-election" else 1000,
            "priorityLevelConfiguration": {"name": level},
            "rules": [
                {
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                    "resourceRules": [rules],
                }
            ],
        },
    }


def _name(one: dict[str, Any]) -> Any:
    return one.get("metadata", {}).get("name")


def _service_accounts(spec: ClusterSpec, names: Names) -> Iterator[Resource]:
    for one in spec.service_accounts:
        role = names.account_role(one.namespace, one.name)
        annotations = dict(one.annotations)
        if spec.uses_irsa:
            annotations[ROLE_ARN] = ref(f"iam-role/{role}", "arn")
            if spec.controller.regional_sts:
                annotations[REGIONAL_STS] = "true"
        else:
            yield association(names, one.namespace, one.name, role)
        manifest = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": one.name,
                "namespace": one.namespace,
                **({"annotations": annotations} if annotations else {}),
            },
        }
        made = one.namespace not in _THERE
        home = (f"kubernetes-object/Namespace/{one.namespace}",) if made else ()
        yield kube_object(manifest, (names.cluster_address, *home))


def _aws_auth(spec: ClusterSpec, names: Names) -> dict[str, Any]:
    roles: list[dict[str, Any]] = []
    if has_groups(spec):
        roles.append(_nodes(ref(f"iam-role/{names.group_role}", "arn")))
    if lets_nodes_in(spec, names):
        roles.append(_nodes(node_role_arn(spec, names)))
    if isinstance(spec.home, HomeFargate):
        roles.append(
            {
                "rolearn": ref(f"iam-role/{names.fargate_role}", "arn"),
                "username": "system:node:{{SessionName}}",
                "groups": [*_NODE_GROUPS, "system:node-proxier"],
            }
        )
    users: list[dict[str, Any]] = []
    for who in spec.access.admins:
        arn, name = principal(who), who.rpartition("/")[2]
        entry = {"username": name, "groups": [ADMIN_GROUP]}
        (users if ":user/" in arn else roles).append(
            {"userarn" if ":user/" in arn else "rolearn": arn, **entry}
        )
    for role in spec.access.roles:
        name = role.username or role.role_arn.rpartition("/")[2]
        roles.append({"rolearn": role.role_arn, "username": name, "groups": list(role.groups)})
    for user in spec.access.users:
        name = user.username or user.user_arn.rpartition("/")[2]
        users.append({"userarn": user.user_arn, "username": name, "groups": list(user.groups)})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "aws-auth", "namespace": "kube-system"},
        "data": {
            "mapRoles": _text(roles),
            "mapUsers": _text(users),
            "mapAccounts": _text(spec.access.accounts),
        },
    }


def _nodes(role: str) -> dict[str, Any]:
    name = "system:node:{{EC2PrivateDNSName}}"
    return {"rolearn": role, "username": name, "groups": [*_NODE_GROUPS]}


def _text(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000)
