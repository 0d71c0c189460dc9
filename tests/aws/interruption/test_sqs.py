"""The interruption queue on moto's SQS: 131, 132 and 134 of the AWS checklist."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import boto3
import pytest

from dovetail.aws.interruption.sqs import SqsInterruptionQueue
from dovetail.aws.session import MAX_THREADS, AwsSession, RetryPolicy
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.ports.cloudprovider import CloudError, InterruptionKind, InterruptionMessage
from tests.support.aws import interruption_events
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws
from tests.support.telemetry import RecordedLog

IMPATIENT = RetryPolicy(initial_delay=timedelta(milliseconds=20), max_delay=timedelta(milliseconds=40))
_numbers = count()

pytestmark = pytest.mark.usefixtures("aws_credentials")


class Place:
    """A queue in moto, and our reader of it."""

    def __init__(self, url: str) -> None:
        self.name = f"queue-{next(_numbers)}"
        self.sqs = boto3.client("sqs", region_name="us-east-1", endpoint_url=url)
        self.log = RecordedLog()
        self._endpoint = url

    def made(self) -> "Place":
        self.url = self.sqs.create_queue(QueueName=self.name)["QueueUrl"]
        return self

    def send(self, *bodies: str) -> None:
        for start in range(0, len(bodies), 10):
            entries = [
                {"Id": str(place), "MessageBody": entry}
                for place, entry in enumerate(bodies[start : start + 10])
            ]
            self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)

    def left(self) -> int:
        """Return the number of messages, including received ones."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        message = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(int(entry) for entry in message["Attributes"].values())

    def do(self, work: Callable[[SqsInterruptionQueue], Awaitable[Any]]) -> Any:
        """Run a call of a new reader."""

        async def run() -> Any:
            loop, random = AsyncioEventLoop(), SystemRandomSource()
            offload = ThreadExecutor(MAX_THREADS)
            aws = AwsSession(
                loop=loop, executor=offload, random=random, region="us-east-1", endpoint_url=self._endpoint
            )
            queue = SqsInterruptionQueue(
                aws,
                name=self.name,
                loop=loop,
                random=random,
                log=self.log,
                poll_wait=timedelta(seconds=1),
                retry_policy=IMPATIENT,
            )
            try:
                return await work(queue)
            finally:
                offload.close()

        return asyncio.run(run())


@pytest.fixture
def place(moto: MotoAws) -> Iterator[Place]:
    moto.middleware.reset()
    created = Place(moto.url)
    yield created
    created.sqs.close()


async def take_all(queue: SqsInterruptionQueue) -> list[InterruptionMessage]:
    """Receive and remove until nothing comes."""
    taken: list[InterruptionMessage] = []
    while messages := await queue.receive():
        taken.extend(messages)
        await asyncio.gather(*map(queue.delete, messages))
    return taken


def test_a_message_is_received_and_deleted(place: Place) -> None:
    place.made().send(interruption_events.spot("i-1"))

    (message,) = place.do(take_all)

    assert (message.kind, message.instance_ids) == (InterruptionKind.SPOT_INTERRUPTED, ("i-1",))
    assert place.left() == 0


def test_a_message_arrives_during_a_long_poll(place: Place) -> None:
    place.made()

    async def send_meanwhile(queue: SqsInterruptionQueue) -> tuple[InterruptionMessage, ...]:
        hearing = asyncio.create_task(queue.receive())
        await asyncio.sleep(0.2)
        await asyncio.to_thread(place.send, interruption_events.spot("i-1"))
        return tuple(await hearing)

    (message,) = place.do(send_meanwhile)

    assert message.instance_ids == ("i-1",)


def test_undeleted_messages_stay(place: Place) -> None:
    place.made().send(interruption_events.spot("i-1"))

    place.do(lambda queue: queue.receive())

    assert place.left() == 1


def test_a_burst_of_messages_is_received_at_once(place: Place) -> None:
    place.made().send(*(interruption_events.spot(f"i-{number}") for number in range(100)))

    received = place.do(lambda queue: queue.receive())

    # Polls side by side may be shown the same message, by moto as by SQS.
    different = {entry.instance_ids for entry in received}
    assert len(different) > 80
    assert different <= {(f"i-{number}",) for number in range(100)}


@pytest.mark.parametrize(
    "body",
    [interruption_events.state("i-1", "creating"), interruption_events.event("Something else", {}), "{}"],
)
def test_irrelevant_messages_are_deleted_silently(place: Place, body: str) -> None:
    place.made().send(body)

    (message,) = place.do(take_all)

    assert message.kind is InterruptionKind.NO_OP
    assert place.left() == 0
    assert place.log.lines == []


def test_an_invalid_message_is_logged_and_deleted(place: Place) -> None:
    place.made().send("nonsense", interruption_events.spot("i-1"))

    taken = place.do(take_all)

    assert {entry.kind for entry in taken} == {InterruptionKind.NO_OP, InterruptionKind.SPOT_INTERRUPTED}
    assert place.left() == 0
    (line,) = place.log.lines
    assert line.fields["body"] == "nonsense"


def test_a_missing_queue_is_logged_once_and_retried(place: Place) -> None:
    async def make_it_after_a_while(queue: SqsInterruptionQueue) -> list[InterruptionMessage]:
        for _ in range(3):
            assert not await queue.receive()
        await asyncio.to_thread(lambda: place.made().send(interruption_events.spot("i-1")))
        return await take_all(queue)

    (message,) = place.do(make_it_after_a_while)

    assert message.instance_ids == ("i-1",)
    text, recovered = place.log.lines
    assert text.fields["queue"] == place.name
    assert "GetQueueUrl" in text.fields["error"]
    assert "NonExistentQueue" in text.fields["error"]
    assert "create the queue, or correct --interruption-queue" in text.fields["error"]
    assert recovered.message == "reading the interruption queue again"


def test_a_recreated_queue_is_read_again(place: Place) -> None:
    place.made()

    async def outlive(queue: SqsInterruptionQueue) -> list[InterruptionMessage]:
        assert not await queue.receive()
        await asyncio.to_thread(place.sqs.delete_queue, QueueUrl=place.url)
        assert not await queue.receive()
        await asyncio.to_thread(lambda: place.made().send(interruption_events.spot("i-1")))
        return await take_all(queue)

    (message,) = place.do(outlive)

    assert message.instance_ids == ("i-1",)


@pytest.mark.parametrize("operation", ["GetQueueUrl", "ReceiveMessage"])
def test_a_forbidden_queue_is_logged_once_with_advice(place: Place, moto: MotoAws, operation: str) -> None:
    place.made().send(interruption_events.spot("i-1"))
    moto.middleware.add_error(ScriptedError(operation=operation, code="AccessDenied", status=403, times=3))

    async def be_refused(queue: SqsInterruptionQueue) -> list[InterruptionMessage]:
        for _ in range(3):
            assert not await queue.receive()
        return await take_all(queue)

    (message,) = place.do(be_refused)

    assert message.instance_ids == ("i-1",)
    text, recovered = place.log.lines
    assert text.fields["error"].startswith(f"{operation}: AccessDenied")
    assert "allow the action in the IAM policy of the controller's role" in text.fields["error"]
    assert recovered.message == "reading the interruption queue again"


def test_a_failed_deletion_is_an_error_and_the_message_returns(place: Place, moto: MotoAws) -> None:
    place.made().send(interruption_events.spot("i-1"))
    refusal = ScriptedError(operation="DeleteMessageBatch", code="AccessDenied", status=403)
    moto.middleware.add_error(refusal)

    with pytest.raises(CloudError, match="DeleteMessageBatch: AccessDenied"):
        place.do(take_all)

    assert place.left() == 1


def test_a_network_failure_is_logged_and_survived() -> None:
    place = Place("http://127.0.0.1:9")

    assert place.do(lambda queue: queue.receive()) == ()

    (line,) = place.log.lines
    assert "GetQueueUrl: Unreachable" in line.fields["error"]
    place.sqs.close()
