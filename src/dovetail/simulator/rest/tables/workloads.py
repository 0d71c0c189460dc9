"""Printer columns of workloads: Deployments, Jobs and other owners of pods."""

from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    NONE,
    Cell,
    CellPrinter,
    Column,
    format_age,
    format_duration,
    join_or_none,
    print_bool,
    print_int,
    print_length,
    print_map,
    print_selector,
    print_text,
)


def _print_containers(field: str, *template: str) -> CellPrinter:
    def print_cell(obj: Object, _: datetime) -> Cell:
        containers = get_field(obj, *template, "spec", "containers") or ()
        return join_or_none(container.get(field, "") for container in containers)

    return print_cell


def _pod_columns(*template: str, selector: tuple[str, ...] = ("spec", "selector")) -> tuple[Column, ...]:
    """Return the wide columns of a pod template, and of its selector if there is one."""
    return (
        Column("Containers", _print_containers("name", *template), wide=True),
        Column("Images", _print_containers("image", *template), wide=True),
        *([Column("Selector", print_selector(*selector), wide=True)] if selector else ()),
    )


_POD_TEMPLATE: Final = ("spec", "template")
_JOB_TEMPLATE: Final = ("spec", "jobTemplate")


def _print_ready_replicas(obj: Object, _: datetime) -> Cell:
    ready = get_field(obj, "status", "readyReplicas") or 0
    return f"{ready}/{get_field(obj, 'spec', 'replicas') or 0}"


def _print_job_status(obj: Object, _: datetime) -> Cell:
    conditions = get_field(obj, "status", "conditions") or ()
    true_types = [condition.get("type") for condition in conditions if condition.get("status") == "True"]
    for condition_type in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_type in true_types:
            return condition_type
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else "Running"


def _print_completions(obj: Object, _: datetime) -> Cell:
    succeeded = get_field(obj, "status", "succeeded") or 0
    completions = get_field(obj, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = get_field(obj, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _print_duration(obj: Object, now: datetime) -> Cell:
    start, end = get_field(obj, "status", "startTime"), get_field(obj, "status", "completionTime")
    if start is None:
        return ""
    if end is None:
        return format_age(start, now)
    return format_duration(datetime.fromisoformat(end) - datetime.fromisoformat(start))


def _print_last_schedule(obj: Object, now: datetime) -> Cell:
    last = get_field(obj, "status", "lastScheduleTime")
    return NONE if last is None else format_age(last, now)


def _print_controller(obj: Object, _: datetime) -> Cell:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].partition("/")[0] if "/" in owner["apiVersion"] else ""
            kind = owner["kind"].lower()
            return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return NONE


DEPLOYMENT_COLUMNS: Final = (
    NAME,
    Column("Ready", _print_ready_replicas),
    Column("Up-to-date", print_int("status", "updatedReplicas"), type="integer"),
    Column("Available", print_int("status", "availableReplicas"), type="integer"),
    AGE,
    *_pod_columns(*_POD_TEMPLATE),
)
REPLICA_SET_COLUMNS: Final = (
    NAME,
    Column("Desired", print_int("spec", "replicas"), type="integer"),
    Column("Current", print_int("status", "replicas"), type="integer"),
    Column("Ready", print_int("status", "readyReplicas"), type="integer"),
    AGE,
    *_pod_columns(*_POD_TEMPLATE),
)
STATEFUL_SET_COLUMNS: Final = (
    NAME,
    Column("Ready", _print_ready_replicas),
    AGE,
    *_pod_columns(*_POD_TEMPLATE, selector=()),
)
DAEMON_SET_COLUMNS: Final = (
    NAME,
    Column("Desired", print_int("status", "desiredNumberScheduled"), type="integer"),
    Column("Current", print_int("status", "currentNumberScheduled"), type="integer"),
    Column("Ready", print_int("status", "numberReady"), type="integer"),
    Column("Up-to-date", print_int("status", "updatedNumberScheduled"), type="integer"),
    Column("Available", print_int("status", "numberAvailable"), type="integer"),
    Column("Node Selector", print_map(*_POD_TEMPLATE, "spec", "nodeSelector")),
    AGE,
    *_pod_columns(*_POD_TEMPLATE),
)
JOB_COLUMNS: Final = (
    NAME,
    Column("Status", _print_job_status),
    Column("Completions", _print_completions),
    Column("Duration", _print_duration),
    AGE,
    *_pod_columns(*_POD_TEMPLATE),
)
CRON_JOB_COLUMNS: Final = (
    NAME,
    Column("Schedule", print_text("spec", "schedule")),
    Column("Timezone", print_text("spec", "timeZone", missing=NONE)),
    Column("Suspend", print_bool("spec", "suspend"), type="boolean"),
    Column("Active", print_length("status", "active"), type="integer"),
    Column("Last Schedule", _print_last_schedule),
    AGE,
    *_pod_columns(*_JOB_TEMPLATE, *_POD_TEMPLATE, selector=(*_JOB_TEMPLATE, "spec", "selector")),
)
CONTROLLER_REVISION_COLUMNS: Final = (
    NAME,
    Column("Controller", _print_controller),
    Column("Revision", print_text("revision", missing="0")),
    AGE,
)
POD_TEMPLATE_COLUMNS: Final = (
    NAME,
    Column("Containers", _print_containers("name", "template")),
    Column("Images", _print_containers("image", "template")),
    Column("Pod Labels", print_map("template", "metadata", "labels")),
)
