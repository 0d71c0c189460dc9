"""The interruption queue on SQS."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from dovetail.aws.batcher import Batcher, BatchWindow
from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.interruption.messages import InvalidMessageError, decode_message
from dovetail.aws.session import AwsSession, RetryPolicy
from dovetail.ports.cloudprovider import CloudError, InterruptionKind, InterruptionMessage
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_sqs.client import SQSClient
    from types_boto3_sqs.type_defs import MessageTypeDef

POLL_WAIT: Final = timedelta(seconds=20)
"""Maximum of SQS long polling; the queue is polled three times a minute."""
_VISIBILITY_TIMEOUT: Final = 20
"""Visibility timeout in seconds: a message that is not deleted is received again."""
_MAX_MESSAGES: Final = 10
_EXTRA_POLLS: Final = 9
"""Additional concurrent polls after a full one: a burst of interruptions."""
_DELETE_WINDOW: Final = BatchWindow(
    idle_timeout=timedelta(milliseconds=5), max_wait=timedelta(milliseconds=50), max_items=_MAX_MESSAGES
)
_ERROR_BACKOFF: Final = RetryPolicy(initial_delay=timedelta(seconds=1), max_delay=timedelta(seconds=30))
_MAX_LOGGED_BODY: Final = 200
"""Characters of an invalid message in the log."""


class SqsInterruptionQueue:
    """``ports.cloudprovider.InterruptionQueue`` on SQS.

    A queue that is missing, forbidden or unreachable is logged once per error
    code and retried forever with backoff: everything else works without it.
    """

    def __init__(
        self,
        aws: AwsSession,
        *,
        name: str,
        loop: EventLoop,
        random: RandomSource,
        log: Log,
        poll_wait: timedelta = POLL_WAIT,
        retry_policy: RetryPolicy = _ERROR_BACKOFF,
    ) -> None:
        self._aws = aws
        self._sqs: SQSClient = aws.client("sqs")
        self._name = name
        self._loop = loop
        self._random = random
        self._log = log
        self._wait_seconds = int(poll_wait.total_seconds())
        self._retry_policy = retry_policy
        self._url: str | None = None
        self._deletions: Batcher[None, InterruptionMessage, None] = Batcher(
            self._delete_batch, window=_DELETE_WINDOW, loop=loop, name="delete_messages", metrics=aws.metrics
        )
        self._failures = 0
        self._logged_code = ""

    async def receive(self) -> Sequence[InterruptionMessage]:
        """Return messages after a long poll; nothing after an error and its backoff."""
        try:
            messages = await self._poll()
        except AwsError as error:
            await self._back_off(error)
            return ()
        if self._failures:
            self._failures, self._logged_code = 0, ""
            self._log.info("reading the interruption queue again", queue=self._name)
        return messages

    async def delete(self, message: InterruptionMessage) -> None:
        """Delete a message; batched."""
        await self._deletions.submit(None, message)

    async def _poll(self) -> list[InterruptionMessage]:
        url = await self._queue_url()
        messages = await self._receive(url, wait=self._wait_seconds)
        if len(messages) < _MAX_MESSAGES:
            return messages
        more = await self._loop.gather([self._receive(url, wait=0) for _ in range(_EXTRA_POLLS)])
        for batch in more:
            # The next poll meets the same error again.
            if not isinstance(batch, Exception):
                messages.extend(batch)
        return messages

    async def _queue_url(self) -> str:
        if self._url is None:
            response = await self._aws.call(
                "GetQueueUrl", lambda: self._sqs.get_queue_url(QueueName=self._name)
            )
            self._url = response["QueueUrl"]
        return self._url

    async def _receive(self, url: str, *, wait: int) -> list[InterruptionMessage]:
        response = await self._aws.call(
            "ReceiveMessage",
            lambda: self._sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=_MAX_MESSAGES,
                VisibilityTimeout=_VISIBILITY_TIMEOUT,
                WaitTimeSeconds=wait,
            ),
        )
        return [self._decode(message) for message in response.get("Messages", ())]

    def _decode(self, received: "MessageTypeDef") -> InterruptionMessage:
        body, receipt = received.get("Body", ""), received["ReceiptHandle"]
        try:
            return decode_message(body, receipt_handle=receipt)
        except InvalidMessageError as error:
            self._log.error(
                "deleting invalid interruption message",
                queue=self._name,
                message_id=received.get("MessageId", ""),
                error=str(error),
                body=body[:_MAX_LOGGED_BODY],
            )
            return InterruptionMessage(id=receipt, kind=InterruptionKind.NO_OP)

    async def _delete_batch(
        self, _: None, messages: Sequence[InterruptionMessage]
    ) -> Sequence[CloudError | None]:
        url = await self._queue_url()
        response = await self._aws.call(
            "DeleteMessageBatch",
            lambda: self._sqs.delete_message_batch(
                QueueUrl=url,
                Entries=[
                    {"Id": str(index), "ReceiptHandle": message.id} for index, message in enumerate(messages)
                ],
            ),
        )
        results: list[CloudError | None] = [None] * len(messages)
        for failed in response.get("Failed", ()):
            error = AwsError("DeleteMessageBatch", failed["Code"], failed.get("Message", ""))
            results[int(failed["Id"])] = error
        return results

    async def _back_off(self, error: AwsError) -> None:
        """Log an error, once per code, and wait."""
        self._failures += 1
        self._url = None  # A queue that is created again may have another URL.
        delay = self._retry_policy.delay(self._failures, self._random)
        if error.code != self._logged_code:
            self._logged_code = error.code
            missing = error.kind is ErrorKind.NOT_FOUND
            advice = "; create the queue, or correct --interruption-queue" if missing else ""
            self._log.error("cannot read the interruption queue", queue=self._name, error=f"{error}{advice}")
        await self._loop.sleep(delay)
