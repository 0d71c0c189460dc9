"""Rewritten objects, and kubelet settings that move from NodePools to EC2NodeClasses."""

from typing import Any

import msgspec

from dovetail.codec.conversion.converted_object import ConversionNote, RawObjectValue, copy_map
from dovetail.codec.inputs.decoders import DecodedObject
from dovetail.codec.inputs.legacy_kubelet import assign_kubelets
from dovetail.codec.text.documents import FieldError, RawObject
from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.yaml_writer import to_yaml_with_comments


class RewrittenObject(msgspec.Struct):
    """A rewritten object, with notes that become YAML comments."""

    value: RawObjectValue
    notes: list[ConversionNote]
    source: RawObject
    is_converted: bool
    """True if it was converted from an older version."""
    decoded: DecodedObject | None = None
    text: str | None = None
    """Original text, if the object did not change."""

    @property
    def name(self) -> str:
        return str(copy_map(self.value.get("metadata")).get("name", ""))

    def as_yaml(self) -> str:
        return self.text or to_yaml_with_comments(self.value, self.notes)


def move_kubelets(
    objects: list[RewrittenObject], invalid_documents: set[tuple[str, int]]
) -> list[FieldError]:
    """Move kubelet settings of old NodePools to their EC2NodeClasses; return errors.

    Documents in ``invalid_documents`` have errors and are left alone. EC2NodeClasses are changed
    in place; if NodePools have different settings, copies are inserted after them.
    """
    field_errors: list[FieldError] = []
    valid = [
        rewritten
        for rewritten in objects
        if (rewritten.source.file, rewritten.source.document) not in invalid_documents
    ]
    pools = [
        rewritten for rewritten in valid if rewritten.value.get("kind") == "NodePool" and rewritten.decoded
    ]
    classes = {
        rewritten.name: rewritten for rewritten in valid if rewritten.value.get("kind") == "EC2NodeClass"
    }
    targets = assign_kubelets(
        [(pool.name, _nodeclass_name(pool), _kubelet_settings(pool)) for pool in pools],
        {
            name: rewritten.value["spec"]["kubelet"]
            for name, rewritten in classes.items()
            if _kubelet(rewritten)
        },
    )
    for pool in pools:
        settings, used = _kubelet_settings(pool), _nodeclass_name(pool)
        if settings is None:
            continue
        target = targets[pool.name]
        if used not in classes and not invalid_documents:
            message = (
                f"belongs to EC2NodeClass {used!r} in v1, which is not in the files; convert both together"
            )
            field_errors.append(pool.source.error_at(_kubelet_path(pool), message))
        elif used in classes and target not in classes:
            classes[target] = _copy_nodeclass(classes[used], target, pool)
            objects.insert(objects.index(classes[used]) + 1, classes[target])
        if target in classes:
            _set_kubelet(classes[target], settings, pool)
        if target != used:
            _set_nodeclass_ref(pool, target)
    return field_errors


def _nodeclass_name(pool: RewrittenObject) -> str:
    return str(pool.value["spec"]["template"]["spec"]["nodeClassRef"].get("name"))


def _kubelet_settings(pool: RewrittenObject) -> RawObjectValue | None:
    kubelet = pool.decoded.kubelet if pool.decoded else None
    return kubelet.settings if kubelet else None


def _kubelet_path(pool: RewrittenObject) -> FieldPath:
    kubelet = pool.decoded.kubelet if pool.decoded else None
    return kubelet.path if kubelet else ()


def _kubelet(node_class: RewrittenObject) -> Any:
    return copy_map(node_class.value.get("spec")).get("kubelet")


def _copy_nodeclass(node_class: RewrittenObject, name: str, pool: RewrittenObject) -> RewrittenObject:
    value = {**node_class.value, "spec": {**node_class.value["spec"]}}
    value["spec"].pop("kubelet", None)
    value["metadata"] = {**value["metadata"], "name": name}
    message = f"A copy of {node_class.name} with the kubelet settings of {pool.name}."
    return RewrittenObject(value, [((), message), *node_class.notes], node_class.source, is_converted=True)


def _set_kubelet(node_class: RewrittenObject, settings: RawObjectValue, pool: RewrittenObject) -> None:
    node_class.value = {**node_class.value, "spec": {**node_class.value["spec"], "kubelet": settings}}
    old = pool.source.value["kind"]
    message = f"Moved here from {old} {pool.name}: in v1 kubelet settings belong to the EC2NodeClass."
    node_class.notes.append((("spec", "kubelet"), message))


def _set_nodeclass_ref(pool: RewrittenObject, target: str) -> None:
    spec = pool.value["spec"]
    inner = spec["template"]["spec"]
    reference = {**inner["nodeClassRef"], "name": target}
    template = {**spec["template"], "spec": {**inner, "nodeClassRef": reference}}
    pool.value = {**pool.value, "spec": {**spec, "template": template}}
    message = "A separate EC2NodeClass: its kubelet settings differ from those of other NodePools."
    pool.notes.append((("spec", "template", "spec", "nodeClassRef"), message))
