"""Table printer: the columns of each kind, and rows from objects."""

from datetime import datetime
from typing import Any, Final

from dovetail.ports import api_resources as resources
from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.custom_kinds import CustomVersion
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.rest.tables import cluster, network, pods, storage, workloads
from dovetail.simulator.rest.tables.column import AGE, NAME, Column
from dovetail.simulator.rest.tables.custom_resources import custom_resource_columns, definition_columns

Columns = tuple[Column, ...]

_COLUMNS: Final[dict[Resource, Columns]] = {
    resources.PODS: pods.POD_COLUMNS,
    resources.NODES: cluster.NODE_COLUMNS,
    resources.DEPLOYMENTS: workloads.DEPLOYMENT_COLUMNS,
    resources.REPLICA_SETS: workloads.REPLICA_SET_COLUMNS,
    resources.STATEFUL_SETS: workloads.STATEFUL_SET_COLUMNS,
    resources.DAEMON_SETS: workloads.DAEMON_SET_COLUMNS,
    resources.JOBS: workloads.JOB_COLUMNS,
    resources.CRON_JOBS: workloads.CRON_JOB_COLUMNS,
    resources.CONTROLLER_REVISIONS: workloads.CONTROLLER_REVISION_COLUMNS,
    resources.POD_TEMPLATES: workloads.POD_TEMPLATE_COLUMNS,
    resources.EVENTS: cluster.EVENT_COLUMNS,
    resources.NAMESPACES: cluster.NAMESPACE_COLUMNS,
    resources.POD_DISRUPTION_BUDGETS: cluster.PDB_COLUMNS,
    resources.SERVICES: cluster.SERVICE_COLUMNS,
    resources.CONFIG_MAPS: cluster.CONFIG_MAP_COLUMNS,
    resources.SECRETS: cluster.SECRET_COLUMNS,
    resources.HORIZONTAL_POD_AUTOSCALERS: cluster.HPA_COLUMNS,
    resources.LEASES: cluster.LEASE_COLUMNS,
    resources.API_SERVICES: network.API_SERVICE_COLUMNS,
    resources.VALIDATING_POLICIES: network.VALIDATING_POLICY_COLUMNS,
    resources.VALIDATING_POLICY_BINDINGS: network.VALIDATING_POLICY_BINDING_COLUMNS,
    resources.VALIDATING_WEBHOOKS: network.WEBHOOK_COLUMNS,
    resources.MUTATING_WEBHOOKS: network.WEBHOOK_COLUMNS,
    resources.CUSTOM_RESOURCE_DEFINITIONS: cluster.DEFINITION_COLUMNS,
    resources.PRIORITY_CLASSES: cluster.PRIORITY_CLASS_COLUMNS,
    resources.LIMIT_RANGES: cluster.LIMIT_RANGE_COLUMNS,
    resources.RUNTIME_CLASSES: cluster.RUNTIME_CLASS_COLUMNS,
    resources.PERSISTENT_VOLUMES: storage.VOLUME_COLUMNS,
    resources.PERSISTENT_VOLUME_CLAIMS: storage.VOLUME_CLAIM_COLUMNS,
    resources.STORAGE_CLASSES: storage.STORAGE_CLASS_COLUMNS,
    resources.CSI_DRIVERS: storage.CSI_DRIVER_COLUMNS,
    resources.CSI_NODES: storage.CSI_NODE_COLUMNS,
    resources.VOLUME_ATTACHMENTS: storage.ATTACHMENT_COLUMNS,
    resources.ROLES: network.ROLE_COLUMNS,
    resources.CLUSTER_ROLES: network.ROLE_COLUMNS,
    resources.ROLE_BINDINGS: network.BINDING_COLUMNS,
    resources.CLUSTER_ROLE_BINDINGS: network.BINDING_COLUMNS,
    resources.INGRESSES: network.INGRESS_COLUMNS,
    resources.INGRESS_CLASSES: network.INGRESS_CLASS_COLUMNS,
    resources.NETWORK_POLICIES: network.NETWORK_POLICY_COLUMNS,
    resources.ENDPOINTS: network.ENDPOINT_COLUMNS,
    resources.ENDPOINT_SLICES: network.ENDPOINT_SLICE_COLUMNS,
    resources.RESOURCE_QUOTAS: network.QUOTA_COLUMNS,
    **dict(custom_resource_columns()),
}


def printer_columns(resource: Resource, custom: CustomVersion | None = None) -> Columns:
    """Return the columns of a kind; name and age by default."""
    if custom is not None and custom.columns:
        return definition_columns(custom.columns)
    return _COLUMNS.get(resource, (NAME, AGE))


def encode_table(columns: Columns, metadata: dict[str, Any], *, with_columns: bool = True) -> Object:
    """Return a Table without rows."""
    definitions = [column.encode_definition() for column in columns] if with_columns else []
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
    }


def encode_row(columns: Columns, obj: Object, now: datetime, include: str) -> Object:
    """Return the row of an object; ``include`` is the includeObject parameter."""
    row: Object = {"cells": [column.print_cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = encode_partial_object_metadata(obj)
    return row


def encode_partial_object_metadata(obj: Object) -> Object:
    """Return the metadata of an object as a PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
