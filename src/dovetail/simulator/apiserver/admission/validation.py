"""Validation of objects on create and update; all errors are reported at once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from dovetail.ports.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRON_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.admission.builtin_kinds import (
    validate_claim_templates,
    validate_hpa,
    validate_label_selector,
    validate_node,
    validate_pdb,
    validate_priority_class,
    validate_schedule,
    validate_volume,
    validate_volume_claim,
)
from dovetail.simulator.apiserver.admission.custom_resources import (
    CUSTOM_RESOURCES,
    validate_custom_resource,
    validate_nodeclass_ref_update,
    validate_replicas_update,
    validate_spec_update,
)
from dovetail.simulator.apiserver.admission.definitions import validate_definition
from dovetail.simulator.apiserver.admission.field_errors import (
    FieldError,
    JsonObject,
    forbidden,
    invalid,
    raise_if_invalid,
    required,
)
from dovetail.simulator.apiserver.admission.pods import DNS_LABEL, PodValidator, validate_restart_policy
from dovetail.simulator.apiserver.patch.json_patch import json_equal
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, get_field
from dovetail.simulator.apiserver.storage.selectors import decode_label_selector, labels_match

_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_SUBDOMAIN: Final = 253
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_MAX_LABEL_VALUE: Final = 63
_NAMED_BY_PATH_SEGMENT: Final = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
_NAMED_BY_DNS_LABEL: Final = (NAMESPACES, SERVICES)
"""Names of other kinds are DNS subdomains."""

_METADATA_STRINGS: Final = ("name", "generateName", "namespace", "uid", "resourceVersion")
_OPTIONAL_MAP: Final = (dict, type(None))
_OPTIONAL_LIST: Final = (list, type(None))
_OPTIONAL_TEXT: Final = (str, type(None))
_METADATA_TYPES: Final = {
    "labels": _OPTIONAL_MAP,
    "annotations": _OPTIONAL_MAP,
    "finalizers": _OPTIONAL_LIST,
    "ownerReferences": _OPTIONAL_LIST,
}
_REPLICATED_RESTART_POLICIES: Final = ("Always",)
_JOB_RESTART_POLICIES: Final = ("OnFailure", "Never")


def check_structure(obj: JsonObject) -> None:
    """Raise BadRequest if the top-level or metadata fields have wrong types."""
    meta = obj.get("metadata")
    wrong = [name for name in ("metadata", "spec", "status") if not isinstance(obj.get(name), _OPTIONAL_MAP)]
    # Frozen metadata comes from the store and was checked when it was written.
    if isinstance(meta, dict) and not isinstance(meta, FrozenObject):
        wrong += [
            f"metadata.{name}"
            for name, expected in _METADATA_TYPES.items()
            if not isinstance(meta.get(name), expected)
        ]
        references = meta.get("ownerReferences")
        if isinstance(references, list) and not all(isinstance(reference, dict) for reference in references):
            wrong.append("metadata.ownerReferences")
        wrong += [
            f"metadata.{name}" for name in _METADATA_STRINGS if not isinstance(meta.get(name), _OPTIONAL_TEXT)
        ]
    if wrong:
        raise BadRequest(f"the object cannot be decoded: wrong type of {', '.join(wrong)}")


class Validator:
    """Validates objects by the rules of their kind."""

    def __init__(self) -> None:
        workloads = WorkloadValidator(PodValidator())
        self._validators: Mapping[Resource, Callable[[JsonObject], Iterable[FieldError]]] = {
            PODS: workloads.validate_pod,
            DEPLOYMENTS: workloads.validate_replicated,
            REPLICA_SETS: workloads.validate_replicated,
            STATEFUL_SETS: workloads.validate_stateful_set,
            DAEMON_SETS: workloads.validate_replicated,
            JOBS: workloads.validate_job,
            CRON_JOBS: workloads.validate_cron_job,
            NODES: validate_node,
            PERSISTENT_VOLUMES: validate_volume,
            PERSISTENT_VOLUME_CLAIMS: validate_volume_claim,
            POD_DISRUPTION_BUDGETS: validate_pdb,
            HORIZONTAL_POD_AUTOSCALERS: validate_hpa,
            PRIORITY_CLASSES: validate_priority_class,
            CUSTOM_RESOURCE_DEFINITIONS: validate_definition,
            **{resource: partial(validate_custom_resource, resource) for resource in CUSTOM_RESOURCES},
        }

    def validate_create(self, resource: Resource, obj: JsonObject) -> None:
        """Raise Invalid if a new object violates a rule of its kind."""
        errors = [*_validate_name(resource, obj), *_validate_metadata(obj)]
        validate = self._validators.get(resource)
        if validate is not None:
            errors += validate(obj)
        raise_if_invalid(resource, obj, errors)

    def validate_update(self, resource: Resource, old: JsonObject, new: JsonObject) -> None:
        """Raise Invalid if an update violates a rule of its kind."""
        errors: list[FieldError] = []
        if new["metadata"] is not old["metadata"]:
            errors += [*_validate_metadata(new), *_validate_finalizers(old, new)]
        if not json_equal(old.get("spec"), new.get("spec")):
            for validate_change in _UPDATE_VALIDATORS.get(resource, ()):
                errors += validate_change(old, new)
            validate = self._validators.get(resource)
            # Errors of the new object are of no interest if the change is forbidden.
            if validate is not None and not errors:
                errors += validate(new)
        if errors:
            raise_if_invalid(resource, new, errors)


def _validate_name(resource: Resource, obj: JsonObject) -> Iterator[FieldError]:
    name = obj["metadata"]["name"]
    if resource in _NAMED_BY_PATH_SEGMENT:
        if name in (".", "..") or "/" in name or "%" in name:
            yield invalid("metadata.name", f"{name!r} is '.' or '..', or contains '/' or '%'")
    elif resource in _NAMED_BY_DNS_LABEL:
        if not DNS_LABEL.fullmatch(name):
            yield invalid("metadata.name", f"{name!r} is not a lowercase RFC 1123 label")
    elif len(name) > _MAX_SUBDOMAIN or not _DNS_SUBDOMAIN.fullmatch(name):
        yield invalid("metadata.name", f"{name!r} is not a lowercase RFC 1123 subdomain")


def _validate_metadata(obj: JsonObject) -> Iterator[FieldError]:
    meta = obj["metadata"]
    for key, value in (meta.get("labels") or {}).items():
        if not _is_label_key(key):
            yield invalid("metadata.labels", f"{key!r} is not a label key")
        is_short = isinstance(value, str) and len(value) <= _MAX_LABEL_VALUE
        if not is_short or not _LABEL_VALUE.fullmatch(value):
            yield invalid(f"metadata.labels[{key}]", f"{value!r} is not a label value")
    for key, value in (meta.get("annotations") or {}).items():
        if not isinstance(value, str):
            yield invalid(f"metadata.annotations[{key}]", f"{value!r} is not a string")
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield required(f"metadata.ownerReferences[{index}].{field}", "must not be empty")


@lru_cache(maxsize=4096)
def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if not name or len(name) > _MAX_LABEL_VALUE or not _LABEL_VALUE.fullmatch(name):
        return False
    return not slash or (len(prefix) <= _MAX_SUBDOMAIN and bool(_DNS_SUBDOMAIN.fullmatch(prefix)))


def _validate_finalizers(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [
            finalizer for finalizer in new["metadata"].get("finalizers") or () if finalizer not in before
        ]
        if added:
            yield forbidden(
                "metadata.finalizers",
                f"no new finalizers can be added if the object is being deleted, found {added}",
            )


def _immutable(*path: str) -> Callable[[JsonObject, JsonObject], Iterable[FieldError]]:
    def validate(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
        if not json_equal(get_field(old, *path), get_field(new, *path)):
            yield invalid(".".join(path), "field is immutable")

    return validate


_MUTABLE_POD_FIELDS: Final = frozenset(
    {"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
)


def _validate_pod_update(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """Allow only new images, more tolerations and fewer scheduling gates."""
    before, after = old["spec"], new.get("spec") or {}
    if before == after:
        return
    changed = sorted(
        name
        for name in {*before, *after} - _MUTABLE_POD_FIELDS
        if not json_equal(_without_images(before.get(name)), _without_images(after.get(name)))
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
        {name: value for name, value in container.items() if name != "image"}
        if isinstance(container, dict)
        else container
        for container in containers
    ]


def _contains(superset: Any, subset: Any) -> bool:
    return all(item in (superset or ()) for item in subset or ())


_UPDATE_VALIDATORS: Final[
    dict[Resource, tuple[Callable[[JsonObject, JsonObject], Iterable[FieldError]], ...]]
] = {
    PODS: (_validate_pod_update,),
    DEPLOYMENTS: (_immutable("spec", "selector"),),
    REPLICA_SETS: (_immutable("spec", "selector"),),
    STATEFUL_SETS: (_immutable("spec", "selector"), _immutable("spec", "serviceName")),
    DAEMON_SETS: (_immutable("spec", "selector"),),
    JOBS: (_immutable("spec", "selector"), _immutable("spec", "template")),
    NODE_CLAIMS: (validate_spec_update,),
    NODE_POOLS: (validate_nodeclass_ref_update, validate_replicas_update),
}


class WorkloadValidator:
    """Validates pods and the kinds that create pods from a template."""

    def __init__(self, pods: PodValidator) -> None:
        self._pods = pods

    def validate_pod(self, obj: JsonObject) -> Iterator[FieldError]:
        yield from self._pods.validate(obj.get("spec") or {}, "spec")

    def validate_replicated(self, obj: JsonObject) -> Iterator[FieldError]:
        """Validate a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
        spec = obj.get("spec") or {}
        yield from _validate_count(spec, "replicas")
        selector = spec.get("selector")
        if not selector:
            yield required("spec.selector")
        selector_errors = list(validate_label_selector(selector, "spec.selector"))
        yield from selector_errors
        template = spec.get("template")
        labels = get_field(template, "metadata", "labels") or {}
        if selector and not selector_errors and not _selects(selector, labels):
            yield invalid(
                "spec.template.metadata.labels",
                f"{dict(labels)}: `selector` does not match template `labels`",
            )
        yield from self._validate_template(template, _REPLICATED_RESTART_POLICIES)

    def validate_stateful_set(self, obj: JsonObject) -> Iterator[FieldError]:
        yield from validate_claim_templates(obj)
        yield from self.validate_replicated(obj)

    def validate_job(self, obj: JsonObject) -> Iterator[FieldError]:
        yield from self._validate_job_spec(obj.get("spec") or {}, "spec")

    def validate_cron_job(self, obj: JsonObject) -> Iterator[FieldError]:
        yield from validate_schedule(obj)
        job_spec = get_field(obj, "spec", "jobTemplate", "spec") or {}
        yield from self._validate_job_spec(job_spec, "spec.jobTemplate.spec")

    def _validate_job_spec(self, spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
        for name in ("parallelism", "completions", "backoffLimit"):
            yield from _validate_count(spec, name, path)
        yield from self._validate_template(spec.get("template"), _JOB_RESTART_POLICIES, path)

    def _validate_template(
        self, template: Any, restart_policies: tuple[str, ...], path: str = "spec"
    ) -> Iterator[FieldError]:
        pod_spec, path = get_field(template, "spec") or {}, f"{path}.template.spec"
        yield from self._pods.validate(pod_spec, path)
        yield from validate_restart_policy(pod_spec, path, *restart_policies)


def _validate_count(spec: Mapping[str, Any], name: str, path: str = "spec") -> Iterator[FieldError]:
    value = spec.get(name)
    if value is not None and (not isinstance(value, int) or value < 0):
        yield invalid(f"{path}.{name}", f"{value!r}: must be greater than or equal to 0")


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    try:
        return isinstance(selector, dict) and labels_match(decode_label_selector(selector), labels)
    except BadRequest:
        return False
