"""Defaulting: values that the server sets if the author of an object did not.

Defaults are applied on every write, admission on creation only.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dovetail.ports.api_resources import (
    API_SERVICES,
    CSI_DRIVERS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.admission.custom_resources import default_custom_resource
from dovetail.simulator.apiserver.admission.definitions import default_definition, initial_definition_status
from dovetail.simulator.apiserver.admission.plugins import add_default_tolerations, merge_label_keys
from dovetail.simulator.apiserver.storage.frozen_object import FrozenList, freeze, get_field

_POD_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}


def prepare_for_create(resource: Resource, obj: dict[str, Any]) -> None:
    """Default, admit and set the initial status of a new object, in place.

    Parts are replaced, never edited. A status in the request is dropped, because it
    belongs to controllers; except for nodes, which kubelets register with capacity.
    """
    if resource.has_status and resource is not NODES:
        obj.pop("status", None)
    apply_defaults(resource, obj)
    admit = _ADMISSION.get(resource)
    if admit is not None:
        admit(obj)
    initial_status = _INITIAL_STATUS.get(resource)
    if initial_status is not None:
        obj["status"] = initial_status(obj)


def apply_defaults(resource: Resource, obj: dict[str, Any]) -> None:
    """Set the defaults of an object in place, on every write."""
    if resource.is_custom:
        default_custom_resource(resource, obj)
        return
    default = _DEFAULTS.get(resource)
    if default is not None:
        default(obj)


def _default_pod(obj: dict[str, Any]) -> None:
    spec = obj.get("spec") or {}
    missing = [name for name in _POD_SPEC if spec.get(name) is None]
    if missing:
        obj["spec"] = {**spec, **{name: _POD_SPEC[name] for name in missing}}


def initial_pod_status(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a new pod; its QoS class depends on the resources."""
    return {"phase": "Pending", "qosClass": _qos_class(obj["spec"].get("containers") or ())}


def _admit_pod(obj: dict[str, Any]) -> None:
    merge_label_keys(obj)
    add_default_tolerations(obj)


def _admit_job(obj: dict[str, Any]) -> None:
    """Set a Job's defaults, and a selector by its uid that matches only its own pods."""
    spec = {"backoffLimit": 6, "completionMode": "NonIndexed", **(obj.get("spec") or {})}
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        spec.setdefault("completions", 1)
    if not spec.get("manualSelector"):
        meta, template = obj["metadata"], spec.get("template") or {}
        uid_label = {"batch.kubernetes.io/controller-uid": meta["uid"]}
        pod_meta = template.get("metadata") or {}
        labels = {
            **(pod_meta.get("labels") or {}),
            **uid_label,
            "batch.kubernetes.io/job-name": meta["name"],
            "job-name": meta["name"],
            "controller-uid": meta["uid"],
        }
        spec["selector"] = {"matchLabels": uid_label}
        spec["template"] = {**template, "metadata": {**pod_meta, "labels": labels}}
    obj["spec"] = spec


def _qos_class(containers: Any) -> str:
    """Return the QoS class by the cpu and memory of the containers."""
    is_guaranteed, has_resources = True, False
    for container in containers:
        resources: Mapping[str, Any] = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            has_resources = has_resources or name in limits or name in requests
            is_equal = name in limits and requests.get(name, limits[name]) == limits[name]
            is_guaranteed = is_guaranteed and is_equal
    if not has_resources:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _default_namespace(obj: dict[str, Any]) -> None:
    obj["spec"] = {"finalizers": ["kubernetes"], **(obj.get("spec") or {})}
    meta = obj["metadata"]
    name_label = {"kubernetes.io/metadata.name": meta["name"]}
    meta["labels"] = {**(meta.get("labels") or {}), **name_label}


def _default_replicas(obj: dict[str, Any]) -> None:
    spec = obj.get("spec") or {}
    if spec.get("replicas") is None:
        obj["spec"] = {**spec, "replicas": 1}


def _default_rollout(
    strategy_field: str, rolling_update: Mapping[str, Any], spec_defaults: Mapping[str, Any]
) -> Callable[[dict[str, Any]], None]:
    """Return the defaulting of a kind with an update strategy.

    `kubectl rollout` needs the strategy to be set.
    """
    frozen_defaults = freeze(spec_defaults)

    def default(obj: dict[str, Any]) -> None:
        spec = {**frozen_defaults, **(obj.get("spec") or {})}
        strategy = {"type": "RollingUpdate", **(spec.get(strategy_field) or {})}
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"] = {**rolling_update, **(strategy.get("rollingUpdate") or {})}
        spec[strategy_field] = strategy
        obj["spec"] = spec

    return default


def _admit_service(obj: dict[str, Any]) -> None:
    """Allocate the address and node ports of a Service, and set its defaults.

    Both derive from the number in the uid, so that equal runs allocate the same.
    """
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(obj.get("spec") or {})}
    if spec["type"] == "ExternalName":
        obj["spec"] = spec
        return
    number = int(obj["metadata"]["uid"][:8], 16)
    if not spec.get("clusterIP"):
        spec["clusterIP"] = f"10.{100 + (number >> 16) % 100}.{(number >> 8) % 256}.{number % 256}"
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec = {
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        **spec,
    }
    ports = []
    for index, port in enumerate(spec.get("ports") or ()):
        port = {"protocol": "TCP", "targetPort": port.get("port"), **port}
        if spec["type"] != "ClusterIP" and not port.get("nodePort"):
            port["nodePort"] = 30_000 + (number * 7 + index) % 2_768
        ports.append(port)
    obj["spec"] = {**spec, "ports": ports}


def _initial_service_status(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the status; a load balancer is there at once."""
    if obj["spec"]["type"] != "LoadBalancer":
        return {"loadBalancer": {}}
    meta = obj["metadata"]
    hostname = f"{meta['namespace']}-{meta['name']}.elb.sandbox.internal"
    return {"loadBalancer": {"ingress": [{"hostname": hostname}]}}


def _initial_api_service_status(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the status of an APIService: nothing answers at the address of its Service."""
    service = get_field(obj, "spec", "service")
    name = "" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"
    condition = {
        "type": "Available",
        "status": "False" if service is not None else "True",
        "reason": "FailedDiscoveryCheck" if service is not None else "Local",
        "message": f"no container runs behind {name}" if name else "Local APIServices are always available",
        "lastTransitionTime": obj["metadata"]["creationTimestamp"],
    }
    return {"conditions": [condition]}


def _default_csi_driver(obj: dict[str, Any]) -> None:
    obj["spec"] = {**_CSI_DRIVER_SPEC, **(obj.get("spec") or {})}


def _default_hpa(obj: dict[str, Any]) -> None:
    obj["spec"] = {"minReplicas": 1, "metrics": [_DEFAULT_HPA_METRIC], **(obj.get("spec") or {})}


def _default_pdb(obj: dict[str, Any]) -> None:
    obj["spec"] = obj.get("spec") or {}


def _default_limit_range(obj: dict[str, Any]) -> None:
    """Default limits to maxima, and default requests to default limits, else to minima."""
    spec = obj.get("spec") or {}
    items = []
    for item in spec.get("limits") or ():
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            parts = {"default": limits, "defaultRequest": requests}
            item = {**item, **{name: part for name, part in parts.items() if part}}
        items.append(item)
    obj["spec"] = {**spec, "limits": items}


def _default_node(obj: dict[str, Any]) -> None:
    if obj.get("status") is not None:
        obj["status"] = complete_status(obj["status"])


def complete_status(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a status as decoding into Go's structs completes it; raise BadRequest.

    A condition without type or status has empty ones, and null in a list is an empty entry.
    """
    for name in _STATUS_LISTS:
        entries = status.get(name)
        # A frozen list comes from the store: it is complete.
        if entries is None or isinstance(entries, FrozenList):
            continue
        if not isinstance(entries, list):
            raise BadRequest(f"the object cannot be decoded: wrong type of status.{name}")
        required = _CONDITION_FIELDS if name == "conditions" else ()
        complete = [_complete_entry(entry, required, name) for entry in entries]
        status = {**status, name: complete}
    return status


def _complete_entry(entry: Any, required: tuple[str, ...], name: str) -> Any:
    if entry is None:
        return dict.fromkeys(required, "")
    if not isinstance(entry, dict):
        raise BadRequest(f"the object cannot be decoded: wrong type of status.{name}")
    for field in required:
        if field not in entry:
            return {**dict.fromkeys(required, ""), **entry}
    return entry


_DEFAULT_HPA_METRIC: Final = freeze(
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
)
_REVISION_HISTORY: Final = {"revisionHistoryLimit": 10}
_DEPLOYMENT_SPEC: Final = {**_REVISION_HISTORY, "replicas": 1, "progressDeadlineSeconds": 600}
_CSI_DRIVER_SPEC: Final = freeze(
    {
        **dict.fromkeys(("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"), False),
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
    }
)
_STATEFUL_SET_SPEC: Final = {
    **_REVISION_HISTORY,
    "replicas": 1,
    "podManagementPolicy": "OrderedReady",
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
}


_STATUS_LISTS: Final = ("conditions", "containerStatuses", "initContainerStatuses", "addresses")
_CONDITION_FIELDS: Final = ("type", "status")
_DEFAULTS: Final[dict[Resource, Callable[[dict[str, Any]], None]]] = {
    PODS: _default_pod,
    NAMESPACES: _default_namespace,
    NODES: _default_node,
    POD_DISRUPTION_BUDGETS: _default_pdb,
    LIMIT_RANGES: _default_limit_range,
    HORIZONTAL_POD_AUTOSCALERS: _default_hpa,
    CSI_DRIVERS: _default_csi_driver,
    CUSTOM_RESOURCE_DEFINITIONS: default_definition,
    DEPLOYMENTS: _default_rollout("strategy", {"maxSurge": "25%", "maxUnavailable": "25%"}, _DEPLOYMENT_SPEC),
    REPLICA_SETS: _default_replicas,
    STATEFUL_SETS: _default_rollout("updateStrategy", {"partition": 0}, _STATEFUL_SET_SPEC),
    DAEMON_SETS: _default_rollout("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}, _REVISION_HISTORY),
}
_ADMISSION: Final[dict[Resource, Callable[[dict[str, Any]], None]]] = {
    PODS: _admit_pod,
    JOBS: _admit_job,
    SERVICES: _admit_service,
}
"""Mutations of new objects; later writes may remove what they set."""
_INITIAL_STATUS: Final[dict[Resource, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    PODS: initial_pod_status,
    NAMESPACES: lambda _: {"phase": "Active"},
    CUSTOM_RESOURCE_DEFINITIONS: initial_definition_status,
    SERVICES: _initial_service_status,
    API_SERVICES: _initial_api_service_status,
    PERSISTENT_VOLUMES: lambda _: {"phase": "Pending"},
    PERSISTENT_VOLUME_CLAIMS: lambda _: {"phase": "Pending"},
}
