"""An account on moto and a process that buys from it, for tests that look into both."""

from datetime import UTC, datetime

import msgspec

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import Instance
from tests.simulator.ec2.place import CATALOG, PRICES, REGION, a_claim
from tests.support.moto.process import AwsProcess, Site
from tests.support.moto.server import MotoAws

NEW = datetime(2100, 1, 1, tzinfo=UTC)
"""Later than any process started: nobody can have bought for such a claim before."""


def a_site(moto: MotoAws) -> Site:
    moto.reset()
    return Site(moto, REGION, CATALOG, PRICES)


def claims(many: int, name: str = "default") -> list[NodeClaim]:
    """Claims that are alike."""
    return [
        msgspec.structs.replace(a_claim(f"{name}-{number:03}"), created=NEW)
        for number in range(many)
    ]


def bought(process: AwsProcess, wanted: list[NodeClaim]) -> list[Instance]:
    """Buy all at the same moment; none may fail."""
    outcomes = process.together([process.cloud.create(claim) for claim in wanted])
    for one in outcomes:
        if isinstance(one, Exception):
            raise one
    return [one for one in outcomes if isinstance(one, Instance)]
