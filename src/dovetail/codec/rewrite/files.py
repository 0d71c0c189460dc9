"""Files with older Karpenter objects, rewritten as what they mean today."""

from collections.abc import Iterator, Sequence
from typing import Any

from dovetail.codec.conversion.converted_object import Raw, Remark, mapping
from dovetail.codec.conversion.renames import Renaming
from dovetail.codec.inputs.collection import NamedFile
from dovetail.codec.inputs.decoders import is_of_older_version, read_object
from dovetail.codec.rewrite.rewritten_object import Rewritten, misplaced_at, move_kubelets
from dovetail.codec.rewrite.source_text import document_texts
from dovetail.codec.text.documents import Files, Misplaced, RawObject
from dovetail.codec.text.yaml_reader import Unreadable, YamlReader
from dovetail.errors import BadInput

_KEPT_METADATA = ("name", "generateName", "labels", "annotations", "finalizers")
_COMPUTED = (
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "kubectl.kubernetes.io/last-applied-configuration",
)
"""Annotations that programs write; what they say of the old object is false of the new one."""
_GLOBAL_SETTINGS = "karpenter-global-settings"
_SETTINGS_REMARK = (
    "Nothing reads this ConfigMap any more: settings are environment variables of the controller "
    "(settings.* in its Helm chart)."
)


def convert_files(files: Sequence[NamedFile]) -> list[Rewritten]:
    """Rewrite every object of some files; raises ``BadInput`` with all mistakes.

    Older Karpenter objects become v1 objects. Of all others only labels,
    annotations and taints that have other names today change.
    """
    reader = Files()
    found: list[Rewritten] = []
    misplaced: list[Misplaced] = []
    for file, data in files:
        for raw in reader.objects(file, data):
            found.extend(_rewritten(raw, misplaced))
    misplaced.extend(_twins(found))
    misplaced.extend(move_kubelets(found, {(one.file, one.document) for one in misplaced}))
    mistakes = [*reader.mistakes, *reader.placed(dict.fromkeys(misplaced))]
    if mistakes:
        order = {name: index for index, (name, _) in enumerate(files)}
        raise BadInput(sorted(mistakes, key=lambda one: (order[one.file], one.line)))
    _keep_text(found, dict(files))
    return found


def _rewritten(raw: RawObject, misplaced: list[Misplaced]) -> Iterator[Rewritten]:
    older = is_of_older_version(raw.value)
    header = [raw.value.get(name) for name in ("apiVersion", "kind")]
    named = all(isinstance(one, str) and one for one in header)
    if named and not str(header[0]).startswith("karpenter."):
        renaming = Renaming(raw.value)
        misplaced.extend(misplaced_at(raw, path, why) for path, why in renaming.problems)
        yield Rewritten(renaming.value, [*renaming.remarks, *_settings(raw)], raw, older=False)
        return
    read = read_object(raw, pool={})
    misplaced.extend(read.mistakes)
    if not older:
        for one in read.objects:
            yield Rewritten(one.today, [], raw, older=False, decoded=one)
        if read.ignored is not None:
            yield Rewritten(raw.value, [], raw, older=False)
        return
    origin = f"Was {raw.value['kind']} ({raw.value['apiVersion']}) in {raw.file}."
    for one in read.objects:
        renaming = Renaming(_without_traces(one.today))
        remarks = [((), origin), *one.remarks, *renaming.remarks]
        yield Rewritten(renaming.value, remarks, raw, older=True, decoded=one)


def _settings(raw: RawObject) -> list[Remark]:
    meta = mapping(raw.value.get("metadata"))
    known = raw.value.get("kind") == "ConfigMap" and meta.get("name") == _GLOBAL_SETTINGS
    return [((), _SETTINGS_REMARK)] if known else []


def _without_traces(value: Raw) -> Raw:
    """Leave out what a cluster said about the old object: status, uid, hashes."""
    meta = {key: one for key, one in value["metadata"].items() if key in _KEPT_METADATA}
    noted = mapping(meta.pop("annotations", None))
    kept = {key: one for key, one in noted.items() if key not in _COMPUTED}
    if kept:
        meta["annotations"] = kept
    return {**{key: one for key, one in value.items() if key != "status"}, "metadata": meta}


def _twins(found: list[Rewritten]) -> list[Misplaced]:
    """Two objects may come to have one name, as a Provisioner's class and a template."""
    seen: dict[tuple[Any, Any, str], Rewritten] = {}
    twins = []
    for one in found:
        key = (one.value.get("apiVersion"), one.value.get("kind"), one.name)
        ours = str(key[0]).startswith("karpenter.") and one.name
        first = seen.setdefault(key, one)
        if ours and first is not one:
            kind, name = one.value["kind"], one.name
            why = f"{kind} {name} would be there twice; the first is in {first.source.file}"
            twins.append(misplaced_at(one.source, ("metadata", "name"), why))
    return twins


def _keep_text(found: list[Rewritten], files: dict[str, bytes]) -> None:
    """Find the own text of objects that nothing happened to, comments and all."""
    texts: dict[str, list[str]] = {}
    for one in found:
        raw = one.source
        if one.value is not raw.value or one.remarks or raw.path:
            continue
        if raw.file not in texts:
            texts[raw.file] = document_texts(raw.file, files[raw.file])
        own = texts[raw.file][raw.document : raw.document + 1]
        if own and _reads_as(own[0], raw.value):
            one.text = own[0]


def _reads_as(text: str, value: Raw) -> bool:
    if text.startswith(("---", "%", "{")):
        return False
    try:
        return [one.value for one in YamlReader("", text.encode()).objects()] == [value]
    except Unreadable:
        return False
