"""``dovetail record``: write what is asked of a cluster to a trace."""

import asyncio
import os
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import click

from dovetail.cli.options.cluster_objects import access_options
from dovetail.cli.options.durations import Duration
from dovetail.cli.output.console import format_size, write_note
from dovetail.cli.signals import stop_event
from dovetail.codec.text.suggestions import pluralize
from dovetail.host.clock import SystemClock
from dovetail.host.log_writer import LineLog
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.record.anonymise import KeyedNames, open_names
from dovetail.record.output import Rotation, TraceOutput
from dovetail.record.recorder import Recorder
from dovetail.trace.model import MAX_SECONDS

_LONGEST = timedelta(seconds=MAX_SECONDS)


@click.command(
    epilog="Exit codes: 0 stopped by Ctrl-C, SIGTERM or --for; 1 bad input, the cluster cannot be "
    "read, or the file cannot be written."
)
@access_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("trace.jsonl.zst"),
    show_default=True,
    help="The trace. An existing one of the same cluster is continued, with a gap.",
)
@click.option(
    "--for", "duration", type=Duration(longest=_LONGEST), metavar="TIME", help="Stop after 30m, 24h, 7d."
)
@click.option("--anonymise", is_flag=True, help="Replace names, namespaces and label values.")
@click.option(
    "--rotate-size",
    type=click.IntRange(1, 1 << 20),
    default=256,
    show_default=True,
    metavar="MIB",
    help="Begin a new file at this size.",
)
@click.option(
    "--rotate-every",
    type=Duration(longest=_LONGEST),
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Begin a new file after this time.",
)
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Complete files to keep beside the current one; 0: all.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def record(
    kubeconfig: str | None,
    context: str,
    output: Path,
    duration: timedelta | None,
    anonymise: bool,
    rotate_size: int,
    rotate_every: timedelta,
    keep: int,
    log_format: str,
) -> None:
    """Record what is asked of a cluster, to replay it with other settings.

    Watches workloads and their scale, Jobs and bare pods with their run times, DaemonSets,
    PodDisruptionBudgets, volumes, NodePools, interruptions and capacity errors. Changes nothing,
    and reads no Secrets or ConfigMaps. Images, environment variables, commands and annotations of
    other systems are left out. A recorder that is killed loses at most the last few seconds.
    """
    access = load_rest_config(kubeconfig, environ=os.environ, clock=SystemClock(), context=context)
    rotation = Rotation(size=rotate_size << 20, every=rotate_every, keep=keep)
    log = LineLog(partial(click.echo, err=True), clock=SystemClock(), level="info", form=log_format)
    with closing(TraceOutput(output, rotation)) as trace:
        names = open_names(output, trace.read_header(), anonymise=anonymise, random=SystemRandomSource())
        if trace.kept is not None:
            write_note(f"note: {output} {trace.kept_reason}; it is kept as {trace.kept}")
        asyncio.run(_record(access, trace, names, log, duration))
    write_note(f"{pluralize(trace.events, 'event')} in {output}, {format_size(trace.size)}")


async def _record(
    access: RestConfig, trace: TraceOutput, names: KeyedNames | None, log: LineLog, duration: timedelta | None
) -> None:
    stop = stop_event()
    recorder = Recorder(access, trace, log=log, names=names)
    try:
        starting = asyncio.ensure_future(recorder.start())
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not starting.done():
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            return
        starting.result()
        if duration is not None:
            asyncio.get_running_loop().call_later(duration.total_seconds(), stop.set)
        await recorder.run(stop)
    finally:
        await recorder.close()
