"""Documents that keep unknown fields and spelling when the model changes.

wire object --decode--> model --change--> model'
|                                      |
+---- merge_changes(encode(model), encode(model')) --> wire object'
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dovetail.codec.inputs.collection import NamedFile
from dovetail.codec.inputs.decoders import read_object
from dovetail.codec.karpenter.nodeclaims import encode_nodeclaim
from dovetail.codec.karpenter.nodeclasses import encode_nodeclass
from dovetail.codec.karpenter.nodepool_encoding import encode_nodepool
from dovetail.codec.kube.pod_encoding import encode_pod
from dovetail.codec.text.documents import FieldError, ManifestReader, RawObject
from dovetail.errors import InvalidInputError
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod


def merge_changes(raw: Any, before: Any, after: Any) -> Any:
    """Return ``raw`` with the difference between ``before`` and ``after`` applied.

    ``before`` and ``after`` are encoded models. Values equal in both keep the user's
    spelling, and fields in neither stay. List items that existed before keep their
    unknown fields.
    """
    if before == after:
        return raw
    if isinstance(after, dict):
        return _merge_map(raw, before if isinstance(before, dict) else {}, after)
    if isinstance(after, list) and isinstance(before, list) and isinstance(raw, list):
        return _merge_list(raw, before, after)
    return after


def _merge_map(raw: Any, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    changed = dict(raw) if isinstance(raw, dict) else {}
    for key in before.keys() - after.keys():
        changed.pop(key, None)
    for key, value in after.items():
        if key not in before or before[key] != value:
            changed[key] = merge_changes(changed.get(key), before.get(key), value)
    return changed


def _merge_list(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(raw) != len(before):
        return after
    if len(before) == len(after):
        return [merge_changes(*triple) for triple in zip(raw, before, after, strict=True)]
    unmatched = list(zip(before, raw, strict=True))
    changed = []
    for value in after:
        for number, (old, own) in enumerate(unmatched):
            if old == value:
                changed.append(own)
                del unmatched[number]
                break
        else:
            changed.append(value)
    return changed


_ENCODERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    NodePool: encode_nodepool,
    NodeClaim: encode_nodeclaim,
    EC2NodeClass: encode_nodeclass,
    Pod: encode_pod,
}


class Document(msgspec.Struct, frozen=True):
    """An object in wire format, and its decoded model."""

    raw: dict[str, Any]
    model: Any
    """None for kinds that are not decoded."""
    source: RawObject | None = None

    def with_model(self, model: Any) -> "Document":
        """Return the document with a changed model; unknown fields stay."""
        if model == self.model:
            return self
        encode = _ENCODERS.get(type(model))
        if encode is None:
            raise ValueError(f"objects of kind {self.raw.get('kind')} can be read, not changed")
        raw = merge_changes(self.raw, encode(self.model), encode(model))
        return Document(raw, model, self.source)


def new_document(model: Any) -> Document:
    """Return a new document for a NodePool, NodeClaim, EC2NodeClass or Pod."""
    return Document(_ENCODERS[type(model)](model), model)


def read_documents(files: Sequence[NamedFile]) -> list[Document]:
    """Read every object of the files; raises ``InvalidInputError`` with all errors.

    Objects of older Karpenter versions are converted to v1.
    """
    reader = ManifestReader()
    shared: dict[Any, Any] = {}
    documents: list[Document] = []
    field_errors: list[FieldError] = []
    for name, data in files:
        for raw in reader.read_objects(name, data):
            read = read_object(raw, unknown_fields=True, cache=shared)
            field_errors.extend(read.errors)
            documents.extend(Document(decoded.current, decoded.model, raw) for decoded in read.objects)
            if read.ignored is not None:
                documents.append(Document(raw.value, None, raw))
    errors = [*reader.errors, *reader.locate(field_errors)]
    if errors:
        raise InvalidInputError(sorted(errors, key=lambda error: (error.file, error.line)))
    return documents
