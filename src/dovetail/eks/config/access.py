"""cluster.yaml: access to the cluster, and IAM settings."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dovetail.eks.config.base import Arn, ConfigModel, Text

AccountId = Annotated[str, Field(pattern=r"^[0-9]{12}$")]


class PrincipalEntry(ConfigModel):
    """User name, groups and access policies of an IAM principal."""

    username: Text | None = None
    groups: list[Text] = Field(default=[], description="Groups, to which RBAC gives permissions.")
    policies: list[Text] = Field(
        default=[], description="Access policies of EKS (AmazonEKSViewPolicy …); only with entries."
    )
    namespaces: list[Text] = Field(
        default=[], description="Where the policies apply; in the whole cluster by default."
    )


class RoleEntry(PrincipalEntry):
    """An IAM role, and its access to the cluster."""

    role_arn: Arn


class UserEntry(PrincipalEntry):
    """An IAM user, and their access to the cluster."""

    user_arn: Arn


class Access(ConfigModel):
    """Access to the cluster."""

    mode: Literal["entries", "aws-auth"] = Field(
        default="entries", description="Access entries of EKS, or the ConfigMap aws-auth."
    )
    admins: list[Text] = Field(
        default=[], description="Administrators: IAM users (by name or ARN) and roles (by ARN)."
    )
    roles: list[RoleEntry] = Field(default=[])
    users: list[UserEntry] = Field(default=[])
    accounts: list[AccountId] = Field(
        default=[], description="All principals of these accounts; only with aws-auth."
    )
    creator_is_admin: bool = Field(
        default=True, description="The creator of the cluster is an administrator."
    )
    console_roles: list[Text] = Field(
        default=[], description="Names of roles that can view the cluster in the AWS console."
    )


class SecretsEncryption(ConfigModel):
    """Encryption of Kubernetes Secrets with a KMS key; EKS cannot turn it off again."""

    key_arn: Arn | None = Field(
        default=None, description="ARN of an existing key; by default a key is created, with rotation."
    )


def _from_switch(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    return value


SecretsEncryptionEntry = Annotated[SecretsEncryption | None, BeforeValidator(_from_switch)]


class NodeRole(ConfigModel):
    """The role of nodes that NodePools launch."""

    use: Literal["own", "home"] | None = Field(
        default=None, description="Their own role (default), or the role of the home's node group."
    )
    arn: Arn | None = Field(default=None, description="An existing role.")
    policies: list[Arn] = Field(default=[], description="Additional policies of the role.")
    instance_profile: bool = Field(
        default=False,
        description="Create an instance profile and use it in node classes: for VPCs without access to IAM.",
    )


class Iam(ConfigModel):
    """Names and permissions boundary of roles and policies."""

    prefix: Text | None = Field(
        default=None, description="Prefix of names in IAM; by default the cluster's name and region."
    )
    path: str = Field(default="/", pattern=r"^/([\x21-\x7e]+/)?$")
    permissions_boundary: Arn | None = None
    node_role: NodeRole = Field(default_factory=NodeRole)
