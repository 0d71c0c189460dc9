"""IAM: the roles of the control plane, of nodes, of the controller and of pods."""

from collections.abc import Iterator, Sequence
from typing import Any

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeExisting, HomeFargate, HomeGroup, ServiceAccount
from dovetail.eks.desired.names import Names, is_existing, service_account_of
from dovetail.eks.iam.controller_policies import controller_policies
from dovetail.eks.iam.documents import Document, arn, document, managed
from dovetail.eks.iam.other_policies import console_policy, ssm_node_policy
from dovetail.eks.iam.trust_policies import (
    trusted_pod_identity,
    trusted_service,
    trusted_service_account,
)
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import Resource

NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)


def shared_node_role(spec: ClusterSpec, names: Names) -> str | None:
    """Return the name of a role that nodes share with others; None for one of their own."""
    chosen = spec.iam.node_role
    if chosen.arn is not None:
        return chosen.arn.rpartition("/")[2]
    if isinstance(spec.home, HomeExisting) and spec.home.node_role:
        return spec.home.node_role
    return names.group_role if chosen.use == "home" else None


def node_role(spec: ClusterSpec, names: Names) -> str:
    """Return the name of the role that nodes have which pods call for."""
    return shared_node_role(spec, names) or names.node_role


def node_role_arn(spec: ClusterSpec, names: Names) -> str:
    """Return the ARN of that role, or a reference to it."""
    return spec.iam.node_role.arn or ref(f"iam-role/{node_role(spec, names)}", "arn")


def has_groups(spec: ClusterSpec) -> bool:
    """Tell whether there are managed node groups of our making."""
    return isinstance(spec.home, HomeGroup) or bool(spec.node_groups)


class Roles:
    """Makes roles and policies with the path, boundary and tags that all of them have."""

    def __init__(self, spec: ClusterSpec, names: Names) -> None:
        self._spec = spec
        self._names = names

    def all(self) -> Iterator[Resource]:
        """Hand out every role and policy; roles of others that are named must be there."""
        made = list(self._made())
        yield from made
        known = {one.name for one in made if one.kind == "iam-role"}
        for name in dict.fromkeys(self._named()):
            if name not in known:
                yield Resource(kind="iam-role", name=name, given=True)

    def _named(self) -> Iterator[str]:
        yield from self._spec.access.console_roles
        if self._spec.iam.node_role.arn is not None:
            yield self._spec.iam.node_role.arn.rpartition("/")[2]
        elif isinstance(self._spec.home, HomeExisting) and self._spec.home.node_role:
            yield self._spec.home.node_role

    def _made(self) -> Iterator[Resource]:
        spec, names = self._spec, self._names
        if not is_existing(spec):
            policies = [
                managed("AmazonEKSClusterPolicy"),
                managed("AmazonEKSVPCResourceController"),
            ]
            yield self._role(names.cluster_role, trusted_service("eks"), policies, "control plane")
        if has_groups(spec):
            yield self._node_role(names.group_role, "node groups")
        yield from self._nodes()
        if isinstance(spec.home, HomeFargate):
            yield self._fargate()
        yield from self._controller()
        for one in spec.service_accounts:
            yield from self._service_account(one)
        if spec.access.console_roles:
            yield self._policy(
                f"{names.prefix}-console",
                console_policy(names.cluster),
                "looking at the cluster in the console",
                roles=spec.access.console_roles,
            )

    def _nodes(self) -> Iterator[Resource]:
        spec, names = self._spec, self._names
        home = spec.home
        if isinstance(home, HomeExisting) and home.ssm:
            yield self._policy(
                f"{names.prefix}-node-ssm",
                ssm_node_policy(),
                "sessions on nodes through SSM",
                roles=[node_role(spec, names)],
            )
        if shared_node_role(spec, names) is None:
            yield self._node_role(names.node_role, "nodes that pods call for")

    def _node_role(self, name: str, why: str) -> Resource:
        policies = [managed(one) for one in NODE_POLICIES]
        own = [*policies, *self._spec.iam.node_role.policies]
        return self._role(name, trusted_service("ec2"), own, why)

    def _fargate(self) -> Resource:
        profiles = arn("eks", f"fargateprofile/{self._names.cluster}/*")
        trust = trusted_service("eks-fargate-pods", {"ArnLike": {"aws:SourceArn": profiles}})
        policies = [managed("AmazonEKSFargatePodExecutionRolePolicy")]
        return self._role(self._names.fargate_role, trust, policies, "pods on Fargate")

    def _controller(self) -> Iterator[Resource]:
        spec, names = self._spec, self._names
        queue = ref(f"sqs-queue/{names.cluster}", "arn")
        documents = controller_policies(
            cluster=names.cluster,
            cluster_arn=arn("eks", f"cluster/{names.cluster}"),
            node_role_arn=node_role_arn(spec, names),
            queue_arn=queue if spec.controller.interruption_queue else None,
        )
        attached = []
        for about, text in documents.items():
            name = names.controller_policy(about)
            attached.append(ref(f"iam-policy/{name}", "arn"))
            yield self._policy(name, text, f"the controller: {about}")
        yield self._pod_role(
            names.controller_role,
            spec.controller.namespace,
            service_account_of(spec),
            attached,
            "the controller",
        )

    def _service_account(self, one: ServiceAccount) -> Iterator[Resource]:
        name = self._names.account_role(one.namespace, one.name)
        attached: list[str] = list(one.policies)
        if one.statements:
            yield self._policy(
                name, document(*one.statements), f"pods of {one.namespace}/{one.name}"
            )
            attached.append(ref(f"iam-policy/{name}", "arn"))
        yield self._pod_role(
            name, one.namespace, one.name, attached, f"pods of {one.namespace}/{one.name}"
        )

    def _pod_role(
        self, name: str, namespace: str, account: str, policies: Sequence[str], why: str
    ) -> Resource:
        trust = trusted_pod_identity()
        if self._spec.uses_irsa:
            issuer = self._names.of_cluster("issuer")
            trust = trusted_service_account(issuer=issuer, namespace=namespace, name=account)
        return self._role(name, trust, policies, why)

    def _role(self, name: str, trust: Document, policies: Sequence[str], why: str) -> Resource:
        iam = self._spec.iam
        properties: dict[str, Any] = {
            "RoleName": name,
            "Path": iam.path,
            "AssumeRolePolicyDocument": trust,
            "ManagedPolicyArns": list(policies),
        }
        if iam.permissions_boundary:
            properties["PermissionsBoundary"] = iam.permissions_boundary
        return Resource(kind="iam-role", name=name, properties=properties, why=why)

    def _policy(self, name: str, text: Document, why: str, roles: Sequence[str] = ()) -> Resource:
        properties: dict[str, Any] = {
            "ManagedPolicyName": name,
            "Path": self._spec.iam.path,
            "PolicyDocument": text,
        }
        if roles:
            properties["Roles"] = list(roles)
        return Resource(kind="iam-policy", name=name, properties=properties, why=why)
