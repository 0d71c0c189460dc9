"""Looking into Terraform's sources, as far as needs no Terraform.

Blocks are found by their braces. Comments and quoted text are left out
first, so that a commented block is none.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.doctor.facts import Facts

_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\\n])*")|#[^\n]*|//[^\n]*|/\*.*?\*/', re.DOTALL)
_HEAD: Final = re.compile(
    r'^[ \t]*(resource|data|module|provider)((?:[ \t]+"[^"\n]+")+)[ \t]*\{', re.MULTILINE
)
_EKS_MODULE: Final = re.compile(r'source"?\s*[=:]\s*"[^"]*terraform-aws-(?:modules/eks/aws"|eks)')


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a source: ``resource "aws_eks_cluster" "this" { … }``."""

    file: str
    kind: str
    labels: tuple[str, ...]
    body: str


def blocks(facts: Facts) -> Iterator[Block]:
    """Hand out the blocks of all files."""
    for name, text in facts.files.terraform.items():
        if name.endswith(".tf"):
            yield from _blocks(name, text)
        elif name.endswith(".tf.json"):
            yield from _json_blocks(name, text)


def _blocks(name: str, text: str) -> Iterator[Block]:
    bare = _COMMENT.sub(lambda found: found.group(1) or " ", text)
    for head in _HEAD.finditer(bare):
        yield Block(
            file=name,
            kind=head.group(1),
            labels=tuple(re.findall(r'"([^"]+)"', head.group(2))),
            body=_body(bare, head.end()),
        )


def _body(text: str, start: int) -> str:
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return text[start:]


def _json_blocks(name: str, text: str) -> Iterator[Block]:
    try:
        told = json.loads(text)
    except ValueError:
        return
    if not isinstance(told, dict):
        return
    for kind in ("resource", "data"):
        for type_name, ones in _items(told.get(kind)):
            for label, body in _items(ones):
                yield Block(file=name, kind=kind, labels=(type_name, label), body=json.dumps(body))
    for kind in ("module", "provider"):
        for label, body in _items(told.get(kind)):
            yield Block(file=name, kind=kind, labels=(label,), body=json.dumps(body))


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def makes_cluster(block: Block) -> bool:
    """Tell whether a block makes an EKS cluster."""
    if block.kind == "resource":
        return block.labels[0] == "aws_eks_cluster"
    return block.kind == "module" and _EKS_MODULE.search(block.body) is not None
