"""The interruption queue on moto's SQS: 131, 132 and 134 of the AWS checklist."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import boto3
import pytest

from dovetail.aws.interruption.sqs import SqsInterruptions
from dovetail.aws.session import THREADS, Aws, Patience
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.ports.cloudprovider import CloudError, Interruption, Message
from tests.support import warnings
from tests.support.moto.door import Fault
from tests.support.moto.server import MotoAws
from tests.support.telling import KeptLog

IMPATIENT = Patience(first=timedelta(milliseconds=20), most=timedelta(milliseconds=40))
_numbers = count()

pytestmark = pytest.mark.usefixtures("aws_credentials")


class Place:
    """A queue in moto, and our reader of it."""

    def __init__(self, url: str) -> None:
        self.name = f"queue-{next(_numbers)}"
        self.sqs = boto3.client("sqs", region_name="us-east-1", endpoint_url=url)
        self.log = KeptLog()
        self._endpoint = url

    def made(self) -> "Place":
        self.url = self.sqs.create_queue(QueueName=self.name)["QueueUrl"]
        return self

    def send(self, *bodies: str) -> None:
        for start in range(0, len(bodies), 10):
            entries = [
                {"Id": str(place), "MessageBody": one}
                for place, one in enumerate(bodies[start : start + 10])
            ]
            self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)

    def left(self) -> int:
        """How many messages are there, those included that somebody has received."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        told = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(int(one) for one in told["Attributes"].values())

    def do(self, work: Callable[[SqsInterruptions], Awaitable[Any]]) -> Any:
        """Let a reader with nothing in memory do something."""

        async def run() -> Any:
            loop, chance = AsyncioLoop(), RealChance()
            offload = ThreadOffload(THREADS)
            aws = Aws(
                loop=loop,
                offload=offload,
                chance=chance,
                region="us-east-1",
                endpoint_url=self._endpoint,
            )
            queue = SqsInterruptions(
                aws,
                name=self.name,
                loop=loop,
                chance=chance,
                log=self.log,
                longest_poll=timedelta(seconds=1),
                trouble=IMPATIENT,
            )
            try:
                return await work(queue)
            finally:
                offload.close()

        return asyncio.run(run())


@pytest.fixture
def place(moto: MotoAws) -> Iterator[Place]:
    moto.door.reset()
    made = Place(moto.url)
    yield made
    made.sqs.close()


async def take_all(queue: SqsInterruptions) -> list[Message]:
    """Receive and remove until nothing comes."""
    taken: list[Message] = []
    while messages := await queue.receive():
        taken.extend(messages)
        await asyncio.gather(*map(queue.remove, messages))
    return taken


def test_a_warning_that_was_sent_is_received_and_removed(place: Place) -> None:
    place.made().send(warnings.spot("i-1"))

    (message,) = place.do(take_all)

    assert (message.kind, message.instance_ids) == (Interruption.SPOT, ("i-1",))
    assert place.left() == 0


def test_a_warning_is_heard_while_the_queue_is_waited_for(place: Place) -> None:
    place.made()

    async def send_meanwhile(queue: SqsInterruptions) -> tuple[Message, ...]:
        hearing = asyncio.create_task(queue.receive())
        await asyncio.sleep(0.2)
        await asyncio.to_thread(place.send, warnings.spot("i-1"))
        return tuple(await hearing)

    (message,) = place.do(send_meanwhile)

    assert message.instance_ids == ("i-1",)


def test_what_was_not_removed_stays(place: Place) -> None:
    place.made().send(warnings.spot("i-1"))

    place.do(lambda queue: queue.receive())

    assert place.left() == 1


def test_a_storm_is_received_at_one_go(place: Place) -> None:
    place.made().send(*(warnings.spot(f"i-{number}") for number in range(100)))

    received = place.do(lambda queue: queue.receive())

    # Polls side by side may be shown the same message, by moto as by SQS.
    different = {one.instance_ids for one in received}
    assert len(different) > 80
    assert different <= {(f"i-{number}",) for number in range(100)}


@pytest.mark.parametrize(
    "body", [warnings.state("i-1", "creating"), warnings.event("Something else", {}), "{}"]
)
def test_what_does_not_concern_us_is_removed_in_silence(place: Place, body: str) -> None:
    place.made().send(body)

    (message,) = place.do(take_all)

    assert message.kind is Interruption.NOTHING
    assert place.left() == 0
    assert place.log.lines == []


def test_what_cannot_be_read_is_shown_once_and_removed(place: Place) -> None:
    place.made().send("nonsense", warnings.spot("i-1"))

    taken = place.do(take_all)

    assert {one.kind for one in taken} == {Interruption.NOTHING, Interruption.SPOT}
    assert place.left() == 0
    (line,) = place.log.lines
    assert line.fields["body"] == "nonsense"


def test_a_queue_that_is_missing_is_told_of_once_and_found_when_it_is_there(place: Place) -> None:
    async def make_it_after_a_while(queue: SqsInterruptions) -> list[Message]:
        for _ in range(3):
            assert not await queue.receive()
        await asyncio.to_thread(lambda: place.made().send(warnings.spot("i-1")))
        return await take_all(queue)

    (message,) = place.do(make_it_after_a_while)

    assert message.instance_ids == ("i-1",)
    told, recovered = place.log.lines
    assert told.fields["queue"] == place.name
    assert "GetQueueUrl" in told.fields["error"]
    assert "NonExistentQueue" in told.fields["error"]
    assert "correct the setting interruption-queue" in told.fields["error"]
    assert recovered.message == "reading the interruption queue again"


def test_a_queue_that_goes_and_comes_back_is_read_again(place: Place) -> None:
    place.made()

    async def outlive(queue: SqsInterruptions) -> list[Message]:
        assert not await queue.receive()
        await asyncio.to_thread(place.sqs.delete_queue, QueueUrl=place.url)
        assert not await queue.receive()
        await asyncio.to_thread(lambda: place.made().send(warnings.spot("i-1")))
        return await take_all(queue)

    (message,) = place.do(outlive)

    assert message.instance_ids == ("i-1",)


@pytest.mark.parametrize("operation", ["GetQueueUrl", "ReceiveMessage"])
def test_a_queue_that_may_not_be_read_is_told_of_once_with_what_to_do(
    place: Place, moto: MotoAws, operation: str
) -> None:
    place.made().send(warnings.spot("i-1"))
    moto.door.script(Fault(operation=operation, code="AccessDenied", status=403, times=3))

    async def be_refused(queue: SqsInterruptions) -> list[Message]:
        for _ in range(3):
            assert not await queue.receive()
        return await take_all(queue)

    (message,) = place.do(be_refused)

    assert message.instance_ids == ("i-1",)
    told, recovered = place.log.lines
    assert told.fields["error"].startswith(f"{operation}: AccessDenied")
    assert "allow it in the policies of the controller's role" in told.fields["error"]
    assert recovered.message == "reading the interruption queue again"


def test_a_message_that_cannot_be_removed_is_an_error_and_comes_again(
    place: Place, moto: MotoAws
) -> None:
    place.made().send(warnings.spot("i-1"))
    refusal = Fault(operation="DeleteMessageBatch", code="AccessDenied", status=403)
    moto.door.script(refusal)

    with pytest.raises(CloudError, match="DeleteMessageBatch: AccessDenied"):
        place.do(take_all)

    assert place.left() == 1


def test_no_network_is_told_of_and_borne() -> None:
    place = Place("http://127.0.0.1:9")

    assert place.do(lambda queue: queue.receive()) == ()

    (line,) = place.log.lines
    assert "GetQueueUrl: Unreachable" in line.fields["error"]
    place.sqs.close()
