"""A burst of interruption messages, from SQS in moto to deleted claims."""

from datetime import timedelta
from time import process_time
from typing import Any

import boto3

from dovetail.aws.interruption.sqs import SqsInterruptionQueue
from dovetail.aws.session import MAX_THREADS, AwsSession
from dovetail.controllers.interruption import controller as interruption
from dovetail.controllers.runtime.manager import ControllerManager
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.kube_client import start_reflectors
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from tests.support.aws import interruption_events
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests
from tests.support.moto.sqs import left_in, make_large
from tests.support.simulator.realtime_cluster import Cluster, until
from tests.support.telemetry import RecordedLog, RecordedMetrics

MANY = 1000
FINALIZERS = ["test/held"]
REGION = "us-east-1"


def send_all(url: str) -> Any:
    """Send many interruption messages to a queue; return its client."""
    sqs = boto3.client("sqs", region_name=REGION, endpoint_url=url)
    queue = sqs.create_queue(QueueName="storm")["QueueUrl"]
    make_large("storm", region=REGION)
    for start in range(0, MANY, 10):
        entries = [
            {"Id": str(number), "MessageBody": interruption_events.spot(f"i-{number}")}
            for number in range(start, start + 10)
        ]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    return sqs


async def take_all(url: str) -> float:
    """Return the CPU seconds until all claims are deleted and the queue is empty.

    CPU time instead of wall time, because other processes share the host.
    """
    cluster, loop, random = Cluster(), AsyncioEventLoop(), SystemRandomSource()
    for number in range(MANY):
        instance = f"aws:///us-east-1a/i-{number}"
        created = manifests.claim(f"claim-{number}", finalizers=FINALIZERS, provider_id=instance)
        cluster.api.create(NODE_CLAIMS, created)
        status = {"status": created["status"]}
        name = created["metadata"]["name"]
        cluster.api.patch(NODE_CLAIMS, name, status, PatchType.MERGE, subresource="status")
    cache, offload = ClusterCache(), ThreadExecutor(MAX_THREADS)
    log, metrics = RecordedLog(), RecordedMetrics()
    stops = start_reflectors(cache, cluster.api, cluster.clock)
    aws = AwsSession(loop=loop, executor=offload, random=random, region=REGION, endpoint_url=url)
    context = ControllerEnvironment().context(
        cache=cache,
        kube=WriteThroughClient(cluster.kube, cache),
        interruption_queue=SqsInterruptionQueue(
            aws, name="storm", loop=loop, random=random, log=log, poll_wait=timedelta(seconds=1)
        ),
        loop=loop,
        log=log,
        metrics=metrics,
    )
    async with cluster:
        started = process_time()
        controller = interruption.controller(context)
        ControllerManager([controller], context).start()
        await until(
            lambda: not left_in("storm", region=REGION) and all(claim.deleting for claim in cache.claims()),
            within=30,
        )
        elapsed = process_time() - started
        await loop.stop()
    for stop in stops:
        stop()
    offload.close()
    assert not log.entries("reconciler error")
    return elapsed
