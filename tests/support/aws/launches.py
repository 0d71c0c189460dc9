"""Claims, and their launch in an account on moto."""

from datetime import UTC, datetime

import msgspec

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import Instance
from tests.simulator.ec2.harness import CATALOG, PRICES, REGION, a_claim
from tests.support.aws.provider_process import AwsAccount, AwsProcess
from tests.support.moto.server import MotoAws

NEW = datetime(2100, 1, 1, tzinfo=UTC)
"""Later than the start of any process: no instance can exist for such a claim."""


def an_account(moto: MotoAws) -> AwsAccount:
    moto.reset()
    return AwsAccount(moto, REGION, CATALOG, PRICES)


def claims(count: int, name: str = "default") -> list[NodeClaim]:
    """Return claims of one launch batch."""
    return [msgspec.structs.replace(a_claim(f"{name}-{number:03}"), created=NEW) for number in range(count)]


def launched(process: AwsProcess, batch: list[NodeClaim]) -> list[Instance]:
    """Launch all concurrently; none may fail."""
    outcomes = process.together([process.cloud.create(claim) for claim in batch])
    for result in outcomes:
        if isinstance(result, Exception):
            raise result
    return [result for result in outcomes if isinstance(result, Instance)]
