"""Rules an object must keep, whoever writes it; all that are broken are told at once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from dovetail.ports.api_resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.admission.karpenter import (
    CUSTOM,
    broken_rules,
    fixed_nature,
    fixed_references,
    fixed_spec,
)
from dovetail.simulator.apiserver.admission.pods import LABEL, PodRules
from dovetail.simulator.apiserver.admission.status_causes import (
    Cause,
    Wire,
    forbidden,
    invalid,
    refuse,
    required,
)
from dovetail.simulator.apiserver.admission.workloads import WorkloadRules, budget
from dovetail.simulator.apiserver.patch.json_patch import same_json
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, look

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LONGEST_VALUE: Final = 63
_NAMED_LIKE_HOSTS: Final = (NAMESPACES, SERVICES)


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
    # Metadata that is frozen comes from the store, and was looked at on its way in.
    if isinstance(meta, dict) and not isinstance(meta, FrozenObject):
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


class Checker:
    """Holds every kind to its rules."""

    def __init__(self) -> None:
        rules = WorkloadRules(PodRules())
        self._rules: Mapping[Resource, Callable[[Wire], Iterable[Cause]]] = {
            PODS: rules.pod,
            DEPLOYMENTS: rules.replicated,
            REPLICA_SETS: rules.replicated,
            STATEFUL_SETS: rules.replicated,
            DAEMON_SETS: rules.replicated,
            JOBS: rules.job,
            POD_DISRUPTION_BUDGETS: budget,
            **{one: partial(broken_rules, one) for one in CUSTOM},
        }

    def check_new(self, resource: Resource, obj: Wire) -> None:
        """Refuse an object that breaks a rule of its kind."""
        causes = [*_naming(resource, obj), *_metadata(obj)]
        rule = self._rules.get(resource)
        if rule is not None:
            causes += rule(obj)
        refuse(resource, obj, causes)

    def check_change(self, resource: Resource, old: Wire, new: Wire) -> None:
        """Refuse a change that breaks a rule of its kind."""
        causes: list[Cause] = []
        if new["metadata"] is not old["metadata"]:
            causes += [*_metadata(new), *_finalizers(old, new)]
        if not same_json(old.get("spec"), new.get("spec")):
            for change_rule in _CHANGE_RULES.get(resource, ()):
                causes += change_rule(old, new)
            rule = self._rules.get(resource)
            # Once a change itself is forbidden, what it would lead to does not matter.
            if rule is not None and not causes:
                causes += rule(new)
        refuse(resource, new, causes)


def _naming(resource: Resource, obj: Wire) -> Iterator[Cause]:
    name = obj["metadata"]["name"]
    if resource in _NAMED_LIKE_HOSTS:
        if not LABEL.fullmatch(name):
            yield invalid("metadata.name", f"{name!r} is no lowercase RFC 1123 label")
    elif len(name) > 253 or not _NAME.fullmatch(name):
        yield invalid("metadata.name", f"{name!r} is no lowercase RFC 1123 subdomain")


def _metadata(obj: Wire) -> Iterator[Cause]:
    meta = obj["metadata"]
    for key, value in (meta.get("labels") or {}).items():
        if not _is_key(key):
            yield invalid("metadata.labels", f"{key!r} is no label key")
        valid = isinstance(value, str) and len(value) <= _LONGEST_VALUE
        if not valid or not _LABEL_VALUE.fullmatch(value):
            yield invalid(f"metadata.labels[{key}]", f"{value!r} is no label value")
    for key, value in (meta.get("annotations") or {}).items():
        if not isinstance(value, str):
            yield invalid(f"metadata.annotations[{key}]", f"{value!r} is no string")
    for at, owner in enumerate(meta.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield required(f"metadata.ownerReferences[{at}].{field}", "must not be empty")


@lru_cache(maxsize=4096)
def _is_key(key: str) -> bool:
    domain, slash, name = key.rpartition("/")
    good = len(name) <= _LONGEST_VALUE and bool(name) and _LABEL_VALUE.fullmatch(name)
    return bool(good) and (not slash or (len(domain) <= 253 and bool(_NAME.fullmatch(domain))))


def _finalizers(old: Wire, new: Wire) -> Iterator[Cause]:
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [one for one in new["metadata"].get("finalizers") or () if one not in before]
        if added:
            yield forbidden(
                "metadata.finalizers",
                f"no new finalizers can be added if the object is being deleted, found {added}",
            )


def _unchangeable(*path: str) -> Callable[[Wire, Wire], Iterable[Cause]]:
    def rule(old: Wire, new: Wire) -> Iterator[Cause]:
        if not same_json(look(old, *path), look(new, *path)):
            yield invalid(".".join(path), "field is immutable")

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
        yield forbidden(f"spec.{name}", "pod updates may not change this field")
    if not _contains(after.get("tolerations"), before.get("tolerations")):
        yield forbidden("spec.tolerations", "existing toleration can not be modified")
    if not _contains(before.get("schedulingGates"), after.get("schedulingGates")):
        yield forbidden("spec.schedulingGates", "only deletion is allowed")


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
    NODE_CLAIMS: (fixed_spec,),
    NODE_POOLS: (fixed_references, fixed_nature),
}
