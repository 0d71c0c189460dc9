"""Tagging: tags instances with the names of their Node and NodeClaim."""

import re
from datetime import timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import annotations_patch
from dovetail.controllers.runtime.manager import Controller
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import InstanceNotFoundError, InstanceTagger
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import ObjectChange

_TAGGED: Final = {
    f"{label_keys.AWS_DOMAIN}/tagged": "true",
    f"compatibility.{label_keys.AWS_DOMAIN}/cluster-name-tagged": "true",
}
"""Annotations of NodeClaims whose instance has the tags."""
_PROVIDER_ID: Final = re.compile(r"aws:///[^/]+/i-[0-9a-z]+")
_DELAY: Final = timedelta(milliseconds=200)
"""Delay after each call: launches share the account's API limits, and tags can wait."""


class TaggingController(ControllerBase):
    """Tags an instance once, when its Node is registered."""

    def __init__(self, context: ControllerContext, tagger: InstanceTagger) -> None:
        super().__init__(context)
        self._tagger = tagger

    async def reconcile(self, name: str) -> None:
        claim = self._cache.claim(name)
        if claim is None or not _is_untagged(claim):
            return
        try:
            await self._tagger.tag(claim.provider_id, node=claim.node_name, claim=claim.name)
            await self._kube.patch(NODE_CLAIMS, claim.name, annotations_patch(_TAGGED))
        except (InstanceNotFoundError, NotFound):
            return  # Garbage collection deletes the rest.
        await self._loop.sleep(_DELAY)


def controller(context: ControllerContext) -> Controller | None:
    """Return the registration, None if the cloud provider cannot tag instances."""
    if context.instance_tagger is None:
        return None
    reconciler = TaggingController(context, context.instance_tagger)
    return Controller(
        name="nodeclaim.tagging", reconciler=reconciler, watches=[(NODE_CLAIMS, _handle_claim)], workers=1
    )


def _handle_claim(change: ObjectChange) -> tuple[str, ...]:
    claim: NodeClaim | None = change.new
    return (claim.name,) if claim is not None and _is_untagged(claim) else ()


def _is_untagged(claim: NodeClaim) -> bool:
    return (
        claim.node_class.is_supported
        and not claim.deleting
        and bool(claim.node_name)
        and _PROVIDER_ID.fullmatch(claim.provider_id) is not None
        and any(claim.annotations.get(key) != value for key, value in _TAGGED.items())
    )
