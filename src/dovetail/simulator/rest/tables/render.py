"""Which columns a kind has, and a row from an object."""

from datetime import datetime
from typing import Any, Final

from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.rest.tables import cluster, nodes, pods, storage, workloads
from dovetail.simulator.rest.tables.column import AGE, NAME, Column

Columns = tuple[Column, ...]

_COLUMNS: Final[dict[Resource, Columns]] = {
    kinds.PODS: pods.POD_COLUMNS,
    kinds.NODES: nodes.NODE_COLUMNS,
    kinds.NODE_POOLS: nodes.NODE_POOL_COLUMNS,
    kinds.NODE_CLAIMS: nodes.NODE_CLAIM_COLUMNS,
    kinds.EC2_NODE_CLASSES: nodes.EC2_NODE_CLASS_COLUMNS,
    kinds.NODE_OVERLAYS: nodes.NODE_OVERLAY_COLUMNS,
    kinds.CAPACITY_BUFFERS: nodes.BUFFER_COLUMNS,
    kinds.DEPLOYMENTS: workloads.DEPLOYMENT_COLUMNS,
    kinds.REPLICA_SETS: workloads.REPLICA_SET_COLUMNS,
    kinds.STATEFUL_SETS: workloads.STATEFUL_SET_COLUMNS,
    kinds.DAEMON_SETS: workloads.DAEMON_SET_COLUMNS,
    kinds.JOBS: workloads.JOB_COLUMNS,
    kinds.CRON_JOBS: workloads.CRON_JOB_COLUMNS,
    kinds.CONTROLLER_REVISIONS: workloads.REVISION_COLUMNS,
    kinds.POD_TEMPLATES: workloads.POD_TEMPLATE_COLUMNS,
    kinds.EVENTS: cluster.EVENT_COLUMNS,
    kinds.NAMESPACES: cluster.NAMESPACE_COLUMNS,
    kinds.POD_DISRUPTION_BUDGETS: cluster.BUDGET_COLUMNS,
    kinds.SERVICES: cluster.SERVICE_COLUMNS,
    kinds.CONFIG_MAPS: cluster.CONFIG_MAP_COLUMNS,
    kinds.SECRETS: cluster.SECRET_COLUMNS,
    kinds.HORIZONTAL_POD_AUTOSCALERS: cluster.AUTOSCALER_COLUMNS,
    kinds.LEASES: cluster.LEASE_COLUMNS,
    kinds.PRIORITY_CLASSES: cluster.PRIORITY_CLASS_COLUMNS,
    kinds.PERSISTENT_VOLUMES: storage.VOLUME_COLUMNS,
    kinds.PERSISTENT_VOLUME_CLAIMS: storage.VOLUME_CLAIM_COLUMNS,
    kinds.STORAGE_CLASSES: storage.STORAGE_CLASS_COLUMNS,
    kinds.CSI_NODES: storage.CSI_NODE_COLUMNS,
    kinds.VOLUME_ATTACHMENTS: storage.ATTACHMENT_COLUMNS,
}


def columns_of(resource: Resource) -> Columns:
    """Return a kind's columns; name and age where it has none of its own."""
    return _COLUMNS.get(resource, (NAME, AGE))


def head(columns: Columns, metadata: dict[str, Any], *, with_columns: bool = True) -> Object:
    """Return a Table without its rows."""
    shown = [one.definition() for one in columns] if with_columns else []
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": shown,
    }


def row(columns: Columns, obj: Object, now: datetime, include: str) -> Object:
    """Return an object's row, with as much of the object as ``include`` asks for."""
    shown: Object = {"cells": [one.show(obj, now) for one in columns]}
    if include == "Object":
        shown["object"] = obj
    elif include != "None":
        shown["object"] = metadata_only(obj)
    return shown


def metadata_only(obj: Object) -> Object:
    """Return an object's metadata as an object of its own."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }
