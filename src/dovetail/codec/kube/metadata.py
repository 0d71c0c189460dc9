"""What every object says about itself."""

import re
from datetime import datetime

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.quantities import instant
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import Owner

LONGEST_NAME = 253

_BULKY = "kubectl.kubernetes.io/last-applied-configuration"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KNOWN = (
    "name generateName namespace labels annotations uid creationTimestamp deletionTimestamp "
    "ownerReferences finalizers resourceVersion generation managedFields selfLink "
    "deletionGracePeriodSeconds clusterName"
).split()


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The part of ``metadata`` that decisions look at."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    owner: Owner | None = None
    created: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    generation: int = 0
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()


def metadata(root: Field) -> Metadata:
    """Read ``metadata`` of an object; a missing or impossible name is a mistake."""
    meta = root["metadata"]
    if meta.findings.written_by_hand:
        meta.known_keys(_KNOWN)
        _check_name(meta)
    owners = _owners(meta["ownerReferences"]) if meta.says("ownerReferences") else ()
    going = meta.says("deletionTimestamp")
    return Metadata(
        name=meta.text_of("name"),
        namespace=meta.text_of("namespace") or "default",
        uid=meta.text_of("uid"),
        labels=meta["labels"].labels(),
        annotations=annotations(meta["annotations"]),
        owner=_controlling(owners),
        created=instant(meta["creationTimestamp"]),
        deleting=going,
        deleted_at=instant(meta["deletionTimestamp"]) if going else None,
        generation=meta["generation"].whole() or 0,
        resource_version=meta.text_of("resourceVersion"),
        finalizers=meta["finalizers"].texts() if meta.says("finalizers") else (),
        owners=owners,
    )


def annotations(field: Field) -> FrozenDict[str, str]:
    """Read annotations, without kubectl's copy of the whole object."""
    if not field.value:
        return EMPTY
    mapping = field.mapping()
    if _BULKY not in mapping:
        return field.labels()
    kept = {key: value for key, value in mapping.items() if key != _BULKY}
    return Field(kept, field.findings, field.parent, field.key).labels()


def _check_name(meta: Field) -> None:
    name = meta["name"]
    if name.value is None or name.value == "":
        generated = meta["generateName"].value
        hint = "; generateName is for the API server, give a name here" if generated else ""
        name.mistake(f"is missing{hint}")
    elif not isinstance(name.value, str):
        return  # Reading it as text reports that.
    elif len(name.value) > LONGEST_NAME:
        name.mistake(f"has {len(name.value)} characters; the limit is {LONGEST_NAME}")
    elif not _NAME.fullmatch(name.value):
        name.mistake(
            f"{name.value[:80]!r} is no name: lower-case letters, digits, '-' and '.' only"
        )


def _owners(references: Field) -> tuple[Owner, ...]:
    return tuple(
        references.findings.shared(
            Owner(
                api_version=one.text_of("apiVersion"),
                kind=one.text_of("kind"),
                name=one.text_of("name"),
                uid=one.text_of("uid"),
                controller=one["controller"].boolean(),
            )
        )
        for one in references.items()
    )


def _controlling(owners: tuple[Owner, ...]) -> Owner | None:
    """Return the controlling owner, else the first."""
    for owner in owners:
        if owner.controller:
            return owner
    return owners[0] if owners else None
