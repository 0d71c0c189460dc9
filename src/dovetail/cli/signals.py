"""SIGINT and SIGTERM: stop a command in order."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import click

from dovetail.cli.output.console import write_note

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def stop_event() -> asyncio.Event:
    """Return an event that SIGINT or SIGTERM sets; call it in the event loop."""
    stop = asyncio.Event()
    for number in _STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


@asynccontextmanager
async def stop_on_signal() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGINT or SIGTERM sets; a second signal aborts at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    main = asyncio.current_task()
    aborted = False

    def on_signal() -> None:
        nonlocal aborted
        if stop.is_set() and main is not None:
            aborted = True
            main.cancel()
        else:
            write_note("stopping after the running steps; press Ctrl-C again to abort at once")
            stop.set()

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    except asyncio.CancelledError:
        if not aborted:
            raise
        write_note("aborted; running steps may be half done: run the same command again to continue")
        raise click.Abort from None
    finally:
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)
