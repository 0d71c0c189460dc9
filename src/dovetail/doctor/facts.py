"""Everything that checks look at, read once."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object

Raw = Mapping[str, Any]
"""Something as AWS or a file describes it."""


class Part(StrEnum):
    """What can be read or not, beside the kinds of Kubernetes objects."""

    CONTROLLER = "the controller's Deployment"
    AWS_AUTH = "ConfigMap kube-system/aws-auth"
    VERSION = "the controller's version"
    METRICS = "the controller's metrics"
    TYPES = "the region's instance types"
    CLUSTER = "the cluster in EKS"
    ACCESS = "access entries in EKS"
    POD_IDENTITIES = "Pod Identity associations in EKS"
    NODE_ROLES = "the nodes' roles in IAM"
    CONTROLLER_ROLE = "the controller's role in IAM"
    SPOT_ROLE = "the service-linked role of spot"
    NETWORK = "subnets and security groups"
    ROUTES = "route tables"
    ENDPOINTS = "VPC endpoints"
    MACHINES = "EC2 instances, interfaces and launch templates"
    PROFILES = "instance profiles"
    RESERVATIONS = "capacity reservations"
    ENCRYPTION = "encryption of volumes"
    QUEUE = "the interruption queue and its rules"
    TERRAFORM = "Terraform files"
    PLAN = "a Terraform plan"
    SPEC = "cluster.yaml"


AWS_PARTS = tuple(
    one
    for one in Part
    if one
    not in (
        Part.CONTROLLER,
        Part.AWS_AUTH,
        Part.VERSION,
        Part.METRICS,
        Part.TYPES,
        Part.TERRAFORM,
        Part.PLAN,
        Part.SPEC,
    )
)

Need = Part | Resource


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """A role in IAM and all that its policies say."""

    name: str
    arn: str
    attached: tuple[str, ...] = ()
    """Names of managed policies, AWS's own included."""
    documents: Mapping[str, Raw] = {}
    """Policy's name → document: inline ones, and managed ones that are not AWS's."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A customer's key in KMS, and who may use it."""

    policy: Raw
    grantees: tuple[str, ...] = ()
    """ARNs of those to whom its use was granted."""


class AwsFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What AWS says."""

    account: str = ""
    partition: str = "aws"
    cluster: Raw = {}
    access_entries: Mapping[str, Raw] = {}
    """By the ARN of who it is for."""
    pod_identities: tuple[Raw, ...] = ()
    node_roles: Mapping[str, Role | None] = {}
    """EC2NodeClass → the role of its nodes; None: there is no such role."""
    controller_role: Role | None = None
    spot_role: bool = True
    subnets: Mapping[str, tuple[Raw, ...]] = {}
    """EC2NodeClass → subnets that its terms select."""
    groups: Mapping[str, tuple[Raw, ...]] = {}
    """EC2NodeClass → security groups that its terms select."""
    route_tables: tuple[Raw, ...] = ()
    endpoints: tuple[str, ...] = ()
    """Names of services: ``com.amazonaws.us-east-1.sts``."""
    instances: tuple[Raw, ...] = ()
    interfaces: tuple[Raw, ...] = ()
    templates: tuple[Raw, ...] = ()
    profiles: tuple[Raw, ...] = ()
    reservations: tuple[Raw, ...] = ()
    default_key: str = ""
    """With which EBS encrypts every volume; empty when it does not."""
    keys: Mapping[str, Key] = {}
    """As the classes or the default name them; AWS's own are left out."""
    queue: Raw | None = None
    """Attributes of the interruption queue; None: there is none of that name."""
    rules: tuple[Raw, ...] = ()
    """EventBridge rules that write to it."""


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What files say."""

    spec: ClusterSpec | None = None
    terraform: Mapping[str, str] = {}
    """Name of a file → its text."""
    plan: tuple[Raw, ...] = ()
    """``resource_changes`` of ``terraform show -json``."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One look at everything; what could not be read is in ``unseen`` and nowhere else."""

    now: datetime
    catalog: Catalog
    cluster: str = ""
    region: str = ""
    objects: Mapping[Resource, tuple[Object, ...]] = {}
    aws_auth: Object | None = None
    metrics: tuple[str, ...] = ()
    """Lines of a scrape."""
    aws: AwsFacts = AwsFacts()
    files: FileFacts = FileFacts()
    unseen: Mapping[Need, str] = {}
    """What was not read → why."""

    def of(self, resource: Resource) -> tuple[Object, ...]:
        """Return the objects of a kind."""
        return self.objects.get(resource, ())
