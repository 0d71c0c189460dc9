"""A fast SQS queue: moto counts all messages again for every one it delivers."""

from collections.abc import Iterator
from threading import Lock

from moto.core import DEFAULT_ACCOUNT_ID
from moto.sqs.models import Message, Queue, sqs_backends


class LargeQueue(Queue):
    """A queue that reads messages lazily."""

    _deleting = Lock()

    def delete_message(self, receipt_handle: str) -> None:
        # Concurrent deletions would restore each other's messages.
        with self._deleting:
            super().delete_message(receipt_handle)

    @property
    def messages(self) -> Iterator[Message]:
        for message in tuple(self._messages):
            if message.visible and not message.delayed:
                yield message

    @property
    def approximate_number_of_messages(self) -> int:
        return len(self._messages)

    @property
    def approximate_number_of_messages_not_visible(self) -> int:
        return 0

    @property
    def approximate_number_of_messages_delayed(self) -> int:
        return 0


def make_large(name: str, *, region: str) -> None:
    """Make an existing queue fast enough for thousands of messages."""
    _queue(name, region).__class__ = LargeQueue


def left_in(name: str, *, region: str) -> int:
    """Return the number of messages, with received ones."""
    return len(_queue(name, region)._messages)


def _queue(name: str, region: str) -> Queue:
    return sqs_backends[DEFAULT_ACCOUNT_ID][region].queues[name]
