"""Kinds of Kubernetes objects that checks read, besides those of the controllers."""

from typing import Final

from dovetail.ports import api_resources
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
    api_resources.NODE_POOLS,
    api_resources.EC2_NODE_CLASSES,
    api_resources.NODE_CLAIMS,
    api_resources.NODES,
    api_resources.PODS,
    api_resources.DEPLOYMENTS,
    api_resources.DAEMON_SETS,
    api_resources.SERVICE_ACCOUNTS,
    api_resources.POD_DISRUPTION_BUDGETS,
    api_resources.STORAGE_CLASSES,
    CRDS,
    FLOW_SCHEMAS,
    LIMIT_RANGES,
    SERVICE_MONITORS,
)
"""Kinds to list. The only ConfigMap read is ``aws-auth``; Secrets are never read."""

MAY_BE_UNKNOWN: Final = frozenset({SERVICE_MONITORS})
"""Kinds of optional software: a server without them has no objects."""
