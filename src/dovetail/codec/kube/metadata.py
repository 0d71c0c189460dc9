"""Decoder of ``metadata``."""

import re
from datetime import datetime

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.quantities import decode_time
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import OwnerReference

MAX_NAME_LENGTH = 253

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KNOWN = (
    "name generateName namespace labels annotations uid creationTimestamp deletionTimestamp "
    "ownerReferences finalizers resourceVersion generation managedFields selfLink "
    "deletionGracePeriodSeconds clusterName"
).split()


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of ``metadata`` that decisions use."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    owner: OwnerReference | None = None
    created: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    generation: int = 0
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


def decode_metadata(root: Field) -> Metadata:
    """Decode ``metadata``; a missing or invalid name is an error."""
    meta = root["metadata"]
    if meta.context.strict:
        meta.check_known_keys(_KNOWN)
        _check_name(meta)
    owners = _decode_owner_references(meta["ownerReferences"]) if meta.has_value("ownerReferences") else ()
    going = meta.has_value("deletionTimestamp")
    return Metadata(
        name=meta.text_of("name"),
        namespace=meta.text_of("namespace") or "default",
        uid=meta.text_of("uid"),
        labels=meta["labels"].labels(),
        annotations=decode_annotations(meta["annotations"]),
        owner=_controlling_owner(owners),
        created=decode_time(meta["creationTimestamp"]),
        deleting=going,
        deleted_at=decode_time(meta["deletionTimestamp"]) if going else None,
        generation=meta["generation"].integer() or 0,
        resource_version=meta.text_of("resourceVersion"),
        finalizers=meta["finalizers"].texts() if meta.has_value("finalizers") else (),
        owner_references=owners,
    )


def decode_annotations(field: Field) -> FrozenDict[str, str]:
    """Decode annotations, without the copy of the object that kubectl apply stores."""
    if field.value is None:
        return EMPTY
    mapping = field.mapping()
    if _LAST_APPLIED not in mapping:
        return field.labels()
    kept = {key: value for key, value in mapping.items() if key != _LAST_APPLIED}
    return Field(kept, field.context, field.parent, field.key).labels()


def _check_name(meta: Field) -> None:
    name = meta["name"]
    if name.value is None or name.value == "":
        generated = meta["generateName"].value
        if generated is not None and not isinstance(generated, str):
            meta["generateName"].add_error("must be text")
            return
        hint = "; generateName is for the API server, give a name here" if generated else ""
        if meta.parent is not None and meta.parent.has_value("name"):
            hint = "; indent name, which is beside metadata, below it"
        name.add_error(f"is missing{hint}")
    elif not isinstance(name.value, str):
        return  # decode_metadata reports it when it reads the text.
    elif len(name.value) > MAX_NAME_LENGTH:
        name.add_error(f"has {len(name.value)} characters; the limit is {MAX_NAME_LENGTH}")
    elif not _NAME.fullmatch(name.value):
        name.add_error(
            f"{name.value[:80]!r} is not a valid name: lower-case letters, digits, '-' and '.' only"
        )


def _decode_owner_references(references: Field) -> tuple[OwnerReference, ...]:
    return tuple(
        references.context.intern(
            OwnerReference(
                api_version=item.text_of("apiVersion"),
                kind=item.text_of("kind"),
                name=item.text_of("name"),
                uid=item.text_of("uid"),
                controller=item["controller"].boolean(),
            )
        )
        for item in references.items()
    )


def _controlling_owner(owners: tuple[OwnerReference, ...]) -> OwnerReference | None:
    """Return the controlling owner, or else the first."""
    for owner in owners:
        if owner.controller:
            return owner
    return owners[0] if owners else None
