"""Kinds of Kubernetes objects that checks read, besides those of the controllers."""

from typing import Final

from dovetail.ports import api_resources as known
from dovetail.ports.api_resources import Resource

CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
FLOW_SCHEMAS: Final = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False
)
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
SERVICE_MONITORS: Final = Resource(
    "monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", is_custom=True
)

READ: Final = (
    known.NODE_POOLS,
    known.EC2_NODE_CLASSES,
    known.NODE_CLAIMS,
    known.NODES,
    known.PODS,
    known.DEPLOYMENTS,
    known.DAEMON_SETS,
    known.SERVICE_ACCOUNTS,
    known.POD_DISRUPTION_BUDGETS,
    known.STORAGE_CLASSES,
    CRDS,
    FLOW_SCHEMAS,
    LIMIT_RANGES,
    SERVICE_MONITORS,
)
"""Listed completely. Of ConfigMaps only ``aws-auth`` is read, and Secrets never."""

MAY_BE_UNKNOWN: Final = frozenset({SERVICE_MONITORS})
"""Kinds of optional software: a server without them has no objects."""
