"""Tags machines with their node's and claim's names, for people who look at the cloud."""

import re
from datetime import timedelta
from typing import Final

from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import InstanceNotFound, Tagging
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import Change, Mirror

_TAGGED: Final = f"{label_keys.AWS_DOMAIN}/tagged"
_CLUSTER_TAGGED: Final = f"compatibility.{label_keys.AWS_DOMAIN}/cluster-name-tagged"
_DONE: Final = {_TAGGED: "true", _CLUSTER_TAGGED: "true"}
_PROVIDER_ID: Final = re.compile(r"aws:///[^/]+/i-[0-9a-z]+")
_PAUSE: Final = timedelta(milliseconds=200)
"""After each call: launches share the account's limits, and tags can wait."""


class MachineTagging:
    """Once for each claim, when its node has a name."""

    def __init__(self, *, mirror: Mirror, kube: Kube, loop: Loop, tagging: Tagging) -> None:
        self._mirror = mirror
        self._kube = kube
        self._loop = loop
        self._tagging = tagging

    async def reconcile(self, name: str) -> Requeue | None:
        claim = self._mirror.claim(name)
        if claim is None or not _is_due(claim):
            return None
        try:
            await self._tagging.tag(claim.provider_id, node=claim.node_name, claim=claim.name)
            await self._kube.patch(NODE_CLAIMS, claim.name, {"metadata": {"annotations": _DONE}})
        except (InstanceNotFound, NotFound):
            return None  # Garbage collection sees to the rest.
        await self._loop.sleep(_PAUSE)
        return None


def _is_due(claim: NodeClaim) -> bool:
    return (
        claim.node_class.supported
        and not claim.deleting
        and bool(claim.node_name)
        and _PROVIDER_ID.fullmatch(claim.provider_id) is not None
        and any(claim.annotations.get(key) != value for key, value in _DONE.items())
    )


def _due(change: Change) -> tuple[str, ...]:
    claim: NodeClaim | None = change.new
    return (claim.name,) if claim is not None and _is_due(claim) else ()


def registration(
    *, mirror: Mirror, kube: Kube, loop: Loop, tagging: Tagging | None = None
) -> Registration:
    """Return the controller; without somebody who tags it is never asked."""
    if tagging is None:
        return Registration(name="nodeclaim.tagging", controller=_Nobody())
    return Registration(
        name="nodeclaim.tagging",
        controller=MachineTagging(mirror=mirror, kube=kube, loop=loop, tagging=tagging),
        watches=[(NODE_CLAIMS, _due)],
        workers=1,
    )


class _Nobody:
    async def reconcile(self, _: object) -> None:
        """Nothing is ever asked."""
