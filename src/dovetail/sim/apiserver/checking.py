"""Rules an object must keep, whoever writes it; all that are broken are told at once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.ports.kubeerrors import BadRequest, Invalid
from dovetail.ports.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODE_CLAIMS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from dovetail.sim.apiserver.frozen import look
from dovetail.sim.apiserver.patching import same_json

Cause = tuple[str, str, str]
"""The field, Kubernetes' reason, and what is wrong."""
Wire = Mapping[str, Any]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LONGEST_VALUE: Final = 63


_TEXTS: Final = ("name", "generateName", "namespace", "uid", "resourceVersion")
_SHAPES: Final[Mapping[str, type]] = {
    "labels": dict,
    "annotations": dict,
    "finalizers": list,
    "ownerReferences": list,
}


def check_shape(obj: Wire) -> None:
    """Refuse what cannot be read as an object at all."""
    meta = obj.get("metadata")
    wrong = [name for name in ("metadata", "spec", "status") if not _is(obj.get(name), dict)]
    if isinstance(meta, dict):
        wrong += [
            f"metadata.{name}" for name, kind in _SHAPES.items() if not _is(meta.get(name), kind)
        ]
        references = meta.get("ownerReferences")
        if isinstance(references, list) and not all(isinstance(one, dict) for one in references):
            wrong.append("metadata.ownerReferences")
        wrong += [f"metadata.{name}" for name in _TEXTS if not _is(meta.get(name), str)]
    if wrong:
        raise BadRequest(f"the object cannot be decoded: {', '.join(wrong)} of the wrong type")


def _is(value: Any, kind: type) -> bool:
    return value is None or isinstance(value, kind)


def check_new(resource: Resource, obj: Wire) -> None:
    """Refuse an object that breaks a rule of its kind."""
    _refuse(resource, obj, [*_naming(obj), *_metadata(obj)])


def check_change(resource: Resource, old: Wire, new: Wire) -> None:
    """Refuse a change that breaks a rule of its kind."""
    causes: list[Cause] = []
    if new["metadata"] is not old["metadata"]:
        causes += [*_metadata(new), *_finalizers(old, new)]
    for rule in _CHANGE_RULES.get(resource, ()):
        causes += rule(old, new)
    _refuse(resource, new, causes)


def _refuse(resource: Resource, obj: Wire, causes: list[Cause]) -> None:
    if not causes:
        return
    name = obj["metadata"]["name"]
    told = ", ".join(f"{field}: {what}" for field, _, what in causes)
    raise Invalid(
        f'{resource.kind}{"." + resource.group if resource.group else ""} "{name}" '
        f"is invalid: {told}",
        kind=resource.kind,
        name=name,
        causes=[
            {"reason": reason, "message": what, "field": field} for field, reason, what in causes
        ],
    )


def _naming(obj: Wire) -> Iterator[Cause]:
    name = obj["metadata"]["name"]
    if len(name) > 253 or not _NAME.fullmatch(name):
        yield "metadata.name", "FieldValueInvalid", f"{name!r} is no lowercase RFC 1123 subdomain"


def _metadata(obj: Wire) -> Iterator[Cause]:
    meta = obj["metadata"]
    for key, value in (meta.get("labels") or {}).items():
        valid = isinstance(value, str) and len(value) <= _LONGEST_VALUE
        if not valid or not _LABEL_VALUE.fullmatch(value):
            yield f"metadata.labels[{key}]", "FieldValueInvalid", f"{value!r} is no label value"
    for key, value in (meta.get("annotations") or {}).items():
        if not isinstance(value, str):
            yield f"metadata.annotations[{key}]", "FieldValueInvalid", f"{value!r} is no string"
    for at, owner in enumerate(meta.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                place = f"metadata.ownerReferences[{at}].{field}"
                yield place, "FieldValueRequired", "must not be empty"


def _finalizers(old: Wire, new: Wire) -> Iterator[Cause]:
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [one for one in new["metadata"].get("finalizers") or () if one not in before]
        if added:
            yield (
                "metadata.finalizers",
                "FieldValueForbidden",
                f"no new finalizers can be added if the object is being deleted, found {added}",
            )


def _unchangeable(*path: str) -> Callable[[Wire, Wire], Iterable[Cause]]:
    def rule(old: Wire, new: Wire) -> Iterator[Cause]:
        if not same_json(look(old, *path), look(new, *path)):
            yield ".".join(path), "FieldValueInvalid", "field is immutable"

    return rule


_POD_MAY_CHANGE: Final = frozenset(
    {"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
)


def _pod_spec(old: Wire, new: Wire) -> Iterator[Cause]:
    """Allow new images, further tolerations and fewer scheduling gates, and nothing else."""
    before, after = old["spec"], new.get("spec") or {}
    if before == after:
        return
    changed = sorted(
        name
        for name in {*before, *after} - _POD_MAY_CHANGE
        if not same_json(_without_images(before.get(name)), _without_images(after.get(name)))
    )
    for name in changed:
        yield f"spec.{name}", "FieldValueForbidden", "pod updates may not change this field"
    if not _contains(after.get("tolerations"), before.get("tolerations")):
        yield "spec.tolerations", "FieldValueForbidden", "existing toleration can not be modified"
    if not _contains(before.get("schedulingGates"), after.get("schedulingGates")):
        yield "spec.schedulingGates", "FieldValueForbidden", "only deletion is allowed"


def _without_images(containers: Any) -> Any:
    if not isinstance(containers, list):
        return containers
    return [
        {name: value for name, value in one.items() if name != "image"}
        if isinstance(one, dict)
        else one
        for one in containers
    ]


def _contains(all_of_them: Any, some: Any) -> bool:
    return all(one in (all_of_them or ()) for one in some or ())


_CHANGE_RULES: Final[dict[Resource, tuple[Callable[[Wire, Wire], Iterable[Cause]], ...]]] = {
    PODS: (_pod_spec,),
    DEPLOYMENTS: (_unchangeable("spec", "selector"),),
    REPLICA_SETS: (_unchangeable("spec", "selector"),),
    STATEFUL_SETS: (_unchangeable("spec", "selector"), _unchangeable("spec", "serviceName")),
    DAEMON_SETS: (_unchangeable("spec", "selector"),),
    JOBS: (_unchangeable("spec", "selector"), _unchangeable("spec", "template")),
    NODE_CLAIMS: (_unchangeable("spec"),),
}
