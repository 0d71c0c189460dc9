"""State at the end of a trace file, for a recorder that continues it."""

from pathlib import Path

import msgspec

from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import find_resource
from dovetail.record.fields import Object, encode_form, is_generated
from dovetail.record.tasks import is_task
from dovetail.trace.model import Delete, Event, Finish, Header, Initial, Scale, Set, Tasks, Template
from dovetail.trace.reader import TraceReader


class Resumption(msgspec.Struct, kw_only=True):
    """Demand at the end of a file."""

    last: float = 0.0
    """Time of the last event, in seconds since the start."""
    forms: dict[tuple[str, tuple[str, str]], tuple[bytes, int]] = {}
    """Kind and key → what was asked for and its scale, as in ``Demand``."""
    templates: set[str] = set()
    running: dict[str, float] = {}
    """IDs of tasks that have not finished, and UIDs of initial pods → when they began."""


def read_resumption(path: Path) -> tuple[Header, Resumption, list[str]]:
    """Read a trace to its end; also return notes on what is incomplete."""
    reader = TraceReader(path)
    state = Resumption()
    for event in reader:
        state.last = event.t
        _apply(state, event)
    return reader.header, state, reader.notes


def _apply(state: Resumption, event: Event) -> None:
    match event:
        case Initial() | Set():
            _apply_object(state, event.object)
        case Delete():
            state.forms.pop((event.kind, (event.namespace, event.name)), None)
        case Scale():
            key = (event.kind, (event.namespace, event.name))
            if key in state.forms:
                state.forms[key] = (state.forms[key][0], event.replicas)
        case Template():
            state.templates.add(event.id)
        case Tasks():
            state.running[event.id] = event.t
        case Finish():
            state.running.pop(event.id, None)


def _apply_object(state: Resumption, obj: Object) -> None:
    resource = find_resource(obj["apiVersion"], obj["kind"])
    if resource is None:
        return
    meta = obj["metadata"]
    if resource is kinds.PODS:
        if is_task(obj):
            state.running[meta.get("uid", "")] = 0.0
        return
    if is_generated(resource, obj):
        return
    form = encode_form(resource, obj)
    state.forms[(resource.kind, (str(meta.get("namespace") or ""), str(meta["name"])))] = form
