"""Learns in which partition of its placement group a machine has come to be."""

from datetime import timedelta
from typing import Final

import msgspec

from dovetail.controllers.nodeclaim.lifecycle.registration import Answer
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import Cloud

_SOON: Final = timedelta(seconds=1)


class Partitions:
    """A ``registration.Hook``: pods may be spread by it, so it must be known first.

    A claim whose label is there and empty is in a group of partitions of which EC2
    has chosen one.
    """

    name = "placement-group-partition"

    def __init__(self, *, cloud: Cloud) -> None:
        self._cloud = cloud

    async def before_registration(self, claim: NodeClaim) -> Answer:
        key = label_keys.PLACEMENT_GROUP_PARTITION
        if claim.labels.get(key) != "":
            return Answer(claim)
        partition = (await self._cloud.get(claim.provider_id)).partition
        if not partition:
            return Answer(claim, again_in=_SOON)
        labels = claim.labels.with_items({key: partition})
        return Answer(msgspec.structs.replace(claim, labels=labels))
