"""The columns of what makes pods: Deployments, Jobs and the like."""

from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.selectors import selector_text
from dovetail.simulator.rest.tables.ages import age, span
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Show,
    count,
    joined,
    pairs,
    selector,
    text,
    yes_or_no,
)


def _of_containers(field: str, *template: str) -> Show:
    def show(obj: Object, _: datetime) -> Cell:
        containers = look(obj, *template, "spec", "containers") or ()
        return joined(one.get(field, "") for one in containers)

    return show


def _pods(*template: str, selected: bool = True) -> tuple[Column, ...]:
    """Return the wide columns about the pods a workload makes."""
    columns = (
        Column("Containers", _of_containers("name", *template), wide=True),
        Column("Images", _of_containers("image", *template), wide=True),
    )
    return (*columns, Column("Selector", selector, wide=True)) if selected else columns


_TEMPLATE: Final = ("spec", "template")


def _ready_of_wanted(obj: Object, _: datetime) -> Cell:
    ready = look(obj, "status", "readyReplicas") or 0
    return f"{ready}/{look(obj, 'spec', 'replicas') or 0}"


def _node_selector(obj: Object, _: datetime) -> Cell:
    return pairs(look(obj, "spec", "template", "spec", "nodeSelector"))


def _job_status(obj: Object, _: datetime) -> Cell:
    conditions = look(obj, "status", "conditions") or ()
    true = [one.get("type") for one in conditions if one.get("status") == "True"]
    for kind, word in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true:
            return word
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else "Running"


def _completions(obj: Object, _: datetime) -> Cell:
    done = look(obj, "status", "succeeded") or 0
    wanted = look(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    side_by_side = look(obj, "spec", "parallelism") or 0
    return f"{done}/1 of {side_by_side}" if side_by_side > 1 else f"{done}/1"


def _duration(obj: Object, now: datetime) -> Cell:
    start, end = look(obj, "status", "startTime"), look(obj, "status", "completionTime")
    if start is None:
        return ""
    if end is None:
        return age(start, now)
    return span(datetime.fromisoformat(end) - datetime.fromisoformat(start))


def _active(obj: Object, _: datetime) -> Cell:
    return len(look(obj, "status", "active") or ())


def _last_schedule(obj: Object, now: datetime) -> Cell:
    last = look(obj, "status", "lastScheduleTime")
    return NONE if last is None else age(last, now)


def _job_selector(obj: Object, _: datetime) -> Cell:
    return selector_text(look(obj, "spec", "jobTemplate", "spec", "selector") or {}) or NONE


def _controller(obj: Object, _: datetime) -> Cell:
    owners = obj["metadata"].get("ownerReferences") or ()
    for one in owners:
        if one.get("controller"):
            group = one["apiVersion"].partition("/")[0] if "/" in one["apiVersion"] else ""
            kind = one["kind"].lower()
            return f"{kind}.{group}/{one['name']}" if group else f"{kind}/{one['name']}"
    return NONE


def _pod_labels(obj: Object, _: datetime) -> Cell:
    return pairs(look(obj, "template", "metadata", "labels"))


DEPLOYMENT_COLUMNS: Final = (
    NAME,
    Column("Ready", _ready_of_wanted),
    Column("Up-to-date", count("status", "updatedReplicas"), type="integer"),
    Column("Available", count("status", "availableReplicas"), type="integer"),
    AGE,
    *_pods(*_TEMPLATE),
)
REPLICA_SET_COLUMNS: Final = (
    NAME,
    Column("Desired", count("spec", "replicas"), type="integer"),
    Column("Current", count("status", "replicas"), type="integer"),
    Column("Ready", count("status", "readyReplicas"), type="integer"),
    AGE,
    *_pods(*_TEMPLATE),
)
STATEFUL_SET_COLUMNS: Final = (
    NAME,
    Column("Ready", _ready_of_wanted),
    AGE,
    *_pods(*_TEMPLATE, selected=False),
)
DAEMON_SET_COLUMNS: Final = (
    NAME,
    Column("Desired", count("status", "desiredNumberScheduled"), type="integer"),
    Column("Current", count("status", "currentNumberScheduled"), type="integer"),
    Column("Ready", count("status", "numberReady"), type="integer"),
    Column("Up-to-date", count("status", "updatedNumberScheduled"), type="integer"),
    Column("Available", count("status", "numberAvailable"), type="integer"),
    Column("Node Selector", _node_selector),
    AGE,
    *_pods(*_TEMPLATE),
)
JOB_COLUMNS: Final = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _completions),
    Column("Duration", _duration),
    AGE,
    *_pods(*_TEMPLATE),
)
CRON_JOB_COLUMNS: Final = (
    NAME,
    Column("Schedule", text("spec", "schedule")),
    Column("Timezone", text("spec", "timeZone", missing=NONE)),
    Column("Suspend", yes_or_no("spec", "suspend"), type="boolean"),
    Column("Active", _active, type="integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    *_pods("spec", "jobTemplate", "spec", "template", selected=False),
    Column("Selector", _job_selector, wide=True),
)
REVISION_COLUMNS: Final = (
    NAME,
    Column("Controller", _controller),
    Column("Revision", text("revision", missing="0")),
    AGE,
)
POD_TEMPLATE_COLUMNS: Final = (
    NAME,
    Column("Containers", _of_containers("name", "template")),
    Column("Images", _of_containers("image", "template")),
    Column("Pod Labels", _pod_labels),
)
