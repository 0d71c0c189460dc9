"""Desired Kubernetes objects: aws-auth, FlowSchemas, service accounts and others."""

from collections.abc import Iterator
from typing import Any

import yaml

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import ControllerFargate
from dovetail.eks.desired.addons import system_addresses
from dovetail.eks.desired.control_plane import ADMIN_GROUP, needs_node_access, principal_arn
from dovetail.eks.desired.controller import REGIONAL_STS, ROLE_ARN
from dovetail.eks.desired.iam_roles import (
    has_node_groups,
    has_windows_node_groups,
    node_role_name,
    pod_identity_association,
)
from dovetail.eks.desired.names import (
    Names,
    nodepool_addresses,
    release_name,
    service_account_name,
    uses_existing_cluster,
)
from dovetail.eks.desired.nodepools import kubernetes_object
from dovetail.eks.plan.references import aws_ref, ref
from dovetail.eks.plan.resource import DesiredResource

_NODE_GROUPS = ["system:bootstrappers", "system:nodes"]
_PRIORITY_LEVELS = {
    "leader-election": ("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
    "workload-high": ("*", ["*"], ["*"]),
}
"""Priority levels that Kubernetes gives to kube-system: group, resources, verbs."""
_DEFAULT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def desired_objects(config: ClusterConfig, names: Names) -> Iterator[DesiredResource]:
    """Yield the objects that are neither charts nor NodePools."""
    cluster = (names.cluster_address,)
    if config.access.mode == "aws-auth" and not uses_existing_cluster(config):
        yield kubernetes_object(_aws_auth(config, names), cluster, "access to the cluster")
    if config.controller.namespace != "kube-system":
        for level, rule in _PRIORITY_LEVELS.items():
            yield kubernetes_object(_flow_schema(config, level, rule), cluster)
    declared_namespaces = {
        _name(manifest) for manifest in config.objects if manifest.get("kind") == "Namespace"
    }
    for namespace in dict.fromkeys(account.namespace for account in config.service_accounts):
        if namespace not in _DEFAULT_NAMESPACES and namespace not in declared_namespaces:
            yield kubernetes_object(_namespace(namespace), cluster)
    yield from _service_accounts(config, names)
    for manifest in config.objects:
        # Pods among them need nodes; their namespace must exist before.
        dependencies = [*system_addresses(config), *nodepool_addresses(config)]
        namespace = manifest.get("metadata", {}).get("namespace")
        if namespace in declared_namespaces:
            dependencies.append(f"kubernetes-object/Namespace/{namespace}")
        yield kubernetes_object(manifest, tuple(dependencies))


def _flow_schema(config: ClusterConfig, level: str, rule: tuple[str, list[str], list[str]]) -> dict[str, Any]:
    """Return a FlowSchema that gives the controller's requests a priority level."""
    group, resources, verbs = rule
    namespace = config.controller.namespace
    rules: dict[str, Any] = {
        "apiGroups": [group],
        "resources": resources,
        "verbs": verbs,
        "namespaces": [namespace] if level == "leader-election" else ["*"],
    }
    if level != "leader-election":
        rules["clusterScope"] = True
    account = {"name": service_account_name(config), "namespace": namespace}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": f"{release_name(config)}-{level}"},
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


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _name(manifest: dict[str, Any]) -> Any:
    return manifest.get("metadata", {}).get("name")


def _service_accounts(config: ClusterConfig, names: Names) -> Iterator[DesiredResource]:
    for account in config.service_accounts:
        role = names.service_account_role(account.namespace, account.name)
        annotations = dict(account.annotations)
        if config.uses_irsa:
            annotations[ROLE_ARN] = ref(f"iam-role/{role}", "arn")
            if config.controller.regional_sts:
                annotations[REGIONAL_STS] = "true"
        else:
            yield pod_identity_association(names, account.namespace, account.name, role)
        manifest = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": account.name,
                "namespace": account.namespace,
                **({"annotations": annotations} if annotations else {}),
            },
        }
        dependencies = [names.cluster_address]
        if account.namespace not in _DEFAULT_NAMESPACES:
            dependencies.append(f"kubernetes-object/Namespace/{account.namespace}")
        yield kubernetes_object(manifest, tuple(dependencies))


def _aws_auth(config: ClusterConfig, names: Names) -> dict[str, Any]:
    roles: list[dict[str, Any]] = []
    if has_node_groups(config):
        roles.append(_node_mapping(_role_without_path(names.node_group_role)))
    if has_windows_node_groups(config):
        mapping = _node_mapping(_role_without_path(names.windows_node_group_role))
        roles.append({**mapping, "groups": [*_NODE_GROUPS, "eks:kube-proxy-windows"]})
    if needs_node_access(config, names):
        given = config.iam.node_role.arn
        node_role = _without_path(given) if given else _role_without_path(node_role_name(config, names))
        roles.append(_node_mapping(node_role))
    if isinstance(config.home, ControllerFargate):
        roles.append(
            {
                "rolearn": _role_without_path(names.fargate_role),
                "username": "system:node:{{SessionName}}",
                "groups": [*_NODE_GROUPS, "system:node-proxier"],
            }
        )
    users: list[dict[str, Any]] = []
    for principal in config.access.admins:
        arn, name = principal_arn(principal), principal.rpartition("/")[2]
        arn = arn if ":user/" in arn else _without_path(arn)
        entry = {"username": name, "groups": [ADMIN_GROUP]}
        (users if ":user/" in arn else roles).append(
            {"userarn" if ":user/" in arn else "rolearn": arn, **entry}
        )
    for role in config.access.roles:
        name = role.username or role.role_arn.rpartition("/")[2]
        roles.append({"rolearn": _without_path(role.role_arn), "username": name, "groups": list(role.groups)})
    for user in config.access.users:
        name = user.username or user.user_arn.rpartition("/")[2]
        users.append({"userarn": user.user_arn, "username": name, "groups": list(user.groups)})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "aws-auth", "namespace": "kube-system"},
        "data": {
            "mapRoles": _to_yaml(roles),
            "mapUsers": _to_yaml(users),
            "mapAccounts": _to_yaml(config.access.accounts),
        },
    }


def _role_without_path(name: str) -> str:
    return f"arn:{aws_ref('partition')}:iam::{aws_ref('account')}:role/{name}"


def _without_path(role_arn: str) -> str:
    """Return the ARN by which aws-auth knows a role: EKS ignores its path there."""
    start, _, path = role_arn.partition(":role/")
    return f"{start}:role/{path.rpartition('/')[2]}"


def _node_mapping(role: str) -> dict[str, Any]:
    name = "system:node:{{EC2PrivateDNSName}}"
    return {"rolearn": role, "username": name, "groups": [*_NODE_GROUPS]}


def _to_yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000)
