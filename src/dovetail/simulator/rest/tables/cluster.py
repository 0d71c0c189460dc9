"""The columns of namespaces, events, budgets, and other small kinds."""

from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.rest.tables.ages import age
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    count,
    joined,
    name_of,
    pairs,
    size,
    text,
    yes_or_no,
)


def _last_seen(obj: Object, now: datetime) -> Cell:
    series = look(obj, "series", "lastObservedTime")
    last = series or obj.get("lastTimestamp") or obj.get("eventTime")
    return age(last or obj["metadata"].get("creationTimestamp"), now)


def _first_seen(obj: Object, now: datetime) -> Cell:
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _about(obj: Object, _: datetime) -> Cell:
    about = obj.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _source(obj: Object, _: datetime) -> Cell:
    source = obj.get("source") or {}
    named = [source.get("component") or obj.get("reportingComponent"), source.get("host")]
    return ", ".join(one for one in named if one)


def _message(obj: Object, _: datetime) -> Cell:
    return str(obj.get("message", "")).strip()


def _times(obj: Object, _: datetime) -> Cell:
    number = look(obj, "series", "count") or obj.get("count") or 1
    return int(number)


EVENT_COLUMNS: Final = (
    Column("Last Seen", _last_seen),
    Column("Type", text("type")),
    Column("Reason", text("reason")),
    Column("Object", _about),
    Column("Subobject", text("involvedObject", "fieldPath"), wide=True),
    Column("Source", _source, wide=True),
    Column("Message", _message),
    Column("First Seen", _first_seen, wide=True),
    Column("Count", _times, wide=True, type="integer"),
    Column("Name", name_of, wide=True, format="name"),
)
NAMESPACE_COLUMNS: Final = (NAME, Column("Status", text("status", "phase")), AGE)
BUDGET_COLUMNS: Final = (
    NAME,
    Column("Min Available", text("spec", "minAvailable", missing="N/A")),
    Column("Max Unavailable", text("spec", "maxUnavailable", missing="N/A")),
    Column("Allowed Disruptions", count("status", "disruptionsAllowed"), type="integer"),
    AGE,
)


def _outside_address(obj: Object, _: datetime) -> Cell:
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    entries = look(obj, "status", "loadBalancer", "ingress") or ()
    found = [one.get("ip") or one.get("hostname") or "" for one in entries]
    found += spec.get("externalIPs") or ()
    if not found and spec.get("type") == "LoadBalancer":
        return "<pending>"
    return joined(found)


def _ports(obj: Object, _: datetime) -> Cell:
    shown = []
    for one in look(obj, "spec", "ports") or ():
        on_nodes = f":{one['nodePort']}" if one.get("nodePort") else ""
        shown.append(f"{one.get('port')}{on_nodes}/{one.get('protocol', 'TCP')}")
    return joined(shown)


def _service_selector(obj: Object, _: datetime) -> Cell:
    return pairs(look(obj, "spec", "selector"))


SERVICE_COLUMNS: Final = (
    NAME,
    Column("Type", text("spec", "type", missing="ClusterIP")),
    Column("Cluster-IP", text("spec", "clusterIP", missing=NONE)),
    Column("External-IP", _outside_address),
    Column("Port(s)", _ports),
    AGE,
    Column("Selector", _service_selector, wide=True),
)
CONFIG_MAP_COLUMNS: Final = (NAME, Column("Data", size("data"), type="integer"), AGE)
SECRET_COLUMNS: Final = (
    NAME,
    Column("Type", text("type", missing="Opaque")),
    Column("Data", size("data"), type="integer"),
    AGE,
)


def _reference(obj: Object, _: datetime) -> Cell:
    target = look(obj, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _metrics(obj: Object, _: datetime) -> Cell:
    """Say what is aimed at; nobody measures anything here."""
    shown = []
    for one in look(obj, "spec", "metrics") or ():
        goal = look(one, "resource", "target") or {}
        name = look(one, "resource", "name") or one.get("type", "")
        percent = goal.get("averageUtilization")
        aim = f"{percent}%" if percent is not None else goal.get("averageValue", "?")
        shown.append(f"{name}: <unknown>/{aim}")
    return ", ".join(shown) or NONE


AUTOSCALER_COLUMNS: Final = (
    NAME,
    Column("Reference", _reference),
    Column("Targets", _metrics),
    Column("MinPods", text("spec", "minReplicas", missing="<unset>")),
    Column("MaxPods", count("spec", "maxReplicas"), type="integer"),
    Column("Replicas", count("status", "currentReplicas"), type="integer"),
    AGE,
)
LEASE_COLUMNS: Final = (NAME, Column("Holder", text("spec", "holderIdentity")), AGE)
PRIORITY_CLASS_COLUMNS: Final = (
    NAME,
    Column("Value", count("value"), type="integer"),
    Column("Global-Default", yes_or_no("globalDefault"), type="boolean"),
    AGE,
    Column("PreemptionPolicy", text("preemptionPolicy", missing="PreemptLowerPriority")),
)
