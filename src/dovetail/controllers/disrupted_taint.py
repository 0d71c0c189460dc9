"""Puts the taint of nodes that are to go on a node, and takes it off."""

from collections.abc import Mapping
from typing import Any

from dovetail.codec.patches.nodes import with_taint, without_taint
from dovetail.model.kube.taints import DISRUPTED
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODES
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Log

_NO_LABELS: Mapping[str, str] = {}


async def put_mark(
    node: NodeObject, labels: Mapping[str, str] = _NO_LABELS, *, kube: Kube, log: Log
) -> None:
    """Keep new pods away from a node, and give it labels."""
    tainted = DISRUPTED in node.taints
    if tainted and all(node.labels.get(key) == value for key, value in labels.items()):
        return
    found = await kube.get(NODES, node.name)
    await kube.patch(NODES, node.name, _locked(found, with_taint(found, DISRUPTED), labels))
    if not tainted:
        log.info("tainted node", node=node.name, taint=str(DISRUPTED))


async def take_mark(node: NodeObject, *, kube: Kube, log: Log) -> None:
    """Let pods come to a node again."""
    found = await kube.get(NODES, node.name)
    await kube.patch(NODES, node.name, _locked(found, without_taint(found, DISRUPTED), _NO_LABELS))
    log.info("untainted node", node=node.name, taint=str(DISRUPTED))


def _locked(
    node: Mapping[str, Any], taints: list[dict[str, Any]], labels: Mapping[str, str]
) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": node["metadata"]["resourceVersion"]}
    if labels:
        meta["labels"] = dict(labels)
    return {"metadata": meta, "spec": {"taints": taints}}
