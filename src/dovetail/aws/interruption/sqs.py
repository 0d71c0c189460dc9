"""The interruption queue on SQS."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from dovetail.aws.batcher import Batcher, Window
from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.interruption.messages import Unreadable, parse
from dovetail.aws.session import Aws, Patience
from dovetail.ports.cloudprovider import CloudError, Interruption, Message
from dovetail.ports.event_loop import Loop
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_sqs.client import SQSClient
    from types_boto3_sqs.type_defs import MessageTypeDef

LONGEST_POLL: Final = timedelta(seconds=20)
"""As long as SQS can wait for a message: the queue is asked three times a minute."""
_VISIBILITY: Final = 20
"""Seconds after which a message that was received and not removed comes again."""
_MOST_AT_ONCE: Final = 10
_MORE_POLLS: Final = 9
"""Made side by side when a poll comes back full: there is a storm."""
_REMOVALS: Final = Window(
    idle=timedelta(milliseconds=5), longest=timedelta(milliseconds=50), most=_MOST_AT_ONCE
)
_TROUBLED: Final = Patience(first=timedelta(seconds=1), most=timedelta(seconds=30))
_SHOWN: Final = 200
"""How much of a message that makes no sense is worth a place in the log."""


class SqsInterruptions:
    """``ports.cloudprovider.Interruptions``; a queue that cannot be read is told of once.

    Whether it is missing, forbidden or out of reach, it is tried again for ever,
    with growing pauses: everything else works without it.
    """

    def __init__(
        self,
        aws: Aws,
        *,
        name: str,
        loop: Loop,
        chance: Chance,
        log: Log,
        longest_poll: timedelta = LONGEST_POLL,
        trouble: Patience = _TROUBLED,
    ) -> None:
        self._aws = aws
        self._sqs: SQSClient = aws.client("sqs")
        self._name = name
        self._loop = loop
        self._chance = chance
        self._log = log
        self._wait = int(longest_poll.total_seconds())
        self._patience = trouble
        self._url: str | None = None
        self._removals: Batcher[None, Message, None] = Batcher(
            self._remove_many,
            window=_REMOVALS,
            loop=loop,
            name="delete_messages",
            metrics=aws.metrics,
        )
        self._failures = 0
        self._told_of = ""

    async def receive(self) -> Sequence[Message]:
        """Return what is there, or wait for it; what cannot be read is empty for a while."""
        try:
            messages = await self._poll()
        except AwsError as error:
            await self._bear(error)
            return ()
        if self._failures:
            self._failures, self._told_of = 0, ""
            self._log.info("reading the interruption queue again", queue=self._name)
        return messages

    async def remove(self, message: Message) -> None:
        await self._removals.ask(None, message)

    async def _poll(self) -> list[Message]:
        url = await self._find()
        found = await self._take(url, wait=self._wait)
        if len(found) < _MOST_AT_ONCE:
            return found
        more = await self._loop.together([self._take(url, wait=0) for _ in range(_MORE_POLLS)])
        for batch in more:
            # An error of one of these is met again at the next poll.
            if not isinstance(batch, Exception):
                found.extend(batch)
        return found

    async def _find(self) -> str:
        if self._url is None:
            answer = await self._aws.call(
                "GetQueueUrl", lambda: self._sqs.get_queue_url(QueueName=self._name)
            )
            self._url = answer["QueueUrl"]
        return self._url

    async def _take(self, url: str, *, wait: int) -> list[Message]:
        answer = await self._aws.call(
            "ReceiveMessage",
            lambda: self._sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=_MOST_AT_ONCE,
                VisibilityTimeout=_VISIBILITY,
                WaitTimeSeconds=wait,
            ),
        )
        return [self._read(one) for one in answer.get("Messages", ())]

    def _read(self, received: "MessageTypeDef") -> Message:
        body, receipt = received.get("Body", ""), received["ReceiptHandle"]
        try:
            return parse(body, receipt=receipt)
        except Unreadable as error:
            self._log.error(
                "cannot read interruption message; it is removed",
                queue=self._name,
                message_id=received.get("MessageId", ""),
                error=str(error),
                body=body[:_SHOWN],
            )
            return Message(id=receipt, kind=Interruption.NOTHING)

    async def _remove_many(
        self, _: None, messages: Sequence[Message]
    ) -> Sequence[CloudError | None]:
        url = await self._find()
        answer = await self._aws.call(
            "DeleteMessageBatch",
            lambda: self._sqs.delete_message_batch(
                QueueUrl=url,
                Entries=[
                    {"Id": str(place), "ReceiptHandle": one.id}
                    for place, one in enumerate(messages)
                ],
            ),
        )
        outcomes: list[CloudError | None] = [None] * len(messages)
        for failed in answer.get("Failed", ()):
            told = AwsError("DeleteMessageBatch", failed["Code"], failed.get("Message", ""))
            outcomes[int(failed["Id"])] = told
        return outcomes

    async def _bear(self, error: AwsError) -> None:
        """Tell of trouble, once for each kind of it, and wait."""
        self._failures += 1
        self._url = None  # It may be another one when the queue is made anew.
        pause = self._patience.pause(self._failures, self._chance)
        if error.code != self._told_of:
            self._told_of = error.code
            missing = error.kind is Kind.GONE
            advice = "; create it, or correct the setting interruption-queue" if missing else ""
            self._log.error(
                "cannot read the interruption queue; trying again quietly",
                queue=self._name,
                error=f"{error}{advice}",
            )
        await self._loop.sleep(pause)
