"""Minimal valid objects."""

from collections.abc import Iterable
from typing import Any

from dovetail.ports.api_resources import LEASES, PODS, Resource
from dovetail.ports.kube_errors import NotFound
from tests.contract.apiserver.subject import Event, Object, Subject

NO_FINALIZERS: Object = {"metadata": {"finalizers": None}}
HOLD = "contract.dovetail.dev/hold"


def a_config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Object:
    """Return a ConfigMap; labels and data are omitted if empty, as an empty map has an owner."""
    meta: Object = {"name": name, **({"labels": labels} if labels else {})}
    return {"metadata": meta, **({"data": data} if data else {})}


def a_lease(name: str, **labels: str) -> Object:
    """Return a small object of a kind that no controller creates in a new namespace."""
    return {"metadata": {"name": name, "labels": labels}, "spec": {"holderIdentity": "me"}}


def a_pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "containers": [{"name": "main", "image": "app:1"}],
            "automountServiceAccountToken": False,
            # No scheduler has this name: tests bind the pod themselves.
            "schedulerName": "contract",
            **spec,
        },
    }


def a_deployment(name: str, **spec: Any) -> Object:
    """Return a paused Deployment, on which no controller acts."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, "paused": True, **spec},
    }


def a_node_pool(name: str, **spec: Any) -> Object:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "contract"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def a_node_claim(name: str, **spec: Any) -> Object:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "contract"}
    return {"metadata": {"name": name}, "spec": {"nodeClassRef": reference, "requirements": [], **spec}}


def a_node_class(name: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "a"}}],
            "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
            **spec,
        },
    }


def a_pdb(name: str = "pdb", **spec: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}


def with_finalizers(obj: Object, *finalizers: str) -> Object:
    """Return the object with finalizers, so that its deletion waits."""
    meta = {**obj["metadata"], "finalizers": list(finalizers or (HOLD,))}
    return {**obj, "metadata": meta}


def owned_by(obj: Object, *owners: Object, blocks: bool = False) -> Object:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}


def run_pod(server: Subject, pod: Object, *, node: str = "n1") -> Object:
    """Create a pod, bind it and make it ready, as scheduler and kubelet would."""
    name = server.create(PODS, pod)["metadata"]["name"]
    server.bind(name, {"target": {"kind": "Node", "name": node}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return server.patch(PODS, name, {"status": ready}, subresource="status")


def exists(server: Subject, resource: Resource, name: str) -> bool:
    try:
        server.get(resource, name)
    except NotFound:
        return False
    return True


def lease_names(server: Subject) -> list[str]:
    """Return the names of the existing Leases."""
    return names(server.list(LEASES)["items"])


def names(objects: Iterable[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def event_names(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Return events as type and name of the object."""
    return [(kind, obj["metadata"]["name"]) for kind, obj in events]
