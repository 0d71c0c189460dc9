"""Facts: all inputs of checks, read once."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object

if TYPE_CHECKING:
    # Its module needs pydantic, which `dovetail migrate` does not.
    from dovetail.eks.config.cluster import ClusterConfig

Raw = Mapping[str, Any]
"""A resource as AWS or a file describes it."""


class Part(StrEnum):
    """Parts of the facts that may be unknown, besides kinds of Kubernetes objects."""

    CONTROLLER = "the controller's Deployment"
    AWS_AUTH = "ConfigMap kube-system/aws-auth"
    VERSION = "the controller's version"
    METRICS = "the controller's metrics"
    TYPES = "the region's instance types"
    CLUSTER = "the cluster in EKS"
    CLUSTER_NAME = "the names of clusters in EKS"
    ACCESS = "access entries in EKS"
    POD_IDENTITIES = "Pod Identity associations in EKS"
    NODE_ROLES = "the nodes' roles in IAM"
    CONTROLLER_ROLE = "the controller's role in IAM"
    CONTROLLER_IDENTITY = "the controller's identity in AWS"
    OIDC_PROVIDERS = "OIDC providers in IAM"
    SPOT_ROLE = "the service-linked role of spot"
    NETWORK = "subnets and security groups"
    CLUSTER_GROUPS = "the security groups of the control plane"
    ROUTES = "route tables"
    ENDPOINTS = "VPC endpoints"
    INSTANCES = "EC2 instances, interfaces and launch templates"
    PROFILES = "instance profiles"
    RESERVATIONS = "capacity reservations"
    ENCRYPTION = "encryption of volumes"
    QUEUE = "the interruption queue and its rules"
    TERRAFORM = "Terraform files"
    PLAN = "a Terraform plan"
    SPEC = "cluster.yaml"


Need = Part | Resource


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """An IAM role with its policies."""

    name: str
    arn: str
    attached: tuple[str, ...] = ()
    """Names of attached managed policies, including those of AWS."""
    documents: Mapping[str, Raw] = {}
    """Policy name → document, for inline and customer managed policies."""
    trust: Raw = {}
    """Trust policy: the principals that may assume it."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A customer managed KMS key."""

    policy: Raw
    grantees: tuple[str, ...] = ()
    """ARNs of grantee principals."""


class AwsFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from AWS."""

    account: str = ""
    partition: str = "aws"
    cluster: Raw = {}
    cluster_exists: bool = True
    """False if EKS has no cluster of this name."""
    access_entries: Mapping[str, Raw] = {}
    """Principal ARN → access entry."""
    pod_identities: tuple[Raw, ...] = ()
    node_roles: Mapping[str, Role | None] = {}
    """EC2NodeClass → role of its nodes; None if it does not exist."""
    controller_role: Role | None = None
    missing_controller_role: str = ""
    """Name of the controller's role if IAM does not have it."""
    oidc_providers: tuple[str, ...] = ()
    """ARNs of the account's OIDC providers."""
    spot_role: bool = True
    subnets: Mapping[str, tuple[Raw, ...]] = {}
    """EC2NodeClass → subnets that its terms select."""
    groups: Mapping[str, tuple[Raw, ...]] = {}
    """EC2NodeClass → security groups that its terms select."""
    cluster_groups: tuple[Raw, ...] = ()
    """Security groups of the control plane's network interfaces."""
    route_tables: tuple[Raw, ...] = ()
    endpoints: tuple[str, ...] = ()
    """Names of services: ``com.amazonaws.us-east-1.sts``."""
    instances: tuple[Raw, ...] = ()
    interfaces: tuple[Raw, ...] = ()
    templates: tuple[Raw, ...] = ()
    profiles: tuple[Raw, ...] = ()
    reservations: tuple[Raw, ...] = ()
    default_key: str = ""
    """Default KMS key of EBS; empty without default encryption."""
    keys: Mapping[str, Key] = {}
    """Customer managed keys, by the reference in node classes or the EBS default."""
    queue: Raw | None = None
    """Attributes of the interruption queue; None if it does not exist."""
    rules: tuple[Raw, ...] = ()
    """EventBridge rules that target it."""


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from files."""

    spec: "ClusterConfig | None" = None
    terraform: Mapping[str, str] = {}
    """Name of a file → its text."""
    plan: tuple[Raw, ...] = ()
    """``resource_changes`` of ``terraform show -json``."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts; those that could not be read are in ``unseen`` with the reason."""

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
    """Unknown part → reason."""

    def of(self, resource: Resource) -> tuple[Object, ...]:
        """Return the objects of a kind."""
        return self.objects.get(resource, ())
