"""Rewriting of files with objects of older Karpenter versions (`dovetail convert`)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import yaml

from dovetail.codec.conversion.converted_object import ConversionNote, RawObjectValue, copy_map
from dovetail.codec.conversion.renames import KeyRenames
from dovetail.codec.inputs.collection import NamedFile
from dovetail.codec.inputs.decoders import is_legacy_object, read_object
from dovetail.codec.rewrite.rewritten_object import RewrittenObject, move_kubelets
from dovetail.codec.text.documents import FieldError, ManifestReader, RawObject
from dovetail.codec.text.encoding import to_utf8
from dovetail.codec.text.yaml_reader import ParseError, YamlReader
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model import labels as label_keys

_KEPT_METADATA = ("name", "generateName", "labels", "annotations", "finalizers")
_COMPUTED = (
    "karpenter.sh/provisioner-hash",
    label_keys.NODEPOOL_HASH,
    label_keys.NODEPOOL_HASH_VERSION,
    "karpenter.k8s.aws/nodetemplate-hash",
    label_keys.EC2_NODE_CLASS_HASH,
    label_keys.EC2_NODE_CLASS_HASH_VERSION,
    "kubectl.kubernetes.io/last-applied-configuration",
)
"""Annotations that controllers write about the old object, invalid for the new one."""
_GLOBAL_SETTINGS = "karpenter-global-settings"
_SETTINGS_NOTE = (
    "This ConfigMap has no effect in v1: settings are environment variables of the controller "
    "(settings.* in its Helm chart)."
)


def convert_files(files: Sequence[NamedFile]) -> list[RewrittenObject]:
    """Rewrite all objects of the files; raises ``InvalidInputError`` with all errors.

    Objects of older Karpenter versions become v1 objects. In all other objects only
    renamed labels, annotations and taints change.
    """
    reader = ManifestReader()
    rewritten: list[RewrittenObject] = []
    field_errors: list[FieldError] = []
    for file, data in files:
        for raw in reader.read_objects(file, data):
            rewritten.extend(_rewrite(raw, field_errors))
    field_errors.extend(_find_duplicates(rewritten))
    field_errors.extend(move_kubelets(rewritten, {(error.file, error.document) for error in field_errors}))
    errors = [*reader.errors, *reader.locate(dict.fromkeys(field_errors))]
    if errors:
        order = {name: index for index, (name, _) in enumerate(files)}
        raise InvalidInputError(sorted(errors, key=lambda error: (order[error.file], error.line)))
    _keep_original_text(rewritten, dict(files))
    return rewritten


def _rewrite(raw: RawObject, field_errors: list[FieldError]) -> Iterator[RewrittenObject]:
    older = is_legacy_object(raw.value)
    header = [raw.value.get(name) for name in ("apiVersion", "kind")]
    named = all(isinstance(value, str) and value for value in header)
    if named and not str(header[0]).startswith("karpenter."):
        renaming = KeyRenames(raw.value)
        field_errors.extend(raw.error_at(path, message) for path, message in renaming.errors)
        yield RewrittenObject(
            renaming.value, [*renaming.notes, *_settings_notes(raw)], raw, is_converted=False
        )
        return
    read = read_object(raw, unknown_fields=True, cache={})
    field_errors.extend(read.errors)
    if not older:
        for decoded in read.objects:
            yield RewrittenObject(decoded.current, [], raw, is_converted=False, decoded=decoded)
        if read.ignored is not None:
            yield RewrittenObject(raw.value, [], raw, is_converted=False)
        return
    origin = f"Was {raw.value['kind']} ({raw.value['apiVersion']}) in {raw.file}."
    for decoded in read.objects:
        renaming = KeyRenames(_drop_cluster_fields(decoded.current))
        notes = [((), origin), *decoded.notes, *renaming.notes]
        yield RewrittenObject(renaming.value, notes, raw, is_converted=True, decoded=decoded)


def _settings_notes(raw: RawObject) -> list[ConversionNote]:
    meta = copy_map(raw.value.get("metadata"))
    is_settings = raw.value.get("kind") == "ConfigMap" and meta.get("name") == _GLOBAL_SETTINGS
    return [((), _SETTINGS_NOTE)] if is_settings else []


def _drop_cluster_fields(value: RawObjectValue) -> RawObjectValue:
    """Drop fields that a cluster set on the old object: status, UID, hashes."""
    meta = {key: item for key, item in value["metadata"].items() if key in _KEPT_METADATA}
    annotations = copy_map(meta.pop("annotations", None))
    kept = {key: item for key, item in annotations.items() if key not in _COMPUTED}
    if kept:
        meta["annotations"] = kept
    return {**{key: item for key, item in value.items() if key != "status"}, "metadata": meta}


def _find_duplicates(objects: list[RewrittenObject]) -> list[FieldError]:
    """Return errors for converted objects of equal kind and name.

    A Provisioner with an inline provider and an AWSNodeTemplate can both become an
    EC2NodeClass of one name.
    """
    first_by_name: dict[tuple[Any, Any, str], RewrittenObject] = {}
    duplicates = []
    for rewritten in objects:
        key = (rewritten.value.get("apiVersion"), rewritten.value.get("kind"), rewritten.name)
        is_karpenter = str(key[0]).startswith("karpenter.") and rewritten.name
        first = first_by_name.setdefault(key, rewritten)
        if is_karpenter and first is not rewritten:
            kind, name = rewritten.value["kind"], rewritten.name
            message = f"{kind} {name} would exist twice; the first is in {first.source.file}"
            duplicates.append(rewritten.source.error_at(("metadata", "name"), message))
    return duplicates


def _keep_original_text(objects: list[RewrittenObject], files: dict[str, bytes]) -> None:
    """Set the original text, with comments, of objects that did not change."""
    texts: dict[str, list[str]] = {}
    for rewritten in objects:
        raw = rewritten.source
        if rewritten.value is not raw.value or rewritten.notes or raw.path:
            continue
        if raw.file not in texts:
            texts[raw.file] = _split_documents(raw.file, files[raw.file])
        original = texts[raw.file][raw.document : raw.document + 1]
        if original and _parses_as(original[0], raw.value):
            rewritten.text = original[0]


def _parses_as(text: str, value: RawObjectValue) -> bool:
    if text.startswith(("---", "%", "{")):
        return False
    try:
        return [parsed.value for parsed in YamlReader("", text.encode()).read_objects()] == [value]
    except ParseError:
        return False


def _split_documents(file: str, data: bytes) -> list[str]:
    """Return the text of each document of a valid YAML file, with comments.

    The index is that of ``YamlReader``; text above the first document belongs to
    it. A JSON file has no documents.
    """
    utf8 = to_utf8(file, data)
    if isinstance(utf8, ValidationError) or utf8[:4096].lstrip()[:1] in (b"{", b"["):
        return []
    text = utf8.decode()
    starts: list[Any] = [
        event.start_mark
        for event in yaml.parse(text, Loader=yaml.CSafeLoader)
        if isinstance(event, yaml.DocumentStartEvent)
    ]
    lines = text.replace("\r\n", "\n").split("\n")
    bounds = [0, *(start.line for start in starts[1:]), len(lines)]
    return [_drop_document_markers(lines[start:end]) for start, end in pairwise(bounds)]


def _drop_document_markers(lines: list[str]) -> str:
    kept = [line for line in lines if line.rstrip() not in ("---", "...")]
    return "\n".join(kept).strip("\n") + "\n"
