"""cluster.yaml: who may do what in the cluster, and how roles are made."""

from typing import Annotated, Literal

from pydantic import Field

from dovetail.eks.config.base import Arn, Part, Text

AccountId = Annotated[str, Field(pattern=r"^[0-9]{12}$")]


class RoleEntry(Part):
    """An IAM role and who it is in the cluster."""

    role_arn: Arn
    username: Text | None = None
    groups: list[Text] = Field(default=[])


class UserEntry(Part):
    """An IAM user and who they are in the cluster."""

    user_arn: Arn
    username: Text | None = None
    groups: list[Text] = Field(default=[])


class Access(Part):
    """Who gets into the cluster."""

    mode: Literal["entries", "aws-auth"] = Field(
        default="entries",
        description="By access entries of EKS, or by the ConfigMap aws-auth.",
    )
    admins: list[Text] = Field(
        default=[],
        description="IAM users (by name or ARN) and roles (by ARN) that may do everything.",
    )
    roles: list[RoleEntry] = Field(default=[])
    users: list[UserEntry] = Field(default=[])
    accounts: list[AccountId] = Field(default=[], description="Whole accounts; only with aws-auth.")
    creator_is_admin: bool = Field(
        default=True, description="Whoever makes the cluster may do all in it."
    )
    console_roles: list[Text] = Field(
        default=[], description="Names of roles that may look at the cluster in AWS's console."
    )


class NodeRole(Part):
    """The role of the nodes that pods call for."""

    use: Literal["own", "home"] | None = Field(
        default=None, description="A role of their own (default), or that of the home's node group."
    )
    arn: Arn | None = Field(default=None, description="A role that is there already.")
    policies: list[Arn] = Field(default=[], description="Further policies for the nodes' role.")
    instance_profile: bool = Field(
        default=False,
        description="Make an instance profile too and have node classes use it: for VPCs that "
        "do not reach IAM.",
    )


class Iam(Part):
    """How roles and policies are named and bounded."""

    prefix: Text | None = Field(
        default=None, description="Start of all names; the cluster's if absent."
    )
    path: str = Field(default="/", pattern=r"^/([\x21-\x7e]+/)?$")
    permissions_boundary: Arn | None = None
    node_role: NodeRole = Field(default_factory=NodeRole)
