"""Desired EKS cluster: control plane, logs and access."""

from collections.abc import Iterator
from datetime import date
from typing import Any, Final

from dovetail.eks.config.access import PrincipalEntry, SecretsEncryption
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.iam_roles import node_role_arn, node_role_name, shared_node_role
from dovetail.eks.desired.names import DISCOVERY, Names, uses_existing_cluster
from dovetail.eks.desired.network import Network
from dovetail.eks.iam.documents import arn
from dovetail.eks.plan.references import aws_ref, ref
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.prices import KMS_KEY_MONTHLY_USD, control_plane_cost

ADMIN_GROUP: Final = "system:masters"
ADMIN_POLICY: Final = "AmazonEKSClusterAdminPolicy"


def desired_control_plane(
    config: ClusterConfig, names: Names, network: Network, today: date | None
) -> Iterator[DesiredResource]:
    """Yield the cluster and the resources that belong to it alone."""
    if uses_existing_cluster(config):
        yield DesiredResource(
            kind="eks-cluster", name=names.cluster, properties={"Name": names.cluster}, external=True
        )
    else:
        yield from _cluster_resources(config, names, network, today)
    creates_provider = config.uses_irsa and getattr(config.home, "oidc_provider", "create") == "create"
    if creates_provider:
        yield DesiredResource(
            kind="oidc-provider",
            name=names.cluster,
            properties={"Url": names.cluster_ref("issuer-url"), "ClientIdList": ["sts.amazonaws.com"]},
            purpose="lets service accounts assume roles",
        )


def _cluster_resources(
    config: ClusterConfig, names: Names, network: Network, today: date | None
) -> Iterator[DesiredResource]:
    dependencies: list[str] = []
    logs = f"/aws/eks/{names.cluster}/cluster"
    if config.logging.types:
        # Before the cluster: otherwise EKS creates it, without retention and unowned.
        dependencies.append(f"log-group/{logs}")
        yield DesiredResource(
            kind="log-group",
            name=logs,
            properties={"LogGroupName": logs, "RetentionInDays": config.logging.retention_days},
            purpose="logs of the control plane",
        )
    encryption = config.secrets_encryption
    if encryption is not None and encryption.key_arn is None:
        yield from _secrets_key(names)
    endpoint = config.endpoint
    vpc_config: dict[str, Any] = {
        "SubnetIds": network.control_plane,
        "EndpointPublicAccess": endpoint.public,
        "EndpointPrivateAccess": endpoint.private,
    }
    if endpoint.public:
        vpc_config["PublicAccessCidrs"] = endpoint.public_cidrs or ["0.0.0.0/0"]
    cost = control_plane_cost(
        config.version, region=config.region, today=today, upgrades_automatically=config.support == "standard"
    )
    yield DesiredResource(
        kind="eks-cluster",
        name=names.cluster,
        properties={
            "Name": names.cluster,
            "Version": config.version,
            "RoleArn": ref(f"iam-role/{names.cluster_role}", "arn"),
            "ResourcesVpcConfig": vpc_config,
            "AccessConfig": {
                "AuthenticationMode": ("API" if config.access.mode == "entries" else "API_AND_CONFIG_MAP"),
                "BootstrapClusterCreatorAdminPermissions": config.access.creator_is_admin,
            },
            "Logging": {
                "ClusterLogging": {"EnabledTypes": [{"Type": log_type} for log_type in config.logging.types]}
            },
            # We install EKS add-ons instead: with versions and settings of our choice.
            "BootstrapSelfManagedAddons": False,
            **_network_config(config),
            **({"EncryptionConfig": [_encryption_config(encryption)]} if encryption else {}),
            **({"UpgradePolicy": {"SupportType": config.support.upper()}} if config.support else {}),
        },
        tags={DISCOVERY: names.cluster},
        depends_on=tuple(dependencies),
        monthly_usd=cost.monthly_usd,
        cost_note=cost.note,
        purpose="the control plane",
    )


def _network_config(config: ClusterConfig) -> dict[str, Any]:
    settings = {"ServiceIpv4Cidr": config.service_cidr} if config.service_cidr else {}
    if config.ip_family != "ipv4":
        settings["IpFamily"] = config.ip_family
    return {"KubernetesNetworkConfig": settings} if settings else {}


def _secrets_key(names: Names) -> Iterator[DesiredResource]:
    yield DesiredResource(
        kind="kms-key",
        name="secrets",
        properties={"Description": f"Secrets of EKS cluster {names.cluster}", "EnableKeyRotation": True},
        monthly_usd=KMS_KEY_MONTHLY_USD,
        purpose="encrypts Secrets",
    )
    alias = names.key_alias
    yield DesiredResource(
        kind="kms-alias",
        name=alias,
        properties={"AliasName": alias, "TargetKeyId": ref("kms-key/secrets", "id")},
    )


def _encryption_config(encryption: SecretsEncryption) -> dict[str, Any]:
    key = encryption.key_arn or ref("kms-key/secrets", "arn")
    return {"Resources": ["secrets"], "Provider": {"KeyArn": key}}


def needs_node_access(config: ClusterConfig, names: Names) -> bool:
    """Return True if the role of nodes needs access to the cluster.

    EKS adds the roles of node groups and Fargate profiles itself, and an existing
    cluster has the role of its nodes.
    """
    return shared_node_role(config, names) is None or config.iam.node_role.arn is not None


def node_access_address(config: ClusterConfig, names: Names) -> str | None:
    """Return the resource that lets launched nodes join, if Dovetail creates it."""
    if config.access.mode == "aws-auth":
        return None if uses_existing_cluster(config) else "kubernetes-object/ConfigMap/kube-system/aws-auth"
    if needs_node_access(config, names):
        return f"eks-access-entry/node-{node_role_name(config, names)}"
    return None


def desired_access(config: ClusterConfig, names: Names) -> Iterator[DesiredResource]:
    """Yield the access entries, if the access mode uses them."""
    if config.access.mode == "aws-auth":
        return
    if needs_node_access(config, names):
        name = f"node-{node_role_name(config, names)}"
        yield _access_entry(names, name, node_role_arn(config, names), "EC2_LINUX")
    for principal in config.access.admins:
        yield _access_entry(
            names, f"admin-{_principal_name(principal)}", principal_arn(principal), "STANDARD", admin=True
        )
    for role in config.access.roles:
        yield _principal_entry(names, role.role_arn, role)
    for user in config.access.users:
        yield _principal_entry(names, user.user_arn, user)


def principal_arn(principal: str) -> str:
    """Return the ARN of an IAM user given by name; an ARN stays as it is."""
    return principal if principal.startswith("arn:") else arn("iam", f"user/{principal}", region="")


def _principal_name(principal: str) -> str:
    """Return a resource name for a principal: "123456789012-role-Developers"."""
    if not principal.startswith("arn:"):
        return principal
    account, _, path = principal.split(":", 4)[4].partition(":")
    return f"{account}-{path.replace('/', '-')}"


def _principal_entry(names: Names, principal: str, access: PrincipalEntry) -> DesiredResource:
    # Access entries allow no "system:" groups; the admin policy is equivalent.
    admin = ADMIN_GROUP in access.groups
    plain_groups = [group for group in access.groups if group != ADMIN_GROUP]
    entry = _access_entry(names, _principal_name(principal), principal, "STANDARD", admin=admin)
    optional: dict[str, Any] = {"KubernetesGroups": plain_groups} if plain_groups else {}
    if access.policies:
        scope: dict[str, Any] = {"Type": "cluster"}
        if access.namespaces:
            scope = {"Type": "namespace", "Namespaces": list(access.namespaces)}
        own = [_access_policy(name, scope) for name in access.policies]
        optional["AccessPolicies"] = [*entry.properties.get("AccessPolicies", ()), *own]
    if access.username:
        optional["Username"] = access.username
    return DesiredResource(
        kind=entry.kind, name=entry.name, properties={**entry.properties, **optional}, purpose=entry.purpose
    )


def _access_entry(
    names: Names, name: str, principal: str, kind: str, *, admin: bool = False
) -> DesiredResource:
    properties: dict[str, Any] = {
        "ClusterName": names.cluster_ref("name"),
        "PrincipalArn": principal,
        "Type": kind,
    }
    if admin:
        properties["AccessPolicies"] = [_access_policy(ADMIN_POLICY, {"Type": "cluster"})]
    purpose = "lets nodes join" if kind != "STANDARD" else "access to the cluster"
    return DesiredResource(kind="eks-access-entry", name=name, properties=properties, purpose=purpose)


def _access_policy(name: str, scope: dict[str, Any]) -> dict[str, Any]:
    policy_arn = f"arn:{aws_ref('partition')}:eks::aws:cluster-access-policy/{name}"
    return {"PolicyArn": policy_arn, "AccessScope": scope}
