"""The EKS cluster itself: control plane, logs, and who gets in."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.desired.iam_roles import node_role, node_role_arn, shared_node_role
from dovetail.eks.desired.names import Names, is_existing
from dovetail.eks.desired.network import HOURS, Network
from dovetail.eks.iam.documents import arn
from dovetail.eks.plan.references import aws, ref
from dovetail.eks.plan.resource import Resource

CONTROL_PLANE_USD: Final = 0.10
ADMIN_GROUP: Final = "system:masters"


def control(spec: ClusterSpec, names: Names, network: Network) -> Iterator[Resource]:
    """Hand out the cluster and what belongs to it alone."""
    if is_existing(spec):
        yield Resource(
            kind="eks-cluster", name=names.cluster, properties={"Name": names.cluster}, given=True
        )
    else:
        yield from _cluster(spec, names, network)
    wants_provider = spec.uses_irsa and getattr(spec.home, "oidc_provider", "create") == "create"
    if wants_provider:
        yield Resource(
            kind="oidc-provider",
            name=names.cluster,
            properties={
                "Url": names.of_cluster("issuer-url"),
                "ClientIdList": ["sts.amazonaws.com"],
            },
            why="so that service accounts can take on roles",
        )


def _cluster(spec: ClusterSpec, names: Names, network: Network) -> Iterator[Resource]:
    first: list[str] = []
    logs = f"/aws/eks/{names.cluster}/cluster"
    if spec.logging.types:
        # Before the cluster: else EKS makes it, to be kept for ever and left behind.
        first.append(f"log-group/{logs}")
        yield Resource(
            kind="log-group",
            name=logs,
            properties={"LogGroupName": logs, "RetentionInDays": spec.logging.retention_days},
            why="the control plane's logs",
        )
    endpoint = spec.endpoint
    reach: dict[str, Any] = {
        "SubnetIds": network.control_plane,
        "EndpointPublicAccess": endpoint.public,
        "EndpointPrivateAccess": endpoint.private,
    }
    if endpoint.public:
        reach["PublicAccessCidrs"] = endpoint.public_cidrs or ["0.0.0.0/0"]
    yield Resource(
        kind="eks-cluster",
        name=names.cluster,
        properties={
            "Name": names.cluster,
            "Version": spec.version,
            "RoleArn": ref(f"iam-role/{names.cluster_role}", "arn"),
            "ResourcesVpcConfig": reach,
            "AccessConfig": {
                "AuthenticationMode": (
                    "API" if spec.access.mode == "entries" else "API_AND_CONFIG_MAP"
                ),
                "BootstrapClusterCreatorAdminPermissions": spec.access.creator_is_admin,
            },
            "Logging": {
                "ClusterLogging": {"EnabledTypes": [{"Type": one} for one in spec.logging.types]}
            },
            # Ours are EKS add-ons: versions we choose, settings we can change.
            "BootstrapSelfManagedAddons": False,
        },
        depends_on=tuple(first),
        monthly_usd=HOURS * CONTROL_PLANE_USD,
        why="the control plane",
    )


def lets_nodes_in(spec: ClusterSpec, names: Names) -> bool:
    """Tell whether the nodes' role is to be made known to the cluster.

    Node groups and Fargate profiles bring their own roles, and an existing
    cluster knows the role of its nodes.
    """
    return shared_node_role(spec, names) is None or spec.iam.node_role.arn is not None


def access_address(spec: ClusterSpec, names: Names) -> str | None:
    """Return what lets nodes join that pods call for, if that is ours to make."""
    if spec.access.mode == "aws-auth":
        return None if is_existing(spec) else "kubernetes-object/ConfigMap/kube-system/aws-auth"
    if lets_nodes_in(spec, names):
        return f"eks-access-entry/node-{node_role(spec, names)}"
    return None


def access(spec: ClusterSpec, names: Names) -> Iterator[Resource]:
    """Hand out the access entries, where those are the way in."""
    if spec.access.mode == "aws-auth":
        return
    if lets_nodes_in(spec, names):
        name = f"node-{node_role(spec, names)}"
        yield _entry(names, name, node_role_arn(spec, names), "EC2_LINUX")
    for who in spec.access.admins:
        yield _entry(names, f"admin-{_short(who)}", principal(who), "STANDARD", admin=True)
    for role in spec.access.roles:
        yield _person(names, role.role_arn, role.username, role.groups)
    for user in spec.access.users:
        yield _person(names, user.user_arn, user.username, user.groups)


def principal(who: str) -> str:
    """Return the ARN of an IAM user given by name; an ARN stays as it is."""
    return who if who.startswith("arn:") else arn("iam", f"user/{who}", region="")


def _short(who: str) -> str:
    """Return a name for whom an ARN stands for: "123456789012-role-Developers"."""
    if not who.startswith("arn:"):
        return who
    account, _, path = who.split(":", 4)[4].partition(":")
    return f"{account}-{path.replace('/', '-')}"


def _person(names: Names, who: str, username: str | None, groups: list[str]) -> Resource:
    # EKS takes no group that begins with "system:"; the admin policy says the same.
    admin = ADMIN_GROUP in groups
    others = [one for one in groups if one != ADMIN_GROUP]
    entry = _entry(names, _short(who), who, "STANDARD", admin=admin)
    more: dict[str, Any] = {"KubernetesGroups": others} if others else {}
    if username:
        more["Username"] = username
    return Resource(
        kind=entry.kind, name=entry.name, properties={**entry.properties, **more}, why=entry.why
    )


def _entry(names: Names, name: str, who: str, kind: str, *, admin: bool = False) -> Resource:
    properties: dict[str, Any] = {
        "ClusterName": names.of_cluster("name"),
        "PrincipalArn": who,
        "Type": kind,
    }
    if admin:
        policy = (
            f"arn:{aws('partition')}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        )
        properties["AccessPolicies"] = [{"PolicyArn": policy, "AccessScope": {"Type": "cluster"}}]
    why = "nodes may join" if kind != "STANDARD" else "who may use the cluster"
    return Resource(kind="eks-access-entry", name=name, properties=properties, why=why)
