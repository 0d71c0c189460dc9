"""Rewritten objects, and kubelet settings that move from one to another."""

from typing import Any

import msgspec

from dovetail.codec.conversion.converted_object import Raw, Remark, mapping
from dovetail.codec.inputs.decoders import Decoded
from dovetail.codec.inputs.legacy_kubelet import homes_of_kubelets
from dovetail.codec.rewrite.yaml_comments import with_comments
from dovetail.codec.text.documents import Misplaced, RawObject
from dovetail.codec.text.field_path import Path


class Rewritten(msgspec.Struct):
    """One object as it is today, and what a reader should know about it."""

    value: Raw
    remarks: list[Remark]
    source: RawObject
    older: bool
    """Whether it was of an older version."""
    decoded: Decoded | None = None
    text: str | None = None
    """Its author's own text, where nothing had to change."""

    @property
    def name(self) -> str:
        return str(mapping(self.value.get("metadata")).get("name", ""))

    def as_yaml(self) -> str:
        return self.text or with_comments(self.value, self.remarks)


def misplaced_at(raw: RawObject, path: Path, why: str) -> Misplaced:
    """Return a mistake by its place in an object of a file."""
    return Misplaced(raw.file, raw.document, raw.path + path, why)


def move_kubelets(found: list[Rewritten], wrong: set[tuple[str, int]]) -> list[Misplaced]:
    """Move kubelet settings of old pools to their classes; returns what cannot be.

    Documents that are ``wrong`` are let be: what they mean is not known. Classes
    are changed in place, and copies put beside them where pools disagree.
    """
    misplaced: list[Misplaced] = []
    good = [one for one in found if (one.source.file, one.source.document) not in wrong]
    pools = [one for one in good if one.value.get("kind") == "NodePool" and one.decoded]
    classes = {one.name: one for one in good if one.value.get("kind") == "EC2NodeClass"}
    homes = homes_of_kubelets(
        [(one.name, _class_of(one), _settings_of(one)) for one in pools],
        {name: one.value["spec"]["kubelet"] for name, one in classes.items() if _kubelet(one)},
    )
    for pool in pools:
        settings, used = _settings_of(pool), _class_of(pool)
        if settings is None:
            continue
        home = homes[pool.name]
        if used not in classes and not wrong:
            why = (
                f"belongs to EC2NodeClass {used!r} today, which is not among the files; "
                "convert it together with this"
            )
            misplaced.append(misplaced_at(pool.source, _kubelet_path(pool), why))
        elif used in classes and home not in classes:
            classes[home] = _copy(classes[used], home, pool)
            found.insert(found.index(classes[used]) + 1, classes[home])
        if home in classes:
            _give(classes[home], settings, pool)
        if home != used:
            _refer(pool, home)
    return misplaced


def _class_of(pool: Rewritten) -> str:
    return str(pool.value["spec"]["template"]["spec"]["nodeClassRef"].get("name"))


def _settings_of(pool: Rewritten) -> Raw | None:
    kubelet = pool.decoded.kubelet if pool.decoded else None
    return kubelet.settings if kubelet else None


def _kubelet_path(pool: Rewritten) -> Path:
    kubelet = pool.decoded.kubelet if pool.decoded else None
    return kubelet.path if kubelet else ()


def _kubelet(node_class: Rewritten) -> Any:
    return mapping(node_class.value.get("spec")).get("kubelet")


def _copy(node_class: Rewritten, name: str, pool: Rewritten) -> Rewritten:
    value = {**node_class.value, "spec": {**node_class.value["spec"]}}
    value["spec"].pop("kubelet", None)
    value["metadata"] = {**value["metadata"], "name": name}
    why = f"A copy of {node_class.name} with the kubelet settings of {pool.name}."
    return Rewritten(value, [((), why), *node_class.remarks], node_class.source, older=True)


def _give(node_class: Rewritten, settings: Raw, pool: Rewritten) -> None:
    node_class.value = {
        **node_class.value,
        "spec": {**node_class.value["spec"], "kubelet": settings},
    }
    old = pool.source.value["kind"]
    why = f"Moved here from {old} {pool.name}: kubelet settings belong to the class today."
    node_class.remarks.append((("spec", "kubelet"), why))


def _refer(pool: Rewritten, home: str) -> None:
    spec = pool.value["spec"]
    inner = spec["template"]["spec"]
    reference = {**inner["nodeClassRef"], "name": home}
    template = {**spec["template"], "spec": {**inner, "nodeClassRef": reference}}
    pool.value = {**pool.value, "spec": {**spec, "template": template}}
    why = "A class of its own, for its kubelet settings are not those of the others."
    pool.remarks.append((("spec", "template", "spec", "nodeClassRef"), why))
