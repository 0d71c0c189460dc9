"""Process of a plug-in: reads offers from stdin, writes choices to stdout.

``python -m dovetail.policies.worker NAME``. Frames are a length (four bytes, big-endian) and
MessagePack. The first frame of the worker says if the plug-in was loaded.
"""

import os
import queue
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from dovetail.core.disruption.policy import Offer, PolicyError, ask_policy
from dovetail.policies.load import PolicyLoadError, load_plugin

LENGTH_BYTES: Final = 4
MEMORY_LIMIT: Final = 512 << 20
"""Bytes of address space beyond what loading took. Kubernetes would kill the whole container."""

_LONGEST: Final = 60
"""Seconds after which the kernel ends a process whose plug-in has not returned.

Its parent kills it much earlier. If the parent was killed, a plug-in that holds the interpreter's
lock keeps the thread from running that would see the end of stdin.
"""


class Reply(msgspec.Struct, frozen=True):
    """Answer to an offer, or to the start of the worker."""

    choice: tuple[int, ...] = ()
    error: str = ""


def read_exactly(stream: BinaryIO, length: int) -> bytes:
    """Return ``length`` bytes; fewer at the end of the stream."""
    data = b""
    while len(data) < length:
        part = stream.read(length - len(data))
        if not part:
            break
        data += part
    return data


def encode_frame(message: object) -> bytes:
    """Return the length and the encoded message."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def main(name: str) -> int:
    """Answer offers until stdin ends."""
    offers: queue.SimpleQueue[Offer] = queue.SimpleQueue()
    # The plug-in may print: that must not mix with replies.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    threading.Thread(target=_read_offers, args=(offers,), daemon=True).start()
    try:
        signal.alarm(_LONGEST)
        plugin = load_plugin(name)
    except PolicyLoadError as error:
        replies.write(encode_frame(Reply(error=str(error))))
        return 1
    except SystemExit as error:
        replies.write(encode_frame(Reply(error=f"policy {name!r}: {_describe_exit(error)}")))
        return 1
    _limit_memory()
    replies.write(encode_frame(Reply()))
    while True:
        signal.alarm(0)
        offer = offers.get()
        signal.alarm(_LONGEST)
        try:
            reply = Reply(choice=ask_policy(plugin, offer))
        except PolicyError as error:
            reply = Reply(error=str(error))
        except SystemExit as error:
            # Not passed on: the interpreter would wait a second for the thread that reads stdin, then crash.
            reply = Reply(error=_describe_exit(error))
        replies.write(encode_frame(reply))


def _limit_memory() -> None:
    """Set the limit; allocations beyond it fail with MemoryError."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return  # macOS has no /proc, and ignores the limit.
    limit = pages * resource.getpagesize() + MEMORY_LIMIT
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _describe_exit(error: SystemExit) -> str:
    return f"it called sys.exit({error.code!r})"


def _read_offers(offers: "queue.SimpleQueue[Offer]") -> None:
    """Read in a thread: a plug-in that hangs must not outlive the parent process."""
    stream = sys.stdin.buffer
    while len(head := read_exactly(stream, LENGTH_BYTES)) == LENGTH_BYTES:
        body = read_exactly(stream, int.from_bytes(head, "big"))
        offers.put(msgspec.msgpack.decode(body, type=Offer))
    os._exit(0)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1]))
    except KeyboardInterrupt:
        # Ctrl-C at a terminal reaches the whole process group; the parent reports it.
        raise SystemExit(130) from None
