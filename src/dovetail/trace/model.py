"""Model of a trace: a header, then events in order of time.

A trace says what was asked of a cluster, not what its autoscaler did: workloads and their
scale, tasks and their run times, NodePools, and what happened in EC2. Each line of the file
is one of these values as JSON; times are seconds since ``Header.start``.
"""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

FORMAT: Final = "dovetail-trace"
VERSION: Final = 2
"""Format version that this release writes, and the newest that it reads.

Version 1 had neither ``anonymised`` nor ``clusterId``, nor the hash of whole pod templates.
"""

Object = dict[str, Any]
MAX_SECONDS: Final = 10 * 365 * 86_400.0
"""Ten years: a larger time is a mistake, such as a wrong unit or a value that means "never"."""
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 2999
"""Of ``Header.start``: times that follow from it must be dates, too."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """First line of a trace."""

    format: str = FORMAT
    version: int = VERSION
    written_by: str
    """Command and release: ``dovetail record 0.1.0``."""
    start: datetime
    """Time of ``t`` 0."""
    region: str = ""
    """AWS region; empty: unknown."""
    cluster: str = ""
    """Name of the cluster; empty: unknown or anonymous."""
    cluster_id: str = ""
    """Hash of the UID and time of namespace kube-system; a trace of another cluster is not continued."""
    anonymised: str = ""
    """Fingerprint of the key that names were replaced with; empty: names are real, or unknown."""
    assumptions: tuple[str, ...] = ()
    """Facts that the source did not have, as sentences."""


class _Event(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """Fields that all events have."""

    t: Seconds
    """Seconds since the start of the trace."""


class Initial(_Event, frozen=True, kw_only=True, tag_field="event", tag="initial"):
    """An object that existed at the start, with its status; ``t`` is 0.

    Nodes, NodeClaims and pods included: the replay begins with the same nodes. A trace
    without initial Nodes begins with an empty cluster.
    """

    object: Object


class Set(_Event, frozen=True, kw_only=True, tag_field="event", tag="set"):
    """An object is created, or replaced by this one; it has no status.

    Workloads, bare pods without a known run time, PodDisruptionBudgets, DaemonSets, classes,
    volumes, NodePools, node classes.
    """

    object: Object


class Delete(_Event, frozen=True, kw_only=True, tag_field="event", tag="delete"):
    """An object is deleted."""

    kind: Text
    name: Text
    namespace: str = ""


class Scale(_Event, frozen=True, kw_only=True, tag_field="event", tag="scale"):
    """A workload has another number of replicas."""

    kind: Text
    name: Text
    namespace: Text
    replicas: Annotated[int, msgspec.Meta(ge=0)]


class Template(_Event, frozen=True, kw_only=True, tag_field="event", tag="template"):
    """A pod template that tasks refer to; written once, before the first of them."""

    id: Text
    namespace: Text = "default"
    owner: str = "Job"
    """``Job``: an evicted task starts again. ``Pod``: a bare pod, which is lost."""
    workload: str = ""
    """Name of what the tasks belong to (CronJob, user, queue), for reports."""
    template: Object
    """``metadata`` (labels, annotations) and ``spec``, as in a Job."""


class Tasks(_Event, frozen=True, kw_only=True, tag_field="event", tag="tasks"):
    """Pods of a template that are created now and run for a given time."""

    template: Text
    """ID of a template."""
    count: Count = 1
    seconds: Seconds | None = None
    """Run time of each from the start of its containers; None: a later ``finish`` has it."""
    id: str = ""
    """Set if a ``finish`` follows; unique in the trace."""


class Finish(_Event, frozen=True, kw_only=True, tag_field="event", tag="finish"):
    """Tasks of an ID have ended; without it they run until the end of the trace."""

    id: Text
    """Of ``Tasks``, or the UID of an initial pod, which ends now."""
    seconds: Seconds
    """Run time of each from the start of its containers, without the time it was pending."""


class Interruption(_Event, frozen=True, kw_only=True, tag_field="event", tag="interruption"):
    """EC2 interrupts instances that globs select: a count or a share of them.

    A recorded interruption hits the cluster as it was. The replay interrupts as many of the
    instances that match then; ``share`` (of those that match) suits other NodePools better.
    """

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "spot"
    count: Count | None = None
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None


class CapacityError(_Event, frozen=True, kw_only=True, tag_field="event", tag="capacityError"):
    """EC2 has no capacity for offerings, selected by globs, for some time."""

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    seconds: Seconds = 180.0
    """Default: the time for which an offering is not tried again."""


class Gap(_Event, frozen=True, kw_only=True, tag_field="event", tag="gap"):
    """The recorder was away until now; events in between are unknown."""

    seconds: Seconds


class End(_Event, frozen=True, kw_only=True, tag_field="event", tag="end"):
    """The trace is complete up to here; without it, up to the last event.

    Only a gap may follow: the recorder was started again.
    """

    notes: tuple[str, ...] = ()
    """Omissions and assumptions that are known only at the end, as sentences."""


Event = Initial | Set | Delete | Scale | Template | Tasks | Finish | Interruption | CapacityError | Gap | End
EVENT_NAMES: Final = (
    *("initial", "set", "delete", "scale", "template", "tasks", "finish"),
    *("interruption", "capacityError", "gap", "end"),
)


def trace_schema() -> dict[str, Any]:
    """Return the JSON Schema of one line of a trace."""
    (header, event), definitions = msgspec.json.schema_components(
        (Header, Event), ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of a trace, version {VERSION}: the header first, then events",
        "anyOf": [header, event],
        "$defs": definitions,
    }
