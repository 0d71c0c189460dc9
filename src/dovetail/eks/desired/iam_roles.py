"""Desired IAM roles: of the control plane, nodes, the controller and pods."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dovetail.eks.config.addons import AddonRole, EksAddon
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import (
    ControllerFargate,
    ControllerNodeGroup,
    ExistingCluster,
    ServiceAccount,
)
from dovetail.eks.desired.charts import EKS_ADDONS, EksAddonFacts
from dovetail.eks.desired.names import Names, service_account_name, uses_existing_cluster
from dovetail.eks.iam.controller_policies import controller_policies
from dovetail.eks.iam.documents import (
    Document,
    arn,
    aws_managed_policy,
    document,
    pod_identity_trust_policy,
    service_account_trust_policy,
    service_trust_policy,
)
from dovetail.eks.iam.other_policies import console_policy, ipv6_cni_policy, ssm_node_policy
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource


class AddonIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The service account of an EKS add-on, and what its role allows."""

    namespace: str
    service_account: str
    policies: tuple[str, ...]
    statements: tuple[dict[str, Any], ...]


NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)


def shared_node_role(config: ClusterConfig, names: Names) -> str | None:
    """Return the name of a shared node role; None if nodes have their own role."""
    node_role = config.iam.node_role
    if node_role.arn is not None:
        return node_role.arn.rpartition("/")[2]
    if isinstance(config.home, ExistingCluster) and config.home.node_role:
        return config.home.node_role
    return names.node_group_role if node_role.use == "home" else None


def node_role_name(config: ClusterConfig, names: Names) -> str:
    """Return the role name of the nodes that the controller launches."""
    return shared_node_role(config, names) or names.node_role


def node_role_arn(config: ClusterConfig, names: Names) -> str:
    """Return the ARN of that role, or a reference to it."""
    return config.iam.node_role.arn or ref(f"iam-role/{node_role_name(config, names)}", "arn")


def has_node_groups(config: ClusterConfig) -> bool:
    """Return True if the file has managed node groups that run Linux."""
    is_linux = any(not group.is_windows for group in config.node_groups)
    return isinstance(config.home, ControllerNodeGroup) or is_linux


def has_windows_node_groups(config: ClusterConfig) -> bool:
    """Return True if the file has managed node groups that run Windows."""
    return any(group.is_windows for group in config.node_groups)


def pod_identity_association(names: Names, namespace: str, account: str, role: str) -> DesiredResource:
    """Return the Pod Identity association of a service account with a role."""
    return DesiredResource(
        kind="pod-identity-association",
        name=f"{namespace}/{account}",
        properties={
            "ClusterName": names.cluster_ref("name"),
            "Namespace": namespace,
            "ServiceAccount": account,
            "RoleArn": ref(f"iam-role/{role}", "arn"),
        },
    )


def addon_identity(name: str, addon: EksAddon) -> AddonIdentity | None:
    """Return the service account and policies of an add-on; None if it needs no role."""
    facts = EKS_ADDONS.get(name, EksAddonFacts())
    role = addon.role or AddonRole()
    policies = list(facts.policies) if role.policies is None else role.policies
    if not policies and not role.statements:
        return None
    return AddonIdentity(
        namespace=role.namespace or facts.namespace,
        service_account=role.service_account or facts.service_account,
        policies=tuple(
            policy if policy.startswith("arn:") else aws_managed_policy(policy) for policy in policies
        ),
        statements=tuple(role.statements),
    )


class RoleBuilder:
    """Builds roles and policies with a common path and permissions boundary."""

    def __init__(self, config: ClusterConfig, names: Names) -> None:
        self._config = config
        self._names = names

    def build(self) -> Iterator[DesiredResource]:
        """Yield every role and policy, and the external roles that the file names."""
        created = list(self._created_resources())
        yield from created
        created_names = {resource.name for resource in created if resource.kind == "iam-role"}
        for name in dict.fromkeys(self._external_role_names()):
            if name not in created_names:
                yield DesiredResource(kind="iam-role", name=name, external=True)

    def _external_role_names(self) -> Iterator[str]:
        yield from self._config.access.console_roles
        if self._config.iam.node_role.arn is not None:
            yield self._config.iam.node_role.arn.rpartition("/")[2]
        elif isinstance(self._config.home, ExistingCluster) and self._config.home.node_role:
            yield self._config.home.node_role

    def _created_resources(self) -> Iterator[DesiredResource]:
        config, names = self._config, self._names
        if not uses_existing_cluster(config):
            policies = [
                aws_managed_policy("AmazonEKSClusterPolicy"),
                aws_managed_policy("AmazonEKSVPCResourceController"),
            ]
            yield self._role(names.cluster_role, service_trust_policy("eks"), policies, "control plane")
        if config.ip_family == "ipv6" and not uses_existing_cluster(config):
            external = [config.iam.node_role.arn.rpartition("/")[2]] if config.iam.node_role.arn else []
            yield self._policy(
                names.ipv6_policy,
                ipv6_cni_policy(),
                "the network plugin assigns IPv6 addresses",
                roles=external,
            )
        if has_node_groups(config):
            yield self._node_role(names.node_group_role, "node groups")
        if has_windows_node_groups(config):
            yield self._node_role(names.windows_node_group_role, "Windows node groups")
        yield from self._node_resources()
        if isinstance(config.home, ControllerFargate):
            yield self._fargate_role()
        yield from self._controller_resources()
        for account in config.service_accounts:
            yield from self._service_account_resources(account)
        for addon_name, addon in config.addons.others.items():
            if addon.enabled:
                yield from self._addon_resources(addon_name, addon)
        if config.access.console_roles:
            yield self._policy(
                f"{names.prefix}-console",
                console_policy(names.cluster),
                "read access in the AWS console",
                roles=config.access.console_roles,
            )

    def _node_resources(self) -> Iterator[DesiredResource]:
        config, names = self._config, self._names
        compute = config.home
        # A role of our own has a policy for SSM already.
        is_shared = shared_node_role(config, names) is not None
        if isinstance(compute, ExistingCluster) and compute.ssm and is_shared:
            yield self._policy(
                f"{names.prefix}-node-ssm",
                ssm_node_policy(),
                "sessions on nodes through SSM",
                roles=[node_role_name(config, names)],
            )
        if not is_shared:
            yield self._node_role(names.node_role, "nodes that NodePools launch")

    def _node_role(self, name: str, purpose: str) -> DesiredResource:
        policies = [aws_managed_policy(policy) for policy in NODE_POLICIES]
        if self._config.ip_family == "ipv6" and not uses_existing_cluster(self._config):
            policies.append(ref(f"iam-policy/{self._names.ipv6_policy}", "arn"))
        all_policies = [*policies, *self._config.iam.node_role.policies]
        return self._role(name, service_trust_policy("ec2"), all_policies, purpose)

    def _fargate_role(self) -> DesiredResource:
        profiles = arn("eks", f"fargateprofile/{self._names.cluster}/*")
        trust = service_trust_policy("eks-fargate-pods", {"ArnLike": {"aws:SourceArn": profiles}})
        policies = [aws_managed_policy("AmazonEKSFargatePodExecutionRolePolicy")]
        return self._role(self._names.fargate_role, trust, policies, "pods on Fargate")

    def _controller_resources(self) -> Iterator[DesiredResource]:
        config, names = self._config, self._names
        queue = ref(f"sqs-queue/{names.cluster}", "arn")
        documents = controller_policies(
            cluster=names.cluster,
            cluster_arn=arn("eks", f"cluster/{names.cluster}"),
            node_role_arn=node_role_arn(config, names),
            queue_arn=queue if config.controller.interruption_queue else None,
        )
        attached = []
        for topic, policy in documents.items():
            name = names.controller_policy(topic)
            attached.append(ref(f"iam-policy/{name}", "arn"))
            yield self._policy(name, policy, f"the controller: {topic}")
        yield self._pod_role(
            names.controller_role,
            config.controller.namespace,
            service_account_name(config),
            attached,
            "the controller",
        )

    def _service_account_resources(self, account: ServiceAccount) -> Iterator[DesiredResource]:
        name = self._names.service_account_role(account.namespace, account.name)
        attached: list[str] = list(account.policies)
        if account.statements:
            yield self._policy(
                name, document(*account.statements), f"pods of {account.namespace}/{account.name}"
            )
            attached.append(ref(f"iam-policy/{name}", "arn"))
        yield self._pod_role(
            name, account.namespace, account.name, attached, f"pods of {account.namespace}/{account.name}"
        )

    def _addon_resources(self, addon_name: str, addon: EksAddon) -> Iterator[DesiredResource]:
        identity = addon_identity(addon_name, addon)
        if identity is None:
            return
        name, purpose = self._names.addon_role(addon_name), f"pods of the add-on {addon_name}"
        attached = list(identity.policies)
        if identity.statements:
            yield self._policy(name, document(*identity.statements), purpose)
            attached.append(ref(f"iam-policy/{name}", "arn"))
        yield self._pod_role(name, identity.namespace, identity.service_account, attached, purpose)

    def _pod_role(
        self, name: str, namespace: str, account: str, policies: Sequence[str], purpose: str
    ) -> DesiredResource:
        trust = pod_identity_trust_policy()
        if self._config.uses_irsa:
            issuer = self._names.cluster_ref("issuer")
            trust = service_account_trust_policy(issuer=issuer, namespace=namespace, name=account)
        return self._role(name, trust, policies, purpose)

    def _role(self, name: str, trust: Document, policies: Sequence[str], purpose: str) -> DesiredResource:
        iam = self._config.iam
        properties: dict[str, Any] = {
            "RoleName": name,
            "Path": iam.path,
            "AssumeRolePolicyDocument": trust,
            "ManagedPolicyArns": list(policies),
        }
        if iam.permissions_boundary:
            properties["PermissionsBoundary"] = iam.permissions_boundary
        return DesiredResource(kind="iam-role", name=name, properties=properties, purpose=purpose)

    def _policy(self, name: str, text: Document, purpose: str, roles: Sequence[str] = ()) -> DesiredResource:
        properties: dict[str, Any] = {
            "ManagedPolicyName": name,
            "Path": self._config.iam.path,
            "PolicyDocument": text,
        }
        if roles:
            properties["Roles"] = list(roles)
        return DesiredResource(kind="iam-policy", name=name, properties=properties, purpose=purpose)
