"""A storm of warnings, from moto's SQS to claims that go."""

from datetime import timedelta
from time import process_time
from typing import Any

import boto3

from dovetail.aws.interruption.sqs import SqsInterruptions
from dovetail.aws.session import THREADS, Aws
from dovetail.controllers.interruption import controller as interruption
from dovetail.controllers.runtime.manager import Runtime
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.kube_client import feed
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.write_through import ReadYourWrites
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from tests.support import warnings, wire
from tests.support.living import Cluster, until
from tests.support.moto.queues import left_in, make_large
from tests.support.telling import KeptEvents, KeptLog, KeptMetrics

MANY = 1000
HELD = ["test/held"]
REGION = "us-east-1"


def send_all(url: str) -> Any:
    """Put as many warnings into a queue; return the client that did."""
    sqs = boto3.client("sqs", region_name=REGION, endpoint_url=url)
    queue = sqs.create_queue(QueueName="storm")["QueueUrl"]
    make_large("storm", region=REGION)
    for start in range(0, MANY, 10):
        entries = [
            {"Id": str(number), "MessageBody": warnings.spot(f"i-{number}")}
            for number in range(start, start + 10)
        ]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    return sqs


async def take_all(url: str) -> float:
    """Return the seconds of work, moto's included, until all claims go and no message is left.

    Work and not time, because others use the machine on which tests run.
    """
    cluster, loop, chance = Cluster(), AsyncioLoop(), RealChance()
    for number in range(MANY):
        machine = f"aws:///us-east-1a/i-{number}"
        made = wire.claim(f"claim-{number}", finalizers=HELD, provider_id=machine)
        cluster.api.create(NODE_CLAIMS, made)
        status = {"status": made["status"]}
        name = made["metadata"]["name"]
        cluster.api.patch(NODE_CLAIMS, name, status, PatchType.MERGE, subresource="status")
    mirror, log, metrics, offload = Mirror(), KeptLog(), KeptMetrics(), ThreadOffload(THREADS)
    stops = feed(mirror, cluster.api, cluster.engine)
    aws = Aws(loop=loop, offload=offload, chance=chance, region=REGION, endpoint_url=url)
    controller = interruption.registration(
        mirror=mirror,
        kube=ReadYourWrites(cluster.kube, mirror),
        interruptions=SqsInterruptions(
            aws,
            name="storm",
            loop=loop,
            chance=chance,
            log=log,
            longest_poll=timedelta(seconds=1),
        ),
        scarcity=Scarcity(),
        loop=loop,
        log=log,
        events=KeptEvents(),
        metrics=metrics,
    )
    async with cluster:
        began = process_time()
        Runtime([controller], mirror=mirror, loop=loop, log=log, metrics=metrics).start()
        await until(
            lambda: (
                not left_in("storm", region=REGION) and all(one.deleting for one in mirror.claims())
            ),
            within=30,
        )
        took = process_time() - began
        await loop.stop()
    for stop in stops:
        stop()
    offload.close()
    assert not log.said("reconciler error")
    return took
