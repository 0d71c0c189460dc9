"""The CustomResourceDefinitions of the kinds that Dovetail works with, in a live cluster."""

from typing import Any

from dovetail.ports.resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, Resource
from tests.live.cluster import Cluster


def install_crds(cluster: Cluster) -> None:
    """Apply the definitions and wait until the API server serves them."""
    definitions = [_anything_goes(one) for one in (NODE_POOLS, NODE_CLAIMS, EC2_NODE_CLASSES)]
    cluster.apply(*definitions)
    names = [f"crd/{one['metadata']['name']}" for one in definitions]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)


def _anything_goes(resource: Resource) -> dict[str, Any]:
    """A definition without rules."""
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": open_object},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [version],
        },
    }
