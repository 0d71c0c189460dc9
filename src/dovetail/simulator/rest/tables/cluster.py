"""Printer columns of nodes, events, services and other kinds of a cluster."""

from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cell,
    CellPrinter,
    Column,
    format_age,
    join_or_none,
    print_bool,
    print_int,
    print_length,
    print_map,
    print_name,
    print_text,
)

_ROLE_LABEL_PREFIX: Final = "node-role.kubernetes.io/"
_LEGACY_ROLE_LABEL: Final = "kubernetes.io/role"


def _print_node_status(obj: Object, _: datetime) -> Cell:
    conditions = get_field(obj, "status", "conditions") or ()
    ready = next((item.get("status", "") for item in conditions if item.get("type") == "Ready"), "")
    words = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    if get_field(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _print_roles(obj: Object, _: datetime) -> Cell:
    labels = obj["metadata"].get("labels") or {}
    roles = {
        key.removeprefix(_ROLE_LABEL_PREFIX)
        for key in labels
        if key.startswith(_ROLE_LABEL_PREFIX) and key != _ROLE_LABEL_PREFIX
    }
    if labels.get(_LEGACY_ROLE_LABEL):
        roles.add(labels[_LEGACY_ROLE_LABEL])
    return join_or_none(sorted(roles))


def _print_address(address_type: str) -> CellPrinter:
    def print_cell(obj: Object, _: datetime) -> Cell:
        for address in get_field(obj, "status", "addresses") or ():
            if address.get("type") == address_type:
                return str(address.get("address", ""))
        return NONE

    return print_cell


def _print_node_info(field: str, missing: str = UNKNOWN) -> CellPrinter:
    return print_text("status", "nodeInfo", field, missing=missing)


NODE_COLUMNS: Final = (
    NAME,
    Column("Status", _print_node_status),
    Column("Roles", _print_roles),
    AGE,
    Column("Version", _print_node_info("kubeletVersion", missing="")),
    Column("Internal-IP", _print_address("InternalIP"), wide=True),
    Column("External-IP", _print_address("ExternalIP"), wide=True),
    Column("OS-Image", _print_node_info("osImage"), wide=True),
    Column("Kernel-Version", _print_node_info("kernelVersion"), wide=True),
    Column("Container-Runtime", _print_node_info("containerRuntimeVersion"), wide=True),
)


def _print_last_seen(obj: Object, now: datetime) -> Cell:
    series = get_field(obj, "series", "lastObservedTime")
    last = series or obj.get("lastTimestamp") or obj.get("eventTime")
    return format_age(last or obj["metadata"].get("creationTimestamp"), now)


def _print_involved_object(obj: Object, _: datetime) -> Cell:
    involved = obj.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _print_source(obj: Object, _: datetime) -> Cell:
    source = obj.get("source") or {}
    parts = [source.get("component") or obj.get("reportingComponent"), source.get("host")]
    return ", ".join(part for part in parts if part)


def _print_count(obj: Object, _: datetime) -> Cell:
    count = get_field(obj, "series", "count") or obj.get("count") or 1
    return int(count)


EVENT_COLUMNS: Final = (
    Column("Last Seen", _print_last_seen),
    Column("Type", print_text("type")),
    Column("Reason", print_text("reason")),
    Column("Object", _print_involved_object),
    Column("Subobject", print_text("involvedObject", "fieldPath"), wide=True),
    Column("Source", _print_source, wide=True),
    Column("Message", lambda obj, _: str(obj.get("message", "")).strip()),
    Column(
        "First Seen",
        lambda obj, now: format_age(obj.get("firstTimestamp") or obj.get("eventTime"), now),
        wide=True,
    ),
    Column("Count", _print_count, wide=True, type="integer"),
    Column("Name", print_name, wide=True, format="name"),
)
NAMESPACE_COLUMNS: Final = (NAME, Column("Status", print_text("status", "phase")), AGE)
PDB_COLUMNS: Final = (
    NAME,
    Column("Min Available", print_text("spec", "minAvailable", missing="N/A")),
    Column("Max Unavailable", print_text("spec", "maxUnavailable", missing="N/A")),
    Column("Allowed Disruptions", print_int("status", "disruptionsAllowed"), type="integer"),
    AGE,
)


def _print_external_ip(obj: Object, _: datetime) -> Cell:
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    ingress = get_field(obj, "status", "loadBalancer", "ingress") or ()
    addresses = [entry.get("ip") or entry.get("hostname") or "" for entry in ingress]
    addresses += spec.get("externalIPs") or ()
    if not addresses and spec.get("type") == "LoadBalancer":
        return "<pending>"
    return join_or_none(addresses)


def _print_ports(obj: Object, _: datetime) -> Cell:
    ports = []
    for port in get_field(obj, "spec", "ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return join_or_none(ports)


SERVICE_COLUMNS: Final = (
    NAME,
    Column("Type", print_text("spec", "type", missing="ClusterIP")),
    Column("Cluster-IP", print_text("spec", "clusterIP", missing=NONE)),
    Column("External-IP", _print_external_ip),
    Column("Port(s)", _print_ports),
    AGE,
    Column("Selector", print_map("spec", "selector"), wide=True),
)
CONFIG_MAP_COLUMNS: Final = (NAME, Column("Data", print_length("data"), type="integer"), AGE)
SECRET_COLUMNS: Final = (
    NAME,
    Column("Type", print_text("type", missing="Opaque")),
    Column("Data", print_length("data"), type="integer"),
    AGE,
)


def _print_scale_target(obj: Object, _: datetime) -> Cell:
    target = get_field(obj, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _print_metrics(obj: Object, _: datetime) -> Cell:
    """Print the current value and the target of each metric."""
    current = {
        _metric_name(metric): _print_value(_metric_source(metric).get("current") or {})
        for metric in get_field(obj, "status", "currentMetrics") or ()
    }
    metrics = []
    for metric in get_field(obj, "spec", "metrics") or ():
        name = _metric_name(metric)
        target = _print_value(_metric_source(metric).get("target") or {})
        metrics.append(f"{name}: {current.get(name, UNKNOWN)}/{target}")
    return ", ".join(metrics) or NONE


def _metric_source(metric: Object) -> Object:
    source: Object = metric.get((metric.get("type") or " ")[0].lower() + (metric.get("type") or "")[1:]) or {}
    return source


def _metric_name(metric: Object) -> str:
    source = _metric_source(metric)
    return source.get("name") or get_field(source, "metric", "name") or str(metric.get("type", ""))


def _print_value(value: Object) -> str:
    percent = value.get("averageUtilization")
    if percent is not None:
        return f"{percent}%"
    average = value.get("averageValue")
    return f"{average} (avg)" if average is not None else str(value.get("value", "?"))


HPA_COLUMNS: Final = (
    NAME,
    Column("Reference", _print_scale_target),
    Column("Targets", _print_metrics),
    Column("MinPods", print_text("spec", "minReplicas", missing="<unset>")),
    Column("MaxPods", print_int("spec", "maxReplicas"), type="integer"),
    Column("Replicas", print_int("status", "currentReplicas"), type="integer"),
    AGE,
)
LEASE_COLUMNS: Final = (NAME, Column("Holder", print_text("spec", "holderIdentity")), AGE)
LIMIT_RANGE_COLUMNS: Final = (NAME, Column("Created At", print_text("metadata", "creationTimestamp")))
DEFINITION_COLUMNS: Final = LIMIT_RANGE_COLUMNS
RUNTIME_CLASS_COLUMNS: Final = (NAME, Column("Handler", print_text("handler")), AGE)
PRIORITY_CLASS_COLUMNS: Final = (
    NAME,
    Column("Value", print_int("value"), type="integer"),
    Column("Global-Default", print_bool("globalDefault"), type="boolean"),
    AGE,
    Column("PreemptionPolicy", print_text("preemptionPolicy", missing="PreemptLowerPriority")),
)
