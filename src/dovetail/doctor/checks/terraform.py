"""Terraform sources and plans."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.doctor.check import check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import get_field, get_list, join_names

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
    """Yield the blocks of all Terraform files."""
    for name, text in facts.files.terraform.items():
        if name.endswith(".tf"):
            yield from _blocks(name, text)
        elif name.endswith(".tf.json"):
            yield from _json_blocks(name, text)


def _blocks(name: str, text: str) -> Iterator[Block]:
    code = _COMMENT.sub(lambda match: match.group(1) or " ", text)
    for head in _HEAD.finditer(code):
        yield Block(
            file=name,
            kind=head.group(1),
            labels=tuple(re.findall(r'"([^"]+)"', head.group(2))),
            body=_body(code, head.end()),
        )


def _body(text: str, start: int) -> str:
    depth = 1
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return text[start:position]
    return text[start:]


def _json_blocks(name: str, text: str) -> Iterator[Block]:
    try:
        document = json.loads(text)
    except ValueError:
        return
    if not isinstance(document, dict):
        return
    for kind in ("resource", "data"):
        for type_name, instances in _items(document.get(kind)):
            for label, body in _items(instances):
                yield Block(file=name, kind=kind, labels=(type_name, label), body=json.dumps(body))
    for kind in ("module", "provider"):
        for label, body in _items(document.get(kind)):
            yield Block(file=name, kind=kind, labels=(label,), body=json.dumps(body))


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def creates_cluster(block: Block) -> bool:
    """Return True if the block creates an EKS cluster."""
    if block.kind == "resource":
        return block.labels[0] == "aws_eks_cluster"
    return block.kind == "module" and _EKS_MODULE.search(block.body) is not None


@check(
    code="T1",
    title="cluster and kubernetes_manifest in one state",
    severity=Severity.RISK,
    detection="*.tf files: kubernetes_manifest beside aws_eks_cluster or an EKS module",
    remedy="wrap the objects in a chart, or apply them in a second step",
    needs=(Part.TERRAFORM,),
)
def manifest_in_one_state(facts: Facts) -> Iterator[Symptom]:
    """Yield kubernetes_manifest resources in the same state as their cluster."""
    all_blocks = list(blocks(facts))
    clusters = [block for block in all_blocks if creates_cluster(block)]
    manifests = [
        block for block in all_blocks if block.kind == "resource" and block.labels[0] == "kubernetes_manifest"
    ]
    if clusters and manifests:
        yield Symptom(
            about=f"terraform/{manifests[0].file}",
            seen=f"{join_names('.'.join(manifest.labels) for manifest in manifests)} beside "
            f"{'.'.join(clusters[0].labels)} in {clusters[0].file}",
            wrong="the plan fails until the cluster and its CRDs exist",
            fix="dovetail cluster render -f cluster.yaml --format terraform  # or wrap the "
            "objects in a helm_release, or use a separate state",
        )


_SOURCE = re.compile(r'"(?:[\w.-]+/)?gavinbunney/kubectl"')


@check(
    code="T2",
    title="provider gavinbunney/kubectl",
    severity=Severity.RISK,
    detection="provider sources in the lock file and in *.tf files",
    remedy="move to alekc/kubectl, or to server-side apply",
    needs=(Part.TERRAFORM,),
)
def kubectl_provider(facts: Facts) -> Iterator[Symptom]:
    """Yield files that use the provider."""
    for name, text in sorted(facts.files.terraform.items()):
        if _SOURCE.search(text):
            yield Symptom(
                about=f"terraform/{name}",
                seen="it uses the provider gavinbunney/kubectl",
                wrong="it loses track of objects and is no longer maintained",
                fix="terraform state replace-provider gavinbunney/kubectl alekc/kubectl",
            )


_OF_CLUSTERS = ("kubernetes", "helm", "kubectl")


@check(
    code="T3",
    title="state built by -target steps",
    severity=Severity.RISK,
    detection="*.tf files: provider blocks that refer to the cluster of the same state",
    remedy="split cluster and add-ons, or a tool that waits",
    needs=(Part.TERRAFORM,),
)
def providers_from_resources(facts: Facts) -> Iterator[Symptom]:
    """Yield providers that depend on a cluster of the same state."""
    all_blocks = list(blocks(facts))
    clusters = [
        ("module." if block.kind == "module" else "") + ".".join(block.labels)
        for block in all_blocks
        if creates_cluster(block)
    ]
    for block in all_blocks:
        if block.kind != "provider" or block.labels[0] not in _OF_CLUSTERS:
            continue
        references = [name for name in clusters if re.search(rf"\b{re.escape(name)}\b", block.body)]
        if references:
            yield Symptom(
                about=f"terraform/{block.file}",
                seen=f"provider {block.labels[0]} is configured from {references[0]}, created in this state",
                wrong="the first apply needs -target; a replaced cluster breaks every plan",
                fix="dovetail cluster apply -f cluster.yaml  # waits for dependencies; or "
                "use a separate state for the cluster",
            )


_KINDS = ("NodePool", "EC2NodeClass", "Provisioner", "AWSNodeTemplate")
_KIND = re.compile(r"^kind:\s*['\"]?(\w+)", re.MULTILINE)


@check(
    code="T4",
    title="change that replaces a NodePool or EC2NodeClass",
    severity=Severity.BROKEN,
    detection="a plan in JSON: delete and create of those kinds",
    remedy="change it in place, and set prevent_destroy",
    needs=(Part.PLAN,),
)
def replaced_nodepools(facts: Facts) -> Iterator[Symptom]:
    """Yield planned replacements of objects that own nodes."""
    for change in facts.files.plan:
        actions = get_list(change, "change", "actions")
        kind = _kind(get_field(change, "change", "before"))
        if kind in _KINDS and {"create", "delete"} <= set(actions):
            address = str(change.get("address"))
            yield Symptom(
                about=f"plan/{address}",
                seen=f"{kind}: {' then '.join(map(str, actions))}",
                wrong=f"deleting the {kind} drains and terminates all of its nodes",
                fix=f"add to {address}: lifecycle {{ prevent_destroy = true }}  "
                "# and change the object in place",
            )


def _kind(before: Any) -> str:
    kind = get_field(before, "manifest", "kind") or get_field(before, "kind")
    if kind:
        return str(kind)
    match = _KIND.search(str(get_field(before, "yaml_body") or ""))
    return match.group(1) if match else ""
