"""Objects of any known kind, read and written without losing what we do not know.

Carrying a change of the model over to a document that knows more.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import yaml

from dovetail.codec.inputs.collection import NamedFile
from dovetail.codec.inputs.decoders import Decoded, read_object
from dovetail.codec.karpenter.nodeclaims import encode_node_claim
from dovetail.codec.karpenter.nodeclasses import encode_node_class
from dovetail.codec.karpenter.nodepool_encoding import encode_node_pool
from dovetail.codec.kube.pod_encoding import encode_pod
from dovetail.codec.text.documents import Files, Misplaced, RawObject
from dovetail.codec.text.yaml_scalars import reads_as_text
from dovetail.errors import BadInput
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod


def carry_over(raw: Any, before: Any, after: Any) -> Any:
    """Return ``raw`` with the difference between ``before`` and ``after`` made to it.

    ``before`` and ``after`` are what the model would write. Whatever they agree
    on keeps the user's own spelling; whatever neither knows stays. Of a list,
    entries that were there before keep what only the document knows of them.
    """
    if before == after:
        return raw
    if isinstance(after, dict):
        return _carry_map(raw, before if isinstance(before, dict) else {}, after)
    if isinstance(after, list) and isinstance(before, list) and isinstance(raw, list):
        return _carry_list(raw, before, after)
    return after


def _carry_map(raw: Any, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    changed = dict(raw) if isinstance(raw, dict) else {}
    for key in before.keys() - after.keys():
        changed.pop(key, None)
    for key, value in after.items():
        if key not in before or before[key] != value:
            changed[key] = carry_over(changed.get(key), before.get(key), value)
    return changed


def _carry_list(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(raw) != len(before):
        return after
    if len(before) == len(after):
        return [carry_over(*three) for three in zip(raw, before, after, strict=True)]
    left = list(zip(before, raw, strict=True))
    changed = []
    for value in after:
        for number, (old, own) in enumerate(left):
            if old == value:
                changed.append(own)
                del left[number]
                break
        else:
            changed.append(value)
    return changed


_ENCODERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    NodePool: encode_node_pool,
    NodeClaim: encode_node_claim,
    NodeClass: encode_node_class,
    Pod: encode_pod,
}


class Document(msgspec.Struct, frozen=True):
    """An object as the model sees it, and all that its author wrote."""

    raw: dict[str, Any]
    model: Any
    """None for kinds that mean nothing to us."""
    source: RawObject | None = None

    def with_model(self, model: Any) -> "Document":
        """Return the document after a change; what the model does not know stays."""
        if model == self.model:
            return self
        encode = _ENCODERS.get(type(model))
        if encode is None:
            raise ValueError(f"objects of kind {self.raw.get('kind')} can be read, not changed")
        raw = carry_over(self.raw, encode(self.model), encode(model))
        return Document(raw, model, self.source)


def document_of(model: Any) -> Document:
    """Return a new document for a NodePool, NodeClaim, EC2NodeClass or Pod."""
    return Document(_ENCODERS[type(model)](model), model)


def read_documents(files: Sequence[NamedFile]) -> list[Document]:
    """Read every object of some files; raises ``BadInput`` with all mistakes.

    Older Karpenter objects come out as the v1 objects that they mean.
    """
    reader = Files()
    shared: dict[Any, Any] = {}
    found: list[Document] = []
    misplaced: list[Misplaced] = []
    for name, data in files:
        for raw in reader.objects(name, data):
            read = read_object(raw, pool=shared)
            misplaced.extend(read.mistakes)
            found.extend(_document(raw, one) for one in read.objects)
            if read.ignored is not None:
                found.append(Document(raw.value, None, raw))
    mistakes = [*reader.mistakes, *reader.placed(misplaced)]
    if mistakes:
        raise BadInput(sorted(mistakes, key=lambda one: (one.file, one.line)))
    return found


def _document(raw: RawObject, one: Decoded) -> Document:
    return Document(one.today, one.model, raw)


def to_yaml(documents: Iterable[Document]) -> str:
    """Write documents as YAML, in the order and with the keys as they are."""
    return yaml.dump_all(
        (one.raw for one in documents),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=1_000_000,
    )


def to_json(documents: Iterable[Document]) -> str:
    """Write documents as JSON: one object, or a List of several."""
    raws = [one.raw for one in documents]
    whole = raws[0] if len(raws) == 1 else {"apiVersion": "v1", "kind": "List", "items": raws}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


class _Dumper(yaml.CSafeDumper):
    """Writes text so that Kubernetes reads it as text: ``1e3`` and ``on`` get quotes."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _show_text(dumper: Any, text: str) -> Any:
    style = None if reads_as_text(text) else "'"
    if "\n" in text:
        style = "|"  # Scripts stay readable; where that cannot be, libyaml falls back to quotes.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _show_text)
