"""Whether we may do all that we will have to, asked before anything is done."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dovetail.kube.connection import Connection
from dovetail.kube.preflight import Unsuitable
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    EVENTS,
    NODE_CLAIMS,
    NODE_OVERLAYS,
    NODE_POOLS,
    NODES,
    POD_TEMPLATES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import Forbidden, NotFound

_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Right(msgspec.Struct, frozen=True):
    """To do something to all objects of a kind."""

    verb: str
    resource: Resource
    subresource: str = ""

    def __str__(self) -> str:
        plural, _, group = self.resource.qualified.partition(".")
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {plural}{part}{'.' + group if group else ''}"


WRITES: Final = (
    Right("create", NODE_CLAIMS),
    Right("patch", NODE_CLAIMS),
    Right("patch", NODE_CLAIMS, "status"),
    Right("delete", NODE_CLAIMS),
    Right("patch", NODE_POOLS),
    Right("patch", NODE_POOLS, "status"),
    Right("patch", EC2_NODE_CLASSES),
    Right("patch", EC2_NODE_CLASSES, "status"),
    Right("patch", NODES),
    Right("delete", NODES),
    Right("create", PODS, "eviction"),
    Right("delete", PODS),
    Right("create", EVENTS),
)


BY_GATE: Final[Mapping[str, tuple[Right, ...]]] = {
    "NominatedNodeName": (Right("patch", PODS, "status"),),
    "NodeOverlay": (Right("patch", NODE_OVERLAYS, "status"),),
    "CapacityBuffer": (
        Right("patch", CAPACITY_BUFFERS, "status"),
        Right("get", POD_TEMPLATES),
        Right("get", DEPLOYMENTS),
        Right("get", REPLICA_SETS),
        Right("get", STATEFUL_SETS),
    ),
}
"""What is needed besides where something is switched on."""


async def check_rights(
    connection: Connection,
    *,
    read: Iterable[Resource],
    gates: Gates = Gates(),  # noqa: B008 - frozen
) -> None:
    """Raise, naming all that is missing, unless we may read these kinds and write ours."""
    wanted = [Right(verb, one) for one in read for verb in ("list", "watch")]
    wanted += WRITES
    for gate, besides in BY_GATE.items():
        wanted += besides if getattr(gates, gate) else ()
    try:
        allowed = await asyncio.gather(*(_is_allowed(connection, one) for one in wanted))
    except (Forbidden, NotFound):
        return  # Who is not told what is allowed will find out.
    missing = [str(one) for one, is_so in zip(wanted, allowed, strict=True) if not is_so]
    if missing:
        raise Unsuitable(
            f"our user in the cluster may not {', '.join(missing)}; give it the chart's ClusterRole"
        )


async def _is_allowed(connection: Connection, right: Right) -> bool:
    attributes = {
        "verb": right.verb,
        "group": right.resource.group,
        "resource": right.resource.plural,
        "subresource": right.subresource,
    }
    question: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    # Sent as a write, but a question: those who do not lead may ask it.
    answer = await connection.ask("POST", _PATH, body=question, changes=False)
    return bool((answer.get("status") or {}).get("allowed"))
