"""Collections: the decoded objects of many files, or all their errors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec

from dovetail.codec.inputs.decoders import DecodedObject, read_object
from dovetail.codec.inputs.replicas import WORKLOADS
from dovetail.codec.kube.pod_specs import decode_template_resources
from dovetail.codec.kube.pods import is_gated
from dovetail.codec.kube.storage import disables_storage_class
from dovetail.codec.text.documents import FieldError, ManifestReader, RawObject
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model.kube.pod_requests import PodResources

NamedFile = tuple[str, bytes]
"""Name of a file in error messages, and its content."""

_MAX_ERRORS: Final = 200
# As in Kubernetes: no vowels, so that no words emerge.
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_PREFIX_LENGTH: Final = 63 - _SUFFIX_LENGTH


class Collection:
    """Decoded objects by kind, namespace and name, in the order of the files."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], DecodedObject] = {}
        self.ignored: Counter[str] = Counter()
        self.resources: dict[tuple[str, str, str], PodResources] = {}
        """Resources of pods that are not admitted yet: of workloads, and of pods without UID."""
        self.gated: set[str] = set()
        """Pods with scheduling gates."""
        self.without_storage_class: set[str] = set()
        """Volume claims that disable the default storage class."""
        self.duplicates: list[tuple[DecodedObject, DecodedObject]] = []
        self.listed_kinds: frozenset[str] = frozenset()
        """Kinds that were listed, also those without objects."""
        self.notes: list[str] = []
        """Values that are probably mistyped, with file and line."""
        self._latest_time = ""

    def add(self, decoded: DecodedObject) -> None:
        """Add an object without its raw form, which would take much memory."""
        raw = decoded.source.value
        source = msgspec.structs.replace(decoded.source, value={})
        decoded = msgspec.structs.replace(decoded, source=source, current={})
        first = self.objects.setdefault(decoded.key, decoded)
        if first is not decoded:
            self.duplicates.append((first, decoded))
            return
        if decoded.kind == "Pod" and is_gated(raw):
            self.gated.add(decoded.model.key)
        elif decoded.kind == "PersistentVolumeClaim" and disables_storage_class(raw):
            self.without_storage_class.add(decoded.model.key)
        if decoded.kind in WORKLOADS or (decoded.kind == "Pod" and not decoded.model.uid):
            self.resources[decoded.key] = decode_template_resources(_find_pod_spec(raw))
        if decoded.kind in ("Node", "Pod"):
            self._latest_time = max(self._latest_time, get_latest_time(raw))

    def merge(self, overrides: "Collection") -> "Collection":
        """Return the objects of both; those of ``overrides`` replace others of the same name."""
        merged = Collection()
        merged.objects = {**self.objects, **overrides.objects}
        merged.without_storage_class = self.without_storage_class | overrides.without_storage_class
        return merged

    def models(self, kind: str) -> list[Any]:
        return [decoded.model for decoded in self.decoded(kind)]

    def decoded(self, kind: str) -> list[DecodedObject]:
        return [decoded for key, decoded in self.objects.items() if key[0] == kind]

    def model(self, kind: str, namespace: str, name: str) -> Any:
        decoded = self.objects.get((kind, namespace, name))
        return None if decoded is None else decoded.model

    def recorded_at(self) -> datetime | None:
        """Return the latest time in nodes and pods; None if there is none."""
        try:
            return msgspec.convert(self._latest_time, datetime)
        except msgspec.ValidationError:
            return None


def read_collections(
    manifests: Sequence[NamedFile], cluster: Sequence[NamedFile] = (), *, kubelet_expressions: bool = True
) -> tuple[Collection, Collection]:
    """Read all files; raise ``InvalidInputError`` with the errors of all of them.

    Two manifests of one object are an error. Dumps often overlap: the first
    object counts.
    """
    reader, names = ManifestReader(), _GeneratedNames()
    shared: dict[Any, Any] = {}
    field_errors: list[FieldError] = []
    field_notes: list[FieldError] = []
    collections = Collection(), Collection()
    for collection, files, trusted in zip(collections, (manifests, cluster), (False, True), strict=True):
        for name, data in files:
            for raw in reader.read_objects(name, data):
                raw = raw if trusted else names.complete(raw)
                result = read_object(
                    raw, trusted=trusted, kubelet_expressions=kubelet_expressions, cache=shared
                )
                field_errors.extend(result.errors)
                field_notes.extend(result.notes)
                if result.ignored is not None:
                    collection.ignored[result.ignored] += 1
                for decoded in result.objects:
                    if decoded.name:
                        collection.add(decoded)
    errors = [*reader.errors, *reader.locate(field_errors[:_MAX_ERRORS])]
    errors += _get_duplicate_errors(reader, collections[0].duplicates)
    if errors:
        order = {name: index for index, (name, _) in enumerate([*manifests, *cluster])}
        errors.sort(key=lambda error: (order.get(error.file, 0), error.line))
        raise InvalidInputError(errors)
    collections[0].notes = [str(note) for note in reader.locate(field_notes[:_MAX_ERRORS])]
    collections[1].listed_kinds = frozenset(reader.listed_kinds)
    return collections


class _GeneratedNames:
    """Names of objects with ``generateName``, as ``kubectl create`` makes them.

    Equal files give equal names.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._names: set[str] = set()

    def complete(self, raw: RawObject) -> RawObject:
        """Return an object with a name, if it has none and a prefix for one."""
        meta = raw.value.get("metadata")
        prefix = meta.get("generateName") if isinstance(meta, dict) and not meta.get("name") else None
        if not isinstance(meta, dict) or not isinstance(prefix, str) or not prefix:
            return raw
        name = self._generate(prefix)
        while name in self._names:
            name = self._generate(prefix)
        self._names.add(name)
        return msgspec.structs.replace(raw, value={**raw.value, "metadata": {**meta, "name": name}})

    def _generate(self, prefix: str) -> str:
        self._counts[prefix] += 1
        digest = blake2b(f"{prefix}/{self._counts[prefix]}".encode(), digest_size=_SUFFIX_LENGTH).digest()
        suffix = "".join(_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in digest)
        return prefix[:_MAX_PREFIX_LENGTH] + suffix


def _get_duplicate_errors(
    reader: ManifestReader, duplicates: Iterable[tuple[DecodedObject, DecodedObject]]
) -> list[ValidationError]:
    shown = list(duplicates)[:_MAX_ERRORS]
    # Both objects of every pair, located in one pass over the files.
    located = reader.locate(
        [decoded.source.error_at(("metadata", "name"), "") for pair in shown for decoded in pair]
    )
    errors = []
    for (_, second), first_at, second_at in zip(shown, located[::2], located[1::2], strict=True):
        name = f"{second.namespace}/{second.name}" if second.namespace else second.name
        message = f"{second.kind} {name} is defined twice; first in {first_at.file}:{first_at.line}"
        errors.append(ValidationError(second_at.file, second_at.line, second_at.field, message))
    return errors


def _find_pod_spec(raw: dict[str, Any]) -> Any:
    """Return the spec of a pod, or that in the template of a workload."""
    spec = raw.get("spec")
    for key in ("jobTemplate", "template"):
        inner = spec.get(key) if isinstance(spec, dict) else None
        spec = inner.get("spec") if isinstance(inner, dict) else spec
    return spec


def get_latest_time(raw: dict[str, Any]) -> str:
    """Return the latest timestamp of an object; RFC 3339 times in UTC sort as text."""
    status = raw.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    meta = raw.get("metadata")
    times = [meta.get("creationTimestamp") if isinstance(meta, dict) else None]
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict):
            times += [condition.get("lastHeartbeatTime"), condition.get("lastTransitionTime")]
    return max((time for time in times if isinstance(time, str)), default="")
