"""Desired IAM roles: of the control plane, nodes, the controller and pods."""

from collections.abc import Iterator, Sequence
from typing import Any

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import (
    ControllerFargate,
    ControllerNodeGroup,
    ExistingCluster,
    ServiceAccount,
)
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
from dovetail.eks.iam.other_policies import console_policy, ssm_node_policy
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource

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
    """Return True if the file has managed node groups."""
    return isinstance(config.home, ControllerNodeGroup) or bool(config.node_groups)


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
        if has_node_groups(config):
            yield self._node_role(names.node_group_role, "node groups")
        yield from self._node_resources()
        if isinstance(config.home, ControllerFargate):
            yield self._fargate_role()
        yield from self._controller_resources()
        for account in config.service_accounts:
            yield from self._service_account_resources(account)
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
        if isinstance(compute, ExistingCluster) and compute.ssm:
            yield self._policy(
                f"{names.prefix}-node-ssm",
                ssm_node_policy(),
                "sessions on nodes through SSM",
                roles=[node_role_name(config, names)],
            )
        if shared_node_role(config, names) is None:
            yield self._node_role(names.node_role, "nodes that NodePools launch")

    def _node_role(self, name: str, purpose: str) -> DesiredResource:
        policies = [aws_managed_policy(policy) for policy in NODE_POLICIES]
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
